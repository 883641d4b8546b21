"""The evaluations of n runs on the host: of their policies after a round, and of the expert."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np

from ..envs.vector import VectorEnv
from ..errors import UserError
from .evaluate import Act, Evaluation, by_expert, by_policies, play_episodes
from .groups import Members
from .labels import failure
from .parts import Parts

LANES = 10
"""Most episodes that a run alone evaluates side by side."""


@final
class Evaluations:
    """Several runs play their episodes side by side, in environments that are made for it. A run `alone`
    plays one episode after another in an environment that stays, or in a few where environments are `light`
    and the answers are the same in any batch.

    vector: makes so many slots of the environment, which has this name.
    """

    def __init__(
        self, parts: Parts, vector: Callable[[int], VectorEnv], name: str, *, light: bool, alone: bool
    ):
        self._vector, self._name, self._light, self._alone = vector, name, light, alone
        self._expert, self._limit = parts.expert, parts.spec.episode_limit
        self._codecs = parts.observations, parts.actions
        self._kept: dict[int, VectorEnv] = {}  # of a run alone, by lanes

    def of_policies(
        self,
        groups: Sequence[tuple[Members, np.ndarray]],
        seeds: Sequence[int],
        episodes: Sequence[int],
        t: int,
    ) -> list[Evaluation | UserError]:
        """Episodes number t of runs with these seeds; `groups` are policies, with the runs that have them."""
        return self._play(seeds, episodes, lambda lanes: by_policies(groups, *self._codecs, lanes), t)

    def of_expert(self, seed: int, episodes: int, t: int) -> Evaluation | UserError:
        """Episodes number t of the expert."""
        hook = self._expert.on_reset
        alike = self._expert.alike and hook is None
        act = by_expert(self._expert)
        try:
            return self._play([seed], [episodes], lambda lanes: act, t, alike=alike, on_reset=hook)[0]
        except Exception as error:
            return failure("expert", error)

    def _play(
        self,
        seeds: Sequence[int],
        episodes: Sequence[int],
        act: Callable[[int], Act],
        t: int,
        *,
        alike: bool = True,
        on_reset: Any = None,
    ) -> list[Evaluation | UserError]:
        """`act(lanes)` plays in so many slots of every run."""
        most = LANES if alike and self._light else 1
        lanes = min(max(episodes), most) if self._alone else max(episodes)
        env = self._kept.get(lanes) or self._vector(len(seeds) * lanes)
        try:
            return play_episodes(
                env,
                self._name,
                seeds,
                episodes,
                act(lanes),
                number=t,
                lanes=lanes,
                limit=self._limit,
                on_reset=on_reset,
            )
        finally:
            if self._alone:
                self._kept[lanes] = env
            else:
                env.close()

    def close(self) -> None:
        """Closes the environments that stayed."""
        for env in self._kept.values():
            env.close()
