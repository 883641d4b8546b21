"""The environments of n runs on the host: where rounds are collected and episodes played. Those of runs that
stay on the device are in `device`, with the same methods.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np

from ..envs.gymnasium import Maker
from ..envs.vector import Seen, VectorEnv, vector
from ..errors import UserError
from .collect import Collector
from .collected import Driver
from .evaluate import Act, Evaluation, by_policies, play_episodes
from .groups import Policies
from .labels import failure
from .questions import Questions
from .state import RunState

LANES = 10
"""Most episodes that a run alone evaluates side by side."""


@final
class Host(Collector):
    """The collector of runs, and their evaluations.

    Several runs play their episodes side by side, in environments that are made for it. A run alone plays one
    episode after another in an environment that stays, or in a few where environments are light and the
    answers are the same in any batch.

    Args:
      make: how an environment is made; `first` is one that is there already, and is closed with the others.
      threads: threads that step the environments.
    """

    def __init__(
        self,
        runs: Sequence[RunState],
        make: Maker,
        first: Any,
        questions: Questions,
        policies: Policies,
        *,
        threads: int,
    ):
        self._runs, self._name, self._policies = runs, make.name, policies
        self._parts = parts = runs[0].parts
        self._vector = functools.partial(vector, make, threads=threads, infos=parts.expert.needs_infos)
        self._kept: dict[int, VectorEnv] = {}  # of a run alone, by lanes
        envs = runs[0].plan.envs
        env = self._vector(len(runs) * envs, first=first)
        drivers = [Driver(run.spec.seed, run.resolved.noise) for run in runs]
        burn = max(getattr(run.game.policy, "burn", 0) for run in runs)
        super().__init__(env, questions, parts.observations, parts.actions, drivers, envs, burn=burn)
        if self.expert.person is not None:
            self.expert.person.open(make, env.observation_space, env.action_space)

    def of_runs(self, chosen: Sequence[int], t: int) -> list[Evaluation | UserError]:
        """The episodes with number t (see `play_episodes`) of the policies of these runs."""
        where = {run: at for at, run in enumerate(chosen)}
        shown = self._policies.load(chosen, shown=True)
        groups = [(one, np.array([where[run] for run in one.runs])) for one in shown]
        specs = [self._runs[i].spec for i in chosen]
        about = [spec.seed for spec in specs], [spec.episodes for spec in specs]
        codecs = self.observations, self.actions
        return self._play(*about, lambda lanes: by_policies(groups, *codecs, lanes), t)

    def of_expert(self, asked: Sequence[tuple[int, int, int]]) -> list[Evaluation | UserError]:
        """Those of the expert: for every seed, so many episodes, with number t."""

        def shows(seen: Seen, active: Any, fresh: Any) -> tuple[Any, dict[int, UserError]]:
            return self.expert.act(seen.batch, seen.infos), {}

        found: list[Evaluation | UserError] = []
        for seed, episodes, t in asked:
            try:
                found += self._play([seed], [episodes], lambda lanes: shows, t, self.expert)
            except Exception as error:
                found.append(failure("expert", error))
        return found

    def _play(
        self,
        seeds: Sequence[int],
        episodes: Sequence[int],
        act: Callable[[int], Act],
        t: int,
        expert: Any = None,
    ) -> list[Evaluation | UserError]:
        """`act(lanes)` plays in so many slots of every run; `expert`: who plays, if not a policy."""
        hook = None if expert is None else expert.on_reset
        alike = expert is None or (expert.alike and hook is None)
        alone, most = len(self._runs) == 1, LANES if alike and self.env.many else 1
        lanes = min(max(episodes), most) if alone else max(episodes)
        env = self._kept.get(lanes) or self._vector(len(seeds) * lanes)
        how = {"number": t, "lanes": lanes, "limit": self._parts.spec.episode_limit, "on_reset": hook}
        try:
            return play_episodes(env, self._name, seeds, episodes, act(lanes), **how)
        finally:
            if alone:
                self._kept[lanes] = env
            else:
                env.close()

    def close(self) -> None:
        """Closes all of them."""
        if self.expert.person is not None:
            self.expert.person.close()
        for env in (*self._kept.values(), self.env):
            env.close()
