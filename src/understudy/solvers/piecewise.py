"""Absolute and Huber losses on linear policies, in the one form that their solvers read, and one step of
Mehrotra's predictor-corrector method towards the minimum.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from ..errors import UserError
from ..losses import Absolute, Huber, computes
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
    if not (isinstance(losses, Samples) and losses.policy.linear and computes(losses.loss, Absolute, Huber)):
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


class Point(NamedTuple):
    """W with the dual u in (−b, b) and the slacks of its two sides, all positive: r = κu + over − under.

    The room that u has, b − u and b + u, is carried along: computed from u it would round to zero near the
    end.
    """

    params: Array  # (d, k)
    dual: Array  # (n, k)
    over: Array
    under: Array
    above: Array
    below: Array


def gap_of(problem: Problem, point: Point) -> Array:
    """The duality gap of each column, (k,)."""
    return jnp.sum(problem.used * (point.over * point.above + point.under * point.below), axis=0)


def stiffness_of(problem: Problem, point: Point) -> Array:
    """The curvature of the smoothed loss at each sample, (n, k): without limit on a kink."""
    return 1.0 / (problem.curvature + point.over / point.above + point.under / point.below)


def next_point(problem: Problem, point: Point, slow: Array, trust: Array) -> Point:
    """The next point. Where the last step was slow, (k,), this one goes back to the middle first."""
    above, below = point.above, point.below
    samples = jnp.maximum(jnp.sum(problem.used), 1.0)
    residual = dual_residual(problem, point.params, point.dual)
    mismatch = (
        problem.targets
        - problem.rows @ point.params
        - problem.curvature * point.dual
        - point.over
        + point.under
    )
    stiffness = stiffness_of(problem, point)

    def factor(column: Array, weight: Array) -> Array:
        gram = problem.rows.T @ (problem.rows * column[:, None])
        # Fewer active samples than features leave the factor singular to rounding: a ridge, mended by
        # refinement.
        ridge = 1e-15 * gram.shape[0] * jnp.max(jnp.diagonal(gram)) + weight + 1e-300
        return jnp.linalg.cholesky(gram + jnp.diag(ridge))

    lower = jax.vmap(factor, in_axes=1)(stiffness, problem.weight)  # (k, d, d)
    solve = jax.vmap(lambda f, r: jax.scipy.linalg.cho_solve((f, True), r), in_axes=(0, 1), out_axes=1)

    def newton(upper_target: Array, lower_target: Array) -> tuple[Array, Array, Array, Array]:
        """Moves W, u and the slacks towards ``over·(b − u)`` and ``under·(b + u)`` changed by the targets."""
        pull = mismatch - upper_target / above + lower_target / below

        def refine(_: Array, move: Array) -> Array:
            turn = stiffness * (pull - problem.rows @ move)
            right = problem.rows.T @ turn - residual - problem.weight * move
            return move + solve(lower, right)

        move = jax.lax.fori_loop(0, 3, refine, jnp.zeros_like(point.params))
        turn = stiffness * (pull - problem.rows @ move)
        return (
            move,
            turn,
            (upper_target + point.over * turn) / above,
            (lower_target - point.under * turn) / below,
        )

    def reach(turn: Array, over: Array, under: Array) -> Array:
        """The longest step in (0, 1] per column that keeps everything positive."""
        room = [
            jnp.where(change < 0, -value / jnp.where(change < 0, change, -1.0), jnp.inf)
            for value, change in ((above, -turn), (below, turn), (point.over, over), (point.under, under))
        ]
        return jnp.min(jnp.stack([jnp.min(r, axis=0) for r in room]), axis=0)

    products = point.over * above, point.under * below
    gap = jnp.sum(problem.used * (products[0] + products[1]), axis=0)
    level = gap / (2 * samples)
    _, turn, over, under = newton(-products[0], -products[1])
    length = jnp.minimum(1.0, reach(turn, over, under))
    ahead = (point.over + length * over) * (above - length * turn)
    ahead += (point.under + length * under) * (below + length * turn)
    reached = jnp.sum(problem.used * ahead, axis=0) / (2 * samples)
    aim = level * (reached / jnp.maximum(level, 1e-300)) ** 3
    # The second-order correction is no descent: it can lead round in circles for ever, the gap growing
    # threefold and shrinking again (Cartis, 2009). After a step that did not halve the gap the next one is
    # plain Newton's towards the middle, which leaves a fifth if it can be taken whole, and later ones trust
    # the correction less.
    aim = jnp.where(slow, 0.2 * level, aim)
    trust = jnp.where(slow, 0.0, trust)
    move, turn, over, under = newton(
        aim - products[0] + trust * over * turn, aim - products[1] - trust * under * turn
    )
    # Near the end the full step, almost: the gap then falls with its square.
    length = jnp.minimum(1.0, (1.0 - jnp.minimum(0.005, gap)) * reach(turn, over, under))
    return Point(
        point.params + length * move,
        point.dual + length * turn,
        point.over + length * over,
        point.under + length * under,
        above - length * turn,
        below + length * turn,
    )
