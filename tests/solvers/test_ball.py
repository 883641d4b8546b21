"""Every solver on an L2 ball: the constrained minimum, by its conditions and by another method."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from problems import data, least_absolute, objective, solve, zeros
from understudy.solvers import InBall, Status, closed_form, gd, interior_point, newton, project

EXACT = {
    "squared": closed_form(),
    "huber": newton(),
    "cross-entropy": newton(),
    "absolute": interior_point(),
}


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


def ball(loss, radius):
    return InBall(EXACT[loss], radius)


@pytest.mark.parametrize(("loss", "weight"), [("squared", 0.0), ("squared", 0.8), ("huber", 0.8)])
def test_kkt_conditions_and_projected_gradient(loss, weight):
    problem = objective(loss, data(loss), weight=weight, centre=0.3, kept=loss != "squared")
    status, found = solve(ball(loss, 0.1), problem)
    assert status is Status.CONVERGED
    w = np.asarray(found.params)
    assert np.linalg.norm(w) == pytest.approx(0.1, rel=1e-12)
    slope = np.asarray(slope_of(problem, found.params))
    # ∇J + ν w = 0 with ν > 0: the gradient points straight in.
    nu = -np.vdot(slope, w) / 0.01
    assert nu > 1e-3
    np.testing.assert_allclose(slope + nu * w, 0.0, atol=1e-9)
    np.testing.assert_allclose(found.residual, slope + nu * w, atol=1e-9)
    reference = projected_gradient(problem, 0.1)
    np.testing.assert_allclose(w, reference, atol=1e-6)


def projected_gradient(problem, radius):
    """The other method: w ← project(w − s ∇J(w)) with a small step, until it stands still."""
    return np.asarray(_descend(problem, zeros(problem), radius))


@jax.jit
def _descend(problem, start, radius):
    return jax.lax.fori_loop(0, 5000, lambda _, w: project(w - 0.05 * problem.gradient(w), radius), start)


slope_of = jax.jit(lambda problem, w: problem.gradient(w))


def test_a_ball_that_is_not_reached_changes_nothing():
    problem = objective("squared", data("squared"), kept=False)
    inside, free = solve(ball("squared", 100.0), problem)[1], solve(closed_form(), problem)[1]
    np.testing.assert_array_equal(inside.params, free.params)


def test_absolute_loss_on_a_ball():
    """No point of the ball, near or far, does better; and the ball costs something."""
    listed = data("absolute", seed=2)
    problem = objective("absolute", listed)
    status, found = solve(ball("absolute", 0.6), problem)
    assert status is Status.CONVERGED
    assert np.linalg.norm(found.params) == pytest.approx(0.6, rel=1e-9)
    value = float(found.value)
    assert value > least_absolute(listed) + 1e-3
    rng = np.random.default_rng(0)
    evaluate = jax.jit(jax.vmap(problem.value))
    for scale in (1.0, 0.1, 0.01, 1e-3, 1e-5):
        near = np.asarray(found.params) + scale * rng.normal(size=(300, 4, 2))
        near *= np.minimum(1, 0.6 / np.linalg.norm(near, axis=(1, 2)))[:, None, None]
        assert float(jnp.min(evaluate(jnp.asarray(near)))) >= value - 1e-9


def test_separable_labels_have_a_minimiser_on_a_ball():
    X = np.random.default_rng(1).normal(size=(30, 4))
    Y = np.eye(2)[(X[:, 0] > 0).astype(int)]
    problem = objective("cross-entropy", [(X[i : i + 10], Y[i : i + 10]) for i in (0, 10, 20)])
    assert solve(newton(), problem)[0] is Status.NO_MINIMISER
    # In the wide ball the free solve ends inside: that is no reason to deny a minimiser.
    for radius in (2.0, 1e4):
        status, found = solve(ball("cross-entropy", radius), problem)
        assert status is Status.CONVERGED
        assert np.linalg.norm(found.params) <= radius * (1 + 1e-12)


def boastful(objective, params, key=None):
    """A solver that goes a fifth too far, and says that nothing is left."""
    exact = closed_form()(objective, params)
    return dataclasses.replace(exact, params=1.2 * exact.params)


def test_the_residual_on_the_sphere_is_that_of_the_projected_point():
    problem = objective("squared", data("squared"), kept=False)
    found = solve(InBall(boastful, 0.1), problem)[1]
    w, slope = np.asarray(found.params), np.asarray(slope_of(problem, found.params))
    pull = np.asarray(found.residual) - slope
    np.testing.assert_allclose(pull, np.vdot(pull, w) / np.vdot(w, w) * w, atol=1e-12)
    assert float(found.grad_norm) == pytest.approx(np.linalg.norm(found.residual))
    assert np.linalg.norm(found.residual) > 1e-3  # and not the nothing that the solver spoke of
    assert np.linalg.norm(w) == pytest.approx(0.1)


@pytest.mark.parametrize("steps", [1, 3])
def test_the_residual_of_inexact_solves_belongs_to_a_lagrangian(steps):
    """Residual = ∇J + νw with ν ≥ 0, and ν > 0 only on the sphere: what the certificate builds on."""
    solver = InBall(gd(max_iterations=steps, first_step=1e-3, growth=1.0), 0.1)
    problem = objective("squared", data("squared"), kept=False)
    _, found = solve(solver, problem)
    w, slope = np.asarray(found.params), np.asarray(slope_of(problem, found.params))
    size, pull = np.linalg.norm(w), np.asarray(found.residual) - slope
    nu = np.vdot(pull, w) / size**2
    np.testing.assert_allclose(pull, nu * w, atol=1e-12)
    assert size <= 0.1 * (1 + 1e-12)
    assert nu >= -1e-12
    assert nu < 1e-12 or size >= 0.1 * (1 - 1e-9)
