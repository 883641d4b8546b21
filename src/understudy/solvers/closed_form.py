"""Linear policy, squared loss: the minimiser is a formula."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import optax
from jax import Array

from ..errors import UserError
from ..objectives import Objective, Statistics
from ..policies import Params
from .base import Solution, Status


class ClosedForm(eqx.Module):
    """The exact minimiser from streaming statistics; where it is not unique, the one nearest to the centre.

    Singular values of the features below d·eps times the largest count as zero.
    """

    minibatch = False

    def __call__(self, objective: Objective, params: Params, key: Array | None = None) -> Solution:
        losses = objective.losses
        if not isinstance(losses, Statistics):
            raise UserError("solver: 'closed-form' needs a linear policy and the squared loss.")
        best, exists = losses.minimiser(objective.centre, objective.tilt, objective.weight)
        value, gradient = objective.value_and_gradient(best)
        norm = optax.tree.norm(gradient)
        finite = jnp.isfinite(norm) & jnp.isfinite(value)
        status = jnp.where(exists, Status.CONVERGED, Status.NO_MINIMISER)
        status = jnp.where(finite, status, Status.NOT_FINITE).astype(jnp.int32)
        one = jnp.ones((), jnp.int32)
        return Solution(best, status, value, norm, one, one, gradient, jnp.zeros_like(value))


closed_form = ClosedForm
