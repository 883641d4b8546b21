"""A learner from outside the package may solve in a branch, and an objective of its own; that the best in
hindsight is looked for beside it changes nothing."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import understudy
from understudy.objectives import Objective, plain

INNER = understudy.ftl()


class Lazy(eqx.Module):
    """FTL that moves in every second round only."""

    def init(self, params):
        return INNER.init(params)

    def update(self, state, losses, gradient, solve):
        objective, now = plain(losses, state.params), state.round + 1
        shapes = jax.eval_shape(lambda: solve(objective, state.params))
        idle = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
        idle = eqx.tree_at(lambda one: one.params, idle, state.params)
        found = jax.lax.cond(now % 2 == 0, lambda: solve(objective, state.params), lambda: idle)
        return state._replace(params=found.params, round=now), found


class Shrunk(Objective):
    """The losses and 3 ||w||²."""

    def penalty(self, params):
        return 3.0 * jnp.sum(params**2)

    def penalty_gradient(self, params):
        return 6.0 * params

    def hessian(self, params, basis=None):
        dense = super().hessian(params, basis)
        return dense + 6.0 / self.rounds * jnp.eye(len(dense), dtype=dense.dtype)


class Shrinking(eqx.Module):
    """The minimiser of an objective of its own."""

    def init(self, params):
        return INNER.init(params)

    def update(self, state, losses, gradient, solve):
        one = plain(losses, state.params)
        found = solve(Shrunk(losses, one.centre, one.tilt, one.weight), state.params)
        return state._replace(params=found.params, round=state.round + 1), found


@pytest.mark.parametrize("learner", [Lazy(), Shrinking()], ids=lambda one: type(one).__name__)
def test_its_losses_are_the_same_with_and_without_a_comparator(learner):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4, 8, 3))
    rounds = list(zip(X, X @ rng.normal(size=(3, 2)) + rng.laplace(size=(4, 8, 2)), strict=True))
    judged, alone = (
        understudy.replay(rounds, loss="huber", learner=learner, comparator=comparator)
        for comparator in ("every", "none")
    )
    np.testing.assert_allclose(judged.ledger["loss"], alone.ledger["loss"], rtol=1e-9)
    assert np.isfinite(judged.ledger["regret"]).all()
