"""Absolute and Huber losses on linear policies, in the one form that their solvers read."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from ..errors import UserError
from ..losses import Absolute, Huber
from ..objectives import Objective, Samples
from ..objectives.statistics import triangle


class Problem(NamedTuple):
    """``min_V Σ φ(Y − X V) − <V − C, T> + ½ Σ λ (V − C)²`` with ``φ(r) = max_{|u| ≤ b} u r − κ u²/2``.

    κ = 0 and b = a give a|r|; κ = 1/a and b = aδ give a times the Huber loss (a: the sample's weight).

    The parameters are those of an orthonormal basis of the features, ``W = basis (V / scale)``: the columns
    of X have weighted squares that add up to 1 or less, whatever the features' condition, and the matrices of
    an interior point are as good as its weights allow. Directions that the features do not reach have columns
    of zeros. The basis is orthogonal, so ``||W||² = Σ (V / scale)²``.
    """

    rows: Array  # (n, d)
    targets: Array  # (n, k)
    used: Array  # (n, 1), 1 where the sample counts
    bound: Array  # (n, k)
    curvature: Array  # (n, 1)
    centre: Array  # (d, k)
    tilt: Array  # (d, k)
    weight: Array  # (d, k)
    basis: Array  # (d, d)
    scale: Array  # (d, 1)

    def inside(self, params: Array) -> Array:
        """V of parameters W."""
        return self.scale * (self.basis.T @ params)

    def outside(self, params: Array) -> Array:
        """W of parameters V."""
        return self.basis @ (params / self.scale)


def piecewise(objective: Objective) -> Problem:
    """The objective's data in the form above, divided by the number of rounds."""
    losses = objective.losses
    if not (
        isinstance(losses, Samples) and losses.policy.linear and isinstance(losses.loss, (Absolute, Huber))
    ):
        raise UserError("solver: 'interior-point' needs a linear policy and the absolute or the Huber loss.")
    t = objective.rounds
    used = (losses.used & (losses.weights > 0))[:, None].astype(losses.weights.dtype)
    share = jnp.where(used > 0, losses.weights[:, None] / t, 1.0)
    rows = losses.policy.design(losses.inputs) * used
    bound = share * losses.loss.delta if isinstance(losses.loss, Huber) else share
    basis, scale = orthonormal(rows * jnp.sqrt(bound), objective.weight / t)
    tall = jnp.where(scale > 0, scale, 1.0)
    straight = Problem(
        (rows @ basis) * jnp.where(scale > 0, 1.0 / tall, 0.0)[:, 0],
        losses.targets * used,
        used,
        bound * jnp.ones_like(losses.targets),
        1.0 / share if isinstance(losses.loss, Huber) else jnp.zeros_like(share),
        objective.centre,
        basis.T @ (objective.tilt / t) / tall,
        objective.weight / t / tall**2 * jnp.ones_like(objective.centre),
        basis,
        tall,
    )
    return straight._replace(centre=straight.inside(objective.centre))


def orthonormal(rows: Array, weight: Array) -> tuple[Array, Array]:
    """Right singular vectors of the rows, (d, d), and their scales, (d, 1): 0 for what nothing reaches."""
    features = rows.shape[1]
    square = triangle(jnp.zeros((features, features), rows.dtype), rows)
    finite = jnp.all(jnp.isfinite(square))
    _, size, right = jnp.linalg.svd(jnp.where(finite, square, jnp.eye(features, dtype=rows.dtype)))
    size = jnp.where(size > size[0] * features * jnp.finfo(size.dtype).eps, size, 0.0)
    return right.T, jnp.sqrt(size**2 + weight)[:, None]


def dual_residual(problem: Problem, params: Array, dual: Array) -> Array:
    """``λ(V − C) − T − Xᵀu``, (d, k): zero at the minimiser with the dual that belongs to it."""
    return problem.weight * (params - problem.centre) - problem.tilt - problem.rows.T @ dual
