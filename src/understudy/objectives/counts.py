"""Tabular policy, cross-entropy: the sum of all rounds is a table of label counts."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from ..data import Batch
from ..losses import CrossEntropy
from ..policies import Params, Policy


class Counts(eqx.Module):
    """``F_t(W) = −Σ_s Σ_a n_sa log softmax(W_s)_a`` for a row of logits per state; no data is kept.

    `table` (states, actions) holds n_sa, the weight of all samples so far that label state s with action a.
    Nothing is lost, and neither memory nor cost grows with the rounds.
    """

    policy: Policy
    loss: CrossEntropy
    table: Array
    rounds: Array

    def add(self, batch: Batch) -> Counts:
        """The counts with one more round: inputs are state numbers, targets rows of probabilities."""
        states = batch.inputs.reshape(batch.inputs.shape[0]).astype(jnp.int32)
        rows = batch.weights[:, None] * batch.targets.astype(self.table.dtype)
        new = jnp.zeros_like(self.table).at[states].add(rows)
        return Counts(self.policy, self.loss, self.table + new, self.rounds + 1)

    @property
    def totals(self) -> Array:
        """n_s (states, 1): how much every state weighs."""
        return jnp.sum(self.table, axis=1, keepdims=True)

    def value(self, params: Params) -> Array:
        return self.value_and_gradient(params)[0]

    def gradient(self, params: Params) -> Params:
        return self.value_and_gradient(params)[1]

    def value_and_gradient(self, params: Params) -> tuple[Array, Params]:
        logs = jax.nn.log_softmax(params, axis=1)
        return -jnp.sum(self.table * logs), self.totals * jnp.exp(logs) - self.table

    def hessian_vector(self, params: Params, vector: Params) -> Params:
        chance = jax.nn.softmax(params, axis=1)
        return self.totals * chance * (vector - jnp.sum(chance * vector, axis=1, keepdims=True))

    def hessian(self, params: Params) -> Array:
        """The Hessian over the flattened parameters: a block n_s (diag p − p pᵀ) for every state."""
        chance = jax.nn.softmax(params, axis=1)
        curved = jax.vmap(jnp.diag)(chance) - chance[:, :, None] * chance[:, None, :]
        return jax.scipy.linalg.block_diag(*(self.totals[:, :, None] * curved))

    def frequencies(self) -> tuple[Params, Array, Array]:
        """Logits of the label frequencies, ``inf_W F_t(W) = Σ_s Σ_a n_sa log(n_s / n_sa)``, and whether it is
        attained: a label that a state never had would need the logit −∞, and gets the least that counts.

        >>> table = jnp.asarray([[1.0, 1.0], [0.0, 3.0]])
        >>> _, least, attained = Counts(None, CrossEntropy(), table, jnp.asarray(1)).frequencies()
        >>> round(float(least), 6), bool(attained)
        (1.386294, False)
        """
        seen = self.table > 0
        ratio = jnp.where(seen, self.totals, 1.0) / jnp.where(seen, self.table, 1.0)
        floor = jnp.log(jnp.finfo(self.table.dtype).tiny)
        logits = jnp.where(seen, -jnp.log(ratio), jnp.where(self.totals > 0, floor, 0.0))
        least = jnp.sum(jnp.where(seen, self.table * jnp.log(ratio), 0.0))
        return logits, least, jnp.all(seen | (self.totals <= 0))

    def above(self, params: Params) -> Array:
        """F at `params`, from above."""
        return self.value(params) + self._lost(jnp.linalg.norm(params))

    def below(self, params: Params, norm: Array) -> Array:
        """A bound below on the least F(W) over ||W|| ≤ norm: the larger of the entropy of the labels and
        ``F(V) + <∇F(V), W − V>``, V being `params`.
        """
        value, gradient = self.value_and_gradient(params)
        _, least, _ = self.frequencies()
        straight = value - jnp.vdot(gradient, params) - norm * jnp.linalg.norm(gradient)
        lost = self._lost(jnp.linalg.norm(params) + norm)
        return jnp.maximum(jnp.maximum(least, straight) - lost, 0.0)

    def _lost(self, size: Array) -> Array:
        """What rounding can have changed in F where the parameters have this size: as many roundings as there
        were additions to the table and numbers in it.
        """
        mass = jnp.sum(self.table)
        return 64.0 * (self.rounds + self.table.size) * jnp.finfo(mass.dtype).eps * mass * (40.0 + size)


class Unkept(eqx.Module):
    """No losses at all, only the number of rounds: for a linearised learner that is judged elsewhere."""

    rounds: Array = eqx.field(default_factory=lambda: jnp.zeros((), jnp.int32))

    def add(self, batch: Batch) -> Unkept:
        return Unkept(self.rounds + 1)


def empty_counts(policy: Policy, loss: CrossEntropy, params: Params) -> Counts:
    """Counts of no rounds, for parameters (states, actions)."""
    return Counts(policy, loss, jnp.zeros_like(params), jnp.zeros((), jnp.int32))
