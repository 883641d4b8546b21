"""Tables for the terminal."""

from __future__ import annotations

import contextlib
import math
import sys
from collections import Counter
from collections.abc import Generator, Iterable, Mapping
from typing import TYPE_CHECKING, TextIO, TypeAlias

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from .. import disk

if TYPE_CHECKING:
    from ..disk import Json
    from ..experts.shipped import Card
    from ..regret import Certificate
    from ..streams import Replay

Cell: TypeAlias = "Json | Text"
SHORT = 20
"""Columns whose cells are no longer than this are not broken."""
MARKS = {True: Text("passed", "green"), False: Text("FAILED", "bold red"), None: Text("–", "dim")}


def show(table: Table) -> None:
    """Prints a table: in colour on a terminal, plain and without blanks at the ends of lines in a pipe. Words
    are printed as they are: `five:Five:` and `runs[a]` are names, and no emoji or markup.
    """
    console = Console(highlight=False, emoji=False, markup=False)
    if console.is_terminal:
        return console.print(table)
    with console.capture() as drawn:
        console.print(table)
    print("\n".join(line.rstrip() for line in drawn.get().splitlines()))


_outputs: list[TextIO] = []


@contextlib.contextmanager
def json_only() -> Generator[None]:
    """What is printed inside goes to the error stream, and `json_line` to the output, for a pipe."""
    _outputs.append(sys.stdout)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        _outputs.pop()


def json_line(value: Json | Mapping[str, Card]) -> None:
    """Inside `json_only`: prints `value` as one line of JSON, after whatever the error stream still holds."""
    if _outputs:
        sys.stderr.flush()
        print(disk.to_json(value), flush=True, file=_outputs[-1])


def facts(title: str, rows: Iterable[tuple[str, Json]]) -> Table:
    """Names on the left, values on the right."""
    table = Table(title=title, title_justify="left", title_style="bold", show_header=False, box=SIMPLE_HEAD)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(name, Text(number(value)))
    return table


def replay(learner: str, result: Replay) -> Table:
    """The outcome of a replay: loss, comparator, regret, bound and the statuses of the solves."""
    ledger = result.ledger
    solved: Counter[str] = Counter(ledger["solver_status"].tolist())
    rows: list[tuple[str, Json]] = [
        ("cumulative loss", ledger["cumulative_loss"][-1]),
        ("best in hindsight", f"{number(ledger['comparator'][-1])} ({ledger['comparator_status'][-1]})"),
        *regret(result.certificate),
        ("average loss", ledger["average_loss"][-1]),
        ("solver", ", ".join(f"{status} {count}×" for status, count in solved.most_common())),
        ("accumulated residual", ledger["residual"][-1]),
        ("seconds", float(result.times.sum())),
    ]
    return facts(f"{learner}: {ledger.rounds} rounds, {int(ledger['samples'].sum())} samples", rows)


def regret(certificate: Certificate) -> list[tuple[str, Json]]:
    """The rows of a certificate: regret, what is proved of it, and the bound, or in words why there is none.

    Of an estimate, which proves nothing, the regret alone.
    """
    proof, low, high = certificate, certificate.low, certificate.high
    if proof.kind != "certificate":
        nothing = [("proved", f"nothing: {proof.reason}")] if proof.contradictory else []
        return [("regret (estimate)", proof.regret), *nothing]
    rows: list[tuple[str, Json]] = [("regret", proof.regret)]
    if math.isfinite(high):
        least, most = number(low), number(high)
        ends = f"{least} … {most}" if least != most else f"{least}, up to {high - low:.1e}"
        rows.append(("proved", f"{ends}, against policies of norm ≤ {proof.norm:.3g}"))
    return [*rows, ("certified bound", f"none: {proof.reason}" if proof.reason else proof.bound)]


def listed(title: str, headings: Iterable[str], rows: Iterable[Iterable[Cell]]) -> Table:
    """Rows of cells below their headings. The first column, of names, is never broken; nor are numbers."""
    headings, rows = list(headings), [list(row) for row in rows]
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD)
    for place, heading in enumerate(headings):
        short = all(len(str(row[place])) <= SHORT for row in rows)
        table.add_column(heading, overflow="fold", no_wrap=short or heading == "verdict")
    for row in rows:
        table.add_row(*(one if isinstance(one, Text) else Text(number(one)) for one in row))
    return table


def verdicts(title: str, rows: Iterable[tuple[str, bool | None, str]]) -> Table:
    """A list of checks: name, passed or failed (None: it does not apply), and the evidence."""
    marked = ((name, MARKS[passed], detail) for name, passed, detail in rows)
    return listed(title, ("check", "verdict", "detail"), marked)


def returned(value: float, *, beside: Iterable[float | None] = ()) -> str:
    """A return: one decimal, and three where all that stand `beside` it are small too.

    >>> returned(3448.27), returned(0.745), returned(0.745, beside=[12.0])
    ('3448.3', '0.745', '0.7')
    """
    sizes = [abs(one) for one in (value, *beside) if one is not None and math.isfinite(one)]
    return f"{value:.{1 if max(sizes, default=0.0) >= 10 else 3}f}"


def within(value: float, low: float, high: float) -> str:
    """A mean return with its 95 % interval, of a few numbers that bound nothing by itself.

    >>> within(221.04, 195.9, 246.2), within(0.5, -math.inf, math.inf), within(500.0, 500.0, 500.0)
    ('221.0 (95 % interval 195.9 to 246.2)', '0.500 (no interval)', '500.0 (each time)')
    """
    if not math.isfinite(low + high) or low == high:
        return f"{returned(value)} ({'each time' if low == high else 'no interval'})"
    mean, *ends = (returned(one, beside=(value, low, high)) for one in (value, low, high))
    return f"{mean} (95 % interval {ends[0]} to {ends[1]})"


def many(count: float, what: str) -> str:
    """A number of things.

    >>> many(1, "round"), many(1200, "label")
    ('1 round', '1,200 labels')
    """
    return f"{count:,.0f} {what}" + ("" if round(count) == 1 else "s")


def number(value: Json) -> str:
    """A float with six significant digits; anything else as it is.

    >>> number(0.1234567), number(3), number("closed form")
    ('0.123457', '3', 'closed form')
    """
    return f"{value:.6g}" if isinstance(value, float) else str(value)
