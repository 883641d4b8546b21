"""A true minimiser for absolute and Huber losses on linear policies."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

from ..losses import Huber
from ..objectives import Objective
from ..policies import Params
from .active_set import polish
from .base import Progress, Solution, Solver, Status
from .piecewise import Point, Problem, dual_residual, gap_of, next_point, piecewise, stiffness_of

TURNS = 4
"""Runs of the method at most: one, and where the nearest of many minimisers is asked for up to three more."""


class InteriorState(NamedTuple):
    progress: Progress
    problem: Problem
    point: Point
    status: Array  # (k,), how each column stands
    norm: Array  # (k,), its dual residual
    gap: Array  # (k,), its duality gap
    slow: Array  # (k,), whether the last step left more than half of the gap
    trust: Array  # (k,), how much of the second-order correction is taken
    goal: Array  # where the gap should end, in tolerances


class Found(NamedTuple):
    """The best so far of each column, and whether it is the nearest minimiser to the centre."""

    params: Array  # (d, k)
    dual: Array  # (n, k)
    norm: Array  # (k,)
    gap: Array
    status: Array
    nearest: Array


class InteriorPoint(Solver[InteriorState]):
    """Mehrotra's predictor-corrector interior-point method on the primal-dual pair.

    Each output column is a problem of its own: it takes its own step lengths and stays where it is once it is
    solved, since going on would only lose digits. One iteration costs one pass over the data and one Cholesky
    factor (d, d) per column. It ends when the dual residual and the duality gap of the mean objective are
    both within the tolerance; the residual it reports belongs to the optimal dual u, which is the subgradient
    that FTRL's bookkeeping needs.

    The absolute loss is then solved to the last digit (`active_set.polish`). Without a penalty it may have
    many minimisers, a polyhedron, and the method ends in the middle of it. Where the nearest to the centre is
    not found from there, a second run with a penalty that is small enough ends at it: below some size the
    minimiser of a polyhedral function with a penalty *is* the nearest of its minimisers.
    """

    _: KW_ONLY
    tolerance: float = 1e-10
    max_iterations: int = 100

    def init(self, objective: Objective, params: Params, key: Array) -> InteriorState:
        problem = piecewise(objective)
        return self._begin(problem, problem.inside(params), jnp.zeros((), jnp.int32), 1e-4)

    def _begin(self, problem: Problem, params: Array, count: Array, depth: float) -> InteriorState:
        error = problem.targets - problem.rows @ params
        start = 0.1 * jnp.mean(jnp.abs(error), axis=0, keepdims=True) + 1e-3
        zero = jnp.zeros_like(error)
        over, under = jnp.maximum(error, 0.0) + start, jnp.maximum(-error, 0.0) + start
        point = Point(params, zero, over, under, zero + problem.bound, zero + problem.bound)
        goal = jnp.asarray(depth, error.dtype)
        gradient, norm, gap, status = self._judge(problem, point, goal, Status.NOT_FINITE)
        progress = Progress(params, jnp.zeros((), norm.dtype), gradient, count, count + 1, _overall(status))
        return InteriorState(
            progress, problem, point, status, norm, gap, jnp.zeros_like(norm, bool), jnp.ones_like(norm), goal
        )

    def _judge(
        self, problem: Problem, point: Point, goal: Array, bad: Status
    ) -> tuple[Array, Array, Array, Array]:
        """Residual, its norm, the gap and the status of each column."""
        gradient = dual_residual(problem, point.params, point.dual)
        norm, gap = _norm(problem, gradient), gap_of(problem, point)
        # A last digit of the gap is worth two of the parameters: go a little further.
        small = (norm <= self._share(norm)) & (gap <= goal * self._share(gap))
        status = jnp.where(small, Status.CONVERGED, Status.RUNNING)
        return gradient, norm, gap, jnp.where(jnp.isfinite(gap) & jnp.isfinite(norm), status, bad)

    def _share(self, columns: Array) -> float:
        return self.tolerance / columns.shape[0]

    def step(self, objective: Objective, state: InteriorState) -> InteriorState:
        problem = state.problem
        point = next_point(problem, state.point, state.slow, state.trust)
        gradient, norm, gap, status = self._judge(problem, point, state.goal, Status.DIVERGED)
        # Where rounding ends the progress, keep the better point and say whether it is good enough.
        limit = self._share(norm)
        good = (state.norm <= limit) & (state.gap <= limit)
        close = (state.norm <= 1e-6) & (state.gap <= 1e-6)
        lost = jnp.maximum(norm, gap) > 10.0 * jnp.maximum(state.norm, state.gap)
        worse = good & ((norm > limit) | (gap > 0.5 * state.gap))
        # The gap can fall for ever; where it is small and the residual does not follow, that is rounding.
        stuck = (state.gap <= limit) & (state.norm > limit) & (norm > 0.5 * state.norm)
        worse |= (status == Status.DIVERGED) | (close & (lost | stuck))
        ended = jnp.where(good, Status.CONVERGED, jnp.where(close, Status.STALLED, Status.DIVERGED))
        running = state.status == Status.RUNNING
        old = (state.point, state.progress.gradient, state.norm, state.gap)
        kept = jax.tree.map(lambda a, b: jnp.where(running & ~worse, a, b), (point, gradient, norm, gap), old)
        slow = gap > 0.5 * state.gap
        trust = jnp.where(slow, 0.25 * state.trust, state.trust)
        status = jnp.where(running, jnp.where(worse, ended, status), state.status)
        point, gradient, norm, gap = kept
        count = state.progress.iterations + 1
        progress = Progress(point.params, state.progress.value, gradient, count, count + 1, _overall(status))
        return InteriorState(progress, problem, point, status, norm, gap, slow, trust, state.goal)

    def progress(self, state: InteriorState) -> Progress:
        return state.progress

    def __call__(self, objective: Objective, params: Params, key: Array | None = None) -> Solution:
        """Minimises `objective` from `params`; `key` is not read."""
        state = self.init(objective, params, key)  # type: ignore[arg-type]
        problem = state.problem
        found = _raw(state)

        def going(state: InteriorState) -> Array:
            return (state.progress.status == Status.RUNNING) & (
                state.progress.iterations < self.max_iterations
            )

        if isinstance(objective.losses.loss, Huber):  # no kinks: nothing to polish
            state = jax.lax.while_loop(going, lambda state: self.step(objective, state), state)
            return self._solution(objective, problem, _raw(state), state.progress)

        def again(carry: tuple[Array, InteriorState, Found]) -> Array:
            turn, _, found = carry
            many = ~found.nearest & (found.gap <= 1e-6) & jnp.all(problem.weight <= 0, axis=0)
            return (turn == 0) | ((turn < TURNS) & jnp.any(many & jnp.all(problem.curvature <= 0)))

        def solve(carry: tuple[Array, InteriorState, Found]) -> tuple[Array, InteriorState, Found]:
            turn, state, found = carry
            state = jax.lax.cond(turn == 0, lambda: state, lambda: self._second(problem, state, found))
            state = jax.lax.while_loop(going, lambda state: self.step(objective, state), state)
            return turn + 1, state, self._polished(problem, state, found, turn)

        _, state, found = jax.lax.while_loop(again, solve, (jnp.zeros((), jnp.int32), state, found))
        return self._solution(objective, problem, found, state.progress)

    def _polished(self, problem: Problem, state: InteriorState, old: Found, turn: Array) -> Found:
        """What is kept after a run: its polished end where that is a minimiser, else the end itself.

        After the second run the duals are still those of the first, which had no penalty.
        """
        first, point = turn == 0, state.point
        dual = jnp.where(first, point.dual, old.dual)
        stiffness = stiffness_of(problem, point)
        params, dual, fits, nearest = polish(problem, point.params, dual, stiffness)
        gradient = dual_residual(problem, params, dual)
        error = problem.targets - problem.rows @ params
        gap = jnp.sum(problem.used * (problem.bound * jnp.abs(error) - dual * error), axis=0)
        norm, limit = _norm(problem, gradient), self._share(gap)
        better = fits & (norm <= limit) & (gap <= limit) & (state.gap <= 1e-6)
        old = jax.tree.map(lambda a, b: jnp.where(first, a, b), _raw(state), old)
        ended = jnp.full_like(state.status, Status.CONVERGED)
        new = Found(params, dual, norm, gap, ended, nearest & better)
        take = better & (first | ~old.nearest)
        return jax.tree.map(lambda a, b: jnp.where(take, a, b), new, old)

    def _second(self, problem: Problem, state: InteriorState, found: Found) -> InteriorState:
        """The start of a run that ends at the nearest minimiser, for the columns that need it."""
        away = jnp.linalg.norm((state.point.params - problem.centre) / problem.scale**2, axis=0)
        each = problem.bound * jnp.linalg.norm(problem.rows, axis=1, keepdims=True)
        force = jnp.sum(problem.used * each, axis=0) / jnp.maximum(jnp.sum(problem.used), 1.0)
        small = 1e-4 * force / jnp.maximum(away, 1e-300)
        weak = problem._replace(weight=small / problem.scale**2)
        begun = self._begin(weak, problem.centre, state.progress.iterations, 1e-10)
        status = jnp.where(found.nearest, Status.CONVERGED, begun.status)
        return begun._replace(status=status, progress=begun.progress._replace(status=_overall(status)))

    def _solution(self, objective: Objective, problem: Problem, found: Found, done: Progress) -> Solution:
        """The solution in the parameters outside."""
        params = problem.outside(found.params)
        gradient = dual_residual(problem, found.params, found.dual)
        residual = problem.basis @ (problem.scale * gradient)
        status = _overall(found.status)
        # Where nothing is left of the gap, its rounding is.
        eps = jnp.finfo(params.dtype).eps
        rounding = eps * jnp.sum(problem.used * problem.bound * jnp.abs(problem.targets)) + 1e-300
        return Solution(
            params,
            jnp.where(status == Status.RUNNING, Status.ITERATION_CAP, status).astype(jnp.int32),
            objective.value(params),
            optax.tree.norm(residual),
            done.iterations,
            done.evaluations,
            residual,
            jnp.maximum(jnp.sum(found.gap), rounding),
            -found.dual,
        )


def _raw(state: InteriorState) -> Found:
    """The end of a run as it is."""
    point, no = state.point, jnp.zeros_like(state.norm, bool)
    return Found(point.params, point.dual, state.norm, state.gap, state.status, no)


def _norm(problem: Problem, gradient: Array) -> Array:
    """Of each column's residual, (k,), inside or outside, whichever is larger."""
    return jnp.maximum(jnp.linalg.norm(gradient, axis=0), jnp.linalg.norm(problem.scale * gradient, axis=0))


def _overall(status: Array) -> Array:
    """Running while any column runs; then the worst of their ends, which have the larger numbers."""
    running = jnp.any(status == Status.RUNNING)
    return jnp.where(running, Status.RUNNING, jnp.max(status)).astype(jnp.int32)


interior_point = InteriorPoint
