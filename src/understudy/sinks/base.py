"""Sinks get every round of a run: their protocol, and several of them called as one."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol, final, runtime_checkable

from ..errors import UserError, said


class Started(NamedTuple):
    """A run that begins or goes on: its title, its settings as plain data, its folder (None: it has none),
    and how many of its rounds were played before.
    """

    title: str
    settings: Mapping[str, Any]
    folder: Path | None = None
    round: int = 0


@runtime_checkable
class Sink(Protocol):
    """Gets what a run does: `begin` once, `row` after every round, `end` once.

    Subclass it and write the methods you need, or give any object that has the three.

    >>> class Last(Sink):
    ...     def row(self, number, row):
    ...         self.loss = row["loss"]
    >>> last = Last()
    >>> Watch([last]).row(1, {"loss": 0.5})
    >>> last.loss
    0.5
    """

    def begin(self, started: Started) -> None:
        """The run begins, or goes on after round ``started.round``."""

    def row(self, number: int, row: Mapping[str, Any]) -> None:
        """Round `number` has ended with this row of the ledger: numbers, nan where one was not measured, and
        two words, `solver_status` and `comparator_status`.
        """

    def end(self, summary: Mapping[str, Any] | None) -> None:
        """The run has ended with this summary; None: it was interrupted or failed."""


@final
class Calling(Sink):
    """A function of (number, row) as a sink."""

    def __init__(self, function: Callable[[int, Mapping[str, Any]], Any]):
        self._function = function

    def row(self, number: int, row: Mapping[str, Any]) -> None:
        self._function(number, row)


@final
class Watch:
    """Sinks as one. What they print goes to the error stream; one that raises has one warning and is left
    out. `summary` goes to each in the end.
    """

    def __init__(self, sinks: Iterable[Sink]):
        self.sinks = list(sinks)
        self.summary: Mapping[str, Any] | None = None

    def begin(self, started: Started) -> None:
        self._tell("begin", started)

    def row(self, number: int, row: Mapping[str, Any]) -> None:
        self._tell("row", number, dict(row))

    def end(self) -> None:
        self._tell("end", self.summary)

    def _tell(self, method: str, *about: Any) -> None:
        for sink in tuple(self.sinks):
            try:
                with contextlib.redirect_stdout(sys.stderr):
                    getattr(sink, method)(*about)
            except UserError:
                raise
            except Exception as error:
                self.sinks.remove(sink)
                name = type(sink).__name__
                warnings.warn(f"sink: {name} failed and is left out ({said(error)}).", stacklevel=4)


def numbers(row: Mapping[str, Any]) -> dict[str, float]:
    """The finite numbers of a row.

    >>> numbers({"loss": 0.5, "return_mean": float("nan"), "round": 2, "solver_status": "converged"})
    {'loss': 0.5, 'round': 2.0}
    """
    found = {name: float(one) for name, one in row.items() if isinstance(one, int | float)}
    return {name: one for name, one in found.items() if abs(one) < float("inf")}
