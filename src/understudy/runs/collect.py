"""Collecting a round: exactly M interactions, whoever acts: observe, act, step, record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, final

from ..errors import failure
from ..samples import Path
from ..student import Plan
from .driver import Driver
from .episodes import Episodes
from .journal import Kept

Tick = Callable[[str, int, int], None]
"""Called with what is done, and how many interactions and labels the round under way has."""


class Collector(Protocol):
    """Where rounds are collected: on the host (below) or on the device (`runs.device`)."""

    def collect(self, plan: Plan, tick: Tick | None = None) -> Path: ...

    def snapshot(self) -> list[dict[str, Any]]:
        """Where the environments are, as arrays."""
        ...

    def restore(self, snapshot: Sequence[dict[str, Any]]) -> int:
        """Back to a snapshot; how often the expert was asked for it."""
        ...

    def resume_anew(self, snapshot: Sequence[dict[str, Any]], found: Sequence[Kept]) -> None:
        """On from a snapshot with new episodes, for environments that cannot play the old ones again; the
        labels found of the round under way are its first samples.
        """
        ...

    def close(self) -> None: ...


@final
class HostCollector:
    """Steps environments with the actions that a driver says."""

    def __init__(self, episodes: Episodes, driver: Driver):
        self.episodes, self.driver = episodes, driver
        self._found: Sequence[Kept] = ()  # labels of the round under way, from before a break

    def collect(self, plan: Plan, tick: Tick | None = None) -> Path:
        """The path of a round."""
        episodes, driver, size = self.episodes, self.driver, plan.size
        path, self._found = driver.begin(plan, self._found), ()
        episodes.begin()
        while path.row < size:
            # The last step of a round may be played in some of the slots only.
            slots = episodes.slots[: size - path.row]
            seen, rows = episodes.look(slots)
            actions = driver.act(slots, seen, rows)
            rewards, terminated, truncated = episodes.step(slots, rows, actions)
            path.record(rows, actions, rewards, terminated, truncated)
            if tick is not None:
                tick("collecting", path.row, driver.asked)
        if episodes.env.broken:
            raise failure("environment", next(iter(episodes.env.broken.values())))
        episodes.remember(path)
        return path

    def snapshot(self) -> list[dict[str, Any]]:
        return self.episodes.snapshot()

    def restore(self, snapshot: Sequence[dict[str, Any]]) -> int:
        return self.episodes.restore(snapshot)

    def resume_anew(self, snapshot: Sequence[dict[str, Any]], found: Sequence[Kept]) -> None:
        self.episodes.resume_anew(snapshot)
        self._found = found

    def close(self) -> None:
        self.episodes.env.close()
