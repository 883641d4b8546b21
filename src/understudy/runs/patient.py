"""Asking experts that are worth waiting for: slow or expensive ones, and persons.

A state is asked about once in the whole run, and its label looked up wherever it is met again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, final

import numpy as np

from ..defaults import Limits
from ..envs.gymnasium import Observed
from ..errors import UserError, failure
from ..experts import Expert
from ..experts.callables import in_thread, outcomes
from ..samples import Labels, Path
from .journal import Journal
from .labelling import Labelling, Progress, asked_of, keys_of, some_of, waiting

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

MOST_FAILURES = 5
"""A run stops when its expert has failed on so many states of a round, and on more than half of them."""


def labels_of(count: int, given: dict[int, np.ndarray], new: np.ndarray) -> Labels:
    """The answers to states of which some, by number, have a label."""
    answered = np.zeros(count, bool)
    answered[list(given)] = True
    values = np.zeros((count,))
    if given:
        first = np.asarray(next(iter(given.values())))
        values = np.zeros((count, *first.shape), first.dtype)
        for i, label in given.items():
            values[i] = label
    return Labels(values, answered, new & answered)


def answer_at_once(asking: Labelling, path: Path, weights: np.ndarray) -> None:
    """`Labelling.answer` of who is shown all states in one call."""
    seen, places = waiting(path, weights)
    if len(places):
        path.enter(places, asking.label(seen, path.inputs[places]))


class _Once:
    """What slow experts and persons have in common: a state is asked about once, and its label looked up
    wherever it is met again.
    """

    def __init__(self, journal: Journal):
        self.journal, self._number, self._met = journal, 0, set[bytes]()

    def begin(self, number: int) -> None:
        self._number = number
        self._met.clear()
        self.journal.begin(number)

    def of(self, keys: list[bytes], put: Callable[[list[int], bool], dict[int, np.ndarray]]) -> Labels:
        """The labels of the states with these keys. ``put(asked, known)`` asks about those without
        one, given by their places in `keys`; `known` says whether any other state here has one already.
        """
        first = {key: i for i, key in reversed(list(enumerate(keys)))}
        entries = {key: self.journal.kept.get(key) for key in first}
        # A label that was given in this round, before a break, is counted in it at its first lookup.
        new = {
            key: entry is None or (entry.round == self._number and key not in self._met)
            for key, entry in entries.items()
        }
        self._met.update(first)
        labels = {key: entry.label for key, entry in entries.items() if entry is not None}
        asked = [i for key, i in sorted(first.items(), key=lambda pair: pair[1]) if entries[key] is None]
        if asked:
            labels |= {keys[i]: label for i, label in put(asked, bool(labels)).items()}
        fresh = np.array([new[key] and first[key] == i for i, key in enumerate(keys)])
        return labels_of(len(keys), {i: labels[key] for i, key in enumerate(keys) if key in labels}, fresh)


class CallLimits(Limits):
    """Of the calls of a slow expert: how many at once, and seconds before the first is tried again."""

    workers: int
    backoff: float


@final
class Slow:
    """An expert that takes long or costs money."""

    expensive = True

    def __init__(
        self,
        expert: Expert,
        journal: Journal,
        timeout: float,
        retries: int,
        progress: Progress | None = None,
        *,
        backoff: float = 0.5,
    ):
        self.expert, self.journal, self.calls = expert, journal, 0
        self._limits = CallLimits(
            workers=expert.workers or 1, timeout=timeout, retries=retries, backoff=backoff
        )
        self._progress, self._once = progress, _Once(journal)
        self._tried = self._failed = 0

    def begin(self, number: int) -> None:
        self._tried, self._failed = 0, 0
        self._once.begin(number)

    def answer(self, path: Path, weights: np.ndarray, *, last: bool = True) -> None:
        answer_at_once(self, path, weights)

    def label(self, seen: Observed, rows: np.ndarray, *, live: bool = False) -> Labels:
        keys = keys_of(seen, len(rows), self.expert.needs_infos)
        by = asked_of(self.expert, seen)
        return self._once.of(keys, lambda asked, known: self._put(seen, rows, keys, asked))._replace(by=by)

    def _put(
        self, seen: Observed, rows: np.ndarray, keys: list[bytes], asked: list[int]
    ) -> dict[int, np.ndarray]:
        labels: dict[int, np.ndarray] = {}
        size, done = self.expert.batch, 0
        left = [asked[at : at + size] for at in range(0, len(asked), size)]

        def call(part: list[int]) -> np.ndarray:
            given = self.expert.label(*some_of(seen, part))
            for at, i in enumerate(part):  # here, in its thread: it is kept even if its time is over
                if keys[i] not in self.journal.kept:
                    self.journal.add(keys[i], given[at], rows[i])
            return given

        while left:
            parts = left
            left = list[list[int]]()
            calls = outcomes(lambda p, parts=parts: in_thread(call, parts[p]), len(parts), **self._limits)
            for p, given, reason, attempts in calls:
                if reason is None:
                    labels |= dict(zip(parts[p], given, strict=True))
                elif not isinstance(reason, Exception):
                    raise reason
                elif len(parts[p]) > 1:
                    left += [[i] for i in parts[p]]  # to find which of them it fails on
                    continue
                self._count(len(parts[p]), reason, attempts)
                done += len(parts[p])
                if self._progress is not None:
                    self._progress(done, len(asked))
        return labels

    def _count(self, states: int, reason: Exception | None, attempts: int) -> None:
        self._tried += states
        if reason is None:
            return
        self._failed += states
        if self._failed >= MOST_FAILURES and 2 * self._failed > self._tried:
            times = "once" if attempts == 1 else f"{attempts} times"
            raise UserError(
                f"the expert gave no answer in {self._failed} of {self._tried} states, asked {times} each; "
                f"the last error: {failure('expert', reason)}"
            ) from reason


@final
class Human:
    """A person, who is shown all states at once and may skip some. What they skip is no failure."""

    expensive = True

    def __init__(self, expert: Expert, journal: Journal):
        assert expert.person is not None
        self.expert, self.journal, self.calls = expert, journal, 0
        self._person, self._once, self._replayed = expert.person, _Once(journal), set[bytes]()

    def begin(self, number: int) -> None:
        self._once.begin(number)
        self._replayed = {key for key, entry in self.journal.kept.items() if entry.round == number}

    def answer(self, path: Path, weights: np.ndarray, *, last: bool = True) -> None:
        answer_at_once(self, path, weights)

    def takes_over(self, seen: Observed) -> bool:
        """Whether they drive in this state. A round that a break has cut short is played again first: they
        drive where they drove then.
        """
        if self._replayed:
            return keys_of(seen, 1, False)[0] in self._replayed
        return bool(self._person.takes_over(seen))

    def label(self, seen: Observed, rows: np.ndarray, *, live: bool = False) -> Labels:
        keys = keys_of(seen, len(rows), False)

        def put(asked: list[int], known: bool) -> dict[int, np.ndarray]:
            part, journal = some_of(seen, asked), self.journal

            def keep(i: int, label: ArrayLike) -> None:
                if keys[asked[i]] not in journal.kept:
                    journal.add(keys[asked[i]], np.asarray(label), rows[asked[i]])

            def drop(i: int) -> None:
                journal.remove(keys[asked[i]])

            if live and len(asked) == 1:
                given = self._person.drive(part, keep)
            else:
                given = self._person.ask(part, keep, drop, known=known or journal.count > 0)
            return {asked[i]: np.asarray(label) for i, label in given.items()}

        labels = self._once.of(keys, put)
        self._replayed.difference_update(keys)
        return labels
