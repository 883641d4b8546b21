"""From a point close to the minimiser of an absolute loss to the minimiser itself."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from .piecewise import Problem

PASSES = 3


def polish(problem: Problem, params: Array, dual: Array, stiffness: Array) -> tuple[Array, Array, Array]:
    """Minimisers and duals of the columns, and which of them, (k,), fit the conditions of a minimiser.

    A minimiser of ``Σ b|y − xᵀw| − <w − c, tilt> + λ/2 ||w − c||²`` answers some samples exactly. Given
    which, and on which side the others are, it solves linear equations,

        λ(w − c) − tilt = Σ u x,    xᵀw = y for the samples on the kink,    u = ±b for the others,

    and without a penalty it is the nearest such w to c. Each pass solves them and moves the samples that
    contradict: ``u/b + r/scale`` is within ±1 for those on the kink and tells the side of the others (a
    semi-smooth Newton step). An interior point is off by the root of its gap where a sample is all but on
    the kink, and by rounding over nothing where the penalty and the data leave a direction free; this is not.
    Of more samples on the kink than features the stiffest are taken, and the others keep their dual.
    """
    if not problem.bound.shape[0]:
        return params, dual, jnp.zeros(params.shape[1], bool)
    smooth = jnp.any(problem.curvature > 0)
    columns = jax.vmap(lambda *parts: _column(problem, *parts), in_axes=1, out_axes=(1, 1, 0))
    found, turned, fits = columns(problem.targets, params, dual, stiffness, problem.centre, problem.tilt)
    return found, turned, fits & ~smooth


def _column(
    problem: Problem, targets: Array, start: Array, dual: Array, stiffness: Array, centre: Array, tilt: Array
) -> tuple[Array, Array, Array]:
    rows, bound, used = problem.rows, problem.bound[:, 0], problem.used[:, 0] > 0
    features, most = rows.shape[1], min(rows.shape)
    near = 1e4 * jnp.finfo(targets.dtype).eps
    error = targets - rows @ start
    count = jnp.maximum(jnp.sum(used), 1)
    size = jnp.sum(jnp.abs(targets), where=used) / count + 1e-30
    scale = jnp.sum(jnp.abs(error), where=used) / count + 1e-6 * size
    heavy = problem.weight > 0
    penalty = jnp.where(heavy, problem.weight, 1.0)

    def once(place: Array) -> tuple[Array, Array, Array, Array]:
        kink = (jnp.abs(place) <= 1.0) & used
        value, index = jax.lax.top_k(jnp.where(kink, stiffness, 0.0), most)
        taken = jnp.where(value > 0, 1.0, 0.0)
        chosen = jnp.zeros_like(kink).at[index].set(value > 0)
        held = jnp.where(chosen | ~used, 0.0, jnp.where(kink, dual, jnp.clip(place, -1.0, 1.0) * bound))
        push = tilt + rows.T @ held
        few = rows[index] * taken[:, None]
        whole = jnp.block([[penalty * jnp.eye(features), -few.T], [few, jnp.diag(1.0 - taken)]])
        # Without a penalty the second right side gives the duals: the part of the push that the kinks bear.
        first = jnp.concatenate([penalty * centre + jnp.where(heavy, push, 0.0), targets[index] * taken])
        second = jnp.concatenate([push, jnp.zeros_like(taken)])
        right = jnp.stack([first, second], axis=1)
        factor = jax.scipy.linalg.lu_factor(whole)
        found = jax.scipy.linalg.lu_solve(factor, right)
        found = found + jax.scipy.linalg.lu_solve(factor, right - whole @ found)
        params = found[:features, 0]
        borne = jnp.where(heavy, found[features:, 0], -found[features:, 1])
        turned = held.at[index].add(borne * taken)
        error = jnp.where(chosen, 0.0, targets - rows @ params)
        sided = jnp.where(kink, jnp.abs(error) <= near * size, error * jnp.sign(held) >= -near * size)
        within = jnp.abs(turned) <= bound * (1.0 + near)
        fits = jnp.all((sided & within) | ~used) & jnp.all(jnp.isfinite(params))
        return turned / bound + error / scale, params, jnp.clip(turned, -bound, bound), fits

    best = once(jnp.where(stiffness * scale > bound, 0.0, 2.0 * jnp.sign(error)))
    for _ in range(PASSES - 1):
        best = jax.tree.map(lambda new, old, fits=best[3]: jnp.where(fits, old, new), once(best[0]), best)
    return best[1:]
