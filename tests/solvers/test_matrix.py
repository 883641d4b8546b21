"""Solvers × problems with known minima."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from problems import FEATURES, OUTPUTS, data, least_absolute, objective, solve, zeros
from reference import gradient, hessian
from understudy.solvers import (
    SLS,
    Status,
    adam,
    closed_form,
    gd,
    interior_point,
    lbfgs,
    newton,
    proximal_sgd,
    sls,
)

SMOOTH = {
    "newton": newton(),
    "lbfgs": lbfgs(),
    "gd": gd(max_iterations=5000),
    "sls": sls(max_iterations=20000, tolerance=1e-7),
    "adam": adam(learning_rate=0.05, max_iterations=5000, tolerance=1e-7),
    "proximal-sgd": proximal_sgd(learning_rate=0.1, max_iterations=20000, tolerance=1e-7),
}
PENALTY = {"weight": 0.7, "centre": 0.5, "tilt": 0.3}


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


def minimiser(loss, listed, weight, centre, tilt):
    """Newton's method in NumPy, on the whole objective."""
    W = np.zeros((FEATURES, OUTPUTS))
    for _ in range(300):
        g = sum(gradient(loss, W, X, Y if loss != "cross-entropy" else Y.argmax(1)) for X, Y in listed)
        g = g + weight * (W - centre) - tilt
        H = sum(hessian(loss, W, X, Y if loss != "cross-entropy" else Y.argmax(1)) for X, Y in listed)
        if np.linalg.norm(g) < 1e-13:
            return W
        step = np.linalg.solve(H + (weight + 0.1 * np.linalg.norm(g)) * np.eye(W.size), g.ravel())
        W = W - step.reshape(W.shape)
    raise AssertionError("the reference did not converge")


# Every solver on one loss, and those that exact learners use on all; the others are slow.
CASES = [
    pytest.param(loss, name, marks=() if loss == "huber" or name in ("newton", "lbfgs") else pytest.mark.slow)
    for loss in ("squared", "huber", "cross-entropy")
    for name in SMOOTH
]


@pytest.mark.parametrize(("loss", "name"), [*CASES, ("squared", "closed-form"), ("huber", "interior-point")])
def test_known_minimum_with_tilt_and_weight(loss, name):
    listed = data(loss)
    problem = objective(loss, listed, **PENALTY, kept=loss != "squared")
    solver = SMOOTH.get(name) or {"closed-form": closed_form(), "interior-point": interior_point()}[name]
    status, found = solve(solver, problem)
    assert status is Status.CONVERGED
    best = minimiser(loss, listed, **PENALTY)
    exact = name in ("newton", "closed-form")
    np.testing.assert_allclose(found.params, best, atol=1e-11 if exact else 1e-5)
    assert float(found.value) <= float(problem.value(jnp.asarray(best))) + 1e-10
    np.testing.assert_allclose(found.residual, problem.gradient(found.params), atol=1e-9)
    assert float(found.grad_norm) <= 1e-7 and int(found.iterations) > 0
    assert int(found.evaluations) >= int(found.iterations)


@pytest.mark.parametrize("name", ["newton", "lbfgs"])
@pytest.mark.parametrize("loss", ["squared", "huber", "cross-entropy"])
def test_known_minimum_without_penalty(loss, name):
    listed = data(loss, seed=1)
    problem = objective(loss, listed)
    status, found = solve(SMOOTH[name], problem)
    assert status is Status.CONVERGED
    # A step of the reference's Newton from there goes nowhere (pinv: logits may move together).
    labels = [(X, Y.argmax(1) if loss == "cross-entropy" else Y) for X, Y in listed]
    g = sum(gradient(loss, np.asarray(found.params), X, Y) for X, Y in labels)
    H = sum(hessian(loss, np.asarray(found.params), X, Y) for X, Y in labels)
    assert np.linalg.norm(np.linalg.pinv(H, rcond=1e-9) @ g.ravel()) < 1e-7


@pytest.mark.parametrize("shape", ["tall", "few samples", "ties"])
def test_absolute_loss_against_the_linear_program(shape):
    rounds = 1 if shape == "few samples" else 3
    listed = data("absolute", seed=2, rounds=rounds, samples=3 if shape == "few samples" else 10)
    if shape == "ties":
        listed = [(np.round(X), np.round(Y)) for X, Y in listed]
    problem = objective("absolute", listed)
    status, found = solve(interior_point(), problem)
    best = least_absolute(listed)
    assert status is Status.CONVERGED
    assert abs(float(found.value) - best) < 1e-8
    assert float(found.gap) < 1e-8
    # The gap is honest: the value is no further above the minimum than it says.
    assert float(found.value) - best <= float(found.gap) + 1e-12
    assert best > 0.05 or shape == "few samples"


def test_gradient_descent_does_not_minimise_the_absolute_loss():
    """The control: why there is an interior-point method."""
    listed = data("absolute", seed=2)
    problem = objective("absolute", listed)
    status, found = solve(gd(), problem)
    assert status is not Status.CONVERGED
    assert float(found.value) - least_absolute(listed) > 1e-6


@pytest.mark.parametrize("name", ["closed-form", "newton", "lbfgs", "gd"])
def test_condition_number_1e12(name):
    """Features over six decades, so that the Hessian has condition 1e12: reach the minimum, or say so."""
    scales = np.array([1.0, 1e-2, 1e-4, 1e-6])
    listed = data("squared", seed=3, scales=scales)
    X = np.concatenate([X for X, _ in listed]) / np.sqrt(30)
    Y = np.concatenate([Y for _, Y in listed]) / np.sqrt(30)
    best = np.linalg.lstsq(X, Y, rcond=None)[0]
    least = np.sum((X @ best - Y) ** 2)
    problem = objective("squared", listed, kept=name != "closed-form")
    solver = closed_form() if name == "closed-form" else SMOOTH[name]
    status, found = solve(solver, problem)
    if name == "closed-form":
        assert status is Status.CONVERGED
        np.testing.assert_allclose(
            np.asarray(found.params) * scales[:, None], best * scales[:, None], atol=1e-9
        )
        assert float(found.value) - least < 1e-12
    else:
        # Whatever it says about the gradient must be true, and only a small gradient may be called converged.
        true = np.linalg.norm(2 * X.T @ (X @ np.asarray(found.params) - Y))
        assert abs(true - float(found.grad_norm)) < 1e-9
        assert (status is Status.CONVERGED) == (true <= solver.tolerance)
        assert status in (Status.CONVERGED, Status.STALLED, Status.ITERATION_CAP)


@pytest.mark.parametrize(
    "solver",
    [
        adam(learning_rate=0.01, batch_size=8, max_iterations=3000),
        sls(batch_size=8, max_iterations=3000),
        proximal_sgd(learning_rate=0.2, decay=0.05, batch_size=8, max_iterations=3000),
    ],
    ids=["adam", "sls", "proximal-sgd"],
)
def test_minibatch_methods_come_close(solver):
    """Noise keeps them from the tolerance: they run to the cap and measure the full gradient at the end."""
    listed = data("huber", seed=4)
    problem = objective("huber", listed, weight=0.5)
    status, found = solve(solver, problem)
    assert status is Status.ITERATION_CAP
    assert int(found.iterations) == 3000
    _, best = solve(newton(), problem)
    start = float(problem.value(zeros(problem)))
    share = (float(found.value) - float(best.value)) / (start - float(best.value))
    # A line search alone does not average the noise away, as a decreasing step does.
    assert 0 <= share < (0.5 if isinstance(solver, SLS) else 0.1)
    np.testing.assert_allclose(found.residual, problem.gradient(found.params), atol=1e-12)


EXACT = {"sls": sls(batch_size=8), "proximal-sgd": proximal_sgd(learning_rate=0.1, batch_size=8)}


@pytest.mark.parametrize("name", EXACT)
def test_under_interpolation_a_constant_step_on_minibatches_is_enough(name):
    """Answers that some W explains exactly: the noise of minibatches vanishes at the solution."""
    listed = [(X, X @ np.arange(8.0).reshape(4, 2)) for X, _ in data("squared", seed=5)]
    problem = objective("squared", listed)
    _, found = solve(EXACT[name], problem)
    np.testing.assert_allclose(found.params, np.arange(8.0).reshape(4, 2), atol=1e-4)


@pytest.mark.parametrize("name", ["newton", "interior-point", pytest.param("gd", marks=pytest.mark.slow)])
def test_vmapped_solves_equal_single_ones(name):
    solver = {"interior-point": interior_point(), "newton": newton(), "gd": gd(max_iterations=300)}[name]
    problems = [
        objective("huber", data("huber", seed=s), weight=w) for s, w in [(0, 0.0), (1, 0.5), (2, 20.0)]
    ]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *problems)
    start = jnp.zeros((3, FEATURES, OUTPUTS))
    together = jax.jit(jax.vmap(lambda p, w: solver(p, w)))(stacked, start)
    for i, problem in enumerate(problems):
        _, alone = solve(solver, problem)
        np.testing.assert_allclose(together.params[i], alone.params, atol=1e-9)
        assert int(together.status[i]) == int(alone.status)
