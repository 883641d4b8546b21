"""Hopper and Walker2d on MJX, made of Gymnasium's models with Gymnasium's rewards and ends.

The state is what the next step needs, and no more: positions, velocities and the solver's warm start. A
reset draws them without a forward pass, so it costs next to nothing beside a step.
"""

from __future__ import annotations

import functools
import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ..errors import check_name, import_extra
from .kept import Kept
from .pure import PureEnv

if TYPE_CHECKING:
    from .pure import Played

    Pose = tuple[Array, Array, Array]
    """Places, speeds, and where the solver begins."""
    Carry = tuple[Array, Array, Array, Array]

MODELS = {"Hopper": "Hopper-v5", "Walker2d": "Walker2d-v5"}
ITERATIONS, LINE_SEARCH = 4, 8
"""Most iterations of MJX's constraint solver, and steps of its line search. All environments of a batch wait
for the slowest, so a fixed small number is what is fast; with these the shipped SAC expert scores 3,447 in
Hopper, and 3,448 in Gymnasium's (its card).
"""

STAGES = np.array([[0.0, 1 / 6], [0.5, 1 / 3], [0.5, 1 / 3], [1.0, 1 / 6]], np.float32)
"""Runge and Kutta's stages: how far each goes along the slope of the last, and its weight in their mean."""


def make(
    name: str, *, iterations: int = ITERATIONS, ls_iterations: int = LINE_SEARCH, **keywords: Any
) -> PureEnv:
    """mjx:Hopper or mjx:Walker2d; other `keywords` are those of the Gymnasium environment."""
    mjx = import_extra("mujoco.mjx", f"env: mjx:{name}", "mjx")
    check_name("env: mjx has no such model", name, MODELS)
    made = gym.make(MODELS[name], **keywords)
    inner: Any = made.unwrapped
    limit = made.spec.max_episode_steps if made.spec else None
    spaces = made.observation_space, made.action_space
    physics = inner.model
    scale = inner._reset_noise_scale
    hidden = int(inner._exclude_current_positions_from_observation)
    home = (inner.init_qpos.copy(), inner.init_qvel.copy())
    physics.opt.iterations, physics.opt.ls_iterations = iterations, ls_iterations

    @functools.cache
    def model() -> tuple[Any, Any]:
        # Not before the first step: it takes the accelerator.
        with jax.ensure_compile_time_eval():
            put = mjx.put_model(physics)
            return put, mjx.make_data(put)

    def pushed(place: Array, speed: Array, warm: Array, action: Array) -> Array:
        put, blank = model()
        return mjx.forward(put, _filled(blank, (place, speed, warm), action)).qacc

    # The accelerations: all of MJX's physics, once in a program.
    slope = Kept(pushed, (physics.nv,), _bytes(physics) + Path(__file__).read_bytes())

    def begin(key: Array) -> tuple[Pose, Array]:
        first, second = jax.random.split(key)
        place, speed = (
            jnp.asarray(one, jnp.float32) + jax.random.uniform(own, one.shape, jnp.float32, -scale, scale)
            for one, own in zip(home, (first, second), strict=True)
        )
        return (place, speed, jnp.zeros(physics.nv, jnp.float32)), _seen(hidden, place, speed)

    def by_stages(_turn: Array, state: Pose, action: Array) -> Pose:
        (place, speed, warm), h = state, physics.opt.timestep
        model()  # here, since nothing may be computed while a program is being lowered

        def stage(carry: Carry, given: Array) -> tuple[Carry, None]:
            (rate, push, moved, gained), (far, weight) = carry, given
            here, rate = place + h * (far * rate), speed + h * (far * push)
            push = slope(here, rate, warm, action)
            return (rate, push, moved + weight * rate, gained + weight * push), None

        first = speed, warm, jnp.zeros_like(speed), jnp.zeros_like(speed)
        (_, push, moved, gained), _ = jax.lax.scan(stage, first, jnp.asarray(STAGES))
        return place + h * moved, speed + h * gained, push

    def by_mjx(_turn: Array, state: Pose, action: Array) -> Pose:
        put, blank = model()
        data = mjx.step(put, _filled(blank, state, action))
        return data.qpos, data.qvel, data.qacc_warmstart

    # Runge and Kutta's method is four copies of the physics in `mjx.step`, and one in a loop of four here: a
    # fraction of the program to trace and compile. Joints that neither slide nor turn on an axis are MJX's.
    kinds = {int(mjx.JointType.SLIDE), int(mjx.JointType.HINGE)}
    staged = physics.opt.integrator == int(mjx.IntegratorType.RK4)
    staged = staged and kinds.issuperset(physics.jnt_type.tolist())

    def play(state: Pose, action: Array) -> Played[Pose]:
        once = functools.partial(by_stages if staged else by_mjx, action=action)
        (place, _, _), (new, speed, warm) = state, jax.lax.fori_loop(0, inner.frame_skip, once, state)
        healthy = _healthy(inner, new, speed)
        reward = (
            inner._forward_reward_weight * (new[0] - place[0]) / inner.dt + healthy * inner._healthy_reward
        )
        reward = reward - inner._ctrl_cost_weight * jnp.sum(jnp.square(action))
        ended = ~healthy if inner._terminate_when_unhealthy else jnp.zeros((), bool)
        return (new, speed, warm), _seen(hidden, new, speed), reward, ended, False

    made.close()
    return PureEnv(f"mjx:{name}", begin, play, *spaces, limit, serves=MODELS[name])


def _bytes(physics: Any) -> bytes:
    """Everything about a model of MuJoCo."""
    library = importlib.import_module("mujoco")
    found = np.empty(library.mj_sizeModel(physics), np.uint8)
    library.mj_saveModel(physics, None, found)
    return found.tobytes()


def _filled(blank: Any, state: Pose, action: Array) -> Any:
    place, speed, warm = state
    return blank.replace(qpos=place, qvel=speed, qacc_warmstart=warm, ctrl=action)


def _healthy(env: Any, place: Array, speed: Array) -> Array:
    """Whether a robot is healthy by the ranges of Gymnasium's environment."""
    (lowest, highest), (least, most) = env._healthy_z_range, env._healthy_angle_range
    healthy = (lowest < place[1]) & (place[1] < highest) & (least < place[2]) & (place[2] < most)
    if hasattr(env, "_healthy_state_range"):
        low, high = env._healthy_state_range
        state = jnp.concatenate([place[2:], speed])
        healthy &= ((low < state) & (state < high)).all()
    return healthy


def _seen(hidden: int, place: Array, speed: Array) -> Array:
    return jnp.concatenate([place[hidden:], jnp.clip(speed, -10.0, 10.0)])
