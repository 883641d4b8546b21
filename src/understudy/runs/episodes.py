"""The episodes under way in the environments of n runs: begun, looked at, stepped, kept and played again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..envs.gymnasium import derive
from ..envs.pictures import Scene
from ..envs.vector import Seen, VectorEnv
from ..errors import UserError
from ..policies import Actions, History, Recalled, not_finite
from ..policies import Seen as Sees
from .collected import TERMINATED, TRUNCATED, Driver, Round, not_finite_rows
from .journal import Kept
from .labels import failure
from .questions import Questions


class Episodes:
    """`envs` slots of one vector environment for each run: slot i · envs + j is environment j of run i.

    Episode k of environment j of a run is seeded by (the run's seed, "collect", j, k). A policy with memory
    needs the last `burn` rows of every slot.
    """

    def __init__(
        self,
        env: VectorEnv,
        questions: Questions,
        observations: Sees,
        actions: Actions,
        drivers: Sequence[Driver],
        envs: int = 1,
        *,
        burn: int = 0,
    ):
        self.env, self.questions, self.drivers, self.envs = env, questions, list(drivers), envs
        self.expert, self.observations, self.actions = questions.expert, observations, actions
        self._episode = np.full(len(drivers) * envs, -1)
        # Actions of the episode under way in every slot: with its seed they rebuild it.
        self._played = [np.zeros((0, actions.size), actions.dtype) for _ in self._episode]
        self._over = np.ones(len(self._episode), bool)  # the next step begins an episode
        self._found: dict[int, list[Kept]] = {}  # labels of the round under way, from before a break
        self.history = History(observations, len(self._episode), keep=burn)
        # For an expert who looks at pictures: what was played so far in the episode of every slot.
        self._trails: dict[int, list[Any]] | None = None if self.expert.person is None else {}

    def begin(self, slots: np.ndarray) -> None:
        """Begins an episode in those of these slots in which none is under way."""
        self.begin_next(slots[self._over[slots]])

    def begin_next(self, slots: np.ndarray) -> None:
        """Begins the next episode in these slots."""
        if self.expert.on_reset is not None and len(slots):
            self.expert.on_reset()
        self._episode[slots] += 1
        self._over[slots] = False
        self.history.begin(slots)
        if self._trails is not None:
            self._trails |= {slot: [] for slot in slots.tolist()}
        self.env.begin(slots, [self._seed(slot) for slot in slots.tolist()])

    def _seed(self, slot: int) -> int:
        run, j = divmod(slot, self.envs)
        return derive(self.drivers[run].seed, "collect", j, int(self._episode[slot]))

    def look(self, slots: np.ndarray) -> tuple[Any, Any, dict[int, UserError]]:
        """What the slots show, as rows too; or what is wrong, by slot: an environment has raised, or numbers
        are not finite.
        """
        broken = self.env.broken
        wrong = {slot: failure("environment", error) for slot, error in broken.items() if slot in slots}
        if wrong:
            return None, None, wrong
        seen = self.env.observe(slots)
        rows = self.history.see(slots, seen.batch)
        if self._trails is not None:
            seen = Seen(seen.batch, [{"scene": self._scene(slot)} for slot in slots.tolist()])
        return seen, rows, {int(slots[i]): not_finite(rows[i]) for i in not_finite_rows(rows)}

    def _scene(self, slot: int) -> Scene:
        """How the state that a slot shows came about."""
        assert self._trails is not None
        if slot not in self._trails:  # resumed
            acts = self.actions
            self._trails[slot] = [np.asarray(a, acts.dtype).reshape(acts.shape) for a in self._played[slot]]
        trail = self._trails[slot]
        return Scene(self._seed(slot), trail, len(trail))

    def step(self, slots: np.ndarray, rows: np.ndarray, actions: Any) -> tuple[np.ndarray, ...]:
        """Plays an action in each of the slots that show these rows: rewards, terminated and truncated."""
        if self._trails is not None:
            for slot, action in zip(slots.tolist(), actions, strict=True):
                self._trails[slot].append(np.array(action))
        gained, terminated, truncated = self.env.step(slots, actions)
        self.history.advance(slots, rows)
        return gained, terminated, truncated

    def remember(self, run: int, round: Round, begun: int) -> None:
        """Keeps the actions of a round, from row `begun` on, that belong to episodes under way."""
        for j in range(self.envs):
            slot, mine = run * self.envs + j, slice(begun + j, None, self.envs)
            ends = np.flatnonzero(round.flags[mine] & (TERMINATED | TRUNCATED))
            before = [] if len(ends) else [self._played[slot]]
            since = ends[-1] + 1 if len(ends) else 0
            self._played[slot] = np.concatenate([*before, round.executed[mine][since:]])

    def snapshot(self, run: int) -> list[dict[str, Any]]:
        """Where each environment of a run is: its episode, the actions played in it, the row it shows."""
        slots = np.arange(run * self.envs, (run + 1) * self.envs)
        if self._over[slots].any():  # nothing is under way yet
            nothing = np.zeros(0, self.observations.dtype)
            return [{"episode": -1, "actions": self._played[slot], "row": nothing} for slot in slots]
        rows = self.history.see(slots, self.env.observe(slots).batch)
        return [
            {"episode": int(self._episode[slot]), "actions": self._played[slot], "row": row}
            for slot, row in zip(slots, rows, strict=True)
        ]

    def restore(self, run: int, snapshot: list[dict[str, Any]]) -> int:
        """Back to a snapshot, by beginning each episode with its seed and playing its actions again.

        An expert that remembers is reset, and asked about every state again; gives the number of such calls.
        """
        asked = 0
        for j, kept in enumerate(snapshot):
            if kept["episode"] >= 0:
                asked += self._play_again(run * self.envs + j, int(kept["episode"]), kept["actions"])
        rows = self.snapshot(run) if snapshot else []
        for now, kept in zip(rows, snapshot, strict=True):
            if now["row"].tobytes() != np.asarray(kept["row"]).tobytes():
                raise UserError(
                    f"resume: the environment does not replay: after {len(kept['actions'])} actions of "
                    f"episode {kept['episode']} its observation is another one now, so it cannot be "
                    "continued exactly; --resume=new-episode goes on with a new one."
                )
        return asked

    def _play_again(self, slot: int, episode: int, actions: np.ndarray) -> int:
        """Plays the actions of an episode in a slot; how often the expert was asked on the way."""
        here, remembers = np.array([slot]), self.expert.on_reset is not None
        self._episode[slot], self._played[slot], self._over[slot] = episode, actions, False
        self.history.begin([slot])
        self.env.begin([slot], [self._seed(slot)])
        if self.expert.on_reset is not None:
            self.expert.on_reset()
        for action in actions:
            if remembers:
                try:
                    self.expert.label(*self.env.observe(here))
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
