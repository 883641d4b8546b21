"""Experts that studies name, and an environment whose episodes do not end."""

from __future__ import annotations

import gymnasium as gym
import numpy as np


def soft(observation):
    """Probabilities of CartPole's two actions."""
    push = 3.0 * (observation[2] + 0.5 * observation[3] + 0.1 * observation[0])
    left = 1 / (1 + np.exp(push))
    return np.array([left, 1 - left])


soft.kind = "distribution"


def informed(observation, info):
    """An expert that is given the infos, and asks for them."""
    assert isinstance(info, dict)
    return int(observation[2] + 0.5 * observation[3] > 0)


def down(observation):
    return 1


class Endless(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)
    made = closed = 0

    def __init__(self):
        Endless.made += 1

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.np_random.uniform(-1, 1, 2).astype(np.float32), {}

    def step(self, action):
        return np.zeros(2, np.float32), 1.0, False, False, {}

    def close(self):
        Endless.closed += 1


gym.registry.pop("Endless-v0", None)  # imported by two names: the last one counts, without a warning
gym.register("Endless-v0", entry_point=Endless)


def half(observation):
    return observation[:1]
