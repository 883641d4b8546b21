"""The environments of n runs: where rounds are collected and episodes played, on the host or the device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

from ..envs.gymnasium import Maker
from ..envs.vector import VectorEnv, vector
from .collect import Collector
from .collected import Collects, Driver
from .device import Device, possible
from .evaluations import Evaluates, OnHost
from .groups import Members
from .questions import Questions
from .state import RunState


@final
class Environments:
    """The collector of runs, and their evaluations.

    Args:
      make: how an environment is made; `first` is one that is there already, and is closed with the others.
      shown: from some of the runs to the policies that are evaluated, by architecture.
      threads: threads that step the environments.
      together: whether runs of one program are one vmapped call.
    """

    collector: Collects
    evaluations: Evaluates

    def __init__(
        self,
        runs: Sequence[RunState],
        make: Maker,
        first: Any,
        questions: Questions,
        shown: Callable[[Sequence[int]], list[Members]],
        *,
        threads: int,
        together: bool,
    ):
        parts, self._make, self._threads = runs[0].parts, make, threads
        self._person, self._infos = parts.expert.person, bool(parts.expert.needs_infos)
        envs = min(parts.spec.envs, parts.spec.interactions)
        drivers = [Driver(run.plan.seed, run.parts.noise) for run in runs]
        first = make() if first is None else first
        self._collecting: VectorEnv | None = None
        if possible(first, parts):
            device = Device(first, runs, drivers, envs, together=together)
            self.collector = self.evaluations = device
            return
        self._collecting = env = self._vector(len(runs) * envs, first)
        burn = max(getattr(run.game.policy, "burn", 0) for run in runs)
        codecs = parts.observations, parts.actions
        self.collector = Collector(env, questions, *codecs, drivers, envs, burn=burn)
        self.evaluations = OnHost(runs, shown, self._vector, make.name, light=env.many)
        if self._person is not None:  # who is never traced, and so never on the device
            self._person.open(make, env.observation_space, env.action_space)

    def _vector(self, count: int, first: Any = None) -> VectorEnv:
        return vector(self._make, count, threads=self._threads, infos=self._infos, first=first)

    def close(self) -> None:
        """Closes all of them."""
        if self._person is not None:
            self._person.close()
        self.evaluations.close()
        if self._collecting is not None:
            self._collecting.close()
