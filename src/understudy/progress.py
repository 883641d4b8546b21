"""Progress on the error stream: a line that moves on a terminal, plain lines in a pipe."""

from __future__ import annotations

import contextlib
import contextvars
import itertools
import math
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias, TypeVar, final

EVERY = 10.0
"""Seconds between two lines in a pipe, where nothing else says when."""
LONG = 20.0
"""Seconds from which the first round says what the others take: compiling is a small part of it."""
PLACES_KEPT = 12
"""Most places of a phase that are kept for the next run of the same kind."""
COLLECTING, SOLVING, SEARCHING = "collecting", "solving", "solving, then the best in hindsight"
EVALUATING, KEEPING, EXPERT = "evaluating", "evaluating what is kept", "measuring the expert"
TRAINING = "training the ensemble"
"""Phases of a round, and of what comes behind the last one, as they are shown."""
Row: TypeAlias = Mapping[str, float | str]
"""A round's row of the ledger."""
Work: TypeAlias = Mapping[str, float]
"""Phases of a round, in order, with the units of each: steps, labels, episodes."""
Pace: TypeAlias = "dict[str, list[tuple[int, float]]]"
"""Seconds that a unit of each phase took, with the round."""
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


class Piece(NamedTuple):
    """A part of a line: its spellings, from long to short, and when each goes where room is short."""

    spellings: Sequence[str]
    ranks: Sequence[int]


def fit(pieces: Sequence[Piece], width: int) -> list[str]:
    """The pieces in one line of at most `width`, two spaces apart; spellings of low rank go first.

    >>> fit([Piece(["ftl on Hopper-v5", "ftl"], [0, 2]), Piece(["loss 0.5"], [1])], 16)
    ['ftl', 'loss 0.5']
    """
    left = [[*zip(piece.ranks, piece.spellings, strict=True)] for piece in pieces]
    while len("  ".join(one[0][1] for one in left if one)) > width:
        min((one for one in left if one), key=lambda one: one[0][0]).pop(0)
    return [one[0][1] for one in left if one]


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
        self._said = now()

    def update(self, done: int, *notes: str) -> None:
        """Enters what is done and the notes, the most important first; it is shown when it is due."""
        if self._start is None:
            # What was there before, as in a run that is resumed, took no time today.
            self._start = self._now(), done
            self._said = -math.inf
        self.done, self._notes = done, notes or self._notes

    @property
    def left(self) -> float | None:
        """Seconds until the end, at the speed so far; None where that is not known."""
        since, before = self._start or (0.0, self.done)
        spent, made = self._now() - since, self.done - before
        return spent * (self.total - self.done) / made if made > 0 and spent > 0 else None

    def pieces(self) -> list[Piece]:
        """What a line shows, but for the time that is left."""
        notes = [Piece([note], [-place]) for place, note in enumerate(self._notes)]
        return [Piece([self.title], [1]), Piece([f"{self.done:,}/{self.total:,}"], [2]), *notes]

    def line(self, width: int) -> str:
        """One line of at most `width` characters: what matters least is left out where they do not fit, and
        a bar takes the room that remains.
        """
        left, pieces = self.left, self.pieces()
        if left or (
            left is not None and self.done < self.total
        ):  # what comes behind the last step takes time too
            pieces.append(Piece([f"{format_clock(left)} left", format_clock(left)], [9, 30]))
        shown = fit(pieces, width)
        cells = min(20, width - len("  ".join(shown)) - 2)
        if cells >= 4:
            full = round(cells * min(1.0, self.done / max(self.total, 1)))
            shown.insert(1 if self.title.startswith(shown[0]) else 0, "━" * full + "─" * (cells - full))
        return "  ".join(shown)

    def spoken(self) -> str:
        """Where the work is, as a line in a pipe."""
        parts = [f"{self.title}: {self.done:,} of {self.total:,} {self.unit}", *self._notes]
        parts += [] if self.left is None else [f"{format_clock(self.left)} left"]
        return "  ".join(parts)

    def say(self, text: str | None = None) -> None:
        """A plain line on the error stream: this text, or where the work is, at most every ten seconds."""
        if _quiet() or (text is None and self._now() - self._said < EVERY):
            return
        self._said = self._now()
        print(self.spoken() if text is None else text, file=sys.stderr, flush=True)


@contextlib.contextmanager
def show_bar(bar: B) -> Iterator[B]:
    """Shows the bar while the block runs; where it cannot move, a line after ten seconds of silence."""
    bar.moves = not _quiet() and sys.stderr.isatty()
    if not bar.moves:
        over = threading.Event()

        def tell() -> None:
            bar.say()
            while not over.wait(1.0):
                bar.say()

        teller = threading.Thread(target=tell, name="progress", daemon=True)
        if not _quiet():
            teller.start()
        try:
            yield bar
        finally:
            over.set()
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
        under_way: dict[str, Callable[..., None]] = {}

        def update(stage: str, done: int, total: int) -> None:
            if stage not in under_way:
                stack.close()
                under_way.clear()
                under_way[stage] = stack.enter_context(count_up(stage, total, unit))
            under_way[stage](done)

        yield update


@contextlib.contextmanager
def interruptible(kept: Callable[[], str]) -> Iterator[None]:
    """An interrupt of the block says what is kept and how to go on."""
    try:
        yield
    except KeyboardInterrupt as error:
        raise KeyboardInterrupt(f"interrupted: {kept()}.") from error


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
class Forecast:
    """How long work that comes in rounds of phases still takes.

    Each phase is measured; what a unit of it will cost is a straight line through what it has cost since the
    first round, which compiled. `known`, the pace of an earlier run of the same kind, is followed instead
    where there is one, made slower or faster as this run is. A phase that was never seen is guessed: an
    episode by its steps, the search for the best in hindsight by the solver's.

    >>> time = [0.0]
    >>> forecast = Forecast([{"collecting": 100, "solving": 1}] * 3, now=lambda: time[0])
    >>> for place, seconds in enumerate((9.0, 2.0)):
    ...     forecast.begin(place, "collecting")
    ...     time[0] += seconds
    ...     forecast.begin(place, "solving")
    ...     time[0] += 1.0
    >>> forecast.begin(2, "collecting")
    >>> forecast.left()
    3.0
    """

    def __init__(
        self, plan: Sequence[Work], known: Pace | None = None, *, first: int = 0, now: Callable[[], float]
    ):
        self.plan, self._first, self._now = plan, first, now
        # Its programs are kept: what the first round of that run took says nothing of this one's.
        self._known = {phase: seen[1:] if len(seen) > 1 else seen for phase, seen in (known or {}).items()}
        self._change = 1.0, 1.0
        self.pace: Pace = {}
        self.guesses: dict[str, tuple[str, float]] = {}
        self.place, self.phase = first, ""
        self._over: set[str] = set()
        self._began, self._share = now(), 0.0

    def begin(self, place: int, phase: str) -> None:
        """A phase begins, and the one before ends; the same again changes nothing."""
        if (place, phase) == (self.place, self.phase):
            return
        units = self._units(self.place, self.phase)
        if units > 0:
            seen, spent = self.pace.get(self.phase, []), (self._now() - self._began) / units
            if seen and seen[-1][0] == self.place:
                seen, spent = seen[:-1], seen[-1][1] + spent
            # A new list: the thread that shows it may be reading the old one.
            self.pace[self.phase] = [*seen, (self.place, spent)]
        self._over = {*self._over, self.phase} - {phase} if place == self.place else set()
        self.place, self.phase, self._began, self._share = place, phase, self._now(), 0.0
        both = [self._compared(one) for one in self._known]
        self._change = (1.0 + sum(mine for mine, _ in both), 1.0 + sum(theirs for _, theirs in both))

    def reach(self, units: float) -> None:
        """So many units of the phase under way are done."""
        self._share = min(1.0, units / (self._units(self.place, self.phase) or 1.0))

    def left(self) -> float | None:
        """Seconds until the end; None where nothing is known of a phase that is to come."""
        total = 0.0
        for place in range(self.place, len(self.plan)):
            here = place == self.place
            for phase, units in self.plan[place].items():
                if not units or (here and phase in self._over):
                    continue
                each = self.cost(phase, place)
                if here and phase == self.phase:
                    each = self._under_way(None if each is None else each * units)
                    units = 1.0
                if each is None:
                    return None
                total += each * units
        return total

    def _under_way(self, whole: float | None) -> float | None:
        """The rest of the phase under way: as was expected, and more and more as it goes."""
        spent, share = self._now() - self._began, self._share
        if not share:
            return None if whole is None else max(0.0, whole - spent)
        mine = spent / share
        return (1 - share) * (mine if whole is None else (1 - share) * whole + share * mine)

    def cost(self, phase: str, place: int) -> float | None:
        """Seconds that a unit of a phase takes in a round."""
        seen = self.pace.get(phase, [])
        later = [one for one in seen if one[0] > self._first]
        if before := self._known.get(phase):
            # As this phase has changed and, where it was not often there, as all have.
            mine, theirs = self._compared(phase)
            usual = statistics.fmean(each for _, each in before)
            here = self._units(place, phase) * usual
            all_mine, all_theirs = self._change
            change = (mine + here * all_mine / all_theirs) / ((theirs + here) or 1.0)
            return change * _along(before, place)
        if later:
            return _along(later, place)
        if seen and seen[0][1] * self._units(seen[0][0], phase) > LONG:
            return seen[0][1]
        if phase not in self.guesses:
            return None
        other, times = self.guesses[phase]
        each = self.cost(other, place)
        return None if each is None else times * each

    def _compared(self, phase: str) -> tuple[float, float]:
        """Seconds that a phase took since the first round, and that it took in the earlier run."""
        before, here = self._known.get(phase), [0.0, 0.0]
        for place, each in self.pace.get(phase, []) if before else []:
            if place > self._first:
                units = self._units(place, phase)
                here = [here[0] + units * each, here[1] + units * _along(before or [], place)]
        return here[0], here[1]

    def _units(self, place: int, phase: str) -> float:
        return self.plan[place].get(phase, 0.0) if place < len(self.plan) else 0.0

    def kept(self) -> Pace:
        """The pace, for the next run of this kind: of each phase at most so many places, evenly spread."""
        return {
            phase: [seen[round(at * (len(seen) - 1) / max(1, PLACES_KEPT - 1))] for at in range(PLACES_KEPT)]
            if len(seen) > PLACES_KEPT
            else seen
            for phase, seen in self.pace.items()
        }


def _along(points: Sequence[tuple[int, float]], at: int) -> float:
    """What stands at a place: between two points on the line through them, behind the last one on the line
    through all but the first that does not fall; where there are few points, their mean.
    """
    if at <= points[-1][0] and len(points) > 1:
        pairs = itertools.pairwise(points)
        (x, y), (u, v) = next((pair for pair in pairs if at <= pair[1][0]), (points[0], points[1]))
        return y if at <= x else y + (v - y) * (at - x) / (u - x)
    some = points[1:] if len(points) > 3 else points
    middle, mean = statistics.fmean(x for x, _ in some), statistics.fmean(y for _, y in some)
    width = sum((x - middle) ** 2 for x, _ in some)
    slope = sum((x - middle) * (y - mean) for x, y in some) / width if len(some) > 3 and width else 0.0
    return mean + max(0.0, slope) * (at - middle)


@final
class Rounds(Bar):
    """The progress of a run whose rounds have the phases of `plan`: called with a round's number and its
    row, and in between through `tick`. Where it does not move, every round is a line.

    rounds: how many are rounds; what comes behind them is done once. rows: those of a run that goes on.
    search: steps of the search for the best in hindsight. known: the pace of the last run of this kind.
    """

    def __init__(
        self,
        title: str,
        plan: Sequence[Work],
        *,
        rounds: int | None = None,
        rows: Sequence[Row] = (),
        search: int = 0,
        known: Pace | None = None,
        now: Callable[[], float] = time.perf_counter,
    ):
        self._rounds, self._search = len(plan) if rounds is None else rounds, search
        super().__init__(title, int(sum(work.get(COLLECTING, 0) for work in plan)), "steps", now=now)
        self._row: dict[str, float] = {"round": 0, "steps": 0, "labels": 0, "return_mean": math.nan}
        for row in rows:
            self._enter(row)
        self.done = self._steps
        self.forecast = Forecast(plan, known, first=self._round, now=now)
        self._stage, self._asked, self._before = "", 0, self._steps
        self._played: dict[bool, tuple[float, float]] = {}
        self._end, self._looked = math.nan, now()
        self.tick(COLLECTING, 0, 0)

    def _enter(self, row: Row) -> None:
        seen = self._row["return_mean"]
        self._row = {name: value for name, value in row.items() if not isinstance(value, str)}
        if not math.isfinite(self._row["return_mean"]):
            self._row["return_mean"] = seen

    @property
    def _round(self) -> int:
        return int(self._row["round"])

    @property
    def _steps(self) -> int:
        return int(self._row["steps"])

    def tick(self, stage: str, steps: int | None = None, labels: int | None = None) -> None:
        """What is done, and the round's steps and labels (None: as before); cheap enough for every step."""
        self._stage, self._asked = stage, self._asked if labels is None else labels
        asking = stage.startswith("asking,")
        self.forecast.begin(self._round, "asking" if asking else stage)
        if asking and labels is not None:
            self.forecast.reach(labels)
        if steps is not None:
            self.done = self._steps + steps
            self.forecast.reach(steps)

    def __call__(self, number: int, row: Row) -> None:
        self._enter(row)
        self._stage, self._asked, self.done = "", 0, self._steps
        self.forecast.begin(number, "")
        self._learn(self._row)
        if not self.moves:
            spent, left = self._now() - self.began, self.left
            rest = ""
            if left is not None and (number < self._rounds or round(left)):
                rest = f", {format_clock(left)} left"
            counts = f"{self._steps:,} steps  {int(self._row['labels']):,} labels"
            words = [f"round {number} of {self._rounds}", counts, *summarise_row(row), format_clock(spent)]
            self.say(f"{self.title}: {'  '.join(words)}{rest}")

    def finish(self) -> Pace:
        """Ends the last phase; the pace, for the next run of this kind."""
        self.forecast.begin(-1, "")
        return self.forecast.kept()

    @property
    def left(self) -> float | None:
        """Seconds until the end. What is expected changes with every phase that ends; what is shown follows
        it a little slower.
        """
        rest, now = self.forecast.left(), self._now()
        if rest is None:
            return None
        if math.isnan(self._end):
            self._end = now + rest
        share = -math.expm1(-(now - self._looked) / (0.5 + 0.1 * rest))
        self._end, self._looked = self._end + share * (now + rest - self._end), now
        return max(0.0, self._end - now)

    def _learn(self, row: Mapping[str, float]) -> None:
        """What is known of phases that were not there yet: an episode is so many steps of collecting."""
        guesses, taught = self.forecast.guesses, row.get("by_expert", 0.0) > 0.5
        steps, ended = self._played.get(taught, (0.0, 0.0))
        self._played[taught] = steps + row["steps"] - self._before, ended + row.get("episodes", 0)
        self._before = self._steps
        lengths = {who: steps / max(1, ended) for who, (steps, ended) in self._played.items()}
        guesses[EVALUATING] = COLLECTING, lengths.get(False, lengths.get(True, 0.0))
        guesses[EXPERT] = COLLECTING, lengths.get(True, lengths.get(False, 0.0))
        guesses[KEEPING] = EVALUATING, 1.0
        if iterations := row.get("solver_iterations"):
            guesses[SEARCHING] = SOLVING, 1.0 + self._search / iterations
        guesses[TRAINING] = SOLVING, 1.0

    def pieces(self) -> list[Piece]:
        row, stage, asked = self._row, self._stage, int(self._row["labels"]) + self._asked
        done, number = self._round, min(self._round + 1, self._rounds)
        where, short = f"{number}/{self._rounds}", stage.partition(",")[0]
        spelt = [f"round {where} {stage}", f"round {where} {short}", f"{where} {short}"]
        shown = [Piece([self.title, self.title.partition(" on ")[0]], [4, 6])]
        shown.append(Piece([one.rstrip() for one in spelt], [2, 7, 12]))
        ranks = {"loss": [8, 11], "return": [10], "average": [0], "regret": [0]}
        for word in summarise_row(row) if done else []:
            name, _, value = word.partition(" ")
            brief = [f"{name} {float(value):.2g}"] if name == "loss" else []
            shown.append(Piece([word, *brief], ranks[name]))
        shown.append(Piece([f"{asked:,} labels"], [3]))
        return [*shown, Piece([f"{self.done:,}/{self.total:,} steps"], [1])]

    def spoken(self) -> str:
        words = [piece.spellings[0] for piece in self.pieces()[1:]]
        words += [f"{format_clock(self._now() - self.began)}"]
        left = self.left
        return f"{self.title}: {'  '.join(words)}" + ("" if left is None else f", {format_clock(left)} left")
