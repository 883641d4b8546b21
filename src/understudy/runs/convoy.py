"""Many runs in one environment at one pace: one slot a run, one forward pass a step for all of them.

A study is hundreds of runs, and each alone would spend its time in wrappers and single small products. Here
their environments are stepped together, the expert is asked about all their states at once, and their
policies act as one stack. On a CPU a run in a convoy has the same ledger as that run alone, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, final

import jax
import numpy as np

from ..envs.fleet import Fleet
from ..envs.gymnasium import derive
from ..errors import UserError
from ..experts.base import take
from .cohort import Cohort, cohorts
from .collect import EXPERT, TERMINATED, TRUNCATED, Round
from .evaluate import LIMIT, Evaluation
from .loop import Clock, Loop
from .troupe import Troupe, troupes

MakeFleet = Callable[[int], Fleet]


@final
class Unkept:
    """A book that keeps no samples: a study reads the ledgers alone."""

    def __init__(self):
        self.rows = 0

    def append(self, round: Round) -> None:
        self.rows += len(round)


@final
class Convoy:
    """Loops with the same rounds, environment and expert. `errors[i]` says why run i has stopped, or None.

    together: solve all runs of a program in one vmapped call (default: where there is a GPU).
    """

    def __init__(self, loops: Sequence[Loop], make: MakeFleet, expert: Any, *, together: bool | None = None):
        assert len({loop.plan.sizes for loop in loops}) == 1, "runs of a convoy have the same rounds"
        self.loops, self.expert, self._make = list(loops), expert, make
        self.errors: list[str | None] = [None] * len(loops)
        self.seeds = [loop.plan.seed for loop in loops]
        self.round, self.rounds = 0, len(loops[0].plan.sizes)
        gpu = jax.default_backend() != "cpu"
        self._together = gpu if together is None else together
        self._troupes = troupes(self.loops)
        self._cohorts = cohorts(self.loops, together=self._together)
        self._fleet, self._episodes = make(len(loops)), [0] * len(loops)
        for slot, seed in enumerate(self.seeds):
            self._fleet.begin(slot, derive(seed, "collect", 0, 0))

    def advance(self) -> None:
        """Plays one round of every run that goes on."""
        t, clock = self.round + 1, Clock()
        going = np.flatnonzero([error is None for error in self.errors])
        if not len(going):
            self.round = t
            return
        rounds = self._collect(going, t)
        share = len(going)  # the seconds of what is done together are split evenly
        clock.lap("collect", share)

        def learn(cohort: Cohort) -> list[str | None]:
            return cohort.learn([rounds.get(place) for place in cohort.places.tolist()], clock)

        if self._together:  # large programs: the first round compiles them side by side
            with ThreadPoolExecutor(len(self._cohorts)) as pool:
                told = [*pool.map(learn, self._cohorts)]
        else:
            told = [learn(cohort) for cohort in self._cohorts]
        for cohort, errors in zip(self._cohorts, told, strict=True):
            for place, error in zip(cohort.places, errors, strict=True):
                self.errors[place] = self.errors[place] or error
        self.round = t
        wanted = [i for i in going.tolist() if self.errors[i] is None and t in self.loops[i].plan.evaluated]
        if wanted:
            clock = Clock()
            results = self.evaluate(wanted, t)
            clock.lap("evaluate", len(wanted))
            for i, result in zip(wanted, results, strict=True):
                self.loops[i].assess(result)
                self.loops[i].times[-1]["evaluate"] = clock.laps["evaluate"]
        if t == self.rounds:
            for cohort in self._cohorts:
                cohort.finish()

    def _collect(self, going: np.ndarray, t: int) -> dict[int, Round]:
        first = self.loops[0]
        size, codec, acts = first.plan.sizes[t - 1], first.collector.observations, first.collector.actions
        n, k = len(going), acts.outputs
        by_expert, noise = np.empty((n, size), bool), np.zeros((size, n, k), np.float32)
        noisy = np.zeros(n, bool)
        for i, place in enumerate(going):
            loop = self.loops[place]
            by_expert[i], drawn = loop.collector.draws(t, size, loop.plan.mixing.beta(t))
            if drawn is not None:
                noise[:, i], noisy[i] = drawn, True
        inputs = np.empty((size, n, codec.width), codec.dtype)
        targets = np.empty((size, n, k), np.float32)
        executed = np.empty((size, n, acts.size), acts.dtype)
        rewards, flags = np.empty((size, n), np.float32), np.empty((size, n), np.uint8)
        acting = [
            (troupe, at, noisy[at], ~by_expert[at])
            for troupe, at in self._acting(going, going[~by_expert.all(axis=1)])
        ]
        for row in range(size):
            batch, rows = self._observed(going, t)
            labels = self.expert.label(batch, self._fleet.infos(going) if self.expert.needs_infos else None)
            inputs[row], targets[row] = rows, acts.targets(labels, self.expert.kind)
            actions = self._experts(labels)
            for troupe, at, loud, driving in acting:
                own = driving[:, row]
                if not own.any():
                    continue
                outputs = troupe.outputs(rows[at, None], own[:, None])[:, 0]
                if loud.any():
                    outputs[loud] = outputs[loud] + noise[row, at[loud]]
                actions[at[own]] = acts.plays(outputs)[own]
            executed[row] = np.asarray(actions).reshape(n, -1)
            rewards[row], terminated, truncated = self._fleet.step(going, actions)
            flags[row] = TERMINATED * terminated + TRUNCATED * truncated + EXPERT * by_expert[:, row]
            for i in np.flatnonzero(terminated | truncated):
                slot = int(going[i])
                self._episodes[slot] += 1
                self._fleet.begin(slot, derive(self.seeds[slot], "collect", 0, self._episodes[slot]))
            for slot, told in self._fleet.broken.items():
                self.errors[slot] = self.errors[slot] or f"round {t}: environment: {told}"
        found = {}
        for i, place in enumerate(going.tolist()):
            if self.errors[place] is not None:
                continue
            owners = np.zeros(size, np.int32)
            columns: Any = [
                np.ascontiguousarray(part[:, i]) for part in (inputs, targets, executed, rewards, flags)
            ]
            found[place] = Round(*columns, slots=owners, queries=size)
        return found

    def _observed(self, going: np.ndarray, t: int) -> tuple[Any, np.ndarray]:
        """What the expert and the policies see; a run that sees nonsense is shown what a neighbour sees, and
        stops after the round.
        """
        batch = self._fleet.batch(going)
        rows = self.loops[0].collector.observations.rows(batch)
        bad = ~np.isfinite(rows).all(axis=1)
        if bad.any():
            for place in going[bad].tolist():
                self.errors[place] = self.errors[place] or (
                    f"round {t}: environment: an observation is not finite."
                )
            if bad.all():
                raise UserError(f"round {t}: environment: no run has a finite observation any more.")
            index = np.where(bad, np.flatnonzero(~bad)[0], np.arange(len(going)))
            batch, rows = take(batch, index), rows[index]
        return batch, rows

    def _acting(self, places: np.ndarray, chosen: np.ndarray) -> list[tuple[Troupe, np.ndarray]]:
        """Every troupe with somebody of the `chosen`, ready, and where among `places` they are."""
        where = {place: i for i, place in enumerate(places.tolist())}
        found = []
        for troupe in self._troupes:
            if members := troupe.ready(chosen.tolist()):
                found.append((troupe, np.array([where[place] for place in members])))
        return found

    def _experts(self, labels: np.ndarray) -> np.ndarray:
        """What the expert would play: the labels, or from distributions the modes."""
        acts = self.loops[0].collector.actions
        if self.expert.kind == "distribution":
            return acts.plays(labels)
        return (
            np.array([acts.from_numbers(label) for label in labels])
            if acts.categorical
            else labels.astype(acts.dtype).reshape(len(labels), *acts.shape)
        )

    def evaluate(self, places: Sequence[int], number: int) -> list[Evaluation]:
        """Whole episodes of these runs' policies, in order, by their deterministic actions, side by side."""
        episodes = max(self.loops[place].plan.episodes for place in places)
        chosen = np.asarray(places)
        acts = self.loops[0].collector.actions
        codec = self.loops[0].collector.observations
        acting = self._acting(chosen, chosen)

        def act(batch: Any, active: np.ndarray) -> Any:
            spread = np.zeros((*active.shape, codec.width), codec.dtype)
            spread[active] = codec.rows(batch)
            actions: Any = None
            for troupe, at in acting:
                live = active[at]
                if not live.any():
                    continue
                mine = acts.plays(troupe.outputs(spread[at], live)[live])
                if actions is None:
                    actions = np.zeros((*active.shape, *mine.shape[1:]), mine.dtype)
                theirs = np.zeros(active.shape, bool)
                theirs[at] = live
                actions[theirs] = mine
            return actions[active]

        return self._play([self.seeds[place] for place in places], episodes, number, act)

    def evaluate_expert(self, seed: int, episodes: int, number: int) -> Evaluation:
        """The expert's episodes on the seeds that a run with this seed was evaluated on."""

        def act(batch: Any, active: np.ndarray) -> Any:
            return self.expert.act(batch, None)

        return self._play([seed], episodes, number, act)[0]

    def _play(self, seeds: list[int], episodes: int, number: int, act: Any) -> list[Evaluation]:
        count = len(seeds) * episodes
        arena = self._make(count)
        try:
            for i, seed in enumerate(seeds):
                for episode in range(episodes):
                    arena.begin(i * episodes + episode, derive(seed, "evaluate", number, episode))
            active = np.ones((len(seeds), episodes), bool)
            returns, lengths = np.zeros(active.shape), np.zeros(active.shape, np.int64)
            while active.any() and lengths.max() < LIMIT:
                slots = np.flatnonzero(active)
                rewards, terminated, truncated = arena.step(slots, act(arena.batch(slots), active))
                returns[active] += rewards
                lengths[active] += 1
                active.reshape(-1)[slots] = ~(terminated | truncated)
        finally:
            arena.close()
        return [Evaluation(*pair) for pair in zip(returns, lengths, strict=True)]

    def close(self) -> None:
        self._fleet.close()
