"""The absolute loss to its last digit: minimisers on kinks, nearly on kinks, and where there are many."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from problems import data, ended, objective, padded, solve
from understudy.losses import Huber
from understudy.solvers import Status, interior_point, lbfgs
from understudy.solvers.interior_point import piecewise, polish


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


def in_rounds(X, Y):
    """Thirty samples as three rounds of ten: the shape of other tests, whose program it shares."""
    return [(X[i : i + 10], Y[i : i + 10]) for i in (0, 10, 20)]


def enumerate_kinks(X, y, weight, centre, tilt):
    """The minimiser of ``mean |Xw − y| − <w − c, tilt> + weight/2 ||w − c||²`` among all that could be one.

    For every choice of samples on the kink and of sides for the others, the stationary point; the least of
    all these points is the minimiser, since it is one of them.
    """
    n, d = X.shape

    def value(w):
        return np.mean(np.abs(X @ w - y)) - (w - centre) @ tilt + 0.5 * weight * np.sum((w - centre) ** 2)

    best = (np.inf, None)
    for size in range(d + 1):
        for kink in itertools.combinations(range(n), size):
            A = X[list(kink)].reshape(size, d)
            if size and np.linalg.matrix_rank(A) < size:
                continue
            others = [i for i in range(n) if i not in kink]
            system = np.block([[weight * np.eye(d), -A.T], [A, np.zeros((size, size))]])
            for sides in itertools.product((-1.0, 1.0), repeat=len(others)):
                push = X[others].T @ np.asarray(sides) / n
                w = np.linalg.solve(system, np.concatenate([weight * centre + tilt + push, y[list(kink)]]))[
                    :d
                ]
                best = min(best, (value(w), tuple(w)))
    return best


@pytest.mark.parametrize("weight", [0.02, 0.3, 4.0])
@pytest.mark.parametrize("kind", ["plain", "whole numbers", "doubled", "nearly on a kink"])
def test_every_minimiser_is_the_best_of_all_candidates(kind, weight):
    rng = np.random.default_rng(5)
    for _ in range(4):
        X, y = rng.normal(size=(6, 2)), rng.normal(size=6) * 2
        centre, tilt = rng.normal(size=2), 0.1 * rng.normal(size=2)
        if kind == "whole numbers":
            X, y, centre, tilt = np.round(2 * X), np.round(y), np.round(centre), np.zeros(2)
        elif kind == "doubled":
            X[3:], y[3:] = X[:3], y[:3]
        elif kind == "nearly on a kink":
            # A sample that the minimiser without it answers to 1e-9.
            y[0] = 1e-9 + X[0] @ enumerate_kinks(X[1:], y[1:], weight, centre, tilt)[1]
        problem = objective(
            "absolute", [(X, y[:, None])], weight=weight, centre=centre[:, None], tilt=tilt[:, None]
        )
        status, found = solve(interior_point(), problem)
        value, best = enumerate_kinks(X, y, weight, centre, tilt)
        assert status is Status.CONVERGED
        np.testing.assert_allclose(found.params[:, 0], best, atol=1e-10)
        assert float(found.value) == pytest.approx(value, abs=1e-12)


@pytest.mark.slow
def test_without_a_penalty_the_nearest_of_many_minimisers():
    """Fewer samples than features: all of them are answered, by the W nearest to the centre."""
    rng = np.random.default_rng(0)
    X, y, centre = rng.normal(size=(3, 5)), rng.normal(size=3), rng.normal(size=5)
    problem = padded(X, y, np.full(3, 1 / 3), centre)
    nearest = centre + np.linalg.pinv(X) @ (y - X @ centre)
    for start in (centre, centre + rng.normal(size=centre.shape)):
        status, found = solve(interior_point(), problem, jnp.asarray(start)[:, None])
        assert status is Status.CONVERGED
        np.testing.assert_allclose(found.params[:, 0], nearest, atol=1e-12)
    # The control: the point that the interior-point loop itself ends at is another minimiser.
    state = ended(interior_point(), problem, jnp.asarray(start)[:, None])
    there = state.problem.outside(state.point.params)
    assert float(problem.value(there)) < 1e-9
    assert np.abs(np.asarray(there)[:, 0] - nearest).max() > 1e-3


def test_more_samples_on_the_kink_than_features():
    """Answers that one W explains: it is found, though every sample is on its kink."""
    rng = np.random.default_rng(1)
    X, truth = rng.normal(size=(30, 4)), rng.normal(size=(4, 2))
    status, found = solve(interior_point(), objective("absolute", in_rounds(X, X @ truth)))
    assert status is Status.CONVERGED
    np.testing.assert_allclose(found.params, truth, atol=1e-13)


def test_a_wrong_set_of_kinks_is_not_called_a_minimiser():
    rng = np.random.default_rng(2)
    X, Y = rng.normal(size=(30, 4)), rng.normal(size=(30, 2))
    problem = objective("absolute", in_rounds(X, Y), weight=3e-3)
    _, found = solve(interior_point(), problem)
    made, mended = jax.jit(piecewise)(problem), jax.jit(polish)
    there = made.inside(found.params)
    kink = np.abs(np.asarray(made.targets - made.rows @ there)) < 1e-9
    held = np.where(kink & (np.asarray(made.used) > 0), 1e9, 1e-9)
    dual = jnp.zeros_like(made.targets)
    right, _, fits, _ = mended(made, there, dual, jnp.asarray(held))
    assert (kink.sum(axis=0) >= 4).all() and fits.all()
    np.testing.assert_allclose(made.outside(right), found.params, atol=1e-12)
    # Nearly every sample on the other side: too much to be mended in three passes.
    wrong = made.inside(found.params + 5.0)
    assert not mended(made, wrong, dual, jnp.full_like(dual, 1e-9))[2].any()


@pytest.mark.parametrize("delta", [0.2, 3.0])
def test_hubers_delta_is_where_its_slopes_end(delta):
    problem = objective(Huber(delta=delta), data("huber"), weight=0.3)
    status, found = solve(interior_point(), problem)
    _, other = solve(lbfgs(tolerance=1e-10), problem)
    assert status == Status.CONVERGED
    np.testing.assert_allclose(found.params, other.params, atol=1e-8)
