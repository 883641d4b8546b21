"""Two robots that nobody has tuned for, as a user would write them: 348 inputs, 17 actions, and they fall.

    python benchmarks/budgets.py --tasks unseen:walker:5000:unseen:walker_expert --out runs/unseen

Walker2d-v5 and Ant-v5 behind a shape like that of Humanoid-v5, for which no expert comes with the package.

What is seen, in an order that is fixed and random: the state, mixed by a rotation and bent, arsinh(R x);
for Ant the forces of contact as they are; as many bent sums tanh(W x) of the state as fill half of what is
left; and nuisances that nobody acts on, half of them drifting (x' = 0.95 x + noise), half mostly zero with
rare blows, as forces of contact are. What is played are 17 numbers u in [-1, 1] of which the robot takes
the sums P u, where P has orthogonal rows. The expert undoes both exactly: it reads the state out of the
observation, asks the shipped expert, and plays the shortest u. The score of random actions is that of
random u. No number here was changed after a run was seen.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box

from understudy import experts

INPUTS, ACTIONS = 348, 17
"""Those of Humanoid-v5."""
STATES = {"Walker2d-v5": 17, "Ant-v5": 27}
"""How many of the inputs are positions and speeds; the others are forces."""


class Shape:
    """How the states of a robot are shown, and how what is played becomes its actions."""

    def __init__(self, robot: str):
        with gymnasium.make(robot) as env:
            shapes = env.observation_space.shape, env.action_space.shape
        self.width, self.plays = (math.prod(one or ()) for one in shapes)
        rng, self.state = np.random.default_rng(len(robot)), STATES[robot]
        self.rotation = np.linalg.qr(rng.standard_normal((self.state, self.state)))[0]
        left = INPUTS - self.width
        self.sums = rng.standard_normal((left // 2, self.state)) / np.sqrt(self.state)
        self.nuisances = left - left // 2
        self.order = rng.permutation(INPUTS)
        rows = np.linalg.qr(rng.standard_normal((ACTIONS, self.plays)))[0].T
        # The shortest u is rows' a / size, within [-1, 1] for every a in [-1, 1].
        self.size = np.abs(rows).sum(axis=0).max()
        self.rows = self.size * rows

    def show(self, seen: np.ndarray, nuisances: np.ndarray) -> np.ndarray:
        """An observation (348,) of a robot that shows `seen`."""
        state, forces = seen[: self.state], seen[self.state :]
        parts = np.arcsinh(self.rotation @ state), forces, np.tanh(self.sums @ state), nuisances
        return np.concatenate(parts)[self.order]

    def read(self, shown: np.ndarray) -> np.ndarray:
        """What robots show, from n observations (n, 348)."""
        parts = np.empty_like(shown)
        parts[:, self.order] = shown
        state = np.sinh(parts[:, : self.state]) @ self.rotation
        return np.concatenate([state, parts[:, self.state : self.width]], axis=1)


@functools.cache
def shape(robot: str) -> Shape:
    """The same in every process."""
    return Shape(robot)


class Unseen(gymnasium.Wrapper):
    """A robot behind its shape."""

    def __init__(self, robot: str):
        super().__init__(gymnasium.make(robot))
        self.shape = shape(robot)
        self.observation_space = Box(-np.inf, np.inf, (INPUTS,))
        self.action_space = Box(-1.0, 1.0, (ACTIONS,), np.float32)
        self.drift = np.zeros(self.shape.nuisances)

    def reset(self, **options: Any) -> tuple[np.ndarray, dict[str, Any]]:
        seen, infos = self.env.reset(**options)
        self.drift[:] = self.unwrapped.np_random.standard_normal(len(self.drift))
        return self._show(seen), infos

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        played = np.clip(self.shape.rows @ action, -1.0, 1.0).astype(np.float32)
        seen, *rest = self.env.step(played)
        noise = self.unwrapped.np_random.standard_normal(len(self.drift))
        self.drift = 0.95 * self.drift + np.sqrt(1 - 0.95**2) * noise
        return self._show(seen), *rest  # type: ignore[return-value]

    def _show(self, seen: np.ndarray) -> np.ndarray:
        nuisances = self.drift.copy()
        blows = nuisances[::2]
        nuisances[::2] = np.where(np.abs(blows) > 2, blows, 0.0)
        return self.shape.show(seen, nuisances)


def expert(robot: str, observations: np.ndarray) -> np.ndarray:
    """The shipped expert's actions behind the shape, for n observations."""
    made = shape(robot)
    found = _shipped(robot).act(made.read(np.asarray(observations, float)), ())
    return (found @ (made.rows / made.size**2)).astype(np.float32)


@functools.cache
def _shipped(robot: str) -> Any:
    return experts.resolve(None, env_id=robot)


def walker() -> gymnasium.Env:
    """Walker2d-v5, which falls, behind 348 inputs and 17 actions."""
    return Unseen("Walker2d-v5")


def ant() -> gymnasium.Env:
    """Ant-v5 behind 348 inputs, of which 78 are forces of contact, and 17 actions."""
    return Unseen("Ant-v5")


@experts.batched
def walker_expert(observations: np.ndarray) -> np.ndarray:
    return expert("Walker2d-v5", observations)


@experts.batched
def ant_expert(observations: np.ndarray) -> np.ndarray:
    return expert("Ant-v5", observations)
