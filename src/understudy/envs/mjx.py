"""Hopper and Walker2d on MJX, made of Gymnasium's models with Gymnasium's rewards and ends.

The state is what the next step needs, and no more: positions, velocities and the solver's warm start. A
reset draws them without a forward pass, so it costs next to nothing beside a step.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from ..errors import MissingExtra, unknown
from .mujoco import Rules, _rules
from .pure import PureEnv

MODELS = {"Hopper": "Hopper-v5", "Walker2d": "Walker2d-v5"}
ITERATIONS, LINE_SEARCH = 4, 8
"""Most iterations of MJX's constraint solver, and steps of its line search. All environments of a batch wait
for the slowest, so a fixed small number is what is fast; with these the shipped SAC expert scores 3,447 in
Hopper, and 3,448 in Gymnasium's (its card).
"""


def make(
    name: str, *, iterations: int = ITERATIONS, ls_iterations: int = LINE_SEARCH, **keywords: Any
) -> PureEnv:
    """mjx:Hopper or mjx:Walker2d; other `keywords` are those of the Gymnasium environment."""
    import gymnasium as gym

    try:
        from mujoco import mjx  # type: ignore[import-not-found,attr-defined]
    except ImportError as error:
        raise MissingExtra(f"env: mjx:{name}", "mjx") from error
    if name not in MODELS:
        raise unknown("env: mjx has no such model", name, MODELS)
    made = gym.make(MODELS[name], **keywords)
    rules, inner = _rules(made), made.unwrapped
    assert rules is not None
    spaces = made.observation_space, made.action_space
    physics: Any = inner.model  # type: ignore[attr-defined]
    scale = inner._reset_noise_scale  # type: ignore[attr-defined]
    home = (inner.init_qpos.copy(), inner.init_qvel.copy())  # type: ignore[attr-defined]
    physics.opt.iterations, physics.opt.ls_iterations = iterations, ls_iterations

    @functools.cache
    def model() -> tuple[Any, Any]:
        # Not before the first step: it takes the accelerator.
        with jax.ensure_compile_time_eval():
            put: Any = mjx.put_model(physics)
            return put, mjx.make_data(put)

    def begin(key: Array) -> tuple[Any, Any]:
        first, second = jax.random.split(key)
        place = jnp.asarray(home[0], jnp.float32) + jax.random.uniform(
            first, (physics.nq,), jnp.float32, -scale, scale
        )
        speed = jnp.asarray(home[1], jnp.float32) + jax.random.uniform(
            second, (physics.nv,), jnp.float32, -scale, scale
        )
        return (place, speed, jnp.zeros(physics.nv, jnp.float32)), _seen(rules, place, speed)

    def play(state: Any, action: Array) -> tuple[Any, Any, Any, Any, Any]:
        place, speed, warm = state
        put, blank = model()
        data = blank.replace(qpos=place, qvel=speed, qacc_warmstart=warm, ctrl=action)
        data = jax.lax.fori_loop(0, rules.skip, lambda _, one: mjx.step(put, one), data)
        healthy = _healthy(rules, data.qpos, data.qvel)
        reward = rules.forward * (data.qpos[0] - place[0]) / rules.dt + healthy * rules.healthy
        reward = reward - rules.cost * jnp.sum(jnp.square(action))
        ended = ~healthy if rules.ends else jnp.zeros((), bool)
        kept = data.qpos, data.qvel, data.qacc_warmstart
        return kept, _seen(rules, data.qpos, data.qvel), reward, ended, False

    made.close()
    return PureEnv(f"mjx:{name}", begin, play, *spaces, rules.limit, serves=MODELS[name])


def _seen(rules: Rules, place: Array, speed: Array) -> Array:
    return jnp.concatenate([place[rules.hidden :], jnp.clip(speed, -10.0, 10.0)])


def _healthy(rules: Rules, place: Array, speed: Array) -> Array:
    height, angle = place[1], place[2]
    healthy = (rules.height[0] < height) & (height < rules.height[1])
    healthy &= (rules.angle[0] < angle) & (angle < rules.angle[1])
    if rules.state is not None:
        low, high = rules.state
        for part in (place[2:], speed):
            healthy &= jnp.all((low < part) & (part < high))
    return healthy
