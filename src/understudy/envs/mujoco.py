"""Hopper and Walker2d stepped straight by MuJoCo, many at a time, to the same bits as Gymnasium.

Half of a Gymnasium step of Hopper is not physics: wrappers, dictionaries, small arrays. Here every slot has
a simulation of its own, advanced by the call that Gymnasium makes (and that `mujoco.rollout` makes, which
would not give back the solver's warm start and so would step to other bits), and observations, rewards and
ends of all slots are computed together, by the same operations.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, final

import numpy as np
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit

from .gymnasium import Seen

CHUNK = 8
"""Slots that a thread takes at a time."""


@dataclasses.dataclass(frozen=True)
class Rules:
    """The settings of Gymnasium's Hopper-v5 or Walker2d-v5, read from an instance."""

    skip: int
    dt: float
    limit: int
    forward: float
    cost: float
    healthy: float
    ends: bool
    hidden: int
    height: tuple[float, float]
    angle: tuple[float, float]
    state: tuple[float, float] | None

    @classmethod
    def of(cls, made: Any) -> Rules | None:
        """Those of `made`, a Hopper-v5 or Walker2d-v5 with any keywords; None for anything else."""
        wrappers, inner, limit = [], made, 0
        while hasattr(inner, "env"):
            wrappers.append(type(inner))
            limit = getattr(inner, "_max_episode_steps", limit)
            inner = inner.env
        # Any other wrapper does something that we do not.
        if not set(wrappers) <= {TimeLimit, OrderEnforcing, PassiveEnvChecker} or not limit:
            return None
        if (type(inner).__module__, type(inner).__name__) not in (
            ("gymnasium.envs.mujoco.hopper_v5", "HopperEnv"),
            ("gymnasium.envs.mujoco.walker2d_v5", "Walker2dEnv"),
        ):
            return None
        return cls(
            skip=inner.frame_skip,
            dt=inner.dt,
            limit=limit,
            forward=inner._forward_reward_weight,
            cost=inner._ctrl_cost_weight,
            healthy=inner._healthy_reward,
            ends=inner._terminate_when_unhealthy,
            hidden=int(inner._exclude_current_positions_from_observation),
            height=inner._healthy_z_range,
            angle=inner._healthy_angle_range,
            state=getattr(inner, "_healthy_state_range", None),
        )

    def upright(self, position: Any, velocity: Any) -> Any:
        """Whether robots at these positions (…, nq) and velocities (…, nv) are healthy; NumPy's or JAX's."""
        height, angle = position[..., 1], position[..., 2]
        healthy = (self.height[0] < height) & (height < self.height[1])
        healthy &= (self.angle[0] < angle) & (angle < self.angle[1])
        if self.state is not None:
            low, high = self.state
            for part in (position[..., 2:], velocity):
                healthy &= ((low < part) & (part < high)).all(axis=-1)
        return healthy


@final
class Physics:
    """See `VectorEnv`; there are no infos. Gymnasium's object resets each slot, on the slot's simulation."""

    many = True

    def __init__(self, made: Any, rules: Rules, count: int, threads: int = 1):
        import mujoco

        native: Any = mujoco  # its functions are compiled, and unknown to type checkers
        self._made, self._rules, self._inner = made, rules, made.unwrapped
        self.observation_space, self.action_space = made.observation_space, made.action_space
        self._model: Any = self._inner.model
        self._data = [native.MjData(self._model) for _ in range(count)]
        self._advance = native.mj_step
        # Views of every simulation's memory, taken once.
        self._views = [(one.qpos, one.qvel, one.ctrl) for one in self._data]
        self._state, self._split = np.zeros((count, self._model.nq + self._model.nv)), self._model.nq
        self._position, self._velocity = self._state[:, : self._split], self._state[:, self._split :]
        self._steps = np.zeros(count, np.int64)
        self.broken: dict[int, Exception] = {}
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None

    def begin(self, slots: Sequence[int] | np.ndarray, seeds: Sequence[int]) -> None:
        for slot, seed in zip(slots, seeds, strict=True):
            self._inner.data = self._data[slot]
            self._inner.reset(seed=int(seed))
            self._steps[slot] = 0
            self._position[slot], self._velocity[slot] = self._views[slot][:2]

    def observe(self, slots: np.ndarray) -> Seen:
        hidden = self._rules.hidden
        if len(slots) == 1:  # a slice, which is quicker than a list of one
            slot = slots.item()
            seen = self._state[slot : slot + 1, hidden:].copy()
        else:
            seen = self._state[slots, hidden:]
        velocity = seen[:, self._split - hidden :]
        np.maximum(velocity, -10, out=velocity)  # not np.clip, which takes ten times as long with one row
        np.minimum(velocity, 10, out=velocity)
        return Seen(seen, ())

    def step(self, slots: np.ndarray, actions: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        rules, actions = self._rules, np.asarray(actions)
        if len(slots) == 1:
            return self._one(slots, actions)
        before = self._position[slots, 0]
        if self._pool is None:
            self._simulate(slots, actions)
        else:
            parts = [slice(first, first + CHUNK) for first in range(0, len(slots), CHUNK)]
            list(self._pool.map(lambda part: self._simulate(slots[part], actions[part]), parts))
        self._steps[slots] += 1
        position = self._position[slots]
        healthy = rules.upright(position, self._velocity[slots])
        rewards = rules.forward * ((position[:, 0] - before) / rules.dt) + healthy * rules.healthy
        rewards = rewards - rules.cost * np.sum(np.square(actions), axis=1)
        ended = ~healthy if rules.ends else np.zeros(len(slots), bool)
        return rewards, ended, self._steps[slots] >= rules.limit

    def _one(self, slots: np.ndarray, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """`step` of one slot: the same arithmetic on plain numbers, which is three times as fast."""
        rules, slot = self._rules, slots.item()
        before, (position, velocity, control) = self._position.item(slot, 0), self._views[slot]
        control[:] = actions[0]
        self._advance(self._model, self._data[slot], nstep=rules.skip)
        self._position[slot], self._velocity[slot] = position, velocity
        self._steps[slot] = steps = self._steps.item(slot) + 1
        at = position.tolist()
        healthy = rules.height[0] < at[1] < rules.height[1]
        healthy = healthy and rules.angle[0] < at[2] < rules.angle[1]
        if healthy and rules.state is not None:
            low, high = rules.state
            inner = at[2:] + velocity.tolist()
            healthy = low < min(inner) and max(inner) < high
        reward = rules.forward * ((at[0] - before) / rules.dt) + healthy * rules.healthy
        # As a float: a Python number and one of single precision would give single precision.
        reward = reward - float(rules.cost * np.add.reduce(np.square(actions[0])))
        ended = rules.ends and not healthy
        return np.array([reward]), np.array([ended]), np.array([steps >= rules.limit])

    def _simulate(self, slots: np.ndarray, actions: np.ndarray) -> None:
        advance, model, skip = self._advance, self._model, self._rules.skip
        for slot, action in zip(slots.tolist(), actions, strict=True):
            position, velocity, control = self._views[slot]
            control[:] = action
            advance(model, self._data[slot], nstep=skip)
            self._position[slot], self._velocity[slot] = position, velocity

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()
        self._made.close()
