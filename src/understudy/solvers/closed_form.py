"""Where there is a formula: the minimiser of a linear policy on the squared loss, and for tabular softmax
policies on label counts the best table in hindsight and Newton's step.
"""

# pyright: reportUnknownMemberType=false, reportMissingTypeStubs=false
# JAX and optax say little of the types of their trees.

from __future__ import annotations

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import Array

from ..errors import UserError
from ..objectives import Counts, Objective, Statistics
from ..policies import Params
from .base import Descent, Direction, Solution, Status, by_formula


class ClosedForm(eqx.Module):
    """The exact minimiser from streaming statistics; where it is not unique, the one nearest to the centre.

    Singular values of the features below d·eps times the largest count as zero.
    """

    minibatch: ClassVar[bool] = False

    def __call__(self, objective: Objective, params: Params, key: Array | None = None) -> Solution:
        losses = objective.losses
        if not isinstance(losses, Statistics):
            raise UserError("solver: 'closed-form' needs a linear policy and the squared loss.")
        best, exists = losses.minimiser(objective.centre, objective.tilt, objective.weight)
        value, gradient = objective.value_and_gradient(best)
        finite = jnp.isfinite(optax.tree.norm(gradient)) & jnp.isfinite(value)
        status = jnp.where(exists, Status.CONVERGED, Status.NO_MINIMISER)
        status = jnp.where(finite, status, Status.NOT_FINITE)
        return by_formula(best, status, value, gradient)


closed_form = ClosedForm


class CellNewton(Direction[tuple[()]]):
    """``−(H + τI)⁻¹ g`` state by state: H = n(diag p − p pᵀ) + λI is inverted by the Sherman–Morrison
    formula.

    With D = n p + λ + τ the denominator ``1 − n Σ p²/D`` equals ``(λ + τ) Σ p/D``, which loses no digits.
    τ = 0.01 ||g|| keeps flat directions in bounds and vanishes at the solution.
    """

    def init(self, objective: Objective, params: Params) -> tuple[()]:
        return ()

    def __call__(
        self, objective: Objective, params: Params, gradient: Params, memory: tuple[()]
    ) -> tuple[Params, tuple[()]]:
        assert isinstance(objective.losses, Counts)
        chance = jax.nn.softmax(params, axis=1)
        totals = objective.losses.totals / objective.rounds
        ridge = objective.weight / objective.rounds + 0.01 * optax.tree.norm(gradient) + 1e-14
        diagonal = totals * chance + ridge
        along = jnp.sum(chance * gradient / diagonal, axis=1, keepdims=True)
        share = totals * along / (ridge * jnp.sum(chance / diagonal, axis=1, keepdims=True))
        return -(gradient + share * chance) / diagonal, memory


def cell_newton() -> Descent:
    """Newton's method for objectives on `Counts`: exact, in elementwise passes over the table."""
    return Descent(direction=CellNewton(), tolerance=1e-10, max_iterations=100)


class Frequencies(eqx.Module):
    """The best table in hindsight, for an objective on `Counts` without weight and tilt: the label
    frequencies. Its value is the infimum, and the status says whether a table attains it.
    """

    minibatch: ClassVar[bool] = False

    def __call__(self, objective: Objective, params: Params, key: Array | None = None) -> Solution:
        assert isinstance(objective.losses, Counts)
        best, least, attained = objective.losses.frequencies()
        status = jnp.where(attained, Status.CONVERGED, Status.NO_MINIMISER)
        return by_formula(best, status, least / objective.rounds, objective.gradient(best))
