"""The evaluations of n runs: of their policies, and of the expert. Those on the device are in `device`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, final

import numpy as np

from ..envs.vector import VectorEnv
from ..errors import UserError
from .evaluate import Act, Evaluation, by_expert, by_policies, play_episodes
from .groups import Members
from .labels import failure
from .state import RunState

LANES = 10
"""Most episodes that a run alone evaluates side by side."""


class Evaluates(Protocol):
    """Plays episodes with number t; see `play_episodes`."""

    def of_runs(self, chosen: Sequence[int], t: int) -> list[Evaluation | UserError]:
        """Of the policies of these runs."""
        ...

    def of_expert(self, asked: Sequence[tuple[int, int, int]]) -> list[Evaluation | UserError]:
        """Of the expert: for every seed, so many episodes, with number t."""
        ...

    def close(self) -> None: ...


@final
class OnHost:
    """Several runs play their episodes side by side, in environments that are made for it. A run `alone`
    plays one episode after another in an environment that stays, or in a few where environments are `light`
    and the answers are the same in any batch.

    shown: from some of the runs to their policies, by architecture. vector: makes so many slots of the
    environment, which has this name.
    """

    def __init__(
        self,
        runs: Sequence[RunState],
        shown: Callable[[Sequence[int]], list[Members]],
        vector: Callable[[int], VectorEnv],
        name: str,
        *,
        light: bool,
    ):
        self._runs, self._shown, self._vector, self._name = runs, shown, vector, name
        self._light, self._alone, parts = light, len(runs) == 1, runs[0].parts
        self._expert, self._limit = parts.expert, parts.spec.episode_limit
        self._codecs = parts.observations, parts.actions
        self._kept: dict[int, VectorEnv] = {}  # of a run alone, by lanes

    def of_runs(self, chosen: Sequence[int], t: int) -> list[Evaluation | UserError]:
        where = {run: at for at, run in enumerate(chosen)}
        groups = [(one, np.array([where[run] for run in one.runs])) for one in self._shown(chosen)]
        plans = [self._runs[i].plan for i in chosen]
        about = [plan.seed for plan in plans], [plan.episodes for plan in plans]
        return self._play(*about, lambda lanes: by_policies(groups, *self._codecs, lanes), t)

    def of_expert(self, asked: Sequence[tuple[int, int, int]]) -> list[Evaluation | UserError]:
        return [self._of_expert(*one) for one in asked]

    def _of_expert(self, seed: int, episodes: int, t: int) -> Evaluation | UserError:
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
