"""The least cumulative loss, from below and from above, whatever the solver did.

Above, it is the cumulative loss F of any parameters. Below, weak duality: for a convex loss every slope s_i
in the domain of the conjugate gives ``loss(z, y_i) ≥ <s_i, z> + dual(s_i, y_i)`` for all outputs z, so that
for all u with ||u|| ≤ B

    F(u) = Σ_i a_i loss(x_iᵀu, y_i) ≥ Σ_i a_i dual(s_i, y_i) − B ||Σ_i a_i x_i s_iᵀ||.

The slopes at a minimiser make the last norm zero. The ones that a solver ends with do not, quite: they are
corrected by the smallest change, in the metric of the room that each slope has, that makes the sum vanish,
and put back into the domain; what is left is charged. Nothing here trusts the solver, and every sum is
widened by what its roundings can have changed. Without the conjugate F is at least ``least · Σ_i a_i``, where
the loss states its infimum `least`; nothing else says that a loss is not negative. For squared losses on a
linear policy, see `Statistics.below`.

What a loss of one's own states is tried on the data of the game: that it is convex with the gradient that JAX
takes of it, that no value is below its `least`, that every slope of `inside` with its `dual` is a line below
it, and how steep and how curved it is. Each is an inequality between numbers of two points of the outputs, so
a few points a sample refute what is false there. That none is refuted proves nothing: the proofs are the
author's. Shipped losses are not tried.
"""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownLambdaType=false
# pyright: reportUnknownVariableType=false
# JAX and optax say little of the types of their trees.

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Float

from ..losses import SHIPPED, Loss, computes
from ..objectives import Batch, Losses, Samples, epsilon, tiny, triangle
from ..policies import Params, Policy

TURNS = 5
"""Slopes tried: those offered, and four corrections; after two or three nothing changes any more."""
LARGEST = 1500
"""Parameters up to which slopes that are tied to each other (cross-entropy) are corrected: it takes a
matrix of this size. Beyond, the slopes at the solution serve as they are, and the interval is wider."""
SAMPLED = 128
"""Samples for which all pairs of points are compared."""
REACH = np.concatenate([[0.0], np.logspace(-3, 3, 10)])
"""How far from an output the points are, in units of 1 + |output| + |target|."""


class Measured(NamedTuple):
    """What rounding can have done to one round: to its loss, to its gradient, and the size of its
    features."""

    loss: Array
    gradient: Array
    reach: Array
    """``Σ_s weight_s ||x_s||``."""
    squares: Array
    """``Σ_s weight_s ||x_s||²``."""
    samples: Array
    """How many numbers were added up for it."""


def slopes_at(loss: Loss, outputs: Float[Array, "n k"], targets: Float[Array, "n k"]) -> Float[Array, "n k"]:
    """The derivative of the loss by each sample's outputs."""
    return jax.vmap(jax.grad(loss))(outputs, targets)


def measure(policy: Policy, loss: Loss, params: Params, batch: Batch) -> Measured:
    """How far the computed loss and gradient of a round may be from the true ones, for a linear policy."""
    rows, eps = policy.design(batch.inputs), epsilon(batch.weights)
    outputs, small = rows @ params, math.sqrt(tiny(batch.weights))
    off = _off(rows, params)
    slopes = slopes_at(loss, outputs, batch.targets)
    count = batch.inputs.shape[0] + rows.shape[1] + 16
    values = jax.vmap(loss)(outputs, batch.targets)
    wrong = jnp.sum(batch.weights * (_wobble(loss, slopes, off) + count * eps * _size(loss, values)))
    wrong += vanished(count, batch.weights, outputs)
    lengths = jnp.linalg.norm(rows, axis=1) + math.sqrt(rows.shape[1]) * small
    # Near a kink the computed slope belongs to a point nearby: `wrong` pays for it, twice.
    bent = loss.curvature * off if math.isfinite(loss.curvature) else jnp.zeros_like(off)
    tilted = jnp.linalg.norm(bent, axis=1) + count * eps * jnp.linalg.norm(slopes, axis=1)
    tilted += 2 * math.sqrt(outputs.shape[1]) * small
    tilt, reach, squares = (jnp.sum(batch.weights * part) for part in (lengths * tilted, lengths, lengths**2))
    return Measured(
        loss=wrong,
        gradient=tilt + count * small,
        reach=reach,
        squares=squares,
        samples=jnp.asarray(batch.inputs.shape[0], wrong.dtype),
    )


def above(losses: Losses, params: Params) -> Array:
    """F at `params`, from above."""
    if not isinstance(losses, Samples):
        return losses.above(params)
    if losses.reader is not None:  # samples in files are never all in memory
        return jnp.full((), jnp.inf, params.dtype)
    loss, rows = losses.loss, losses.policy.design(losses.inputs)
    weights = jnp.where(losses.used, losses.weights, 0.0)
    outputs = rows @ params
    wobble = _wobble(loss, slopes_at(loss, outputs, losses.targets), _off(rows, params))
    count = losses.filled + rows.shape[1] + 16
    values, lost = jax.vmap(loss)(outputs, losses.targets), vanished(count, weights, outputs)
    lost += count * epsilon(outputs) * (jnp.sum(weights * (_size(loss, values) + wobble)) + lost)
    return jnp.sum(weights * (values + wobble)) + lost


def below(losses: Losses, params: Params, dual: Float[Array, "n k"] | None, norm: Array) -> Array:
    """A bound below on ``min F(u)`` over ||u|| ≤ `norm`, from a point near its minimiser.

    `dual` are slopes that the solver offers, of the whole objective (each times its sample's
    weight), or None. Infinite where the data refute what the loss states: from a contradiction follows
    everything, and an interval with its ends the wrong way round says so.
    """
    if not isinstance(losses, Samples):
        return losses.below(params, norm)
    loss, eps = losses.loss, epsilon(losses.weights)
    if losses.reader is not None:  # whose weights are in files
        return jnp.full((), -jnp.inf if loss.floor else 0.0, params.dtype)
    used, weights = losses.used, jnp.where(losses.used, losses.weights, 0.0)
    rows, targets = losses.policy.design(losses.inputs), losses.targets
    outputs = rows @ params
    slopes = slopes_at(loss, outputs, targets)
    count = losses.filled + rows.shape[1] + 16
    mass = jnp.linalg.norm(weights @ jnp.abs(rows))

    def value(slopes: Array, dual: Array, size: Array) -> Array:
        left = jnp.linalg.norm((rows * weights[:, None]).T @ slopes) + math.sqrt(params.size * tiny(weights))
        steepest = jnp.max(jnp.abs(slopes), initial=0.0, where=used[:, None])
        steepest = loss.steepness if math.isfinite(loss.steepness) else steepest
        lost = jnp.sum(weights * size) + norm * (left + mass * steepest * math.sqrt(slopes.shape[1]))
        value = jnp.sum(weights * dual) - norm * left - count * eps * lost
        return value - vanished(count, weights, slopes)

    if dual is not None:
        slopes = jnp.where(weights[:, None] > 0, dual / jnp.where(weights > 0, weights, 1.0)[:, None], 0.0)
    correct = _correction(losses, rows, weights)

    own = not computes(loss, *SHIPPED)

    def turn(_: int, state: tuple[Array, Array]) -> tuple[Array, Array]:
        slopes, best = state
        slopes = jax.vmap(loss.inside)(slopes, targets)
        new = value(slopes, *jax.vmap(loss.dual)(slopes, targets))
        if own:
            new = jnp.where(refuted(loss, slopes, outputs, targets, used), jnp.inf, new)
        # A value that is not a number is not larger.
        return slopes if correct is None else correct(slopes), jnp.where(new > best, new, best)

    least = jnp.full_like(norm, -jnp.inf)
    if math.isfinite(loss.floor):
        least = (loss.floor - count * eps * abs(loss.floor)) * jnp.sum(weights)
    if own:
        least = jnp.where(contradicted(loss, outputs, targets, losses.filled), jnp.inf, least)
    start = (slopes, least)
    return jax.lax.fori_loop(0, 1 if correct is None else TURNS, turn, start)[1]


def _correction(losses: Samples, rows: Array, weights: Array) -> Callable[[Array], Array] | None:
    """Slopes (n, k) to slopes whose weighted sum ``Σ a_i x_i s_iᵀ`` is zero, as nearly as their room allows.

    In a basis Z of the features that is orthonormal in the weights, however ill-conditioned the features
    are, the change is ``room_i Z_i Δ`` with ``(Σ a_i Z_iᵀ room_i Z_i) Δ = −Σ a_i Z_i s_i``.
    """
    loss, targets = losses.loss, losses.targets
    d, k = rows.shape[1], targets.shape[1]
    tied = loss.categorical and k > 1
    if tied and d * k > LARGEST:
        return None
    factor = triangle(jnp.zeros((d, d), rows.dtype), rows * jnp.sqrt(weights)[:, None])
    _, size, right = jnp.linalg.svd(factor)
    scale = jnp.where(size > d * epsilon(rows) * size[0], 1.0 / jnp.where(size > 0, size, 1.0), 0.0)
    basis = (rows @ right.T) * scale

    def solve(matrix: Array, right: Array) -> Array:
        ridge = 1e-14 * jnp.trace(matrix) + tiny(matrix)
        whole = matrix + ridge * jnp.eye(matrix.shape[0], dtype=matrix.dtype)
        return jax.scipy.linalg.cho_solve((jnp.linalg.cholesky(whole), True), right)

    def apart(slopes: Array) -> Array:
        room = jax.vmap(lambda s, y: jnp.diagonal(loss.room(s, y)))(slopes, targets)

        def column(slope: Array, free: Array) -> Array:
            moved = solve((basis * (weights * free)[:, None]).T @ basis, -basis.T @ (weights * slope))
            return slope + free * (basis @ moved)

        return jax.vmap(column, in_axes=1, out_axes=1)(slopes, room)

    def together(slopes: Array) -> Array:
        room = jax.vmap(loss.room)(slopes, targets)
        half = jnp.einsum("ni,nab->niab", basis, room * weights[:, None, None])
        matrix = jnp.einsum("niab,nj->iajb", half, basis).reshape(d * k, d * k)
        moved = solve(matrix, -((basis * weights[:, None]).T @ slopes).reshape(-1)).reshape(d, k)
        return slopes + jnp.einsum("nab,nb->na", room, basis @ moved)

    return together if tied else apart


def _off(rows: Array, params: Array) -> Array:
    """How far each computed output ``x @ params`` may be from the true one."""
    terms, sizes = rows.shape[1] + 2, jnp.abs(params)
    vanishing = terms * tiny(rows) * (1.0 + jnp.sum(sizes, axis=0))
    return terms * epsilon(rows) * (jnp.abs(rows) @ sizes) + vanishing


def vanished(count: int | Array, weights: Array, outputs: Array) -> Array:
    """What underflow can have taken from a sum of losses: numbers below `tiny` count as zero."""
    return count * tiny(weights) * (1.0 + outputs.shape[1] * jnp.sum(weights))


def _size(loss: Loss, values: Array) -> Array:
    """How large the numbers were of which a loss was computed: one that is shifted down may cancel."""
    return jnp.abs(values) + (abs(loss.floor) if math.isfinite(loss.floor) else 0.0)


def _wobble(loss: Loss, slopes: Array, off: Array) -> Array:
    """How much each sample's loss (n,) can change when its outputs are off by that much."""
    if not math.isfinite(loss.curvature):
        return loss.steepness * jnp.sum(off, axis=1)
    return jnp.sum(jnp.minimum(loss.steepness, jnp.abs(slopes) + loss.curvature * off) * off, axis=1)


def refuted(loss: Loss, slopes: Array, outputs: Array, targets: Array, used: Array) -> Array:
    """Whether a line ``<s, ·> + dual(s)`` of the slopes (n, k) is above the loss at the outputs (n, k), at
    the targets, at zero, or where a step from the outputs towards the line's own point leads.
    """
    dual, size = jax.vmap(loss.dual)(slopes, targets)
    points = [outputs, targets, jnp.zeros_like(outputs)]
    if 0 < loss.curvature < math.inf:
        points.append(outputs + (slopes - slopes_at(loss, outputs, targets)) / loss.curvature)

    def above(z: Array) -> Array:
        value, linear = jax.vmap(loss)(z, targets), slopes * z
        scale = jnp.abs(value) + size + jnp.sum(jnp.abs(linear) + jnp.abs(slopes * targets), axis=1)
        return jnp.any(used & (jnp.sum(linear, axis=1) + dual > value + _slack(loss, value, scale)))

    return jnp.any(jnp.stack([above(z) for z in points]))


def contradicted(loss: Loss, outputs: Array, targets: Array, filled: Array) -> Array:
    """Whether points around the outputs (n, k) of some of the first `filled` samples refute a statement."""
    some = min(SAMPLED, outputs.shape[0])
    index = (jnp.arange(some) * jnp.maximum(filled, 1)) // some
    outputs, targets, k = outputs[index], targets[index], outputs.shape[1]
    ways = jnp.asarray(np.random.default_rng(0).normal(size=(len(REACH), k)) * REACH[:, None], outputs.dtype)

    def contradicts(output: Float[Array, " k"], target: Float[Array, " k"]) -> Bool[Array, ""]:
        unit = 1.0 + jnp.abs(output) + jnp.abs(target)
        middle = 0.5 * (output + target)
        points = jnp.concatenate([output + unit * ways, jnp.stack([target, middle, jnp.zeros_like(output)])])
        values, slopes = jax.vmap(jax.value_and_grad(loss), (0, None))(points, target)
        inside = jax.vmap(loss.inside, (0, None))(slopes, target)
        dual, size = jax.vmap(loss.dual, (0, None))(inside, target)
        far = jnp.abs(points[:, None] - points)  # (p, q, k)
        spread = jnp.sum(jnp.abs(slopes) * (jnp.abs(points) + jnp.abs(target)), axis=1)
        scale = jnp.abs(values) + size + spread + jnp.sum(jnp.abs(slopes)[:, None] * far, axis=2).T

        def over(lines: Array) -> Array:  # (q, p), by how much the line of p is above the loss at q
            return jnp.any(lines > values[:, None] + _slack(loss, values[:, None], scale))

        tangent = values + jnp.einsum("qpk,pk->qp", points[:, None] - points, slopes)
        wrong = over(tangent) | over(points @ inside.T + dual)
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

    return jnp.any(jax.vmap(contradicts)(outputs, targets)) & (filled > 0)


def _slack(loss: Loss, value: Array, scale: Array) -> Array:
    """What rounding may have done, and much more."""
    shift = abs(loss.floor) if math.isfinite(loss.floor) else 0.0
    return 1e4 * epsilon(value) * (scale + shift)
