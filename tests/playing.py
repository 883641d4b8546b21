"""Playing whole episodes, for tests that measure returns, and the last layer of an expert on images."""

from __future__ import annotations

import gymnasium
import numpy as np

from understudy.policies import NatureCNN


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


def head(expert) -> tuple[np.ndarray, np.ndarray]:
    """Weight (features, k) and bias (k,) of an expert whose logits are linear in its features of images."""
    net = expert.network
    layer = net.params["head"] if isinstance(net.policy, NatureCNN) else net.params[0]
    assert isinstance(net.policy, NatureCNN) or len(net.params) == 1
    return layer["weight"], layer["bias"]
