"""Label counts say all: values, derivatives and solutions are those of the kept samples."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

from problems import added, solve
from understudy.losses import CrossEntropy
from understudy.objectives import Batch, Counts, Objective, empty_counts, empty_samples, plain
from understudy.policies import Tabular
from understudy.solvers import Frequencies, InBall, Status, cell_newton, newton
from understudy.solvers.closed_form import CellNewton

STATES, ACTIONS = 12, 4
frequencies = jax.jit(lambda counts, w: Frequencies()(plain(counts, w), w))


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def both(rounds: int = 6, actions: int = 3):
    """The same rounds as counts and as kept samples; the last label is never given unless asked for."""
    policy, loss, zero = Tabular(states=STATES), CrossEntropy(), jnp.zeros((STATES, ACTIONS))
    rng = np.random.default_rng(0)
    counts, kept = empty_counts(policy, loss, zero), None
    for _ in range(rounds):
        labels = np.eye(ACTIONS)[rng.integers(actions, size=9)]
        weights = np.append(np.full(8, 1 / 8), 0.0)  # the last row is padding
        states = jnp.asarray(rng.integers(STATES, size=9))
        batch = Batch(states, jnp.asarray(labels), jnp.asarray(weights), jnp.asarray(8, jnp.int32))
        kept = kept or empty_samples(policy, loss, batch, capacity=8 * rounds)
        kept, counts = added(kept, batch), added(counts, batch)
    return counts, kept


def test_counts_equal_the_sum_over_all_samples():
    counts, kept = both()
    params, vector = (np.random.default_rng(i).normal(size=(STATES, ACTIONS)) for i in (1, 2))
    assert int(counts.rounds) == int(kept.rounds) == 6
    assert np.asarray(counts.table).sum() == pytest.approx(6.0)  # every round weighs one

    @jax.jit
    def told(one, w, v):
        return one.value(w), one.gradient(w), one.hessian(w), one.hessian_vector(w, v)

    mine, theirs = (told(one, params, vector) for one in (counts, kept))
    np.testing.assert_allclose(mine[0], theirs[0], rtol=1e-13)
    for a, b in zip(mine[1:], theirs[1:], strict=True):
        np.testing.assert_allclose(a, b, atol=1e-13)


def test_newton_by_cells_is_the_dense_newton_step_and_finds_the_dense_solution():
    counts, kept = both()
    zero = jnp.asarray(np.zeros((STATES, ACTIONS)))
    params = jnp.asarray(np.random.default_rng(3).normal(size=(STATES, ACTIONS)))
    mine, dense = (Objective(one, zero, zero, jnp.asarray(0.7)) for one in (counts, kept))

    @jax.jit
    def steps(mine, dense, params):
        gradient = mine.gradient(params)
        return gradient, CellNewton()(mine, params, gradient, ())[0], dense.hessian(params)

    gradient, step, hessian = map(np.asarray, steps(mine, dense, params))
    shifted = hessian + (0.01 * np.linalg.norm(gradient) + 1e-14) * np.eye(zero.size)
    np.testing.assert_allclose(step.reshape(-1), -np.linalg.solve(shifted, gradient.reshape(-1)), atol=1e-12)
    found, wanted = solve(cell_newton(), mine, params)[1], solve(newton(), dense, params)[1]
    np.testing.assert_allclose(found.params, wanted.params, atol=1e-8)


def test_the_frequencies_are_the_minimum_and_say_whether_it_is_attained():
    zero = jnp.zeros((STATES, ACTIONS))
    for actions, status in ((ACTIONS, Status.CONVERGED), (ACTIONS - 1, Status.NO_MINIMISER)):
        counts, _ = both(40, actions)
        found = frequencies(counts, zero)
        assert int(found.status) == status
        cost = jax.jit(jax.value_and_grad(lambda flat, one=counts: one.value(flat.reshape(zero.shape)) / 40))
        assert float(found.value) == pytest.approx(float(cost(found.params.reshape(-1))[0]), rel=1e-12)
        best = minimize(cost, np.zeros(zero.size), jac=True, method="L-BFGS-B", options={"maxiter": 5000})
        assert float(found.value) <= best.fun + 1e-12
        assert float(found.value) == pytest.approx(best.fun, abs=1e-4)


def test_a_state_that_was_never_visited_needs_no_labels():
    table = jnp.asarray([[1.0, 2.0], [0.0, 0.0]])
    logits, least, attained = Counts(Tabular(states=2), CrossEntropy(), table, jnp.asarray(1)).frequencies()
    assert bool(attained) and logits[1].tolist() == [0.0, 0.0]
    assert float(least) == pytest.approx(np.log(3) + 2 * np.log(1.5))


@pytest.mark.slow
def test_on_a_ball_counts_have_the_constrained_minimum():
    counts, kept = both()
    zero = jnp.zeros((STATES, ACTIONS))
    _, mine = solve(InBall(cell_newton(), 3.0), plain(counts, zero), zero)
    assert float(jnp.linalg.norm(mine.params)) == pytest.approx(3.0)
    # The sum of the kept samples is convex: this says that it is least on the ball exactly here. It errs with
    # the square of what is left, far below what two solvers differ by.
    value, slope = jax.jit(lambda one, w: (one.value(w) / 6, one.gradient(w) / 6))(kept, mine.params)
    pull = -float(jnp.vdot(slope, mine.params)) / 9
    np.testing.assert_allclose(slope, -pull * mine.params, atol=1e-6 * pull)
    assert pull > 0 and float(mine.value) == pytest.approx(float(value), rel=1e-12)
    assert float(mine.value) > float(frequencies(counts, zero).value)
    # No point of a cloud on the ball does better.
    cloud = np.random.default_rng(0).normal(size=(200, STATES, ACTIONS)) + 0.5 * np.asarray(mine.params)
    cloud = 3.0 * cloud / np.linalg.norm(cloud, axis=(1, 2), keepdims=True)
    assert (np.asarray(jax.jit(jax.vmap(counts.value))(cloud)) > 6 * float(mine.value)).all()
