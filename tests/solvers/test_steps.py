"""Single steps by hand: Armijo's condition, the proximal operator, minibatches."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize

from problems import added, data, objective, zeros
from understudy.losses import Huber
from understudy.objectives import Objective, batch, empty_samples
from understudy.policies import Linear
from understudy.solvers import gd, lbfgs, newton, proximal_sgd, sls


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


value_of = jax.jit(lambda problem, w: problem.value(w))
both_of = jax.jit(lambda problem, w: problem.value_and_gradient(w))
both_on = jax.jit(lambda problem, w, rows: problem.minibatch_value_and_gradient(w, rows))


def trace(solver, problem, turns, key=0):
    """(state before, state after) of every turn of the loop."""
    step = jax.jit(solver.step)
    state, pairs = jax.jit(solver.init)(problem, zeros(problem), jax.random.key(key)), []
    for _ in range(turns):
        new = step(problem, state)
        pairs.append((state, new))
        state = new
    return pairs


@pytest.mark.parametrize("solver", [gd(), lbfgs(), newton()], ids=["gd", "lbfgs", "newton"])
def test_accepted_steps_of_descent_satisfy_armijo(solver):
    problem = objective("cross-entropy", data("cross-entropy"), weight=0.1)
    accepted = refused = 0
    for old, new in trace(solver, problem, 25):
        before, after = old.progress, new.progress
        if int(after.iterations) == int(before.iterations):
            refused += 1
            assert float(new.step) == pytest.approx(solver.shrink * float(old.step))
            np.testing.assert_array_equal(after.params, before.params)
            continue
        if float(jnp.linalg.norm(before.gradient)) < 1e-7:
            break  # there only rounding is left to compare
        accepted += 1
        move = after.params - before.params
        np.testing.assert_allclose(move, old.step * new.direction, atol=1e-12)
        slope = jnp.vdot(both_of(problem, before.params)[1], new.direction)
        assert float(slope) < 0
        drop = solver.c * float(old.step) * float(slope)
        assert (
            float(value_of(problem, after.params)) <= float(value_of(problem, before.params)) + drop + 1e-15
        )
    assert accepted >= 3
    assert refused >= 1 or not solver.direction.warm_step


@pytest.mark.parametrize("size", [None, 5])
def test_accepted_steps_of_sls_satisfy_armijo_on_their_own_minibatch(size):
    problem = objective("huber", data("huber"), weight=0.4, tilt=0.2)
    solver = sls(batch_size=size, c=0.1)
    accepted = refused = 0
    for old, new in trace(solver, problem, 60):
        before, after = old.progress, new.progress
        if int(after.iterations) == int(before.iterations):
            refused += 1
            assert float(new.step) == pytest.approx(0.9 * float(old.step))
            continue
        accepted += 1
        value, slope = here(problem, old.rows, before.params)
        next_value, _ = here(problem, old.rows, after.params)
        np.testing.assert_allclose(after.params, before.params - old.step * slope, atol=1e-12)
        square = float(jnp.sum(slope**2))
        assert float(next_value) <= float(value) - 0.1 * float(old.step) * square + 1e-15
        assert float(new.step) == pytest.approx(1.5 * float(old.step))  # it grows again between iterations
        if size is not None:
            assert not np.array_equal(np.asarray(new.rows[0]), np.asarray(old.rows[0]))
    assert accepted >= 5 and refused >= 5


def here(problem, rows, params):
    if rows is None:
        return both_of(problem, params)
    return both_on(problem, params, rows)


def test_the_proximal_step_is_the_argmin_that_defines_it():
    """prox(v) = argmin_u γ·penalty(u)/t + ½||u − v||², with v = w − γ ∇(F_t/t)(w)."""
    listed = data("squared", seed=7)
    problem = objective("squared", listed, weight=2.5, centre=0.7, tilt=0.9, kept=False)
    solver = proximal_sgd(learning_rate=0.3)
    (start, still), (old, new) = trace(solver, problem, 2)
    np.testing.assert_array_equal(still.progress.params, start.progress.params)  # the first turn evaluates
    w, t = np.asarray(old.progress.params), 3
    v = w - 0.3 * np.asarray(problem.losses.gradient(jnp.asarray(w))) / t

    def whole(flat):
        u = flat.reshape(w.shape)
        penalty = 2.5 / 2 * np.sum((u - 0.7) ** 2) - 0.9 * np.sum(u - 0.7)
        return 0.3 * penalty / t + 0.5 * np.sum((u - v) ** 2)

    best = optimize.minimize(whole, v.ravel(), tol=1e-14).x.reshape(w.shape)
    np.testing.assert_allclose(new.progress.params, best, atol=1e-6)
    explicit = w - 0.3 * np.asarray(problem.gradient(jnp.asarray(w)))
    assert np.abs(explicit - best).max() > 0.01  # a plain gradient step is something else


def estimates(problem: Objective, params, divisor):
    """Mean of the minibatch gradient over all pairs of rows, each drawn with equal chance."""
    losses, count = problem.losses, int(problem.losses.filled)

    def one(index):
        rows = losses.inputs[index], losses.targets[index], losses.weights[index] * count / 2
        mine = problem.minibatch_value_and_gradient(params, rows)[1]
        slope = losses.minibatch_value_and_gradient(params, rows)[1] / problem.rounds
        return mine, slope + problem.penalty_gradient(params) / divisor

    pairs = jnp.asarray(list(itertools.product(range(count), repeat=2)))
    return [np.mean(part, axis=0) for part in jax.jit(jax.vmap(one))(pairs)]


def test_minibatch_gradients_are_unbiased_with_tilt_and_weight_divided_by_t():
    rng = np.random.default_rng(0)
    listed = [(rng.normal(size=(m, 4)), rng.normal(size=(m, 2))) for m in (1, 3, 2)]  # rounds of unequal size
    like = batch(np.zeros((3, 4)), np.zeros((3, 2)))
    losses = empty_samples(Linear(), Huber(), like, capacity=6)
    for X, Y in listed:
        losses = added(losses, batch(X, Y, rows=3))
    zero = jnp.zeros((4, 2))
    problem = Objective(losses, zero, zero + 0.8, jnp.asarray(1.5))
    params = jnp.asarray(rng.normal(size=(4, 2)))
    exact = both_of(problem, params)[1]
    mine, wrong = estimates(problem, params, divisor=2)
    np.testing.assert_allclose(mine, exact, atol=1e-12)
    assert np.abs(wrong - exact).max() > 0.1  # divided by the batch size
    # And the rows that `minibatch` draws have those chances and those weights.
    keys = jax.random.split(jax.random.key(1), 4000)
    draw = jax.jit(jax.vmap(lambda key: losses.minibatch(key, 2)))
    drawn, _, weights = (np.asarray(part) for part in draw(keys))
    for X, _ in listed:
        for row in X:
            chosen = drawn[..., 0].ravel() == row[0]
            assert np.mean(chosen) == pytest.approx(1 / 6, abs=0.02)
            np.testing.assert_allclose(weights.ravel()[chosen], 6 / 2 / len(X))


@pytest.mark.parametrize(
    ("curvatures", "c", "taken"),
    [((0.1, 1.1), 0.1, True), ((0.1, 1.1), 0.5, False), ((1.1, 1.1), 0.5, False)],
)
def test_a_step_is_taken_where_the_value_falls_by_the_share_that_armijo_asks_for(curvatures, c, taken):
    """Σ h w²/2 − g w along the gradient: it falls by 0.23 of the slope's promise, and in the last case rises
    by 0.1 of it. In all three the gradient grows, so that nothing but the value says whether a step is good.
    """
    roots, slopes = np.sqrt(curvatures), np.sqrt([0.5, 1.0])
    problem = objective("squared", [(np.diag(roots), (slopes / roots)[:, None])])
    solver = gd(c=c)
    state = solver.init(problem, zeros(problem), jax.random.key(0))._replace(step=jnp.asarray(2.0))
    before, after = state.progress, solver.step(problem, state).progress
    np.testing.assert_allclose(-before.gradient[:, 0], slopes)
    assert (int(after.iterations) == 1) == taken
