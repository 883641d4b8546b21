"""A true minimiser for absolute and Huber losses on linear policies."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

from ..errors import UserError
from ..losses import Absolute, Huber
from ..objectives import Objective, Samples
from ..policies import Params
from .base import Progress, Solution, Solver, Status


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


class InteriorState(NamedTuple):
    progress: Progress
    point: Point
    gap: Array


class InteriorPoint(Solver[InteriorState]):
    """Mehrotra's predictor-corrector interior-point method on the primal-dual pair.

    Each output column is a problem of its own and takes its own step lengths. One iteration costs one pass
    over the data and one Cholesky factor (d, d) per column. It ends when the dual residual and the duality
    gap of the mean objective are both within the tolerance; the residual it reports belongs to the optimal
    dual u, which is the subgradient that FTRL's bookkeeping needs.
    """

    tolerance: float = 1e-10
    max_iterations: int = 100

    def init(self, objective: Objective, params: Params, key: Array) -> InteriorState:
        problem = _problem(objective)
        error = problem.targets - problem.rows @ params
        start = 0.1 * jnp.mean(jnp.abs(error), axis=0, keepdims=True) + 1e-3
        zero = jnp.zeros_like(error)
        over, under = jnp.maximum(error, 0.0) + start, jnp.maximum(-error, 0.0) + start
        point = Point(params, zero, over, under, zero + problem.bound, zero + problem.bound)
        return self._state(objective, problem, point, jnp.zeros((), jnp.int32), None)

    def _state(
        self,
        objective: Objective,
        problem: Problem,
        point: Point,
        iterations: Array,
        old: InteriorState | None,
    ) -> InteriorState:
        gradient = _dual_residual(problem, point)
        gap = _gap(problem, point)
        value = objective.value(point.params)
        norm = optax.tree.norm(gradient)
        finite = jnp.isfinite(value) & jnp.isfinite(gap) & jnp.isfinite(norm)
        # A last digit of the gap is worth two of the parameters, and an iteration gains two digits: go a
        # little further.
        small = (norm <= self.tolerance) & (gap <= 1e-4 * self.tolerance)
        bad = Status.NOT_FINITE if old is None else Status.DIVERGED
        status = jnp.where(finite, jnp.where(small, Status.CONVERGED, Status.RUNNING), bad).astype(jnp.int32)
        new = InteriorState(
            Progress(point.params, value, gradient, iterations, iterations + 1, status), point, gap
        )
        if old is None:
            return new
        # Where rounding ends the progress, keep the better point and say whether it is good enough.
        before = optax.tree.norm(old.progress.gradient)
        good = (before <= self.tolerance) & (old.gap <= self.tolerance)
        worse = ~finite | (good & ((norm > self.tolerance) | (gap > 0.5 * old.gap)))
        close = (before <= 1e-6) & (old.gap <= 1e-6)
        ended = jnp.where(good, Status.CONVERGED, jnp.where(close, Status.STALLED, bad))
        kept = jax.tree.map(lambda a, b: jnp.where(worse, b, a), new, old)
        status = jnp.where(worse, ended, status).astype(jnp.int32)
        return kept._replace(progress=kept.progress._replace(iterations=iterations, status=status))

    def step(self, objective: Objective, state: InteriorState) -> InteriorState:
        problem = _problem(objective)
        point = _step(problem, state.point)
        return self._state(objective, problem, point, state.progress.iterations + 1, state)

    def progress(self, state: InteriorState) -> Progress:
        return state.progress

    def finish(self, objective: Objective, state: InteriorState) -> Solution:
        done = state.progress
        return Solution(
            done.params,
            done.status,
            done.value,
            optax.tree.norm(done.gradient),
            done.iterations,
            done.evaluations,
            done.gradient,
            state.gap,
        )


def _problem(objective: Objective) -> Problem:
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


def _dual_residual(problem: Problem, point: Point) -> Array:
    pull = problem.weight * (point.params - problem.centre) - problem.tilt
    return pull - problem.rows.T @ point.dual


def _gap(problem: Problem, point: Point) -> Array:
    upper = jnp.sum(problem.used * point.over * point.above)
    return upper + jnp.sum(problem.used * point.under * point.below)


def _step(problem: Problem, point: Point) -> Point:
    above, below = point.above, point.below
    samples = jnp.maximum(jnp.sum(problem.used), 1.0)
    dual_residual = _dual_residual(problem, point)
    mismatch = (
        problem.targets
        - problem.rows @ point.params
        - problem.curvature * point.dual
        - point.over
        + point.under
    )
    stiffness = 1.0 / (problem.curvature + point.over / above + point.under / below)

    def factor(column: Array) -> Array:
        gram = problem.rows.T @ (problem.rows * column[:, None])
        # Fewer active samples than features leave the factor singular to rounding: a ridge, mended by
        # refinement.
        ridge = 1e-15 * gram.shape[0] * jnp.max(jnp.diagonal(gram)) + problem.weight + 1e-300
        return jnp.linalg.cholesky(gram + ridge * jnp.eye(gram.shape[0], dtype=gram.dtype))

    lower = jax.vmap(factor, in_axes=1)(stiffness)  # (k, d, d)
    solve = jax.vmap(lambda f, r: jax.scipy.linalg.cho_solve((f, True), r), in_axes=(0, 1), out_axes=1)

    def newton(upper_target: Array, lower_target: Array) -> tuple[Array, Array, Array, Array]:
        """Moves W, u and the slacks towards ``over·(b − u)`` and ``under·(b + u)`` changed by the targets."""
        pull = mismatch - upper_target / above + lower_target / below
        move = jnp.zeros_like(point.params)
        for _ in range(3):
            turn = stiffness * (pull - problem.rows @ move)
            right = problem.rows.T @ turn - dual_residual - problem.weight * move
            move = move + solve(lower, right)
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
    level = jnp.sum(problem.used * (products[0] + products[1]), axis=0) / (2 * samples)
    _, turn, over, under = newton(-products[0], -products[1])
    length = jnp.minimum(1.0, reach(turn, over, under))
    ahead = (point.over + length * over) * (above - length * turn)
    ahead += (point.under + length * under) * (below + length * turn)
    reached = jnp.sum(problem.used * ahead, axis=0) / (2 * samples)
    aim = level * (reached / jnp.maximum(level, 1e-300)) ** 3
    move, turn, over, under = newton(aim - products[0] + over * turn, aim - products[1] - under * turn)
    length = jnp.minimum(1.0, 0.995 * reach(turn, over, under))
    return Point(
        point.params + length * move,
        point.dual + length * turn,
        point.over + length * over,
        point.under + length * under,
        above - length * turn,
        below + length * turn,
    )


def interior_point(*, tolerance: float = 1e-10, max_iterations: int = 100) -> InteriorPoint:
    """Primal-dual interior-point method for absolute and Huber losses on linear policies."""
    return InteriorPoint(tolerance=tolerance, max_iterations=max_iterations)
