"""Absolute and Huber losses on linear policies, in the one form that their solvers read."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import optax
from jax import Array

from ..errors import UserError
from ..losses import Absolute, Huber
from ..objectives import Objective, Samples


class Problem(NamedTuple):
    """``min_W Σ φ(Y − X W) − <W − C, T> + λ/2 ||W − C||²`` with ``φ(r) = max_{|u| ≤ b} u r − κ u²/2``.

    κ = 0 and b = a give a|r|; κ = 1/a and b = aδ give a times the Huber loss (a: the sample's weight).
    """

    rows: Array  # (n, d)
    targets: Array  # (n, k)
    used: Array  # (n, 1), 1 where the sample counts
    bound: Array  # (n, 1)
    curvature: Array  # (n, 1)
    centre: Array  # (d, k)
    tilt: Array  # (d, k)
    weight: Array


def piecewise(objective: Objective) -> Problem:
    """The objective's data in the form above, divided by the number of rounds."""
    losses = objective.losses
    if not (
        isinstance(losses, Samples) and losses.policy.linear and isinstance(losses.loss, (Absolute, Huber))
    ):
        raise UserError("solver: 'interior-point' needs a linear policy and the absolute or the Huber loss.")
    t = objective.rounds
    inside = jnp.arange(losses.weights.shape[0]) < losses.filled
    used = (inside & (losses.weights > 0))[:, None].astype(losses.weights.dtype)
    scale = jnp.where(used > 0, losses.weights[:, None] / t, 1.0)
    huber = isinstance(losses.loss, Huber)
    return Problem(
        losses.policy.design(losses.inputs) * used,
        losses.targets * used,
        used,
        scale * losses.loss.delta if isinstance(losses.loss, Huber) else scale,
        1.0 / scale if huber else jnp.zeros_like(scale),
        objective.centre,
        optax.tree.scale(1.0 / t, objective.tilt),
        objective.weight / t,
    )


def dual_residual(problem: Problem, params: Array, dual: Array) -> Array:
    """``λ(W − C) − T − Xᵀu``, (d, k): zero at the minimiser with the dual that belongs to it."""
    return problem.weight * (params - problem.centre) - problem.tilt - problem.rows.T @ dual
