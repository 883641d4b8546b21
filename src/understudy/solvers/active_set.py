"""From a point close to the minimiser of an absolute loss to the minimiser itself."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from .piecewise import Problem

PASSES = 3
COLUMNS: Any = Problem._make((None, -1, None, -1, None, -1, -1, -1, None, None))
"""Where the parts of a problem have their columns: targets, bound, centre, tilt and weight."""
LEAN = 1e-6
"""How much of a kink's room the pull towards the centre takes in the test for the nearest minimiser."""


def polish(
    problem: Problem, params: Array, dual: Array, stiffness: Array
) -> tuple[Array, Array, Array, Array]:
    """Minimisers and duals of the columns, which of them, (k,), fit the conditions of a minimiser, and which,
    (k,), those of the nearest to the centre as well.

    A minimiser of ``Σ b|y − xᵀv| − <v − c, tilt> + ½ Σ λ (v − c)²`` answers some samples exactly. Given
    which, and on which side the others are, it solves linear equations,

        λ(v − c) − tilt = Σ u x,    xᵀv = y for the samples on the kink,    u = ±b for the others,

    and without a penalty it is the nearest such point to c. Each pass solves them and moves the samples that
    contradict: ``u/b + r/scale`` is within ±1 for those on the kink and gives the side of the others (a
    semi-smooth Newton step). An interior point is off by the root of its gap where a sample is all but on
    the kink, and by rounding over nothing where the penalty and the data leave a direction free; this is not.

    Without a penalty the duals are those of the interior point, corrected. Where there are several
    minimisers the nearest may lie on kinks that bear nothing, u = ±b; there v − c = Σ p x, and p must pull u
    inwards, as a vanishing penalty would: that is what sets the nearest apart.

    The equations of equal samples depend on each other. A diagonal of rounding's size makes them solvable,
    and refinement against the true ones takes its effect out again.
    """
    if not problem.bound.shape[0]:
        none = jnp.zeros(params.shape[1], bool)
        return params, dual, none, none
    smooth = jnp.any(problem.curvature > 0)
    error = problem.targets - problem.rows @ params
    count = jnp.maximum(jnp.sum(problem.used), 1.0)
    size = jnp.abs(problem.targets) + jnp.abs(problem.rows @ problem.centre)
    size = jnp.sum(problem.used * size, axis=0) / count + 1e-30
    scale = jnp.sum(problem.used * jnp.abs(error), axis=0) / count + 1e-6 * size
    place = jnp.where(stiffness * scale > problem.bound, 0.0, 2.0 * jnp.sign(error))
    columns = jax.vmap(_pass, in_axes=(COLUMNS, -1, -1, -1, -1, -1), out_axes=-1)

    def going(state: tuple[Array, Pass]) -> Array:
        return (state[0] < PASSES) & ~jnp.all(state[1].fits & state[1].nearest)

    def once(state: tuple[Array, Pass]) -> tuple[Array, Pass]:
        turn, best = state
        new = columns(problem, best.place, dual, stiffness, size, scale)
        better = ~(best.fits & best.nearest) & (new.fits >= best.fits)
        kept = jax.tree.map(lambda a, b: jnp.where(better, a, b), new, best)
        return turn + 1, kept._replace(place=new.place)

    none = jnp.zeros(params.shape[1], bool)
    start = jnp.zeros((), jnp.int32), Pass(place, params, dual, none | smooth, none | smooth)
    _, best = jax.lax.while_loop(going, once, start)
    return best.params, best.dual, best.fits & ~smooth, best.fits & best.nearest & ~smooth


class Pass(NamedTuple):
    """What a pass found of each column: where its samples lie, a point and its dual, and what they fit."""

    place: Array
    params: Array
    dual: Array
    fits: Array
    nearest: Array


def _pass(problem: Problem, place: Array, dual: Array, stiffness: Array, size: Array, scale: Array) -> Pass:
    """One pass over one column."""
    rows, used, targets, bound = problem.rows, problem.used[:, 0] > 0, problem.targets, problem.bound
    centre, tilt, weight = problem.centre, problem.tilt, problem.weight
    features, most = rows.shape[1], min(rows.shape[0], 2 * rows.shape[1] + 2)
    eps = jnp.finfo(targets.dtype).eps
    near = 1e4 * eps
    heavy = jnp.any(weight > 0)
    # Distances are those of the parameters outside, in units of the least.
    metric = jnp.min(problem.scale) ** 2 / problem.scale[:, 0] ** 2
    penalty = jnp.where(heavy, weight, metric)

    kink = (jnp.abs(place) <= 1.0) & used
    value, index = jax.lax.top_k(jnp.where(kink, stiffness, 0.0), most)
    taken = jnp.where(value > 0, 1.0, 0.0)
    chosen = jnp.zeros_like(kink).at[index].set(value > 0)
    held = jnp.where(used, jnp.where(kink, dual, jnp.clip(place, -1.0, 1.0) * bound), 0.0)
    push = tilt + rows.T @ held
    few = rows[index] * taken[:, None]
    tiny = 64 * eps * (1.0 + jnp.max(jnp.sum(few**2, axis=1))) / jnp.max(penalty)
    whole = jnp.block([[jnp.diag(penalty), -few.T], [few, jnp.diag(1.0 - taken)]])
    firm = whole + jnp.diag(jnp.concatenate([jnp.zeros_like(penalty), tiny * taken]))
    # Without a penalty the second right side gives the duals: the part of the push that the kinks bear.
    first = jnp.concatenate([penalty * centre + jnp.where(heavy, push, 0.0), targets[index] * taken])
    second = jnp.concatenate([push, jnp.zeros_like(taken)])
    right = jnp.stack([first, second], axis=1)
    factor = jax.scipy.linalg.lu_factor(firm)

    def refine(_: Array, found: Array) -> Array:
        return found + jax.scipy.linalg.lu_solve(factor, right - whole @ found)

    found = jax.lax.fori_loop(0, 3, refine, jnp.zeros_like(right))
    params, pull = found[:features, 0], found[features:, 0] * taken
    turned = held.at[index].add(jnp.where(heavy, pull, -found[features:, 1] * taken))
    error = jnp.where(chosen, 0.0, targets - rows @ params)
    answered = jnp.abs(targets - rows @ params) <= near * size
    sided = jnp.where(kink, answered, error * jnp.sign(held) >= -near * size)
    within = jnp.abs(turned) <= bound * (1.0 + near)
    fits = jnp.all((sided & within) | ~used) & jnp.all(jnp.isfinite(params))
    most_pull = jnp.max(jnp.abs(pull) / bound[index]) + 1e-300
    leaning = turned.at[index].add(jnp.where(heavy, 0.0, LEAN * pull / most_pull))
    nearest = jnp.all((jnp.abs(leaning) <= bound * (1.0 + 1e-3 * LEAN)) | ~used)
    return Pass(leaning / bound + error / scale, params, jnp.clip(turned, -bound, bound), fits, nearest)
