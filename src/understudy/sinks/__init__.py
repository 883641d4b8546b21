"""Sinks: TensorBoard, Weights & Biases, a plot in a notebook, or yours: they get every round of a run."""

from __future__ import annotations

import contextlib
import math
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, final, runtime_checkable

from ..errors import UserError, shorten
from ..registry import Registry

if TYPE_CHECKING:
    from ..disk import Json

Row = Mapping[str, float | str]
"""A row of the ledger: numbers, nan where one was not measured, and words."""


class Started(NamedTuple):
    """A run that begins or goes on: its title, its settings as plain data, its folder (None: it has none),
    and how many of its rounds were played before.
    """

    title: str
    settings: Mapping[str, Json]
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

    def row(self, number: int, row: Row) -> None:
        """Round `number` has ended with this row of the ledger: numbers, nan where one was not measured, and
        two words, `solver_status` and `comparator_status`.
        """

    def end(self, summary: Mapping[str, Json] | None) -> None:
        """The run has ended with this summary; None: it was interrupted or failed."""


@final
class Calling(Sink):
    """A function of (number, row) as a sink."""

    def __init__(self, function: Callable[[int, Row], Any]):
        self._function = function

    def row(self, number: int, row: Row) -> None:
        self._function(number, row)


@final
class Watch:
    """Sinks as one. What they print goes to the error stream; one that raises has one warning and is left
    out. `summary` goes to each in the end.
    """

    def __init__(self, sinks: Iterable[Sink]):
        self.sinks = list(sinks)
        self.summary: Mapping[str, Json] | None = None

    def begin(self, started: Started) -> None:
        self._tell("begin", started)

    def row(self, number: int, row: Row) -> None:
        self._tell("row", number, dict(row))

    def end(self) -> None:
        self._tell("end", self.summary)

    def _tell(self, method: str, *about: Started | int | Row | Mapping[str, Json] | None) -> None:
        for sink in tuple(self.sinks):
            try:
                with contextlib.redirect_stdout(sys.stderr):
                    getattr(sink, method)(*about)
            except UserError:
                raise
            except Exception as error:
                self.sinks.remove(sink)
                name = type(sink).__name__
                warnings.warn(f"sink: {name} failed and is left out ({shorten(error)}).", stacklevel=4)


def finite_numbers(row: Row) -> dict[str, float]:
    """The finite numbers of a row.

    >>> finite_numbers({"loss": 0.5, "return_mean": float("nan"), "round": 2, "solver_status": "converged"})
    {'loss': 0.5, 'round': 2.0}
    """
    numbers = {name: float(value) for name, value in row.items() if isinstance(value, int | float)}
    return {name: number for name, number in numbers.items() if math.isfinite(number)}


HOMES = {"tensorboard": "TensorBoard", "wandb": "WeightsAndBiases", "notebook": "Notebook"}
SINKS: Registry[Sink] = Registry(
    "sink", Sink, {name: f"{__name__}.{name}:{kind}" for name, kind in HOMES.items()}, group="sinks"
)
Source = str | Sink | Callable[[int, Row], Any]
"""What `sink` makes a sink of."""


def sink(value: Source) -> Sink:
    """The sink of a name, with its place after a colon: ``tensorboard``, ``tensorboard:logs/one``,
    ``wandb:my-project``, ``notebook``, ``my_module:my_sink``. Objects with `begin`, `row` and `end` are what
    they are, and a function is called with (number, row) after every round.

    >>> sink(lambda number, row: print(number, row["loss"])).row(1, {"loss": 0.5})
    1 0.5
    >>> sink("tensorbord")
    Traceback (most recent call last):
    understudy.errors.UserError: sink: unknown value 'tensorbord', did you mean 'tensorboard'? Accepted: \
notebook, tensorboard, wandb.
    """
    if not isinstance(value, str):
        return Calling(value) if callable(value) and not isinstance(value, Sink) else SINKS.resolve(value)
    name, _, place = value.partition(":")
    if place and name in SINKS:
        return SINKS.make(name, {"place": place})
    return SINKS.make(value, {})


def make_sinks(values: Iterable[Source]) -> list[Sink]:
    """Several of them; what they need is looked for at once, long before a round has ended."""
    if isinstance(values, str) or not isinstance(values, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UserError(f"sinks: {values!r} is not a list; give one, as in ['tensorboard'].")
    return [sink(value) for value in values]


__all__ = ["Sink", "Started", "sink"]
