"""Learners: from the losses so far to the next parameters.

The algebra: every learner of the paper is a surrogate, a schedule and a centre. The functions at the end read
like the paper's table.
"""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownLambdaType=false
# pyright: reportUnknownVariableType=false, reportMissingTypeStubs=false
# JAX and optax say little of the types of their trees.

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from jax.core import Tracer

from .errors import ContractError, UserError, calling, check_int, check_name, name_of
from .objectives import Losses, Objective, plain, zeros
from .policies import Params
from .registry import Registry
from .solvers import Solution, Status, project
from .solvers.base import by_formula

Tree = TypeVar("Tree")
"""A pytree: one array, or arrays in containers."""
Number = Array | np.ndarray | float
Solve = Callable[[Objective, Params], Solution]

LEAST_RADIUS = 1e-140
"""The smallest radius of a ball. Norms and bounds square it, and to a float the square of less loses digits
(from 1e-146 on) or is zero: a point outside would count as inside, and a bound would miss its last term."""


def _part_of_weight(value: Number) -> Array | np.ndarray:
    """A part of Λ_t as an array: numbers would select a program of their own."""
    return value if isinstance(value, Array) else positive("schedule", value, zero=True)


def _radius(value: Number | None) -> Array | np.ndarray | None:
    """A radius as an array, None where there is no domain, or one sentence."""
    return value if value is None or isinstance(value, (Array, np.ndarray)) else positive("radius", value)


def _first_round(value: Number | None) -> Array | np.ndarray | None:
    """A round's number as an array, None where it was not given, or one sentence."""
    if value is None or isinstance(value, (Array, np.ndarray)):
        return value
    check_int("start", value)
    return np.asarray(min(int(value), 2**31 - 1), np.int32)


class Schedule(eqx.Module):
    """``Λ_t = constant + root·√n + adaptive·√(Σ ||g_i||²)``; n and the sum count rounds from `start` on.

    A `start` of None is one that was not given: round 1, or what a run decides for its policy.

    One of the three is positive, or none (FTL). All are numbers, so that learners and step sizes can share
    one compiled program. The first gradients may be zero: nothing here divides by Λ.
    """

    constant: Number = eqx.field(converter=_part_of_weight, default=0.0)
    root: Number = eqx.field(converter=_part_of_weight, default=0.0)
    adaptive: Number = eqx.field(converter=_part_of_weight, default=0.0)
    start: Number | None = eqx.field(converter=_first_round, default=None)

    @property
    def zero(self) -> bool:
        """Whether Λ_t = 0 in every round, as for FTL, and that is known: arguments of a program are not."""
        numbers = (self.constant, self.root, self.adaptive)
        return not any(isinstance(number, Array) or np.any(number) for number in numbers)

    @property
    def first(self) -> Number:
        """The first round that counts."""
        return 1 if self.start is None else self.start

    def weight(self, t: Array, squares: Tree) -> Tree:
        """Λ_t after t rounds, shaped as `squares` (a number, or a pytree of squared gradients)."""

        def weigh(square: Array) -> Array:
            rounds = jnp.maximum(t - self.first + 1, 0).astype(square.dtype)
            total = self.root * jnp.sqrt(rounds) + self.adaptive * jnp.sqrt(square)
            return jnp.where(t >= self.first, self.constant + total, jnp.zeros_like(square))

        return jax.tree.map(weigh, squares)


def positive(field: str, value: Number, *, zero: bool = False) -> np.ndarray:
    """`value` as a float64 number greater than zero (or zero, where allowed), or one sentence."""
    number = np.asarray(np.nan)
    with contextlib.suppress(TypeError, ValueError):
        number = np.asarray(value, dtype=np.float64)
    # One that is smaller than `tiny` counts as zero, and has no inverse.
    good = number >= 0 if zero else number >= np.finfo(np.float64).tiny
    if number.ndim or isinstance(value, (bool, str)) or not (np.isfinite(number) and good):
        raise UserError(
            f"{field}: {value!r} is not a {'finite number ≥ 0' if zero else 'positive finite number'}."
        )
    return number


SCHEDULES = {"constant": "constant", "sqrt": "root", "adaptive": "adaptive"}


def schedule(kind: str | Schedule, step: Number, *, field: str = "eta", start: int | None = None) -> Schedule:
    """A schedule by name: `constant` η_t = η, `sqrt` η_t = η/√t, `adaptive` η_t = η/√(Σ_{i≤t} ||g_i||²).

    >>> float(schedule("sqrt", 0.5).weight(jnp.asarray(4), jnp.asarray(0.0)))
    4.0
    """
    if isinstance(kind, Schedule):
        if start is not None:
            raise UserError(f"start: {start!r} does not go with a Schedule, which has a start of its own.")
        return kind
    check_name("schedule", kind, SCHEDULES)
    return Schedule(**{SCHEDULES[kind]: 1.0 / positive(field, step)}, start=start)


_schedule = schedule  # where an argument has its name


def theorem(*, smoothness: float, interpolation: float) -> Schedule:
    """The schedule of the paper's FTRL theorem: constant ``η = min{(Σε_t²)^(−1/2), 1/(2L)}``.

    `smoothness` is L and `interpolation` is Σ ε_t², which is known in hindsight only: for replays.

    >>> float(theorem(smoothness=2.0, interpolation=25.0).constant)
    5.0
    """
    if isinstance(interpolation, str) or not 0 <= interpolation < np.inf:
        raise UserError(f"interpolation: {interpolation!r} is not a finite number ≥ 0.")
    weight = max(float(np.sqrt(interpolation)), 2.0 * float(positive("smoothness", smoothness)))
    return Schedule(weight, start=1)


class LearnerState(NamedTuple):
    """What a learner carries from round to round: its size does not depend on the round."""

    params: Params
    """w_t, the parameters to play next."""
    centre: Params
    """c_t, the weighted mean of the iterates played so far."""
    gradients: Params
    """Σ g_i of the rounds so far (linearised learners around a mean centre)."""
    squares: Params
    """Σ g_i² where the schedule counts them: a number, or a pytree for diagonal AdaGrad."""
    weight: Params
    """Λ_t = 1/η_t = Σ σ_i, a number or a pytree."""
    residual: Params
    """r_t, the gradient of the naive FTRL objective left at w_t by inexact solves."""
    round: Array


class Playable(Protocol):
    """The state of a learner: a pytree that holds the parameters to play."""

    @property
    def params(self) -> Params: ...


@runtime_checkable
class AnyLearner(Protocol):
    """What a learner must be: pure functions over pytrees, to be run under jit. ``state.params`` are the
    parameters to play; `update` returns (state, solution), with what `solve` returned or, where it solved
    nothing, None.
    """

    def init(self, params: Params) -> Playable: ...

    def update(
        self, state: Any, losses: Losses, gradient: Params, solve: Solve
    ) -> tuple[Playable, Solution | None]: ...


class Learner(eqx.Module):
    """One learner of the family. In round t, with ``g_t = ∇l_t(w_t)`` and Λ_t from the schedule, it solves

        ``w_{t+1} = argmin_w  F_t(w) − <w − c, tilt> + (Λ_t/2) ||w − c||²``

    - surrogate `full`: F_t = Σ_{i≤t} l_i, for the solver; `linear`: F_t = Σ <g_i, w>, solved by a formula.
    - centre `last` (the paper's reformulation): c = w_t and tilt = Σ_{i<t} ∇l_i(w_t);
      centre `mean` (Alt-FTRL): c = c_t = Σσ_i w_i / Λ_t and tilt = 0.

    `last` and `mean` agree when every round is solved exactly and no domain is active. `last` adds up the
    residuals of inexact solves, `mean` does not. On an L2 ball (`radius`) the full surrogate uses the mean.
    """

    schedule: Schedule
    linear: bool = eqx.field(static=True, default=False)
    around_last: Array | np.ndarray = eqx.field(default_factory=lambda: np.asarray(False))
    radius: Number | None = eqx.field(converter=_radius, default=None)
    diagonal: bool = eqx.field(static=True, default=False)
    name: str = eqx.field(static=True, default="learner")

    def __check_init__(self):
        if (
            self.radius is not None
            and not isinstance(self.radius, Tracer)
            and np.any(self.radius < LEAST_RADIUS)
        ):
            raise UserError(
                f"radius: {np.min(self.radius):g} is less than {LEAST_RADIUS:g}, and squares of such lengths "
                "are lost in a float; divide the inputs by a number, and the parameters are larger by it."
            )

    def init(self, params: Params) -> LearnerState:
        """The state before round 1, at w_1 = `params`."""
        if self.radius is not None:
            params = project(params, self.radius)
        none = jax.tree.map(lambda leaf: zeros(leaf.shape, leaf), params)
        each = none if self.diagonal else zeros((), jax.tree.leaves(params)[0])
        return LearnerState(
            params=params,
            centre=params,
            gradients=none,
            squares=each,
            weight=each,
            residual=none,
            round=jax.device_put(np.int32(0)),
        )

    def update(
        self, state: LearnerState, losses: Losses, gradient: Params, solve: Solve
    ) -> tuple[LearnerState, Solution]:
        """The state after a round with gradient g_t at w_t; `losses` already hold the round."""
        ahead = self.regularised(state, gradient)
        if self.linear:
            return self._linear_step(state, gradient, ahead)
        return self._full_step(state, losses, gradient, solve, ahead)

    def regularised(self, state: LearnerState, gradient: Params) -> LearnerState:
        """The state with Λ_t, c_t and the sums that make them, given g_t; round t is still to be solved."""
        t = state.round + 1
        if self.schedule.zero:
            return state._replace(weight=optax.tree.zeros_like(state.weight), round=t)
        squares = self._squares(state, gradient, t)
        weight = self.schedule.weight(t, squares)
        # σ_t ≥ 0 by definition of every schedule; rounding must not make it negative.
        weight = jax.tree.map(jnp.maximum, weight, state.weight)
        return state._replace(centre=_toward(state, weight), squares=squares, weight=weight, round=t)

    def _squares(self, state: LearnerState, gradient: Params, t: Array) -> Params:
        if self.diagonal:
            new = jax.tree.map(lambda g: g**2, gradient)
        else:
            new = optax.tree.vdot(gradient, gradient)
        return jax.tree.map(lambda s, n: s + jnp.where(t >= self.schedule.first, n, 0.0), state.squares, new)

    def _full_step(
        self, state: LearnerState, losses: Losses, gradient: Params, solve: Solve, ahead: LearnerState
    ) -> tuple[LearnerState, Solution]:
        if self.schedule.zero:
            objective = plain(losses, state.params)
            solution = solve(objective, state.params)
            residual = optax.tree.scale(objective.rounds, solution.residual)
            return ahead._replace(params=solution.params, residual=residual), solution
        weight, last = ahead.weight, self.around_last & (ahead.weight > 0)

        def past() -> Params:
            return jax.tree.map(lambda f, g: f - g, losses.gradient(state.params), gradient)

        # Its cost grows with the rounds, so it is paid only where it is used.
        tilt = jax.lax.cond(last, past, lambda: optax.tree.zeros_like(gradient))
        # Without weight there is no penalty; the centre then says which of several minimisers: the nearest to
        # w_t.
        here = last | (weight <= 0)
        around = jax.tree.map(lambda w, c: jnp.where(here, w, c), state.params, ahead.centre)
        objective = Objective(losses, around, tilt, weight)
        solution = solve(objective, state.params)
        left = optax.tree.scale(objective.rounds, solution.residual)
        residual = jax.tree.map(lambda r, new: jnp.where(last, r, 0.0) + new, state.residual, left)
        return ahead._replace(params=solution.params, residual=residual), solution

    def _linear_step(
        self, state: LearnerState, gradient: Params, ahead: LearnerState
    ) -> tuple[LearnerState, Solution]:
        gradients = optax.tree.add(state.gradients, gradient)

        def step(w: Array, g: Array, c: Array, total: Array, each: Array) -> Array:
            start, push = jnp.where(self.around_last, w, c), jnp.where(self.around_last, g, total)
            # Λ = 0 means that every gradient so far was zero: there is nowhere to go.
            return start - jnp.where(each > 0, push / jnp.where(each > 0, each, 1.0), 0.0)

        each = broadcast(ahead.weight, gradient)
        params = jax.tree.map(step, state.params, gradient, ahead.centre, gradients, each)
        # In the norm of the weights, ||x||² = Σ Λ_j x_j², where the regret's proof adds up its steps: the
        # point of the ball nearest in another norm can be further from the comparator in this one.
        params = project(params, self.radius, each if self.diagonal else None)
        solution = _stepped(params)
        return ahead._replace(params=params, gradients=gradients, residual=solution.residual), solution


def _stepped(params: Params) -> Solution:
    """The solution of a step by a formula: nothing was solved, so no residual is left."""
    unknown = jnp.full((), jnp.nan, jax.tree.leaves(params)[0].dtype)
    status = jnp.where(jnp.isfinite(optax.tree.norm(params)), Status.CONVERGED, Status.NOT_FINITE)
    return by_formula(params, status, unknown, optax.tree.zeros_like(params))


def first_state(learner: AnyLearner, params: Params) -> Playable:
    """The learner's state before round 1, which must hold the parameters to play."""
    with calling("learner", learner, "init"):
        state = learner.init(params)
    _check_playable(learner, "init", state, params)
    return state


def next_state(
    learner: AnyLearner, state: Playable, losses: Losses, gradient: Params, solve: Solve
) -> tuple[Playable, Solution]:
    """The learner's state after a round, which must hold parameters like those before, and how they were
    found.
    """
    with calling("learner", learner, "update"):
        answer: Any = learner.update(state, losses, gradient, solve)
    if not isinstance(answer, tuple) or len(answer) != 2 or not isinstance(answer[1], Solution | None):
        given = type(answer).__name__
        if type(answer) is tuple:
            given = f"({', '.join(type(part).__name__ for part in answer)})"
        raise ContractError(
            f"learner {name_of(learner)!r}: its update gave {given}; a pair is expected: the new state, and "
            "what solve gave or None."
        )
    new, solution = answer
    _check_playable(learner, "update", new, state.params)
    return new, _stepped(new.params) if solution is None else solution


def _check_playable(learner: AnyLearner, where: str, state: Playable, params: Params) -> None:
    has = getattr(state, "params", None)
    if jax.tree.map(np.shape, has) != jax.tree.map(np.shape, params):
        wrong = "are not shaped like the first ones" if hasattr(state, "params") else "are missing"
        raise ContractError(
            f"learner {name_of(learner)!r}: state.params, the parameters to play, {wrong} in the state that "
            f"its {where} gave ({type(state).__name__})."
        )


def broadcast(weight: Params, like: Params) -> Params:
    """The weight as a pytree shaped like the parameters: itself, or one number everywhere."""
    if isinstance(weight, (Array, np.ndarray)) and weight.ndim == 0:
        return jax.tree.map(lambda _: weight, like)
    return weight


def _toward(state: LearnerState, weight: Params) -> Params:
    """``c_t = (1 − σ_t/Λ_t) c_{t−1} + (σ_t/Λ_t) w_t``, elementwise where the weight is a pytree."""

    def blend(c: Array, w: Array, old: Array, new: Array) -> Array:
        share = jnp.where(new > 0, (new - old) / jnp.where(new > 0, new, 1.0), 0.0)
        return c + share * (w - c)

    old, new = (broadcast(tree, state.params) for tree in (state.weight, weight))
    return jax.tree.map(blend, state.centre, state.params, old, new)


LAST, MEAN = np.asarray(True), np.asarray(False)
FIRST = np.asarray(1, np.int32)


def ftl(*, radius: float | None = None) -> Learner:
    """Follow the leader (DAgger): ``w_{t+1} ∈ argmin_w Σ_{i≤t} l_i(w)``, of several the nearest to w_t.

    >>> ftl().name
    'ftl'
    """
    return Learner(Schedule(start=FIRST), around_last=MEAN, radius=radius, name="ftl")


def ftrl(
    *, eta: Number, schedule: str | Schedule = "sqrt", start: int | None = None, radius: float | None = None
) -> Learner:
    """FTRL, the memory-efficient reformulation, with ``η_t = eta/√t`` by default:

    ``w_{t+1} = argmin_w Σ_{i≤t} l_i(w) − <w, Σ_{i<t} ∇l_i(w_t)> + 1/(2η_t) ||w − w_t||²``.

    Residuals of inexact solves add up in it; the ledger reports the sum. With a `radius`, and on the absolute
    loss, where it would not be FTRL any more, it takes the centre of `alt_ftrl` by itself.

    >>> ftrl(eta=0.1).name
    'ftrl'
    """
    centre = LAST if radius is None else MEAN
    return Learner(_schedule(schedule, eta, start=start), around_last=centre, radius=radius, name="ftrl")


def alt_ftrl(
    *, eta: Number, schedule: str | Schedule = "sqrt", start: int | None = None, radius: float | None = None
) -> Learner:
    """Alt-FTRL, the same update around the weighted mean c_t of past iterates, ``σ_i = 1/η_i − 1/η_{i−1}``:

    ``w_{t+1} = argmin_w Σ_{i≤t} l_i(w) + 1/(2η_t) ||w − c_t||²``, ``c_t = η_t Σ_{i≤t} σ_i w_i``.

    >>> alt_ftrl(eta=0.1).name
    'alt_ftrl'
    """
    return Learner(_schedule(schedule, eta, start=start), around_last=MEAN, radius=radius, name="alt_ftrl")


def adaftrl(*, alpha: Number = 1.0, start: int | None = None, radius: float | None = None) -> Learner:
    """AdaFTRL: FTRL with ``η_t = alpha/√(Σ_{i≤t} ||∇l_i(w_i)||²)``; needs no knowledge of the problem.

    >>> adaftrl().name
    'adaftrl'
    """
    centre = LAST if radius is None else MEAN
    step = _schedule("adaptive", alpha, field="alpha", start=start)
    return Learner(step, around_last=centre, radius=radius, name="adaftrl")


def ogd(*, eta: Number, schedule: str | Schedule = "sqrt", radius: float | None = None) -> Learner:
    """Online gradient descent: ``w_{t+1} = w_t − η_t ∇l_t(w_t)``, projected onto the ball of a `radius`.

    It is `ftrl` on linearised losses.

    >>> ogd(eta=0.1, schedule="constant").name
    'ogd'
    """
    step = _schedule(schedule, eta, start=1)
    return Learner(step, linear=True, around_last=LAST, radius=radius, name="ogd")


def adagrad(*, alpha: Number, diagonal: bool = False, radius: float | None = None) -> Learner:
    """AdaGrad: ``w_{t+1} = w_t − alpha g_t / √(Σ_{i≤t} ||g_i||²)``, `diagonal` with a sum per coordinate.

    It is `adaftrl` on linearised losses. The accumulator starts at 0. On the ball of a `radius` the
    diagonal form projects in the norm ``||x||²_Λ = Σ_j Λ_j x_j²`` of its own weights Λ_t = √(Σ g²)/alpha.
    That is what its bound needs: with z = w_t − g_t/Λ_t and u in the ball, ``||w_{t+1} − u||_Λ ≤ ||z −
    u||_Λ`` gives ``<g_t, w_t − u> ≤ ½||w_t − u||²_Λ − ½||w_{t+1} − u||²_Λ + ½ Σ_j g_j²/Λ_j``, and the sum
    over rounds telescopes. The Euclidean projection does not satisfy the first inequality, and its regret
    can exceed the bound.

    >>> adagrad(alpha=0.1, diagonal=True).name
    'adagrad'
    """
    step = _schedule("adaptive", alpha, field="alpha", start=1)
    return Learner(step, True, LAST, radius, diagonal=bool(diagonal), name="adagrad")


def linearised(learner: Learner) -> Learner:
    """The same learner on linearised losses ``<g_i, w>``: a formula instead of a solver.

    Around the mean centre it is FTRL's lazy form, which on an active ball differs from OGD's greedy one.
    """
    return dataclasses.replace(learner, linear=True, name=f"linearised_{learner.name}")


def started(learner: AnyLearner, start: int) -> AnyLearner:
    """The learner with `start` for the first round of its schedule, where none was given.

    >>> int(started(ftrl(eta=0.1), 2).schedule.start), int(started(ftrl(eta=0.1, start=5), 2).schedule.start)
    (2, 5)
    """
    if not isinstance(learner, Learner) or learner.schedule.start is not None:
        return learner
    return dataclasses.replace(learner, schedule=dataclasses.replace(learner.schedule, start=start))


def free(learner: AnyLearner) -> bool:
    """Whether the learner has no penalty, as FTL.

    >>> free(ftl()), free(ftrl(eta=0.1))
    (True, False)
    """
    return isinstance(learner, Learner) and learner.schedule.zero


LEARNERS: Registry[AnyLearner] = Registry(
    "learner",
    AnyLearner,
    {"ftl": ftl, "ftrl": ftrl, "alt_ftrl": alt_ftrl, "adaftrl": adaftrl, "ogd": ogd, "adagrad": adagrad},
    aliases={"dagger": "ftl", "alt-ftrl": "alt_ftrl"},
    group="learners",
)
