"""An environment that counts: its observation says which step of which episode it is in, and it keeps a
diary.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from understudy.experts import Expert


class Counting(gym.Env):
    """Observation (seed's low bits, step in the episode); ends after 3 + seed % 5 steps, by turns
    truncated.
    """

    diary: list[tuple[Any, ...]]

    def __init__(self, action_space: Any = None, poison: int | None = None):
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float64)
        self.action_space = gym.spaces.Box(-1, 1, (1,), np.float32) if action_space is None else action_space
        self.diary, self.poison, self._total = [], poison, 0

    def reset(self, *, seed=None, options=None):
        assert seed is not None, "every episode has a seed of its own"
        self.seed, self.step_number = int(seed), 0
        self.diary.append(("reset", self.seed))
        return self._observe(), {"privileged": float(self.seed % 7)}

    def _observe(self):
        return np.array([self.seed % 1000, self.step_number], np.float64)

    def step(self, action):
        length = 3 + self.seed % 5
        assert self.step_number < length, "a step after the end of an episode"
        self.step_number += 1
        self._total += 1
        self.diary.append(("step", np.array(action, copy=True)))
        over = self.step_number == length
        observation = self._observe()
        if self.poison is not None and self._total >= self.poison:
            observation = observation * np.nan
        done = over and self.seed % 2 == 0, over and self.seed % 2 == 1
        return observation, 1.0, *done, {"privileged": float(self.seed % 7)}


def answering(value: Any) -> Expert:
    """An expert that counts its labels in `.card["asked"]` and answers with `value(observations)`."""
    asked: list[int] = []

    def ask(observations, infos):
        asked.append(len(observations))
        return value(observations)

    return Expert("counted", ask=ask, card={"asked": asked})


def half(observations: np.ndarray) -> np.ndarray:
    return np.full((len(observations), 1), 0.5, np.float32)
