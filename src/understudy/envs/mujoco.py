"""Gymnasium's MuJoCo environments stepped straight by MuJoCo, many at a time, to the same bits as Gymnasium.

A part of a Gymnasium step is not physics: wrappers, dictionaries, small arrays. Here every slot has a
simulation of its own, advanced by the call that Gymnasium makes (`mujoco.rollout` makes it too, but would not
give back the solver's warm start and so would step to other bits). Observations, rewards and terminations
follow Gymnasium's formulas, operation by operation: a row of `RULES` for each class of environment, whose
functions read the options of Gymnasium's own object. Resets are Gymnasium's.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import itertools
import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Protocol, final

import numpy as np
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit

from .gymnasium import Observed

if TYPE_CHECKING:
    from gymnasium.envs.mujoco import MujocoEnv
    from gymnasium.envs.mujoco.ant_v5 import AntEnv
    from gymnasium.envs.mujoco.half_cheetah_v5 import HalfCheetahEnv
    from gymnasium.envs.mujoco.hopper_v5 import HopperEnv
    from gymnasium.envs.mujoco.humanoid_v5 import HumanoidEnv
    from gymnasium.envs.mujoco.humanoidstandup_v5 import HumanoidStandupEnv
    from gymnasium.envs.mujoco.inverted_double_pendulum_v5 import InvertedDoublePendulumEnv
    from gymnasium.envs.mujoco.pusher_v5 import PusherEnv
    from gymnasium.envs.mujoco.reacher_v5 import ReacherEnv
    from gymnasium.envs.mujoco.swimmer_v5 import SwimmerEnv
    from gymnasium.envs.mujoco.walker2d_v5 import Walker2dEnv

    from ..nested import Nested
    from .gymnasium import Env, Steps

    Pay = np.floating | float
    Judged = tuple[Pay, bool]
    """A reward, and whether the episode has terminated."""
    Runner = HalfCheetahEnv | SwimmerEnv
    Walker = HopperEnv | Walker2dEnv

SLOTS_A_THREAD = 8
"""Slots that a thread takes at a time."""


class Body(Protocol):
    xpos: np.ndarray


class Simulation(Protocol):
    """`mujoco.MjData`, as far as the rules read it: its arrays are views of the simulation's memory."""

    qpos: np.ndarray
    qvel: np.ndarray
    ctrl: np.ndarray
    xipos: np.ndarray
    site_xpos: np.ndarray
    cinert: np.ndarray
    cvel: np.ndarray
    cfrc_ext: np.ndarray
    qfrc_actuator: np.ndarray
    qfrc_constraint: np.ndarray

    def body(self, name: str | int, /) -> Body: ...


def _first_position(env: MujocoEnv, data: Simulation) -> float:
    return data.qpos[0]


@dataclasses.dataclass(frozen=True)
class Rules:
    """What an environment shows and pays after a step, as functions of Gymnasium's object and a simulation.

    observe: (env, simulation) → the observation. judge: (env, simulation, speed, action) → the reward, and
    whether the episode has terminated. place: (env, simulation) → where the robot is on its way, whose change
    over time is the speed. forces: whether contact forces are read, which MuJoCo computes only when asked.
    """

    observe: Callable[..., np.ndarray]
    judge: Callable[..., Judged]
    place: Callable[..., float] = _first_position
    forces: bool = False


def _clip(values: np.ndarray, low: float | np.ndarray, high: float | np.ndarray) -> np.ndarray:
    """`values` between two bounds; `np.clip` takes ten times as long for small arrays, numbers twice as long
    as arrays of none.
    """
    return np.minimum(np.maximum(values, low), high)


_LEAST, _MOST = np.array(-10.0), np.array(10.0)
"""Between which the speeds of joints are shown."""


def _control(env: Runner | Walker | AntEnv, action: np.ndarray) -> np.floating:
    return env._ctrl_cost_weight * np.add.reduce(np.square(action))


def _runner(env: Runner, data: Simulation, hidden: int = 1) -> np.ndarray:
    hidden = hidden if env._exclude_current_positions_from_observation else 0
    return np.concatenate((data.qpos[hidden:], data.qvel))


def _judge_runner(env: Runner, data: Simulation, speed: float, action: np.ndarray) -> Judged:
    return env._forward_reward_weight * speed - _control(env, action), False


def _hopper(env: Walker, data: Simulation) -> np.ndarray:
    hidden = 1 if env._exclude_current_positions_from_observation else 0
    return np.concatenate((data.qpos[hidden:], _clip(data.qvel, _LEAST, _MOST)))


def _judge_hopper(
    env: Walker, data: Simulation, speed: float, action: np.ndarray, old: bool = False
) -> Judged:
    _, height, angle, *joints = data.qpos.tolist()
    (lowest, highest), (least, most) = env._healthy_z_range, env._healthy_angle_range
    healthy = lowest < height < highest and least < angle < most
    if healthy and (bounds := getattr(env, "_healthy_state_range", None)) is not None:
        low, high = bounds
        for value in (angle, *joints, *data.qvel.tolist()):  # quicker than all
            healthy = healthy and low < value < high
    ends = env._terminate_when_unhealthy
    alive = (healthy or (old and ends)) * env._healthy_reward  # v4 pays for the step that falls, too
    return env._forward_reward_weight * speed + alive - _control(env, action), ends and not healthy


def _ant(env: AntEnv, data: Simulation) -> np.ndarray:
    hidden = 2 if env._exclude_current_positions_from_observation else 0
    parts = [data.qpos[hidden:], data.qvel]
    if env._include_cfrc_ext_in_observation:
        parts.append(_clip(data.cfrc_ext[1:], *env._contact_force_range).ravel())
    return np.concatenate(parts)


def _main_body(env: AntEnv, data: Simulation) -> float:
    return data.body(env._main_body).xpos[0]


def _judge_ant(env: AntEnv, data: Simulation, speed: float, action: np.ndarray) -> Judged:
    positions, (low, high) = data.qpos.tolist(), env._healthy_z_range
    healthy = low <= positions[2] <= high and all(map(math.isfinite, positions + data.qvel.tolist()))
    contact = np.square(_clip(data.cfrc_ext, *env._contact_force_range))
    costs = _control(env, action) + env._contact_cost_weight * np.sum(contact)
    reward = speed * env._forward_reward_weight + healthy * env._healthy_reward - costs
    return reward, env._terminate_when_unhealthy and not healthy


def _humanoid(env: HumanoidEnv | HumanoidStandupEnv, data: Simulation) -> np.ndarray:
    parts = [data.qpos[2 if env._exclude_current_positions_from_observation else 0 :], data.qvel]
    # Gymnasium asks for True itself, too.
    if env._include_cinert_in_observation is True:
        parts.append(data.cinert[1:].ravel())
    if env._include_cvel_in_observation is True:
        parts.append(data.cvel[1:].ravel())
    if env._include_qfrc_actuator_in_observation is True:
        parts.append(data.qfrc_actuator[6:])
    if env._include_cfrc_ext_in_observation is True:
        parts.append(data.cfrc_ext[1:].ravel())
    return np.concatenate(parts)


def _mass_center(env: HumanoidEnv, data: Simulation) -> float:
    mass = env.model.body_mass
    return np.einsum("b,bj->j", mass, data.xipos)[0] / mass.sum()


def _judge_humanoid(env: HumanoidEnv, data: Simulation, speed: float, action: np.ndarray) -> Judged:
    (low, high), (least, most) = env._healthy_z_range, env._contact_cost_range
    healthy = bool(low < data.qpos[2] < high)
    contact = min(max(env._contact_cost_weight * np.sum(np.square(data.cfrc_ext)), least), most)
    costs = env._ctrl_cost_weight * np.sum(np.square(data.ctrl)) + contact
    reward = env._forward_reward_weight * speed + healthy * env._healthy_reward - costs
    return reward, env._terminate_when_unhealthy and not healthy


def _judge_standup(env: HumanoidStandupEnv, data: Simulation, speed: float, action: np.ndarray) -> Judged:
    low, high = env._impact_cost_range
    timestep = env.model.opt.timestep
    control = env._ctrl_cost_weight * np.square(data.ctrl).sum()
    impact = min(max(env._impact_cost_weight * np.square(data.cfrc_ext).sum(), low), high)
    return data.qpos[2] / timestep - control - impact + 1, False


def _between(data: Simulation, first: str, second: str) -> np.ndarray:
    return data.body(first).xpos - data.body(second).xpos


def _reacher(env: ReacherEnv, data: Simulation) -> np.ndarray:
    angles, off = data.qpos[:2], _between(data, "fingertip", "target")
    return np.concatenate((np.cos(angles), np.sin(angles), data.qpos[2:], data.qvel[:2], off[:2]))


def _judge_reacher(env: ReacherEnv, data: Simulation, speed: float, action: np.ndarray) -> Judged:
    distance = -np.linalg.norm(_between(data, "fingertip", "target")) * env._reward_dist_weight
    return distance + -np.square(action).sum() * env._reward_control_weight, False


def _pusher(env: PusherEnv, data: Simulation) -> np.ndarray:
    bodies = [data.body(name).xpos for name in ("tips_arm", "object", "goal")]
    return np.concatenate((data.qpos[:7], data.qvel[:7], *bodies))


def _judge_pusher(env: PusherEnv, data: Simulation, speed: float, action: np.ndarray) -> Judged:
    near = -np.linalg.norm(_between(data, "object", "tips_arm")) * env._reward_near_weight
    distance = -np.linalg.norm(_between(data, "object", "goal")) * env._reward_dist_weight
    return distance + -np.square(action).sum() * env._reward_control_weight + near, False


def _pendulum(env: MujocoEnv, data: Simulation) -> np.ndarray:
    return np.concatenate((data.qpos, data.qvel))


def _judge_pendulum(env: MujocoEnv, data: Simulation, speed: float, action: np.ndarray) -> Judged:
    angle, finite = data.qpos[1], map(math.isfinite, data.qpos.tolist() + data.qvel.tolist())
    fallen = not all(finite) or bool(np.abs(angle) > 0.2)
    return float(not fallen), fallen


def _double_pendulum(env: MujocoEnv, data: Simulation) -> np.ndarray:
    angles, speeds = data.qpos[1:], _clip(data.qvel, _LEAST, _MOST)
    force = _clip(data.qfrc_constraint[:1], -10, 10)
    return np.concatenate((data.qpos[:1], np.sin(angles), np.cos(angles), speeds, force))


def _judge_double_pendulum(
    env: InvertedDoublePendulumEnv, data: Simulation, speed: float, action: np.ndarray
) -> Judged:
    (x, _, height), (_, lower, upper) = data.site_xpos[0], data.qvel
    fallen = bool(height <= 1)
    reward = env._healthy_reward * int(not fallen) - (0.01 * x**2 + (height - 2) ** 2)
    return reward - (0.001 * lower**2 + 0.005 * upper**2), fallen


_HALF_CHEETAH = Rules(_runner, _judge_runner)
_SWIMMER = Rules(functools.partial(_runner, hidden=2), _judge_runner)
_HOPPER = Rules(_hopper, _judge_hopper)
_HOPPER_V4 = Rules(_hopper, functools.partial(_judge_hopper, old=True))

RULES: dict[tuple[str, str], Rules] = {
    ("half_cheetah_v4", "HalfCheetahEnv"): _HALF_CHEETAH,
    ("half_cheetah_v5", "HalfCheetahEnv"): _HALF_CHEETAH,
    ("swimmer_v4", "SwimmerEnv"): _SWIMMER,
    ("swimmer_v5", "SwimmerEnv"): _SWIMMER,
    ("hopper_v4", "HopperEnv"): _HOPPER_V4,
    ("hopper_v5", "HopperEnv"): _HOPPER,
    ("walker2d_v4", "Walker2dEnv"): _HOPPER_V4,
    ("walker2d_v5", "Walker2dEnv"): _HOPPER,
    ("ant_v5", "AntEnv"): Rules(_ant, _judge_ant, _main_body, forces=True),
    ("humanoid_v5", "HumanoidEnv"): Rules(_humanoid, _judge_humanoid, _mass_center, forces=True),
    ("humanoidstandup_v5", "HumanoidStandupEnv"): Rules(_humanoid, _judge_standup, forces=True),
    ("reacher_v5", "ReacherEnv"): Rules(_reacher, _judge_reacher),
    ("pusher_v5", "PusherEnv"): Rules(_pusher, _judge_pusher),
    ("inverted_pendulum_v5", "InvertedPendulumEnv"): Rules(_pendulum, _judge_pendulum),
    ("inverted_double_pendulum_v5", "InvertedDoublePendulumEnv"): Rules(
        _double_pendulum, _judge_double_pendulum
    ),
}
"""By Gymnasium's module and class. Gymnasium steps the others of version 4, which pay by other formulas."""


def rules_of(env: Env) -> tuple[Rules, int] | None:
    """The rules of a Gymnasium environment with any keywords, and the steps of its episodes.

    None for what Gymnasium must step itself: other classes, a wrapper that does something, no step limit,
    a window that shows every step, or a model whose observations do not fit the rules.

    >>> import gymnasium as gym
    >>> rules_of(gym.make("CartPole-v1")) is None, rules_of(gym.make("Ant-v5"))[1]
    (True, 1000)
    """
    inner: Any = env
    limit = 0
    while hasattr(inner, "env"):
        if type(inner) not in (TimeLimit, OrderEnforcing, PassiveEnvChecker):
            return None
        if isinstance(inner, TimeLimit):
            limit = inner._max_episode_steps
        inner = inner.env
    package, _, module = type(inner).__module__.rpartition(".")
    rules = RULES.get((module, type(inner).__name__)) if package == "gymnasium.envs.mujoco" else None
    if rules is None or not limit or inner.render_mode == "human":
        return None
    fits = rules.observe(inner, inner.data).shape == inner.observation_space.shape
    return (rules, limit) if fits else None


@final
class MujocoVector:
    """See `VectorEnv`; there are no infos. Gymnasium's object resets each slot, on the slot's simulation."""

    many = True

    def __init__(self, env: Env, rules: Rules, limit: int, count: int, threads: int = 1):
        library = importlib.import_module("mujoco")  # compiled, and unknown to type checkers
        self.observation_space, self.action_space = env.observation_space, env.action_space
        self._env, self._rules, self._limit = env, rules, limit
        self._inner: Any = env.unwrapped
        self._advance = functools.partial(library.mj_step, self._inner.model, nstep=self._inner.frame_skip)
        self._compute_forces = functools.partial(library.mj_rnePostConstraint, self._inner.model)
        self._data: list[Simulation] = [library.MjData(self._inner.model) for _ in range(count)]
        self._shown = np.zeros((count, *(env.observation_space.shape or ())))
        self._places, self._dt = [0.0] * count, self._inner.dt
        self._steps: list[int] = [0] * count
        self.broken: dict[int, Exception] = {}
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None

    def begin(self, slots: Sequence[int] | np.ndarray, seeds: Sequence[int]) -> None:
        for slot, seed in zip(slots, seeds, strict=True):
            self._inner.data = self._data[slot]
            self._shown[slot], _ = self._inner.reset(seed=int(seed))
            self._places[slot] = self._rules.place(self._inner, self._data[slot])
            self._steps[slot] = 0

    def observe(self, slots: np.ndarray) -> Observed:
        if len(slots) == 1:  # a slice, which is quicker than a list of one
            slot = slots.item()
            return Observed(self._shown[slot : slot + 1].copy(), ())
        return Observed(self._shown[slots], ())

    def step(self, slots: np.ndarray, actions: Sequence[Nested] | np.ndarray) -> Steps:
        actions = np.asarray(actions)
        if len(slots) == 1:
            [(reward, ended, late)] = self._simulate(slots, actions)
            return np.array([reward], float), np.array([ended]), np.array([late])
        if self._pool is None or len(slots) <= SLOTS_A_THREAD:
            judged = self._simulate(slots, actions)
        else:
            cuts = range(SLOTS_A_THREAD, len(slots), SLOTS_A_THREAD)
            chunks = self._pool.map(self._simulate, np.split(slots, cuts), np.split(actions, cuts))
            judged = list(itertools.chain.from_iterable(chunks))
        rewards, terminated, truncated = zip(*judged, strict=True)
        return np.array(rewards, float), np.array(terminated), np.array(truncated)

    def _simulate(self, slots: np.ndarray, actions: np.ndarray) -> list[tuple[Pay, bool, bool]]:
        """Reward, terminated and truncated of each of these slots."""
        env, rules, limit = self._inner, self._rules, self._limit
        judged: list[tuple[Pay, bool, bool]] = []
        for slot, action in zip(slots.tolist(), actions, strict=True):
            data = self._data[slot]
            self._steps[slot] += 1
            data.ctrl[:] = action
            self._advance(data)
            if rules.forces:
                self._compute_forces(data)
            before, after = self._places[slot], rules.place(env, data)
            self._places[slot] = after
            self._shown[slot] = rules.observe(env, data)
            reward, terminated = rules.judge(env, data, (after - before) / self._dt, action)
            judged.append((reward, terminated, self._steps[slot] >= limit))
        return judged

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()
        self._env.close()
