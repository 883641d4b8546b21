"""Tabular softmax policies: label counts per cell say all, and Newton's step needs no factorisation."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import Array

from ..objectives import Objective
from ..policies import Params
from ..solvers import Descent, Direction


class Counts(eqx.Module):
    """``F_t(W) = −Σ_s Σ_a n_sa log softmax(W_s)_a``: the sum of all rounds' cross-entropies, in O(cells)
    memory.

    `table` (cells, actions) holds n_sa, each sample with its weight in its round. Nothing is lost, and the
    cost does not grow with the rounds. It stands where an `Objective` expects its losses.
    """

    table: Array
    rounds: Array

    def add(self, table: Array) -> Counts:
        """The counts with one more round's."""
        return Counts(self.table + table, self.rounds + 1)

    def value(self, params: Params) -> Array:
        return -jnp.sum(self.table * jax.nn.log_softmax(params, axis=1))

    def gradient(self, params: Params) -> Params:
        return self.value_and_gradient(params)[1]

    def value_and_gradient(self, params: Params) -> tuple[Array, Params]:
        logs = jax.nn.log_softmax(params, axis=1)
        totals = jnp.sum(self.table, axis=1, keepdims=True)
        return -jnp.sum(self.table * logs), totals * jnp.exp(logs) - self.table

    def hessian_vector(self, params: Params, vector: Params) -> Params:
        chance = jax.nn.softmax(params, axis=1)
        totals = jnp.sum(self.table, axis=1, keepdims=True)
        return totals * chance * (vector - jnp.sum(chance * vector, axis=1, keepdims=True))


def empty_counts(cells: int, actions: int, dtype: Any) -> Counts:
    """Counts of no rounds."""
    return Counts(jnp.zeros((cells, actions), dtype), jnp.zeros((), jnp.int32))


class CellNewton(Direction):
    """``−(H + τI)⁻¹ g`` cell by cell: H = n(diag p − p pᵀ) + λI is inverted by the Sherman–Morrison formula.

    With D = n p + λ + τ the denominator ``1 − n Σ p²/D`` equals ``(λ + τ) Σ p/D``, which loses no digits.
    τ = 0.01 ||g|| keeps flat directions in bounds and vanishes at the solution.
    """

    warm_step: bool = eqx.field(static=True, default=False)

    def init(self, params: Params) -> Any:
        return ()

    def __call__(
        self, objective: Objective, params: Params, gradient: Params, memory: Any
    ) -> tuple[Params, Any]:
        chance = jax.nn.softmax(params, axis=1)
        totals = jnp.sum(objective.losses.table, axis=1, keepdims=True) / objective.rounds  # type: ignore
        ridge = objective.weight / objective.rounds + 0.01 * optax.tree.norm(gradient) + 1e-14
        diagonal = totals * chance + ridge
        along = jnp.sum(chance * gradient / diagonal, axis=1, keepdims=True)
        share = totals * along / (ridge * jnp.sum(chance / diagonal, axis=1, keepdims=True))
        return -(gradient + share * chance) / diagonal, memory


def cell_newton(*, tolerance: float = 1e-10, max_iterations: int = 100) -> Descent:
    """Newton's method for objectives on `Counts`: exact, in elementwise passes over the table."""
    return Descent(direction=CellNewton(), tolerance=tolerance, max_iterations=max_iterations)
