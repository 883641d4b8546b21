"""SGD with a stochastic line search."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import Array

from ..objectives import Objective
from ..policies import Params
from .base import Progress, Status, first_status
from .stochastic import Stochastic, draw, evaluate


class SearchState(NamedTuple):
    progress: Progress
    rows: Any
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
            turns = 2 if self.minibatch else 1
            done = Progress(
                trial, v, g, old.iterations + 1, old.evaluations + turns, status.astype(jnp.int32)
            )
            step = jnp.where(square == 0, state.step, state.step * self.growth)
            return SearchState(done, rows, step, jnp.zeros_like(state.backtracks), key)

        def shorten(_: None) -> SearchState:
            tries = state.backtracks + 1
            status = jnp.where(tries > self.max_backtracks, Status.STALLED, Status.RUNNING).astype(jnp.int32)
            done = old._replace(evaluations=old.evaluations + 1, status=status)
            return state._replace(progress=done, step=state.step * self.shrink, backtracks=tries)

        return jax.lax.cond(accepted, move, shorten, None)


sls = SLS
