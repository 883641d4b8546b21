"""Asking the expert: states in, labels out.

A quick expert is asked with one call and fails as a whole. A slow or dear one (`Expert.workers`) is asked
about a state once, with several calls under way, each with a time limit and a few attempts; states without an
answer are left without a label. Every label is in the run's journal before anything else happens with it.
"""

from __future__ import annotations

import copy
import functools
import time
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

import numpy as np

from ..envs.vector import Seen
from ..errors import UserError
from ..experts.remote import in_thread, outcomes
from ..nested import take
from .journal import Journal, key_of
from .labels import Answers, answers_of, failure, some_of

MOST = 5
"""A run stops when its expert has failed on so many states of a round, and on more than half of them."""

PACE = 0.01
"""Seconds a label from which an expert is slow: episodes to measure it would take minutes."""


AGAIN = 16
"""States of a round that a quick expert may be asked about again, see `Questions.twice`."""

SAME = 1e-4
"""Answers that differ by less are the same: a library may add up in another order."""


@final
class Questions:
    """The expert of n runs, and the journal of each.

    Args:
      journals: one per run; None: nothing is kept, and nothing is known from before.
      limits: what one call of a slow expert may take: timeout, retries and backoff of `remote.outcomes`.
      progress: called with (labels done, labels asked for, seconds left) while a slow expert answers.
    """

    def __init__(
        self,
        expert: Any,
        journals: Sequence[Journal | None],
        limits: Mapping[str, Any] | None = None,
        progress: Callable[[int, int, float], None] | None = None,
    ):
        self.expert, self.limits, self.progress = expert, dict(limits or {}), progress
        self.slow = expert.workers is not None
        self._looked = [self.slow or one is not None for one in journals]  # whether labels may be known
        self.journals = [one or Journal(keep=self.slow) for one in journals]
        self.seconds, self.labels = 0.0, 0
        self._number, self._seen = 0, [Counter[bytes]() for _ in journals]
        self._tried, self._failed = np.zeros(len(journals), int), np.zeros(len(journals), int)
        self._first_asked: list[tuple[Seen, np.ndarray, np.ndarray]] = []
        self._room = 0  # states that may still be remembered there
        self._warned = False  # that its answers differ
        self._replayed: set[bytes] = set()

    def begin(self, number: int) -> None:
        """Round `number` begins."""
        self._number = number
        self._tried[:], self._failed[:] = 0, 0
        self._first_asked.clear()
        self._room = 0 if self.expert.alike or self.expert.on_reset is not None else AGAIN
        for journal, seen in zip(self.journals, self._seen, strict=True):
            seen.clear()
            journal.begin(number)
        if self.expert.person is not None:  # one run
            self._replayed = {key for key, one in self.journals[0].kept.items() if one.round == number}

    def takes_over(self, seen: Seen) -> bool:
        """Whether the person who is the expert drives in this state. A round that a break has cut short is
        played again first: they drive where they drove then.
        """
        key = self._key(seen, 0, 0)
        if self._replayed:
            return key in self._replayed
        return bool(self.expert.person.takes_over(seen))

    def put(self, seen: Seen, runs: np.ndarray, rows: np.ndarray, *, live: bool = False) -> Answers:
        """The labels of n states: what they show, whose they are (n,), and their encoded inputs (n, width).
        `live`: the environments wait for them.

        A quick expert that raises gives errors for all states of the runs whose states it raises at.
        """
        n = len(runs)
        if not any(self._looked[run] for run in set(runs.tolist())):
            return self._quick(seen, runs, None, rows)
        keys = [self._key(seen, run, i) for i, run in enumerate(runs.tolist())]
        states = list(zip(runs.tolist(), keys, strict=True))
        known = [self.journals[run].kept.get(key) for run, key in states]
        # One that remembers is asked again, so that it has seen the states before the next one.
        if not self.slow and (not any(known) or self.expert.on_reset is not None):
            return self._quick(seen, runs, keys, rows)
        first: dict[Any, int] = {}
        for i, state in enumerate(states):
            first.setdefault(state, i)
        asked = [i for i in first.values() if known[i] is None]
        labels: dict[int, Any] = {i: one.label for i, one in enumerate(known) if one is not None}
        self._replayed.difference_update(keys)
        new = np.array([one is not None and one.round == self._number for one in known])
        new &= np.array([self._first(*state) for state in states])
        errors: dict[int, UserError] = {}
        if asked:
            part = [keys[i] for i in asked]
            put = self._slow if self.slow else self._quick
            if self.expert.person is not None:
                put = functools.partial(self._person, live=live, known=bool(labels))
            found = put(some_of(seen, asked), runs[asked], part, rows[asked])
            labels |= {i: found.labels[at] for at, i in enumerate(asked) if found.answered[at]}
            new[[i for at, i in enumerate(asked) if found.answered[at]]] = True
            errors = {asked[at]: error for at, error in found.errors.items()}
        if self.slow:  # the same state elsewhere in the batch
            same = {states[i]: i for i in (*labels, *errors)}
            for i, state in enumerate(states):
                of = same[state]
                if of in labels:
                    labels.setdefault(i, labels[of])
                else:
                    errors.setdefault(i, errors[of])
        return answers_of(n, labels, new, errors)

    def _key(self, seen: Seen, run: int, i: int) -> bytes:
        state = take(seen.batch, i), seen.infos[i] if self.expert.needs_infos else ()
        key = key_of(state)
        if self.slow:
            return key
        # A quick expert is asked about every visit: the label of the third one is not that of the first.
        self._seen[run][key] += 1
        return key_of(key, f"{self._number} {self._seen[run][key]}".encode())

    def _first(self, run: int, key: bytes) -> bool:
        """Whether a slow expert's label is looked up for the first time in this round."""
        if not self.slow:
            return True
        self._seen[run][key] += 1
        return self._seen[run][key] == 1

    def _keep(self, run: int, key: bytes, label: Any, row: np.ndarray) -> None:
        if key not in self.journals[run].kept:
            self.journals[run].add(key, label, row)

    def _quick(self, seen: Seen, runs: np.ndarray, keys: list[bytes] | None, rows: np.ndarray) -> Answers:
        n, every = len(runs), list(range(len(runs)))
        labels: dict[int, Any] = {}
        errors: dict[int, UserError] = {}

        def ask(part: list[int]) -> Any:
            given = self._call(seen, part if len(part) < n else None)
            if self._room > 0:
                shown = copy.deepcopy(some_of(seen, part))  # environments may write over it
                self._first_asked.append((shown, runs[part], np.array(given)))
                self._room -= len(part)
            for at, i in enumerate(part if keys is not None else ()):
                self._keep(int(runs[i]), keys[i], given[at], rows[i])  # type: ignore[index]
            return given

        try:
            for part in [[i] for i in every] if self.expert.batch == 1 and keys is not None else [every]:
                given = ask(part)
                if len(part) == n:
                    return Answers(given, np.ones(n, bool), np.ones(n, bool), {}, whole=True)
                labels |= dict(zip(part, given, strict=True))
        except Exception as error:
            whole, several = failure("expert", error), sorted(set(runs.tolist()))
            for run in several:
                mine = np.flatnonzero(runs == run).tolist()
                if left := [i for i in mine if i not in labels]:
                    try:
                        if len(several) == 1:
                            raise whole
                        labels |= dict(zip(left, ask(left), strict=True))
                    except Exception as own:
                        errors |= dict.fromkeys(mine, failure("expert", own))
        return answers_of(
            n, {i: one for i, one in labels.items() if i not in errors}, np.ones(n, bool), errors
        )

    def twice(self) -> np.ndarray:
        """Asks a quick expert again about the first states of the round, the last of them first, and warns,
        once, where answers differ. Whose the states are (k,). One that is known to answer alike and one that
        remembers are not asked.
        """
        owners, differ = [np.zeros(0, int)], [np.zeros(0)]
        for seen, runs, before in reversed(self._first_asked) if not self._warned else ():
            try:
                now = np.asarray(self.expert.label(*seen), np.float64).reshape(len(runs), -1)
            except Exception:  # it will fail again where that matters
                return np.zeros(0, int)
            owners.append(runs)
            differ.append(np.abs(now - before.reshape(len(runs), -1)).max(axis=1, initial=0.0))
        apart = np.concatenate(differ)
        if many := int((apart > SAME).sum()):
            self._warned = True
            warnings.warn(
                f"expert {self.expert.name!r}: asked twice about the same {len(apart)} states, it answered "
                f"{many} of them in another way, by up to {apart.max():.3g}, and a policy can only learn the "
                "mean; one that remembers what it saw needs an on_reset, one that draws its actions should "
                "give their mean or a distribution.",
                stacklevel=2,
            )
        return np.concatenate(owners)

    def _slow(self, seen: Seen, runs: np.ndarray, keys: list[bytes], rows: np.ndarray) -> Answers:
        n, labels, errors, began = len(runs), {}, {}, time.perf_counter()
        left = [list(range(at, min(at + self.expert.batch, n))) for at in range(0, n, self.expert.batch)]

        def call(part: list[int]) -> Any:
            given = self._call(seen, part)
            for at, i in enumerate(part):  # here, in its thread: it is kept even if its time is over
                self._keep(int(runs[i]), keys[i], given[at], rows[i])
            return given

        while left:
            parts, left = left, []
            how = {"workers": self.expert.workers, **self.limits}
            calls = outcomes(lambda p, parts=parts: in_thread(call, parts[p]), len(parts), **how)
            for p, given, reason, attempts in calls:
                if reason is None:
                    labels |= dict(zip(parts[p], given, strict=True))
                elif not isinstance(reason, Exception):
                    raise reason
                elif len(parts[p]) > 1:
                    left += [[i] for i in parts[p]]  # to find which of them it fails on
                    continue
                else:
                    errors |= dict.fromkeys(parts[p], failure("expert", reason))
                self._count(runs[parts[p]], reason, attempts)
                if self.progress is not None:
                    done = len(labels) + len(errors)
                    self.progress(done, n, (time.perf_counter() - began) * (n - done) / done)
        return answers_of(n, labels, np.ones(n, bool), errors)

    def _person(
        self, seen: Seen, runs: np.ndarray, keys: list[bytes], rows: np.ndarray, *, live: bool, known: bool
    ) -> Answers:
        """A person is asked about all states at once, and may skip some. What they skip is no failure."""
        journal, person = self.journals[0], self.expert.person

        def keep(i: int, label: Any) -> None:
            self._keep(0, keys[i], np.asarray(label), rows[i])

        def drop(i: int) -> None:
            journal.remove(keys[i])

        if live and len(runs) == 1:
            labels = person.drive(seen, keep)
        else:
            labels = person.ask(seen, keep, drop, known=known or journal.count > 0)
        skipped = {
            i: UserError("expert: the person skipped it.") for i in range(len(runs)) if i not in labels
        }
        return answers_of(len(runs), labels, np.ones(len(runs), bool), skipped)

    def _count(self, runs: np.ndarray, reason: Any, attempts: int) -> None:
        np.add.at(self._tried, runs, 1)
        if reason is None:
            return
        np.add.at(self._failed, runs, 1)
        for run in set(runs.tolist()):
            failed, tried = int(self._failed[run]), int(self._tried[run])
            if failed >= MOST and 2 * failed > tried:
                times = "once" if attempts == 1 else f"{attempts} times"
                raise UserError(
                    f"round {self._number}: the expert gave no answer in {failed} of {tried} states, asked "
                    f"{times} each; the last error: {failure('expert', reason)}"
                ) from reason

    def _call(self, seen: Seen, part: list[int] | None) -> Any:
        began = time.perf_counter()
        labels = self.expert.label(*(seen if part is None else some_of(seen, part)))
        self.seconds, self.labels = self.seconds + time.perf_counter() - began, self.labels + len(labels)
        return labels

    @property
    def dear(self) -> bool:
        """Whether the expert is slow: it says so, or has taken more than `PACE` seconds a label."""
        return self.slow or self.seconds > PACE * max(self.labels, 1)
