"""Progress on the error stream: a line that moves on a terminal, plain lines in a pipe."""

from __future__ import annotations

import contextlib
import contextvars
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, final

EVERY = 10.0
"""Seconds between two lines in a pipe, where nothing else says when."""
B = TypeVar("B", bound="Bar")
_SILENT = contextvars.ContextVar("silent", default=False)


@contextlib.contextmanager
def silent(whether: bool = True) -> Iterator[None]:
    """No progress is shown within the block."""
    token = _SILENT.set(whether)
    try:
        yield
    finally:
        _SILENT.reset(token)


def _quiet() -> bool:
    """Whether progress is shown nowhere: not asked for, or there is no error stream, as in a service."""
    return _SILENT.get() or sys.stderr is None


def format_clock(seconds: float) -> str:
    """Seconds as a clock shows them.

    >>> format_clock(42.3), format_clock(330), format_clock(9000)
    ('0:42', '5:30', '2:30:00')
    """
    whole = max(0, round(seconds))
    hours, minutes = whole // 3600, whole // 60 % 60
    return f"{hours}:{minutes:02d}:{whole % 60:02d}" if hours else f"{minutes}:{whole % 60:02d}"


def format_duration(seconds: float) -> str:
    """Seconds as a person says them.

    >>> format_duration(4.26), format_duration(42.3), format_duration(330), format_duration(9000)
    ('4.3 s', '42 s', '5 min 30 s', '2 h 30 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{whole} s"
    minutes = whole // 60
    return f"{minutes} min {whole % 60} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


class Bar:
    """How much of `total` is done, how long the rest will take, and a few notes. `moves`: it is shown on a
    terminal; else plain lines are to say where the work is.

    >>> bar = Bar("ftl on Hopper-v5", 2000, "steps", now=lambda: 0.0)
    >>> bar.update(500, "500 labels", "loss 0.25")
    >>> bar.line(60)
    'ftl on Hopper-v5  ━━──────  500/2,000  500 labels  loss 0.25'
    """

    def __init__(
        self, title: str, total: int, unit: str = "rounds", *, now: Callable[[], float] = time.perf_counter
    ):
        self.title, self.total, self.unit, self._now = title, total, unit, now
        self.done, self.began, self.moves = 0, now(), False
        self._notes: Sequence[str] = ()
        self._start: tuple[float, int] | None = None
        self._said = -math.inf

    def update(self, done: int, *notes: str) -> None:
        """Enters what is done and the notes, the most important first; it is shown when it is due."""
        if self._start is None:
            # What was there before, as in a run that is resumed, took no time today.
            self._start = self._now(), done
        self.done, self._notes = done, notes or self._notes

    def notes(self) -> Sequence[str]:
        """What is said beside the numbers, the most important first."""
        return self._notes

    def restart(self) -> None:
        """Measures the time that is left from here on: what came before, such as compiling, comes once."""
        self._start = self._now(), self.done

    @property
    def left(self) -> float | None:
        """Seconds until the end, at the speed so far; None where that is not known."""
        since, before = self._start or (0.0, self.done)
        spent, made = self._now() - since, self.done - before
        return spent * (self.total - self.done) / made if made > 0 and spent > 0 else None

    def line(self, width: int) -> str:
        """One line of at most `width` characters: notes that do not fit are left out, and a bar takes the
        room that remains.
        """
        count = f"{self.done:,}/{self.total:,}"
        left = "" if self.left is None or self.done >= self.total else f"{format_clock(self.left)} left"
        shown = [one for one in (self.title, count, left) if one]
        room = width - len("  ".join(shown)) - 8
        fit = []
        for note in self.notes():
            if len(note) + 2 > room:
                break
            room -= len(note) + 2
            fit.append(note)
        cells = max(0, min(20, room + 6))
        full = round(cells * min(1.0, self.done / max(self.total, 1)))
        bar = ["━" * full + "─" * (cells - full)] if cells >= 4 else []
        return "  ".join([self.title, *bar, count, *fit, *([left] if left else [])])[:width]

    def say(self, text: str | None = None) -> None:
        """A plain line on the error stream: this text, or where the work is, at most every ten seconds."""
        if _quiet():
            return
        if text is None:
            if self._now() - self._said < EVERY:
                return
            parts = [f"{self.title}: {self.done:,} of {self.total:,} {self.unit}", *self.notes()]
            parts += [] if self.left is None else [f"{format_clock(self.left)} left"]
            text = "  ".join(parts)
        self._said = self._now()
        print(text, file=sys.stderr, flush=True)


@contextlib.contextmanager
def show_bar(bar: B) -> Iterator[B]:
    """Shows the bar while the block runs; it moves on a terminal only."""
    bar.moves = not _quiet() and sys.stderr.isatty()
    if not bar.moves:
        yield bar
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console(stderr=True)
    with Live(console=console, get_renderable=lambda: Text(bar.line(console.width)), refresh_per_second=5):
        yield bar


@contextlib.contextmanager
def count_up(title: str, total: int, unit: str = "rounds") -> Iterator[Callable[..., None]]:
    """A function ``update(done, *notes)`` for a loop of `total` turns."""
    with show_bar(Bar(title, total, unit)) as bar:

        def update(done: int, *notes: str) -> None:
            bar.update(done, *notes)
            if not bar.moves:
                bar.say()

        yield update


@contextlib.contextmanager
def stages(unit: str = "rounds") -> Iterator[Callable[[str, int, int], None]]:
    """A function ``update(stage, done, total)`` for work in stages, each with a bar of its own."""
    with contextlib.ExitStack() as stack:
        now: dict[str, Any] = {"stage": None}

        def update(stage: str, done: int, total: int) -> None:
            if stage != now["stage"]:
                stack.close()
                now.update(stage=stage, update=stack.enter_context(count_up(stage, total, unit)))
            now["update"](done)

        yield update


def summarise_row(row: Mapping[str, float | str]) -> list[str]:
    """A round in a few words: loss, and return and regret where they were measured.

    >>> row = {"loss": 0.25, "average_loss": 0.5, "regret": math.nan, "return_mean": 12.0}
    >>> summarise_row(row)
    ['loss 0.25', 'return 12', 'average 0.5']
    """
    words = {"loss": "loss", "return_mean": "return", "average_loss": "average", "regret": "regret"}
    numbers = {word: float(row[name]) for name, word in words.items()}
    return [f"{word} {number:.4g}" for word, number in numbers.items() if math.isfinite(number)]


@final
class Rounds(Bar):
    """The progress of a run of rounds with these numbers of steps: called with a round's number and
    its row, and in between through `tick`. Where it does not move, every round is a line.
    """

    def __init__(self, title: str, sizes: Sequence[int], *, now: Callable[[], float] = time.perf_counter):
        super().__init__(title, sum(sizes), "steps", now=now)
        self._rounds = len(sizes)
        self._row: dict[str, float | str] = {"round": 0, "steps": 0, "labels": 0, "return_mean": math.nan}
        self._stage, self._asked, self._waited = "", 0, now()

    def tick(self, stage: str, steps: int | None = None, labels: int | None = None) -> None:
        """What is being done, and how many steps and labels the round under way has (None: as many as
        before). It only enters numbers, so it may be called at every step.
        """
        self._stage, self._asked = stage, self._asked if labels is None else labels
        if not self.moves and stage.startswith("asking,") and self._now() - self._waited > EVERY:
            # Waiting for a slow expert: one line a round would be silence.
            self._waited = self._now()
            self.say(f"{self.title}: round {int(self._row['round']) + 1}: {stage}")
        if steps is not None:
            self.update(int(self._row["steps"]) + steps)

    def __call__(self, number: int, row: dict[str, float | str]) -> None:
        first, seen = self._row["round"] == 0, self._row["return_mean"]
        self._row = row if math.isfinite(float(row["return_mean"])) else row | {"return_mean": seen}
        self.tick("", 0, 0)
        if first:
            self.restart()  # the first round compiled
        if not self.moves:
            spent, left = self._now() - self.began, self.left
            rest = f", {format_clock(left)} left" if left and number < self._rounds else ""
            counts = f"{row['steps']:,} steps  {row['labels']:,} labels"
            line = "  ".join(
                [f"round {number} of {self._rounds}", counts, *summarise_row(row), format_clock(spent)]
            )
            self.say(f"{self.title}: {line}{rest}")

    def notes(self) -> list[str]:
        row, stage = self._row, self._stage
        number = min(int(row["round"]) + 1, self._rounds)
        shown = [
            f"{int(row['labels']) + self._asked:,} labels",
            *([f"round {number}: {stage}"] if stage else []),
        ]
        return shown + (summarise_row(row) if row["round"] else [])
