"""Of several minimisers of the absolute loss the nearest to the centre; features of any condition."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from scipy import optimize

import understudy
from problems import COLUMNS as FEATURES
from problems import ROWS, ended, objective, padded, solve
from reference import FEATURES as WIDTH
from reference import FEW, OUTPUTS, SAMPLES
from understudy.checks.truth import least_by_scipy
from understudy.solvers import Descent, Status, interior_point
from understudy.solvers.base import NewtonStep


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


def linear_program(X, y, share):
    """min Σ share |y − Xw| and its dual, on an orthonormal basis of the features."""
    left, size, _ = np.linalg.svd(X, full_matrices=False)
    basis, n = left[:, size > 1e-15 * max(X.shape) * size[0]] * np.sqrt(len(y)), len(y)
    equal = np.hstack([basis, np.eye(n), -np.eye(n)])
    cost = np.concatenate([np.zeros(basis.shape[1]), share, share]) * n
    bounds = [(None, None)] * basis.shape[1] + [(0, None)] * (2 * n)
    tight = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    found = optimize.linprog(cost, A_eq=equal, b_eq=y, bounds=bounds, method="highs", options=tight)
    assert found.status == 0
    return found.fun / n, found.eqlin.marginals / n


def nearest(X, y, share, centre):
    """The minimiser nearest to the centre: which samples it must answer and on which side the others are is
    what any dual solution says; the rest is least distance programming (Lawson and Hanson, NNLS).
    """
    value, dual = linear_program(X, y, share)
    kink, side, error = np.abs(dual) < share * (1 - 1e-7), np.sign(dual), y - X @ centre
    if not kink.any() and (side * error >= 0).all():
        return value, centre
    G = np.vstack([-(side[:, None] * X)[~kink], X[kink], -X[kink]])
    h = np.concatenate([-(side * error)[~kink], error[kink], -error[kink]])
    real = np.linalg.norm(G, axis=1) > 0
    length, unit = np.linalg.norm(G[real], axis=1), np.abs(h).max() + 1e-300
    E = np.vstack([(G[real] / length[:, None]).T, h[real] / length / unit])
    weights, _ = optimize.nnls(E, np.eye(len(E))[-1], maxiter=10_000)
    rest = E @ weights - np.eye(len(E))[-1]
    return value, centre - rest[:-1] / rest[-1] * unit


def made(kind, rng):
    n, d = int(rng.integers(2, ROWS)), int(rng.integers(1, FEATURES))
    X, y = rng.normal(size=(n, d)), 2 * rng.normal(size=n)
    if kind == "equal rows":
        again = rng.integers(n, size=n)
        X, y = X[again], y[again] if rng.random() < 0.5 else y
    elif kind == "constant rows":
        X = np.full((n, d), 2.0)
    elif kind == "one direction":
        X = X[:, :1] * rng.normal(size=d)
    elif kind == "few samples":
        X, y = rng.normal(size=(3, FEATURES)), rng.normal(size=3)
    elif kind == "whole numbers":
        X, y = np.round(1.2 * X), np.round(y)
    weights = rng.random(len(y)) + 0.2 if rng.random() < 0.5 else np.ones(len(y))
    return X, y, weights / weights.sum(), rng.normal(size=X.shape[1]) * rng.choice([0.1, 1.0, 5.0])


KINDS = ["plain", "equal rows", "constant rows", "one direction", "few samples", "whole numbers"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_nearest_of_all_minimisers(kind):
    rng = np.random.default_rng(0)
    for _ in range(25):
        X, y, share, centre = made(kind, rng)
        problem = padded(X, y, share, centre)
        status, found = solve(interior_point(), problem, problem.centre)
        value, best = nearest(X, y, share, centre)
        assert status is Status.CONVERGED
        assert float(found.value) == pytest.approx(value, rel=1e-9, abs=1e-12)
        np.testing.assert_allclose(found.params[: len(best), 0], best, rtol=1e-8, atol=1e-8)


def test_the_first_run_alone_ends_elsewhere():
    """The control: the middle of the minimisers is not the nearest of them."""
    X, y, share = np.full((4, 2), 2.0), np.array([0.0, 1.0, 3.0, 7.0]), np.full(4, 0.25)
    centre = np.array([2.0, 1.0])  # answers 6, and every answer from 1 to 3 is best
    problem = padded(X, y, share, centre)
    solver = interior_point()
    state = ended(solver, problem, problem.centre)
    middle = np.asarray(state.problem.outside(state.point.params))[:2, 0]
    _, found = solve(solver, problem, problem.centre)
    np.testing.assert_allclose(found.params[:2, 0], [1.25, 0.25], atol=1e-12)
    assert 1.0 < X[0] @ middle < 2.9 and np.linalg.norm(middle - centre) > 1.1 * np.linalg.norm([0.75, 0.75])


@pytest.mark.slow
def test_under_vmap_every_lane_is_what_it_is_alone():
    rng = np.random.default_rng(1)
    problems = [padded(*made(kind, rng)) for kind in KINDS]
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *problems)
    together = jax.jit(jax.vmap(lambda one: interior_point()(one, one.centre).params))(stacked)
    for lane, one in zip(together, problems, strict=True):
        np.testing.assert_allclose(lane, solve(interior_point(), one, one.centre)[1].params, atol=1e-9)


@pytest.mark.parametrize("turned", [False, True], ids=["scaled columns", "turned"])
@pytest.mark.parametrize("condition", [1.0, 1e4, 1e8])
def test_features_of_any_condition(condition, turned):
    """The comparator is the linear program's; evaluating it at 1e8 costs eight digits where features mix."""
    rng = np.random.default_rng(3)
    turn = np.linalg.qr(rng.normal(size=(4, 4)))[0] if turned else np.eye(4)
    truth = rng.normal(size=4)
    X = rng.normal(size=(30, 4))
    y = X @ truth + 0.5 * rng.normal(size=30)
    X = (X * np.logspace(0, -np.log10(condition), 4)) @ turn.T
    Y = np.stack([y, y], axis=1)  # two outputs in rounds of ten: the shape of other tests, and their program
    status, found = solve(interior_point(), objective("absolute", list(zip(np.split(X, 3), np.split(Y, 3)))))
    value, _ = linear_program(X, y, np.full(30, 1 / 30))
    assert status is Status.CONVERGED
    assert float(found.value) == pytest.approx(2 * value, rel=1e-12 + (1e-15 * condition if turned else 0.0))


class Plain(NewtonStep):
    """Newton's step in the parameters as they are."""

    def init(self, objective, params):
        return None


@pytest.mark.parametrize("loss", ["huber", pytest.param("cross-entropy", marks=pytest.mark.slow)])
def test_newton_on_features_of_any_condition(loss):
    """Against BFGS on an orthonormal basis; without the basis the loss stays far above its minimum."""
    rng = np.random.default_rng(4)
    turn = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    X = rng.normal(size=(40, 4))
    y = X @ rng.normal(size=4) + 1.5 * rng.normal(size=40)
    X = (X * np.logspace(0, -8, 4)) @ turn.T
    y = (y > 0).astype(float) if loss == "cross-entropy" else y
    Y = np.stack([1 - y, y], axis=1) if loss == "cross-entropy" else y[:, None]
    problem = objective(loss, [(X, Y)])
    best, _ = least_by_scipy(loss, X, y, np.full(40, 1 / 40), np.inf, np.zeros(4))
    values = {
        direction: float(
            solve(Descent(direction=direction(), tolerance=1e-12, max_iterations=200), problem)[1].value
        )
        for direction in (NewtonStep, Plain)
    }
    assert values[NewtonStep] == pytest.approx(best, rel=1e-7)
    assert values[Plain] > 1.01 * best


def test_ftl_on_constant_rows_moves_as_little_as_it_must():
    """Answers to one point in every round: each FTL step goes straight to the nearest best answer."""
    rng = np.random.default_rng(5)
    rounds = [(np.full((SAMPLES, WIDTH), 2.0), rng.normal(size=(SAMPLES, OUTPUTS))) for _ in range(FEW)]
    played = understudy.replay(rounds, loss="absolute", learner="ftl", keep_iterates=True)
    assert played.iterates is not None
    for t in range(1, FEW + 1):
        X, y = (np.concatenate([pair[i] for pair in rounds[:t]]) for i in (0, 1))
        for k in range(OUTPUTS):
            _, best = nearest(X, y[:, k], np.full(len(y), 1 / SAMPLES), played.iterates[t - 1][:, k])
            np.testing.assert_allclose(played.iterates[t][:, k], best, atol=1e-9)
