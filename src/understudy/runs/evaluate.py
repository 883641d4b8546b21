"""What a policy is worth: returns of whole episodes, in environments of their own, seeded apart from
collection.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, final

import numpy as np

from ..envs.gymnasium import Maker, derive
from ..errors import UserError

LIMIT = 100_000


class Evaluation(NamedTuple):
    """Undiscounted returns and lengths of the episodes, (episodes,) each."""

    returns: np.ndarray
    lengths: np.ndarray

    @property
    def mean(self) -> float:
        return float(self.returns.mean())

    @property
    def std(self) -> float:
        return float(self.returns.std())


@final
class Evaluator:
    """Plays episodes with a function of (observation, info); evaluation costs no queries and no
    interactions.
    """

    def __init__(self, make: Maker, *, seed: int, stream: str = "evaluate"):
        self._make, self._seed, self._stream, self._env = make, seed, stream, None

    def __call__(self, act: Callable[[Any, Any], Any], *, episodes: int, number: int = 0) -> Evaluation:
        """Episode i is seeded by (seed, stream, number, i): the same call gives the same numbers."""
        if self._env is None:
            self._env = self._make()
        returns, lengths = [], []
        for episode in range(episodes):
            observation, info = self._env.reset(seed=derive(self._seed, self._stream, number, episode))
            total, length, over = 0.0, 0, False
            while not over:
                observation, reward, terminated, truncated, info = self._env.step(act(observation, info))
                total, length, over = total + float(reward), length + 1, terminated or truncated
                if length >= LIMIT:
                    raise UserError(
                        f"env: an episode of {self._make.name} has lasted {LIMIT} steps; give it a limit "
                        "(max_episode_steps in env_kwargs)."
                    )
            returns.append(total)
            lengths.append(length)
        return Evaluation(np.asarray(returns), np.asarray(lengths))

    def close(self) -> None:
        if self._env is not None:
            self._env.close()
            self._env = None


def acting(policy: Any) -> Callable[[Any, Any], Any]:
    """A trained policy, or an expert, as a function of (observation, info)."""
    if hasattr(policy, "label"):
        from ..policies import stacked

        return lambda observation, info: policy.act(stacked([observation]), [info])[0]
    return lambda observation, info: policy.act(observation)
