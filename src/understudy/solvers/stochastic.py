"""Methods for networks and large data: Adam, proximal SGD and SGD with a line search, and what all that draw
minibatches share.
"""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownLambdaType=false
# pyright: reportUnknownVariableType=false, reportMissingTypeStubs=false
# JAX and optax say little of the types of their trees.

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import Array

from .. import threefry
from ..errors import UserError, check_name
from ..objectives import Objective, Samples
from ..policies import Params
from .base import Progress, Solution, Solver, Status, check_count, check_number, first_status

if TYPE_CHECKING:
    from ..objectives.objective import Rows


def draw(objective: Objective, key: Array, size: int | None) -> tuple[Rows | None, Array]:
    """The rows of the next step and the next key; `None` stands for the full batch."""
    if size is None:
        return None, key
    assert isinstance(objective.losses, Samples)
    key, now = threefry.split(key, 2)
    return objective.losses.minibatch(now, size), key


def evaluate(objective: Objective, params: Params, rows: Rows | None) -> tuple[Array, Params]:
    """J and its gradient, or their estimates from `rows`."""
    if rows is None:
        return objective.value_and_gradient(params)
    return objective.minibatch_value_and_gradient(params, rows)


def untried(progress: Progress) -> Array:
    """Whether nothing has been evaluated: the step of this turn has length 0."""
    return progress.evaluations == 0


class StochasticState(NamedTuple):
    progress: Progress
    memory: optax.OptState
    key: Array


class Stochastic(Solver[StochasticState]):
    """Shared by the methods that draw: their start, the test for numbers that are not finite, their end."""

    batch_size: eqx.AbstractVar[int | None]
    measure: eqx.AbstractVar[bool]

    def __check_init__(self):
        if self.batch_size is not None:
            check_count("batch_size", self.batch_size)
        check_number("learning_rate", getattr(self, "learning_rate", 1.0))

    @property
    def minibatch(self) -> bool:
        return self.batch_size is not None

    def progress(self, state: StochasticState) -> Progress:
        return state.progress

    def start(
        self, objective: Objective, params: Params, key: Array, memory: optax.OptState
    ) -> StochasticState:
        """Nothing is evaluated yet. The first turn of the loop does it, with a step of length 0: one place
        for the network in the compiled program, not two.
        """
        zero, none = jnp.zeros((), jnp.int32), jnp.zeros_like(objective.rounds)
        still = Progress(params, none, optax.tree.zeros_like(params), zero, zero, zero + Status.RUNNING)
        return StochasticState(still, memory, key)

    def moved(
        self, objective: Objective, state: StochasticState, trial: Params, memory: optax.OptState
    ) -> StochasticState:
        """The state at `trial` with its gradient on the next rows; a trial that is not finite is refused."""
        old, first = state.progress, untried(state.progress)
        rows, key = draw(objective, state.key, self.batch_size)
        value, gradient = evaluate(objective, trial, rows)
        norm = optax.tree.norm(gradient)
        finite = jnp.isfinite(value) & jnp.isfinite(norm)
        status = jnp.where(finite, Status.RUNNING, jnp.where(first, Status.NOT_FINITE, Status.DIVERGED))
        if not self.minibatch:  # one minibatch with a small gradient proves nothing
            status = jnp.where(finite & (norm <= self.tolerance), Status.CONVERGED, status)
        count = old.iterations + jnp.where(first, 0, 1)
        new = Progress(trial, value, gradient, count, old.evaluations + 1, status.astype(jnp.int32))
        kept = jax.tree.map(lambda a, b: jnp.where(finite | first, a, b), new[:3], old[:3])
        return StochasticState(Progress._make((*kept, *new[3:])), memory, key)

    def finish(self, objective: Objective, state: StochasticState) -> Solution:
        if self.minibatch and self.measure:
            done = state.progress
            value, gradient = objective.value_and_gradient(done.params)
            small = (optax.tree.norm(gradient) <= self.tolerance) & (done.status == Status.RUNNING)
            status = jnp.where(small, Status.CONVERGED, done.status).astype(jnp.int32)
            done = done._replace(value=value, gradient=gradient, status=status)
            state = state._replace(progress=done)
        return super().finish(objective, state)


DECAYS = {
    "none": lambda left: jnp.ones_like(left),
    "linear": lambda left: left,
    "cosine": lambda left: 0.5 - 0.5 * jnp.cos(jnp.pi * left),
}
"""What is left of the step, given what is left of the iterations (from 1 to 0)."""


class Adam(Stochastic):
    """Adam, ``w ← w − lr_k · m̂ / (√v̂ + 1e-8)``, full batch or on minibatches.

    The step lr_k is constant, or falls to zero over all steps along a line or half a cosine. There are
    `max_iterations` steps, but at least as many as draw every sample `passes` times, and at most as many as
    draw it `most_passes` times. With `proximal` the moments see the losses alone, and tilt and weight act by
    their exact proximal step in Adam's own metric, ``u = (v + s(weight·c + tilt)/t) / (1 + s·weight/t)`` with
    ``s = lr_k/(√v̂ + 1e-8)`` per coordinate: the same minimisers, but a small penalty is no longer blown up
    to full steps where the losses are flat. `measure` takes the full gradient once at the end: a cost that
    grows.

    `weight_decay` λ also shrinks the parameters in every step, ``w ← (1 − lr_k λ) w − …``, outside the
    moments (AdamW; Loshchilov and Hutter 2019). The answer is then no minimiser of the objective, but a
    network that has seen few labels errs less on other states. So with `lasso` λ, which shortens the weights
    of every input of the first layer by ``lr_k λ √width``, and takes inputs that say little about the actions
    out of the network (the proximal step of a group lasso; Yuan and Lin 2006).
    """

    _: KW_ONLY
    learning_rate: float = 1e-3
    batch_size: int | None = eqx.field(static=True, default=None)
    tolerance: float = 1e-8
    max_iterations: int = 1000
    measure: bool = True
    decay: str = "none"
    proximal: bool = False
    weight_decay: float | None = None
    lasso: float | None = None
    passes: float | None = None
    most_passes: float | None = None

    def __check_init__(self):
        check_name("decay", self.decay, DECAYS)
        for name in ("weight_decay", "lasso"):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), zero=True)
        for name in ("passes", "most_passes"):
            if (passes := getattr(self, name)) is not None:
                check_number(name, passes)
                if self.batch_size is None:
                    raise UserError(f"{name}: {passes!r} are for minibatches; give a batch_size too.")

    def limit(self, objective: Objective) -> int | Array:
        if self.passes is None and self.most_passes is None:
            return self.max_iterations
        assert isinstance(objective.losses, Samples) and self.batch_size is not None
        least, most = (
            None if passes is None else (passes * objective.losses.filled / self.batch_size).astype(jnp.int32)
            for passes in (self.passes, self.most_passes)
        )
        return jnp.maximum(jnp.clip(self.max_iterations, least, most), 1)

    def init(self, objective: Objective, params: Params, key: Array) -> StochasticState:
        return self.start(objective, params, key, optax.scale_by_adam().init(params))

    def step(self, objective: Objective, state: StochasticState) -> StochasticState:
        old, live = state.progress, jnp.where(untried(state.progress), 0.0, 1.0)
        left = 1.0 - old.iterations.astype(old.value.dtype) / self.limit(objective)
        rate = live * self.learning_rate * DECAYS[self.decay](left)
        gradient, t = old.gradient, objective.rounds
        if self.proximal:
            pull = objective.penalty_gradient(old.params)
            gradient = jax.tree.map(lambda g, p: g - live * p / t, gradient, pull)
        memory: Any
        scaled, memory = optax.scale_by_adam().update(gradient, state.memory, old.params)
        memory = memory._replace(count=memory.count - untried(old))  # moments of nothing are still zero
        shrunk = old.params
        if self.weight_decay is not None:
            shrunk = optax.tree.scale(1.0 - rate * self.weight_decay, shrunk)
        trial = optax.tree.add_scale(shrunk, -rate, scaled)
        if self.proximal:
            fresh = 1.0 - 0.999 ** jnp.maximum(memory.count, 1).astype(rate.dtype)

            def nearer(v: Array, square: Array, c: Array, b: Array) -> Array:
                step = rate / (jnp.sqrt(square / fresh) + 1e-8) / t
                return (v + step * (objective.weight * c + b)) / (1.0 + step * objective.weight)

            trial = jax.tree.map(nearer, trial, memory.nu, objective.centre, objective.tilt)
        if self.lasso is not None:
            if not isinstance(objective.losses, Samples):
                raise UserError("lasso: it is for policies whose samples are kept, as those of networks are.")
            trial = objective.losses.policy.lessen_inputs(trial, rate * self.lasso)
        return self.moved(objective, state, trial, memory)


class ProximalSGD(Stochastic):
    """``w ← prox(w − γ ∇(F_t/t))``: a stochastic step on the losses, an exact proximal step on the penalty.

    The proximal operator of the penalty ``(weight/2||w − c||² − <w − c, tilt>)/t`` is a scaling and a shift,
    ``u = (v + (γ/t)(weight·c + tilt)) / (1 + γ weight/t)``; the paper's stochastic solver for FTRL. Its step
    is ``γ_k = learning_rate / √(1 + decay·k)``; with `decay` 0 it is constant, as interpolation allows.
    """

    _: KW_ONLY
    learning_rate: float = 1e-2
    decay: float = 0.0
    batch_size: int | None = eqx.field(static=True, default=None)
    tolerance: float = 1e-8
    max_iterations: int = 1000
    measure: bool = True

    def init(self, objective: Objective, params: Params, key: Array) -> StochasticState:
        return self.start(objective, params, key, ())

    def step(self, objective: Objective, state: StochasticState) -> StochasticState:
        old, t = state.progress, objective.rounds
        k = old.iterations.astype(t.dtype)
        gamma = jnp.where(untried(old), 0.0, self.learning_rate / jnp.sqrt(1.0 + self.decay * k))
        pull = objective.penalty_gradient(old.params)

        def proximal(w: Array, g: Array, p: Array, c: Array, b: Array) -> Array:
            ahead = w - gamma * (g - p / t)
            return (ahead + (gamma / t) * (objective.weight * c + b)) / (1.0 + gamma * objective.weight / t)

        trial = jax.tree.map(proximal, old.params, old.gradient, pull, objective.centre, objective.tilt)
        return self.moved(objective, state, trial, ())


adam = Adam
proximal_sgd = ProximalSGD


class SearchState(NamedTuple):
    progress: Progress
    rows: Rows | None
    step: Array
    backtracks: Array
    key: Array


class SLS(Stochastic):
    """SGD with a stochastic line search: ``w ← w − s g_B`` where ``J_B(w − s g_B) ≤ J_B(w) − c s ||g_B||²``.

    Value and gradient of a trial are those of the same minibatch B. After a step the next search starts at
    `growth` times the step accepted. Under interpolation it needs no tuning. One turn of the loop is one
    trial.
    """

    _: KW_ONLY
    batch_size: int | None = eqx.field(static=True, default=None)
    c: float = 0.1
    shrink: float = 0.9
    growth: float = 1.5
    first_step: float = 1.0
    max_backtracks: int = 300
    tolerance: float = 1e-8
    max_iterations: int = 1000
    measure: bool = True

    def init(self, objective: Objective, params: Params, key: Array) -> Any:
        rows, key = draw(objective, key, self.batch_size)
        value, gradient = evaluate(objective, params, rows)
        status = first_status(value, gradient, -1.0 if self.minibatch else self.tolerance)
        zero = jnp.zeros((), jnp.int32)
        done = Progress(params, value, gradient, zero, zero + 1, status)
        return SearchState(done, rows, jnp.asarray(self.first_step, value.dtype), zero, key)

    def step(self, objective: Objective, state: Any) -> Any:
        old = state.progress
        trial = optax.tree.add_scale(old.params, -state.step, old.gradient)
        value, gradient = evaluate(objective, trial, state.rows)
        square = optax.tree.norm(old.gradient) ** 2
        fits = value <= old.value - self.c * state.step * square
        # A minibatch with no gradient has nothing to say: keep the parameters and draw another.
        accepted = jnp.isfinite(value) & (fits | (square == 0))

        def move(_: None) -> SearchState:
            rows, key, v, g = state.rows, state.key, value, gradient
            if self.minibatch:
                rows, key = draw(objective, key, self.batch_size)
                v, g = evaluate(objective, trial, rows)
            norm = optax.tree.norm(g)
            status = jnp.where(jnp.isfinite(norm) & jnp.isfinite(v), Status.RUNNING, Status.DIVERGED)
            if not self.minibatch:
                status = jnp.where(norm <= self.tolerance, Status.CONVERGED, status)
            looks = old.evaluations + (2 if self.minibatch else 1)
            done = Progress(trial, v, g, old.iterations + 1, looks, status.astype(jnp.int32))
            step = jnp.where(square == 0, state.step, state.step * self.growth)
            return SearchState(done, rows, step, jnp.zeros_like(state.backtracks), key)

        def shorten(_: None) -> SearchState:
            tries = state.backtracks + 1
            status = jnp.where(tries > self.max_backtracks, Status.STALLED, Status.RUNNING).astype(jnp.int32)
            done = old._replace(evaluations=old.evaluations + 1, status=status)
            return state._replace(progress=done, step=state.step * self.shrink, backtracks=tries)

        return jax.lax.cond(accepted, move, shorten, None)


sls = SLS
