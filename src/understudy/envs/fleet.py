"""Many environments of one kind, stepped side by side: one slot a run (or an episode), begun when told to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, final

import numpy as np

from ..policies import stacked
from .gymnasium import Maker


class Fleet(Protocol):
    """`count` slots, each with one episode under way. Slots are named by number, in any order and choice."""

    observation_space: Any
    action_space: Any
    broken: dict[int, str]
    """Slots whose environment has raised an error, and what it said; they stay as they were."""

    def begin(self, slot: int, seed: int) -> None:
        """Begins an episode in one slot."""
        ...

    def batch(self, slots: np.ndarray) -> Any:
        """The observations in these slots, as experts take them: arrays with n in front."""
        ...

    def infos(self, slots: np.ndarray) -> Sequence[Any]:
        """What the environments say beside the observations."""
        ...

    def step(self, slots: np.ndarray, actions: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Plays one action in each of these slots: rewards (float64), terminated and truncated, (n,) each.

        An episode that ends stays where it ended until another is begun.
        """
        ...

    def close(self) -> None: ...


@final
class Gymnasiums:
    """A fleet of any Gymnasium environments, one object a slot, stepped one after another."""

    def __init__(self, make: Maker, count: int):
        self._envs = [make() for _ in range(count)]
        self.observation_space = self._envs[0].observation_space
        self.action_space = self._envs[0].action_space
        self._seen: list[Any] = [None] * count
        self._infos: list[Any] = [{}] * count
        self.broken: dict[int, str] = {}

    def begin(self, slot: int, seed: int) -> None:
        self._seen[slot], self._infos[slot] = self._envs[slot].reset(seed=int(seed))

    def batch(self, slots: np.ndarray) -> Any:
        return stacked([self._seen[slot] for slot in slots])

    def infos(self, slots: np.ndarray) -> Sequence[Any]:
        return [self._infos[slot] for slot in slots]

    def step(self, slots: np.ndarray, actions: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        rewards, ended = np.empty(len(slots)), np.zeros((2, len(slots)), bool)
        for i, slot in enumerate(slots.tolist()):
            try:
                seen, rewards[i], ended[0, i], ended[1, i], info = self._envs[slot].step(actions[i])
            except Exception as error:  # one environment's fault must not end its neighbours' runs
                self.broken[slot], rewards[i] = f"{type(error).__name__}: {error}", np.nan
                continue
            self._seen[slot], self._infos[slot] = seen, info
        return rewards, ended[0], ended[1]

    def close(self) -> None:
        for env in self._envs:
            env.close()


def fleet(make: Maker, count: int, *, threads: int = 1) -> Fleet:
    """The fastest fleet that steps bit for bit as Gymnasium does: MuJoCo directly, where we know how.

    >>> from understudy.envs.gymnasium import maker
    >>> two = fleet(maker("CartPole-v1"), 2)
    >>> two.begin(0, 1), two.begin(1, 1)
    (None, None)
    >>> both = two.batch(np.array([0, 1]))
    >>> both.shape, bool((both[0] == both[1]).all())
    ((2, 4), True)
    """
    if make.by_id:
        from . import mujoco

        found = mujoco.physics(make, count, threads=threads)
        if found is not None:
            return found
    return Gymnasiums(make, count)
