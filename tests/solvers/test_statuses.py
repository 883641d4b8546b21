"""Not converging is a status, never silence."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from problems import data, objective, padded, solve, zeros
from understudy.solvers import Status, adam, closed_form, gd, interior_point, lbfgs, newton, proximal_sgd, sls

FULL = {
    "newton": newton(),
    "lbfgs": lbfgs(),
    "gd": gd(),
    "adam": adam(),
    "sls": sls(),
    "proximal-sgd": proximal_sgd(),
}


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


def test_a_step_far_too_long_diverges_and_keeps_the_last_finite_iterate():
    problem = objective("squared", data("squared"), kept=False)
    status, found = solve(proximal_sgd(learning_rate=1e3), problem)
    assert status is Status.DIVERGED
    assert np.isfinite(found.params).all() and np.abs(found.params).max() > 1e100
    assert 1 < int(found.iterations) < 1000


@pytest.mark.parametrize("name", FULL)
def test_data_that_are_not_numbers(name):
    """NOT_FINITE, and the start comes back as it was."""
    listed = data("squared")
    listed[1][0][2, 1] = np.nan
    problem = objective("squared", listed, kept=False)
    start = zeros(problem) + 0.25
    status, found = solve(FULL[name], problem, start)
    assert status is Status.NOT_FINITE
    np.testing.assert_array_equal(found.params, start)
    assert int(found.iterations) == 0


def test_data_that_are_not_numbers_in_exact_methods():
    listed = data("absolute")
    listed[0][1][0, 0] = np.inf
    assert solve(closed_form(), objective("squared", listed, kept=False))[0] is Status.NOT_FINITE
    assert solve(interior_point(), objective("absolute", listed))[0] is Status.NOT_FINITE


@pytest.mark.parametrize("name", ["newton", "lbfgs", "gd"])
def test_separable_labels_have_no_minimiser(name):
    """The gradient goes to zero only because the parameters go to infinity."""
    X = np.random.default_rng(0).normal(size=(30, 4))
    X[:, 0] = np.sign(X[:, 0]) * (1 + np.abs(X[:, 0]))
    Y = np.eye(2)[(X[:, 0] > 0).astype(int)]

    def rounds(Y):
        return [(X[i : i + 10], Y[i : i + 10]) for i in (0, 10, 20)]

    solver = {"newton": newton(tolerance=1e-8), "lbfgs": lbfgs(tolerance=1e-8), "gd": gd(tolerance=1e-3)}[
        name
    ]
    problem = objective("cross-entropy", rounds(Y))
    status, found = solve(solver, problem)
    assert status is Status.NO_MINIMISER
    assert float(found.value) < 0.01
    # With a weight there is one, and with labels that overlap too.
    assert solve(solver, objective("cross-entropy", rounds(Y), weight=0.1))[0] is Status.CONVERGED
    Y = np.eye(2)[(X[:, 0] > 0).astype(int) ^ (np.arange(30) % 3 == 0)]
    assert solve(solver, objective("cross-entropy", rounds(Y)))[0] is Status.CONVERGED


def test_newton_comes_back_from_logits_that_separable_data_drove_off():
    """Curvature is zero out there, so steps along it end at the cap; the minimiser is near zero."""
    rng = np.random.default_rng(3)
    X, Y = rng.normal(size=(30, 4)), np.eye(2)[rng.integers(0, 2, 30)]
    problem = objective("cross-entropy", [(X[i : i + 10], Y[i : i + 10]) for i in (0, 10, 20)])
    status, near = solve(newton(tolerance=1e-10), problem)
    assert status is Status.CONVERGED
    afar = 1e5 * np.outer(rng.normal(size=4), [1.0, -1.0])
    status, found = solve(newton(tolerance=1e-10), problem, jnp.asarray(afar))
    assert status is Status.CONVERGED
    assert float(found.value) == pytest.approx(float(near.value), abs=1e-9)


def test_a_tilt_along_a_flat_direction_has_no_minimiser():
    """Squared loss with one feature always zero, a tilt along it and no weight: it falls for ever."""
    listed = [(X * [1, 1, 1, 0], Y) for X, Y in data("squared")]
    tilt = np.zeros((4, 2))
    tilt[3, 0] = 1.0
    flat = objective("squared", listed, tilt=tilt, kept=False)
    assert solve(closed_form(), flat)[0] is Status.NO_MINIMISER
    # Where other directions bend, the steps of gd stay too short to see it: it says that it ran on.
    assert solve(gd(), flat)[0] is Status.ITERATION_CAP
    everywhere = objective("squared", [(0 * X, Y) for X, Y in listed], tilt=tilt, kept=False)
    assert solve(gd(), everywhere)[0] is Status.NO_MINIMISER
    assert solve(closed_form(), objective("squared", listed, kept=False))[0] is Status.CONVERGED
    held = objective("squared", listed, tilt=tilt, weight=0.1, kept=False)
    status, found = solve(closed_form(), held)
    assert status is Status.CONVERGED and float(found.params[3, 0]) == pytest.approx(10.0)


@pytest.mark.parametrize("name", ["lbfgs", "gd", "adam", "sls", "proximal-sgd"])
def test_the_cap_on_iterations(name):
    makers = {"lbfgs": lbfgs, "gd": gd, "adam": adam, "sls": sls, "proximal-sgd": proximal_sgd}
    problem = objective("squared", data("squared"), weight=0.1, kept=False)
    status, found = solve(makers[name](max_iterations=3), problem)
    assert status is Status.ITERATION_CAP and int(found.iterations) == 3
    assert float(found.value) < float(problem.value(zeros(problem)))
    np.testing.assert_allclose(found.residual, problem.gradient(found.params), atol=1e-12)


def test_where_no_step_decreases_the_search_stalls():
    """At a kink of the absolute loss no step along the gradient helps, and the gradient is not small."""
    problem = padded(np.ones((3, 1)), np.array([0.0, 0.0, -3.0]), np.full(3, 1 / 3), np.zeros(1))
    start = zeros(problem).at[0, 0].set(1e-300)
    status, found = solve(gd(max_backtracks=5), problem, start)
    assert status is Status.STALLED
    assert float(found.grad_norm) > 0.1
    # The median is the minimum, and the interior point says so.
    status, found = solve(interior_point(), problem)
    assert status is Status.CONVERGED and abs(float(found.params[0, 0])) < 1e-8


def test_at_the_minimum_nothing_is_done():
    problem = objective("squared", data("squared"), weight=1.0, kept=False)
    best = solve(closed_form(), problem)[1].params
    for name in ("gd", "newton", "adam"):
        status, found = solve(FULL[name], problem, best)
        assert status is Status.CONVERGED and int(found.iterations) == 0
