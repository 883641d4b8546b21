"""A solver on an L2 ball: the multiplier of the constraint is one more weight."""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownLambdaType=false
# pyright: reportUnknownVariableType=false, reportMissingTypeStubs=false
# JAX and optax say little of the types of their trees.

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from jax.flatten_util import ravel_pytree

from ..objectives import Objective, epsilon, tiny
from ..policies import Params
from .base import AnySolver, Solution, Status, draws, solve_traced_once, zeros_of

NEWTON_TURNS = 60
"""Turns of the search for the weighted projection's multiplier; ten are enough, a bisection needs them
all."""


Number = Array | np.ndarray | float


class Bracket(NamedTuple):
    """What the search knows after some solves; the first is without a constraint, the second at `high`."""

    solution: Solution
    low: Array
    high: Array
    low_error: Array
    high_error: Array
    multiplier: Array
    iterations: Array
    evaluations: Array
    solves: Array


class InBall(eqx.Module):
    """Minimises over ``||w|| ≤ radius``: where the constraint is active, ``J + ν/2t ||w||²`` for the right ν.

    The Lagrangian is an objective of the same form, so every solver works unchanged. ``1/||w(ν)|| −
    1/radius`` rises with ν and is close to a straight line; its root is bracketed in (0, ||∇F(0)||/radius]
    and found by regula falsi (Illinois). The residual is that of the Lagrangian. Convex objectives only.

    All solves are turns of one loop, the first with ν = 0: the solver is compiled once.
    """

    solver: AnySolver
    radius: Number
    max_turns: int = 100

    @property
    def minibatch(self) -> bool:
        return draws(self.solver)

    @property
    def measure(self) -> bool:
        return getattr(self.solver, "measure", True)

    def __call__(self, objective: Objective, params: Params, key: Array | None = None) -> Solution:
        push = objective.rounds * optax.tree.norm(objective.gradient(optax.tree.zeros_like(params)))
        zero = jnp.zeros_like(push)
        # There the minimiser lies inside, by monotonicity of the gradient; at 0 it lies outside (or nowhere).
        high = jnp.maximum(push / self.radius, tiny(push))
        close = 64 * epsilon(push)
        near = project(params, self.radius)

        def solve(multiplier: Array, start: Params) -> Solution:
            return solve_traced_once(self.solver, objective.within(multiplier), start, key)

        def going(b: Bracket) -> Array:
            size = optax.tree.norm(b.solution.params)
            inside = jnp.isfinite(b.solution.value) & (size <= self.radius)
            miss = jnp.abs(size / self.radius - 1.0)
            wide = (miss > close) & (b.solves < self.max_turns + 2) & (b.high - b.low > close * b.high)
            return jnp.where(b.solves <= 1, (b.solves == 0) | ~inside, wide)

        def turn(b: Bracket) -> Bracket:
            free, end = b.solves == 0, b.solves == 1
            share = b.low_error / (b.low_error - b.high_error)
            share = jnp.clip(jnp.where(jnp.isfinite(share), share, 0.5), 1e-3, 0.999)
            middle = jnp.where(free, zero, jnp.where(end, high, b.low + (b.high - b.low) * share))
            ahead = project(b.solution.params, self.radius)
            ahead = jax.tree.map(lambda p, a: jnp.where(end, p, a), near, ahead)
            solution = solve(middle, jax.tree.map(lambda w, a: jnp.where(free, w, a), params, ahead))
            error = self._error(solution)
            outside = (error < 0) & ~end | free
            # Illinois: an end that stays put twice has its error halved, so that both ends move.
            return Bracket(
                solution=solution,
                low=jnp.where(outside, middle, b.low),
                high=jnp.where(outside, b.high, middle),
                low_error=jnp.where(outside, error, jnp.where(end, b.low_error, 0.5 * b.low_error)),
                high_error=jnp.where(outside, 0.5 * b.high_error, error),
                multiplier=middle,
                iterations=b.iterations + solution.iterations,
                evaluations=b.evaluations + solution.evaluations,
                solves=b.solves + 1,
            )

        none = jnp.zeros((), jnp.int32)
        first = Bracket(zeros_of(solve, zero, params), zero, high, zero, zero, zero, none, none, none)
        last = jax.lax.while_loop(going, turn, first)
        free, bound = lambda: self._free(last.solution), lambda: self._bound(objective, last, close)
        return jax.lax.cond(last.solves == 1, free, bound)

    def _error(self, solution: Solution) -> Array:
        """Negative outside the ball, positive inside."""
        return 1.0 / jnp.maximum(optax.tree.norm(solution.params), 1e-300) - 1.0 / self.radius

    def _free(self, solution: Solution) -> Solution:
        """The solution without a constraint; where only infinity is better, the ball's minimiser is this."""
        status = jnp.where(solution.status == Status.NO_MINIMISER, Status.CONVERGED, solution.status)
        return eqx.tree_at(lambda s: s.status, solution, status.astype(jnp.int32))

    def _bound(self, objective: Objective, last: Bracket, close: float) -> Solution:
        """The solution on the sphere."""
        solution, full = last.solution, last.solves >= self.max_turns + 2
        params = project(solution.params, self.radius)
        value = objective.value(params)
        # An inexact solver may end inside: there the constraint pulls at nothing, and its multiplier is 0.
        multiplier = jnp.where(optax.tree.norm(params) >= self.radius * (1 - close), last.multiplier, 0.0)
        residual = objective.within(multiplier).gradient(params)
        # A solver with duals knows the optimal subgradient, which the gradient formula does not.
        residual = jax.tree.map(lambda a, b: jnp.where(solution.gap == 0, a, b), residual, solution.residual)
        return Solution(
            params=params,
            status=jnp.where(full, Status.ITERATION_CAP, solution.status).astype(jnp.int32),
            value=value,
            grad_norm=optax.tree.norm(residual),
            iterations=last.iterations,
            evaluations=last.evaluations,
            residual=residual,
            gap=solution.gap,
            dual=solution.dual,
        )


def project(params: Params, radius: Number | None, weight: Params | None = None) -> Params:
    """The nearest point of the ball ``||w|| ≤ radius``; all of space when the radius is None.

    With a `weight` Λ, a pytree like the parameters with Λ_j ≥ 0, nearest in the norm Σ_j Λ_j (w_j − z_j)²:
    then ``w_j = Λ_j z_j / (Λ_j + ν)`` with the ν ≥ 0 that puts w on the sphere. Coordinates without weight
    are as near to where they were as the others leave room for.

    >>> near = project(jnp.array([2.0, 2.0]), 2.0, jnp.array([100.0, 1.0]))
    >>> [round(float(number), 2) for number in near]  # the heavy coordinate hardly moves
    [1.94, 0.49]
    """
    if radius is None:
        return params
    if weight is not None:
        params = _weighted(params, radius, weight)
    size = optax.tree.norm(params)
    return optax.tree.scale(jnp.where(size > radius, radius / jnp.maximum(size, 1e-300), 1.0), params)


def _weighted(params: Params, radius: Number, weight: Params) -> Params:
    """The projection in the norm of the weights, to rounding; the multiplier by a safeguarded Newton search.

    ``1/||w(ν)||`` is concave and close to a straight line in ν, so Newton's steps from the left end of the
    bracket, [min Λ, max Λ]·(||z||/radius − 1), never overshoot; a step that rounding takes out of the bracket
    is replaced by its middle.
    """
    z, back = ravel_pytree(params)
    heavy, _ = ravel_pytree(weight)
    held = heavy > 0
    outside = jnp.linalg.norm(z) > radius
    excess = jnp.maximum(jnp.linalg.norm(jnp.where(held, z, 0.0)) / radius - 1.0, 0.0)
    low = jnp.min(jnp.where(held, heavy, jnp.inf), initial=jnp.inf) * excess
    high = jnp.max(heavy, initial=0.0) * excess
    low = jnp.where(jnp.isfinite(low), jnp.minimum(low, high), 0.0)

    def at(nu: Array) -> Array:
        return jnp.where(held, heavy * z / jnp.where(held, heavy + nu, 1.0), 0.0)

    def turn(_: int, state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        nu, low, high = state
        w = at(nu)
        size = jnp.maximum(jnp.linalg.norm(w), 1e-300)
        low, high = jnp.where(size > radius, nu, low), jnp.where(size > radius, high, nu)
        # d||w||/dν = −Σ w²/(Λ + ν) / ||w||
        fall = jnp.sum(jnp.where(held, w**2 / jnp.where(held, heavy + nu, 1.0), 0.0)) / size
        new = nu + (size / radius - 1.0) * size / jnp.maximum(fall, 1e-300)
        return jnp.where((new >= low) & (new <= high), new, 0.5 * (low + high)), low, high

    nu, _, _ = jax.lax.fori_loop(0, NEWTON_TURNS, turn, (low, low, high))
    w = at(nu)
    room = jnp.where(excess > 0, 0.0, jnp.sqrt(jnp.maximum(radius**2 - jnp.sum(w**2), 0.0)))
    free = jnp.where(held, 0.0, z)
    size = jnp.linalg.norm(free)
    w = w + free * jnp.where(size > room, room / jnp.maximum(size, 1e-300), 1.0)
    return back(jnp.where(outside, w, z))
