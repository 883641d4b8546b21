"""Collecting a round: exactly M steps, whoever acts: observe, act, step, record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, final

import numpy as np

from ..envs.gymnasium import Seen, VectorEnv, derive, raise_broken
from ..envs.pictures import Scene
from ..errors import UserError, failure
from ..experts import Expert
from ..policies import Actions, History, Recalled, not_finite
from ..policies import Seen as Sees
from ..samples import TERMINATED, TRUNCATED, Path, not_finite_rows
from ..student import Plan
from .driver import Driver
from .journal import Kept

Tick = Callable[[str, int, int], None]
"""Called with what is done, and how many steps and labels the round under way has."""


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


@final
class Episodes:
    """The slots of a vector environment, each with an episode under way.

    Episode k of slot j is seeded by (the run's seed, "collect", j, k). With its actions the seed rebuilds it.
    A policy with memory needs the last `burn` rows of every slot.
    """

    def __init__(
        self,
        env: VectorEnv,
        count: int,
        observations: Sees,
        actions: Actions,
        expert: Expert,
        seed: int,
        *,
        burn: int = 0,
    ):
        self.env, self.count, self.observations, self.actions = env, count, observations, actions
        self._expert, self._seed = expert, seed
        self.slots = np.arange(count)
        self._episode = np.full(count, -1)
        # Actions of the episode under way in every slot.
        self._played = [np.zeros((0, actions.size), actions.dtype) for _ in self.slots]
        self._over = np.ones(count, bool)  # the next step begins an episode
        self.driven = np.zeros(count, bool)  # the expert has taken over, until it gives back or the end
        self.history = History(observations, count, keep=burn)
        # For an expert who looks at pictures: what was played so far in the episode of every slot.
        self._trails: dict[int, list[Any]] | None = None if expert.person is None else {}

    def begin(self) -> None:
        """Begins an episode in the slots in which none is under way."""
        if self._over.any():
            self._begin_next(self.slots[self._over])

    def _begin_next(self, slots: np.ndarray) -> None:
        if self._expert.on_reset is not None:
            self._expert.on_reset()
        self._episode[slots] += 1
        self._over[slots] = self.driven[slots] = False
        self.history.begin(slots)
        if self._trails is not None:
            self._trails |= {slot: [] for slot in slots.tolist()}
        self.env.begin(slots, [self.seed_of(slot) for slot in slots.tolist()])

    def seed_of(self, slot: int) -> int:
        """The seed of the episode under way in a slot."""
        return derive(self._seed, "collect", slot, int(self._episode[slot]))

    def look(self, slots: np.ndarray) -> tuple[Seen, np.ndarray]:
        """What the slots show, and as rows (n, width)."""
        raise_broken(self.env)
        seen = self.env.observe(slots)
        rows = self.history.see(slots, seen.batch)
        if self._trails is not None:
            seen = Seen(seen.batch, [{"scene": self._scene(slot)} for slot in slots.tolist()])
        for i in not_finite_rows(rows):
            raise not_finite(rows[i])
        return seen, rows

    def _scene(self, slot: int) -> Scene:
        """How the state that a slot shows came about."""
        assert self._trails is not None
        if slot not in self._trails:  # resumed
            acts = self.actions
            self._trails[slot] = [np.asarray(a, acts.dtype).reshape(acts.shape) for a in self._played[slot]]
        trail = self._trails[slot]
        return Scene(self.seed_of(slot), trail, len(trail))

    def step(self, slots: np.ndarray, rows: np.ndarray, actions: Any) -> tuple[np.ndarray, ...]:
        """Plays an action in each of the slots that show these rows, and begins the next episode where one
        has ended: rewards, terminated and truncated.
        """
        if self._trails is not None:
            for slot, action in zip(slots.tolist(), actions, strict=True):
                self._trails[slot].append(np.array(action))
        rewards, terminated, truncated = self.env.step(slots, actions)
        self.history.advance(slots, rows)
        if np.count_nonzero(terminated) or np.count_nonzero(truncated):  # quicker than any
            self._begin_next(slots[terminated | truncated])
        return rewards, terminated, truncated

    def remember(self, path: Path) -> None:
        """Keeps the actions of a round that belong to episodes under way."""
        for slot in range(self.count):
            mine = slice(path.begun + slot, None, self.count)
            ends = np.flatnonzero(path.flags[mine] & (TERMINATED | TRUNCATED))
            before = [] if len(ends) else [self._played[slot]]
            since = ends[-1] + 1 if len(ends) else 0
            self._played[slot] = np.concatenate([*before, path.executed[mine][since:]])

    def snapshot(self) -> list[dict[str, Any]]:
        """Where each environment is: its episode, the actions played in it, the row it shows."""
        if self._over.any():  # nothing is under way yet
            nothing = np.zeros(0, self.observations.dtype)
            return [{"episode": -1, "actions": played, "row": nothing} for played in self._played]
        rows = self.history.see(self.slots, self.env.observe(self.slots).batch)
        return [
            {"episode": int(episode), "actions": played, "row": row}
            for episode, played, row in zip(self._episode, self._played, rows, strict=True)
        ]

    def resume_anew(self, snapshot: Sequence[dict[str, Any]]) -> None:
        """On from a snapshot with new episodes, for environments that cannot play the old ones again."""
        for slot, kept in enumerate(snapshot):
            self._episode[slot] = int(kept["episode"])

    def restore(self, snapshot: Sequence[dict[str, Any]]) -> int:
        """Back to a snapshot, by beginning each episode with its seed and playing its actions again.

        An expert that remembers is reset, and asked about every state again: the number of such calls.
        """
        asked = 0
        for slot, kept in enumerate(snapshot):
            if kept["episode"] >= 0:
                asked += self._play_again(slot, int(kept["episode"]), kept["actions"])
        for now, kept in zip(self.snapshot() if snapshot else [], snapshot, strict=True):
            if now["row"].tobytes() != np.asarray(kept["row"]).tobytes():
                raise UserError(
                    f"resume: the environment does not replay: after {len(kept['actions'])} actions of "
                    f"episode {kept['episode']} its observation is another one now, so it cannot be "
                    "continued exactly; --resume=new-episode goes on with a new one."
                )
        return asked

    def _play_again(self, slot: int, episode: int, actions: np.ndarray) -> int:
        """Plays the actions of an episode in a slot; how often the expert was asked on the way."""
        here, remembers = np.array([slot]), self._expert.on_reset is not None
        self._episode[slot], self._played[slot], self._over[slot] = episode, actions, False
        self.history.begin([slot])
        self.env.begin([slot], [self.seed_of(slot)])
        if self._expert.on_reset is not None:
            self._expert.on_reset()
        for action in actions:
            if remembers:
                try:
                    self._expert.label(*self.env.observe(here))
                except Exception as error:
                    raise failure("expert", error) from error
            if isinstance(self.observations, Recalled):
                self.history.advance(here, self.history.see(here, self.env.observe(here).batch))
            played = np.asarray(action, self.actions.dtype).reshape(1, *self.actions.shape)
            _, terminated, truncated = self.env.step(here, played)
            if slot in self.env.broken:
                raise failure("environment", self.env.broken[slot])
            if terminated[0] or truncated[0]:
                raise UserError(
                    "resume: the environment does not replay: an episode under way ends earlier now; "
                    "--resume=new-episode goes on with a new one."
                )
        return len(actions) if remembers else 0


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
        raise_broken(episodes.env)
        path.settle()
        episodes.remember(path)
        return path

    def snapshot(self) -> list[dict[str, Any]]:
        return self.episodes.snapshot()

    def restore(self, snapshot: Sequence[dict[str, Any]]) -> int:
        return self.episodes.restore(snapshot)

    def resume_anew(self, snapshot: Sequence[dict[str, Any]], found: Sequence[Kept]) -> None:
        self.episodes.resume_anew(snapshot)
        self._found = found
