"""What a loss of one's own states, tried on the data of the game.

A loss states that it is convex with the gradient that JAX takes of it, that no value is below its `least`,
that every slope of `inside` with its `dual` is a line below it, and how steep and how curved it is. Each is
an inequality between numbers of two points of the outputs, so a few points a sample refute what is false
there.
That none is refuted proves nothing: the proofs are the author's. Shipped losses are not tried.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ..losses import Loss

SAMPLED = 128
"""Samples for which all pairs of points are compared."""
REACH = np.concatenate([[0.0], np.logspace(-3, 3, 10)])
"""How far from an output the points are, in units of 1 + |output| + |target|."""


def refuted(loss: Loss, slopes: Array, outputs: Array, targets: Array, used: Array) -> Array:
    """Whether a line ``<s, ·> + dual(s)`` of the slopes (n, k) is above the loss at the outputs (n, k), at
    the targets, at zero, or where a step from the outputs towards the line's own point leads.
    """
    found, size = jax.vmap(loss.dual)(slopes, targets)
    points = [outputs, targets, jnp.zeros_like(outputs)]
    if 0 < loss.curvature < math.inf:
        points.append(outputs + (slopes - jax.vmap(jax.grad(loss))(outputs, targets)) / loss.curvature)

    def above(z: Array) -> Array:
        value, linear = jax.vmap(loss)(z, targets), slopes * z
        scale = jnp.abs(value) + size + jnp.sum(jnp.abs(linear) + jnp.abs(slopes * targets), axis=1)
        return jnp.any(used & (jnp.sum(linear, axis=1) + found > value + _slack(loss, value, scale)))

    return jnp.any(jnp.stack([above(z) for z in points]))


def contradicted(loss: Loss, outputs: Array, targets: Array, filled: Array) -> Array:
    """Whether points around the outputs (n, k) of some of the first `filled` samples refute a statement."""
    some = min(SAMPLED, outputs.shape[0])
    index = (jnp.arange(some) * jnp.maximum(filled, 1)) // some
    outputs, targets, k = outputs[index], targets[index], outputs.shape[1]
    ways = jnp.asarray(np.random.default_rng(0).normal(size=(len(REACH), k)) * REACH[:, None], outputs.dtype)

    def one(output: Array, target: Array) -> Array:
        unit = 1.0 + jnp.abs(output) + jnp.abs(target)
        middle = 0.5 * (output + target)
        points = jnp.concatenate([output + unit * ways, jnp.stack([target, middle, jnp.zeros_like(output)])])
        values, slopes = jax.vmap(jax.value_and_grad(loss), (0, None))(points, target)
        inside = jax.vmap(loss.inside, (0, None))(slopes, target)
        found, size = jax.vmap(loss.dual, (0, None))(inside, target)
        far = jnp.abs(points[:, None] - points)  # (p, q, k)
        spread = jnp.sum(jnp.abs(slopes) * (jnp.abs(points) + jnp.abs(target)), axis=1)
        scale = jnp.abs(values) + size + spread + jnp.sum(jnp.abs(slopes)[:, None] * far, axis=2).T

        def over(lines: Array) -> Array:  # (q, p), by how much the line of p is above the loss at q
            return jnp.any(lines > values[:, None] + _slack(loss, values[:, None], scale))

        tangent = values + jnp.einsum("qpk,pk->qp", points[:, None] - points, slopes)
        wrong = over(tangent) | over(points @ inside.T + found)
        wrong |= jnp.any(values < loss.floor - _slack(loss, values, jnp.abs(values)))
        more = 1.0 + _slack(loss, jnp.zeros(()), jnp.ones(()))
        wrong |= jnp.any(jnp.abs(slopes) > loss.steepness * more)
        if math.isfinite(loss.curvature):
            lengths = jnp.linalg.norm(slopes, axis=1), jnp.linalg.norm(points, axis=1)
            both, away = (each[:, None] + each for each in lengths)
            bent = jnp.linalg.norm(slopes[:, None] - slopes, axis=2)
            least = both + loss.curvature * (away + jnp.linalg.norm(target))
            wrong |= jnp.any(bent > loss.curvature * jnp.linalg.norm(far, axis=2) + (more - 1.0) * least)
        return wrong

    return jnp.any(jax.vmap(one)(outputs, targets)) & (filled > 0)


def _slack(loss: Loss, value: Array, scale: Array) -> Array:
    """What rounding may have done, and much more."""
    shift = abs(loss.floor) if math.isfinite(loss.floor) else 0.0
    return 1e4 * jnp.finfo(value.dtype).eps * (scale + shift)
