"""Asking the expert: states in, labels out. In a run with a folder a label is journalled before it is used.

A *quick* expert is asked in chunks and fails as a whole. A *slow* or expensive one (`Expert.workers`) is
asked about a state once in the whole run, with several calls under way, each with a time limit and a few
attempts; states without an answer stay without a label. A *person* is shown all states at once and may skip
some.
"""

from __future__ import annotations

import copy
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, final

import numpy as np

from ..defaults import Timetable
from ..envs.gymnasium import Observed
from ..errors import failure
from ..experts import Expert
from ..nested import join, take
from ..samples import Labels, Path
from .journal import Journal, key_of

if TYPE_CHECKING:
    from ..nested import Info, Nested

STATES_A_CALL = 32
"""States in one call of a quick expert, so a kill loses the answers of at most so many states."""
PACE = 0.01
"""An expert that takes more seconds than this a label is slow: playing its episodes would take minutes."""
AGAIN = 16
"""States of a round that a quick expert may be asked about again, see `Quick`."""
SAME = 1e-4
"""Answers that differ by less are the same: a library may add up in another order."""

Progress = Callable[[int, int], None]
"""Called with labels done and labels asked for while a slow expert answers."""


class Labelling(Protocol):
    """Who asks the expert. `calls`: those that gave no label."""

    expert: Expert
    calls: int

    @property
    def journal(self) -> Journal | None:
        """Where labels are kept; None where none of them is."""
        ...

    @property
    def expensive(self) -> bool:
        """Whether the expert is slow: it says so, or has shown it."""
        ...

    def begin(self, number: int) -> None:
        """Round `number` begins."""
        ...

    def label(self, seen: Observed, rows: np.ndarray, *, live: bool = False) -> Labels:
        """The labels of n states: what they show, and their encoded inputs (n, width). `live`: the
        environments wait for them.
        """
        ...

    def answer(self, path: Path, weights: np.ndarray, *, last: bool = True) -> None:
        """Asks about the states of a path that wait and have a weight (m,), and enters what was answered.
        `last`: the round has no more of them.
        """
        ...


def labelling(
    expert: Expert,
    journal: Journal | None,
    *,
    timeout: float,
    retries: int,
    progress: Progress | None = None,
    plan: Timetable | None = None,
) -> Labelling:
    """Who asks this expert. A quick one needs no journal; the plan says whether it may be measured."""
    if expert.person is None and expert.workers is None:
        return Quick(expert, journal, plan)
    from .patient import Human, Slow

    journal = Journal(keep=True) if journal is None else journal
    if expert.person is not None:
        return Human(expert, journal)
    return Slow(expert, journal, timeout, retries, progress)


def waiting(path: Path, weights: np.ndarray) -> tuple[Observed, np.ndarray]:
    """The states of a path that wait for a label and have a weight (m,), and which samples they are; all are
    taken off the path.
    """
    path.settle()
    looks, path.waiting = path.waiting, []
    if not looks:
        return Observed((), ()), np.zeros(0, int)
    batches, infos, indices = list["Nested"](), list["Info"](), list[np.ndarray]()
    every = np.arange(path.size)
    for seen, index in looks:
        batches.append(seen.batch)
        infos += seen.infos
        indices.append(every[index])
    places = np.concatenate(indices)
    chosen = np.flatnonzero(weights[places] > 0)
    seen = Observed(join(batches), infos)
    return seen if len(chosen) == len(places) else some_of(seen, chosen), places[chosen]


def some_of(seen: Observed, chosen: np.ndarray | Sequence[int]) -> Observed:
    """What some of the states show."""
    return Observed(take(seen.batch, chosen), [seen.infos[i] for i in chosen] if len(seen.infos) else [])


def keys_of(seen: Observed, count: int, infos: bool) -> list[bytes]:
    """Digests of states."""
    return [key_of((take(seen.batch, i), seen.infos[i] if infos else ())) for i in range(count)]


def asked_of(expert: Expert, seen: Observed) -> np.ndarray | None:
    """With several experts, the number of the expert that labels each state (n,); None with one."""
    return None if expert.route is None else expert.route(*seen)


@final
class Quick:
    """Asks a fast expert. A state that is visited again is asked about again: a label for each visit."""

    def __init__(self, expert: Expert, journal: Journal | None, plan: Timetable | None = None):
        # Where there is no file, nothing need be looked up.
        self.expert, self.calls, self._plan = expert, 0, plan
        self.journal = None if journal is None or journal.path is None else journal
        self._seconds, self._labels, self.expensive = 0.0, 0, False
        self._number, self._visits = 0, Counter[bytes]()
        self._first: list[tuple[Observed, np.ndarray]] = []
        self._room = 0  # states that may still be remembered there
        self._warned = False  # that its answers differ

    def begin(self, number: int) -> None:
        self._number = number
        self._visits.clear()
        self._first.clear()
        self._room = 0 if self.expert.deterministic or self.expert.on_reset is not None else AGAIN
        if self.journal is not None:
            self.journal.begin(number)

    def answer(self, path: Path, weights: np.ndarray, *, last: bool = True) -> None:
        seen, places = waiting(path, weights)
        for at in range(0, len(places), STATES_A_CALL):
            here = slice(at, at + STATES_A_CALL)
            part = Observed(take(seen.batch, here), seen.infos[here]) if len(places) > STATES_A_CALL else seen
            path.enter(places[here], self.label(part, path.inputs[places[here]]))
        if last and self._first and not self._number & (self._number - 1):  # after rounds 1, 2, 4, 8, …
            self._ask_again()

    def label(self, seen: Observed, rows: np.ndarray, *, live: bool = False) -> Labels:
        by = asked_of(self.expert, seen)
        return self._answered(seen, rows)._replace(by=by)

    def _answered(self, seen: Observed, rows: np.ndarray) -> Labels:
        journal = self.journal
        if journal is None:
            return Labels.of(self._call(seen))
        keys = [self._key(key) for key in keys_of(seen, len(rows), self.expert.needs_infos)]
        labels: list[Any] = [entry and entry.label for entry in map(journal.kept.get, keys)]
        # One that remembers is asked again, so that it has seen the states before the next one.
        if self.expert.on_reset is not None:
            labels = [None] * len(keys)
        left = [i for i, label in enumerate(labels) if label is None]
        for part in [[i] for i in left] if self.expert.batch == 1 else [left] if left else []:
            given = self._call(seen if len(part) == len(rows) else some_of(seen, part))
            for at, i in enumerate(part):
                if keys[i] not in journal.kept:
                    journal.add(keys[i], given[at], rows[i])
                labels[i] = given[at]
        return Labels.of(np.stack(labels))

    def _key(self, key: bytes) -> bytes:
        self._visits[key] += 1
        return key_of(key, f"{self._number} {self._visits[key]}".encode())

    def _call(self, seen: Observed) -> np.ndarray:
        began = time.perf_counter()
        try:
            given = self.expert.label(*seen)
        except Exception as error:
            raise failure("expert", error) from error
        self._seconds, self._labels = self._seconds + time.perf_counter() - began, self._labels + len(given)
        self.expensive = self._seconds > PACE * max(self._labels, 1)
        if self._room > 0:
            few = range(min(self._room, len(given)))
            # A copy: environments may write over what they showed.
            self._first.append((copy.deepcopy(some_of(seen, few)), np.array(given[: len(few)])))
            self._room -= len(few)
        return given

    def _ask_again(self) -> None:
        """Asks an expert that may be measured again about the first states of the round, the last of them
        first, and warns, once, where answers differ. One that is known to be deterministic and one that
        remembers are not asked.
        """
        if self._warned or self._plan is None or not self._plan.measures(expensive=self.expensive):
            return
        differ = [np.zeros(0)]
        for seen, before in reversed(self._first):
            back = range(len(before))[::-1]
            try:
                now = np.asarray(self.expert.label(*some_of(seen, back)), np.float64)
            except Exception:  # it will fail again where that matters
                return
            self.calls += len(before)
            apart = np.abs(now[::-1].reshape(len(before), -1) - before.reshape(len(before), -1))
            differ.append(apart.max(axis=1, initial=0.0))
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
