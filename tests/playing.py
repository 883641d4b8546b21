"""Playing whole episodes, for tests that measure returns."""

from __future__ import annotations

import gymnasium
import numpy as np


def play(expert, env_id: str, episodes: int, *, seed: int = 0, **kwargs) -> np.ndarray:
    """The returns of `episodes` seeded episodes of something with SB3's `predict`."""
    env = gymnasium.make(env_id, **kwargs)
    returns = []
    for episode in range(episodes):
        observation, _ = env.reset(seed=seed + episode)
        total, over = 0.0, False
        while not over:
            action = expert.predict(observation)[0]
            observation, reward, terminated, truncated, _ = env.step(action)
            total, over = total + float(reward), terminated or truncated
        returns.append(total)
    env.close()
    return np.array(returns)
