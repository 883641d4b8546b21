"""Collecting a round: exactly M interactions of every run, whoever acts, and the expert's labels for them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..envs.vector import Seen
from ..errors import UserError
from ..nested import joined
from .collected import EXPERT, TERMINATED, TRUNCATED, Columns, Round, Wanted
from .episodes import Episodes
from .journal import Kept
from .labels import Answers, failure, some_of
from .players import Players


class Collector(Episodes):
    """The environments of n runs and their rounds.

    The label is always the expert's; the action played is the expert's with probability β, else the policy's.
    A quick expert is asked about every state when it is visited; a slow one, or one that a query rule spares,
    then only where it acts, and about the others (those that the rule chooses), at once, after the round.
    """

    def collect(
        self, wanted: Wanted, tick: Callable[..., None] | None = None
    ) -> tuple[dict[int, Round], dict[int, UserError]]:
        """The rounds, by run, and the errors of those that failed. `tick` is called after every step with the
        interactions and queries of a run so far.
        """
        found = self._found.pop(wanted.runs[0], []) if len(wanted.runs) == 1 else []
        return _Collecting(self, wanted, found[: wanted.size]).play(tick)

    def resume_anew(self, run: int, snapshot: list[dict[str, Any]], found: list[Kept]) -> None:
        """On from a snapshot with new episodes, for environments that cannot play the old ones again; the
        labels found of the round under way are its first samples.
        """
        for j, kept in enumerate(snapshot):
            self._episode[run * self.envs + j] = int(kept["episode"])
        self._found[run] = found


class _Collecting:
    """A round while it is collected. `live` are the places, among the n runs, of those that go on."""

    def __init__(self, slots: Collector, wanted: Wanted, found: Sequence[Kept]):
        self.slots, self.questions, self.wanted = slots, slots.questions, wanted
        n, size, e, acts = len(wanted.runs), wanted.size, slots.envs, slots.actions
        self.numbers = np.asarray(wanted.runs)[:, None] * e + np.arange(e)
        self.questions.begin(wanted.number)
        slots.begin(self.numbers)
        self.columns = Columns(n, size, slots.observations, acts, slots.expert.kind)
        self.columns.recover(found)
        self.row = begun = self.columns.begun
        self.by_expert, noisy = np.empty((n, size), bool), np.zeros(n, bool)
        noise = np.zeros((n, size, acts.outputs), np.float32)
        for i, run in enumerate(wanted.runs):
            draws, most = slots.drivers[run].draws, wanted.most.get(run)
            self.by_expert[i], drawn = draws(acts, wanted.number, size, wanted.betas[i], most, begun)
            if drawn is not None:
                noise[i], noisy[i] = drawn, True
        self.players = Players(slots, wanted, noise, noisy)
        self.live, self.errors = np.arange(n), dict[int, UserError]()
        self.waits = self.questions.slow or wanted.asking is not None
        self.taken = np.zeros((n, e), bool)  # where the expert has taken over
        self.later: list[tuple[Seen, np.ndarray, np.ndarray]] = []  # states to ask about after the round
        self.answers: Answers | None = None  # to states in which not all runs could go on

    def play(self, tick: Callable[..., None] | None) -> tuple[dict[int, Round], dict[int, UserError]]:
        wanted, slots, columns = self.wanted, self.slots, self.columns
        while self.row < wanted.size and len(self.live):
            if self._step() and tick is not None:
                tick("collecting", self.row, int(columns.new[0].sum()) if self.waits else self.row)
        played = slice(columns.begun, self.row)
        columns.flags[:, played][self.by_expert[:, played]] += EXPERT
        for slot, error in slots.env.broken.items():
            if slot // slots.envs in wanted.runs:
                self._fail({slot: failure("environment", error)})
        if wanted.asking is not None:
            for i in self.live.tolist():
                ends = columns.flags[i] & TERMINATED > 0
                free = ~self.by_expert[i]
                columns.weights[i] = wanted.asking(wanted.runs[i], columns.inputs[i], free, ends)
        if self.later and len(self.live):
            self._ask_later()
        rounds: dict[int, Round] = {}
        for i, run in enumerate(wanted.runs):
            if run in self.errors:
                continue
            made = columns.round(i, wanted.number, slots.envs)
            if isinstance(made, UserError):
                self.errors[run] = made
                continue
            rounds[run] = made
            slots.remember(run, made, columns.begun)
        return rounds, self.errors

    def _step(self) -> bool:
        """One step in every slot; False where some runs failed instead, and the others are to go on."""
        slots, columns, live = self.slots, self.columns, self.live
        # The last step of a round may be played in some of the slots only.
        part = slice(self.row, min(self.row + slots.envs, self.wanted.size))
        here = self.numbers[live, : part.stop - self.row]
        flat, shape = here.reshape(-1), here.shape
        place = (slice(None) if len(live) == len(self.numbers) else live, part)
        seen, rows, wrong = slots.look(flat)
        if not wrong and self.answers is None:
            self._take_over(seen, rows.reshape(*shape, -1), part)
        now = self.by_expert[place].copy() if self.waits else None  # what is asked about at once; None: all
        if not wrong and self.answers is None:
            self.answers, wrong = self._ask(seen, rows, flat, now)
        if wrong:  # the answers to the other runs stay for the next turn, in the same states
            self._fail(wrong)
            bad = {slot // slots.envs for slot in wrong}
            self.live = live[[self.wanted.runs[i] not in bad for i in live.tolist()]]
            self.players.change()
            return False
        answers, self.answers = self.answers, None
        columns.inputs[place] = rows.reshape(*shape, -1)
        if answers is not None and (now is None or now.all()):
            columns.note(place, shape, answers)
        else:
            assert now is not None
            asked, others = (self._places(chosen) for chosen in (now, ~now))
            if answers is not None:
                columns.note(asked, (len(asked[0]),), answers)
            # A copy: environments may write over what they showed.
            self.later.append((copy.deepcopy(some_of(seen, np.flatnonzero(~now).tolist())), *others))
        if self.questions.slow and now is not None and (silent := now & ~columns.labelled[place]).any():
            self.by_expert[self._places(silent)] = False  # the policy acts in its place
            self.players.change()
        actions = self._experts(answers, now, len(flat))
        actions = self.players.act(live, rows.reshape(*shape, -1), self.by_expert, actions, part)
        columns.executed[place] = np.asarray(actions).reshape(*shape, -1)
        gained, terminated, truncated = slots.step(flat, rows, actions)
        columns.rewards[place] = gained.reshape(shape)
        ended = terminated | truncated
        if ended.any():
            columns.flags[place] = (TERMINATED * terminated + TRUNCATED * truncated).reshape(shape)
            slots.begin_next(flat[ended])
            self.taken[live, : shape[1]] &= ~ended.reshape(shape)
        self.row = part.stop
        return True

    def _fail(self, wrong: dict[int, UserError]) -> None:
        """Enters the errors of slots as those of their runs."""
        for slot, error in wrong.items():
            made = UserError(f"round {self.wanted.number}: {error}")
            made.__cause__ = error.__cause__
            self.errors.setdefault(slot // self.slots.envs, made)

    def _places(self, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where the chosen (live, e) of this step are in the columns."""
        i, j = np.nonzero(chosen)
        return self.live[i], self.row + j

    def _take_over(self, seen: Seen, rows: np.ndarray, part: slice) -> None:
        """Enters where the expert takes over in this step; rows (live, e, width)."""
        here = slice(0, part.stop - part.start)
        for at, i in enumerate(self.live.tolist() if self.wanted.gates else ()):
            run = self.wanted.runs[i]
            if run not in self.wanted.gates:
                continue
            gate, most = self.wanted.gates[run]
            left = max(most - int(self.by_expert[i, : part.start].sum()), 0)
            if gate is None:
                drives = np.array([left > 0 and self.questions.takes_over(seen)])
            else:
                drives = gate.driving(rows[at], self.taken[i, here])
            self.taken[i, here] = drives & (np.cumsum(drives) <= left)
            self.by_expert[i, part] = self.taken[i, here]

    def _ask(
        self, seen: Seen, rows: np.ndarray, slots: np.ndarray, now: np.ndarray | None
    ) -> tuple[Answers | None, dict[int, UserError]]:
        """The expert's answers to those states that are asked `now` (None where none is), and why a quick one
        gives none, by slot; then the answers are those to the other runs.
        """
        e = self.slots.envs
        if now is not None and not now.any():
            return None, {}
        if now is not None and not now.all():
            some = np.flatnonzero(now)
            seen, rows, slots = some_of(seen, some), rows[some], slots[some]
        answers = self.questions.put(seen, slots // e, rows, live=True)
        if not answers.errors or self.questions.slow:
            return answers, {}
        bad = {int(slots[i]): error for i, error in answers.errors.items()}
        fine = ~np.isin(slots // e, [slot // e for slot in bad])
        if not fine.any():
            return None, bad
        return Answers(answers.labels[fine], answers.answered[fine], answers.new[fine], {}), bad

    def _experts(self, answers: Answers | None, now: np.ndarray | None, count: int) -> np.ndarray:
        """The actions behind answers, zeros where there are none; a distribution is played by its mode."""
        acts = self.slots.actions
        actions = np.zeros((count, *acts.shape), acts.dtype)
        if answers is None or not (answers.whole or answers.answered.any()):
            return actions
        labels = answers.labels
        if self.slots.expert.kind == "distribution":
            played = acts.plays(labels)
        else:
            played = labels.astype(acts.dtype).reshape(len(labels), *acts.shape)
        if now is None or now.all():
            return played
        actions[now.reshape(-1)] = played
        return actions

    def _ask_later(self) -> None:
        """Asks about the states that wait and have a weight, all runs' at once."""
        place = [np.concatenate(axis) for axis in zip(*(one[1:] for one in self.later), strict=True)]
        runs, columns = self.wanted.runs, self.columns
        going = np.array([run not in self.errors for run in runs])
        chosen = np.flatnonzero((columns.weights[tuple(place)] > 0) & going[place[0]])
        if not len(chosen):
            return
        where = tuple(axis[chosen] for axis in place)
        owners = np.asarray(runs)[where[0]]
        looks = [one[0] for one in self.later]
        seen = Seen(joined([one.batch for one in looks]), [info for one in looks for info in one.infos])
        answers = self.questions.put(some_of(seen, chosen), owners, columns.inputs[where])
        columns.note(where, (len(chosen),), answers)
        if not self.questions.slow:
            self._fail({int(owners[i]) * self.slots.envs: error for i, error in answers.errors.items()})
