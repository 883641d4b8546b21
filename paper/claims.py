"""Claims as checks: a number with its 95 % interval over seeds, and a verdict that may be "cannot be told".

And the files of a study: figures, numbers and claims, written by one function.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

from understudy import disk, intervals
from understudy.intervals import Interval
from understudy.report import plots
from understudy.report.style import look

from .mapping import Table, write_csv

HOLDS, FAILS, OPEN = "holds", "does not hold", "cannot be told"
SLACK = 1.05
""""Matches" means: at most five per cent above."""
NOTE = """Intervals over seeds are Student's, those of ratios of means Fieller's, over pairs of a seed: the
mean ± 4.30 standard errors with three seeds, 2.78 with five, 2.26 with ten. A median lies between two of the
numbers, which fewer than six do not bound. [-inf, inf]: nothing is bounded. A number without an interval is
of the runs that were played, and says nothing of others."""


class Claim(NamedTuple):
    """One claim in one setting: what was measured, its 95 % interval over seeds (infinite where these are too
    few to bound it, nan for a number of the runs that were played), and what was wanted.
    """

    claim: str
    setting: str
    measure: str
    value: float
    low: float
    high: float
    wanted: str
    verdict: str

    @property
    def evidence(self) -> str:
        """The measured value with its interval, as text; ends that three digits do not tell apart have six.

        >>> judge("a beats b", "", "a/b", ratio([1.0], [2.0]), below=1.0).evidence
        'a/b = 0.5 [-inf, inf]'
        >>> judge("a beats b", "", "a/b", (1.0, 0.9999, 1.0001), below=1.0).evidence
        'a/b = 1 [0.9999, 1.0001]'
        """
        found = f"{self.measure} = {short(self.value)}"
        if math.isnan(self.low):
            return found
        if self.low == self.high:
            return f"{found} (no spread)"
        ends = [short(self.low), short(self.high)]
        low, high = ends if ends[0] != ends[1] else (f"{one:.6g}" for one in (self.low, self.high))
        return f"{found} [{low}, {high}]"


def short(number: float) -> str:
    """Three digits that matter.

    >>> short(1234.5), short(0.012345), short(1.0)
    ('1.23e+03', '0.0123', '1')
    """
    return f"{number:.3g}"


def ratio(above: np.ndarray, below: np.ndarray) -> Interval:
    """mean(above)/mean(below) over paired seeds (n,), with Fieller's 95 % interval.

    The tables show means, so the ratio is theirs; that of logarithms would be of another number, and a return
    may be negative. A run that left the finite numbers makes its mean infinite (below zero, where one is −∞),
    for certain. Where the mean below is not above zero a ratio says nothing: it is nan.

    >>> [round(x, 3) for x in ratio(np.array([2.0, 2.5, 3.0]), np.array([4.0, 4.0, 4.5]))[:3]]
    [0.6, 0.353, 0.792]
    """
    above, below = np.asarray(above, float), np.asarray(below, float)
    finite = np.isfinite(above).all(), np.isfinite(below).all()
    if not any(finite) or (all(finite) and not below.mean() > 0):
        return Interval(math.nan, count=len(above))
    if not all(finite):
        beyond = -math.inf if (above == -np.inf).any() else math.inf
        value = beyond if finite[1] else 0.0
        return Interval(value, value, value, len(above))
    return intervals.ratio(above, below)


def typical(above: np.ndarray, below: np.ndarray) -> Interval:
    """The median over seeds of above/below, (n,), pair by pair, between order statistics: exact whatever the
    distribution, where one seed is most of a mean. It takes six seeds to bound it.

    >>> typical(np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6000.0]), np.ones(6))
    Interval(middle=3.5, low=1.0, high=6000.0, count=6)
    """
    above, below = np.asarray(above, float), np.asarray(below, float)
    with np.errstate(all="ignore"):
        return intervals.median(np.where(below > 0, above / below, np.nan))


def judge(
    claim: str,
    setting: str,
    measure: str,
    found: tuple[float, ...] | float,
    *,
    below: float = np.nan,
    above: float = np.nan,
) -> Claim:
    """Holds where the whole interval is on the wanted side, does not hold where none of it is; else it cannot
    be told. A number that is found alone is about the runs that were played, and has no interval.

    >>> judge("a beats b", "", "a/b", (0.5, 0.4, 0.6), below=1.0).verdict
    'holds'
    >>> judge("a beats b", "", "a/b", (0.9, 0.7, 1.2), below=1.0).verdict
    'cannot be told'
    >>> judge("no seed needed more", "", "most", 1.2, below=2.0).evidence
    'most = 1.2'
    """
    value, low, high = found[:3] if isinstance(found, tuple) else (found, math.nan, math.nan)
    least, most = (value, value) if math.isnan(low) else (low, high)
    if np.isnan(above):
        wanted, yes, no = f"< {short(below)}", most < below, least >= below
    else:
        wanted, yes, no = f"> {short(above)}", least > above, most <= above
    verdict = HOLDS if yes else FAILS if no else OPEN
    return Claim(claim, setting, measure, value, low, high, wanted, verdict)


def compare(
    claim: str,
    setting: str,
    runs: Table,
    column: str,
    pair: tuple[str, str],
    *,
    at: int = -1,
    measure: str | None = None,
    by: Callable[..., Interval] = ratio,
    **wanted: float,
) -> Claim:
    """Judges the ratio of two learners in one column of a table after round number `at` + 1 (-1: the last),
    that of their means or, `by=typical`, the typical one.

    `runs` differ in learner and seed only; `wanted` is below=… or above=….
    """
    one, other = (runs.where(learner=name)[column][:, at] for name in pair)
    labels = " / ".join(look(name).label for name in pair)
    return judge(claim, setting, measure or labels, by(one, other), **wanted)


def same(claim: str, setting: str, one: np.ndarray, other: np.ndarray) -> Claim:
    """Judges that two arrays are one to a relative difference of 1e-5."""
    away = float(np.max(np.abs(one - other) / np.maximum(np.abs(other), 1e-12)))
    return judge(claim, setting, "largest relative difference", away, below=1e-5)


def together(claims: Sequence[Claim]) -> list[tuple[str, str, str]]:
    """Per claim: its verdict over all settings, and how they went. It holds where it holds everywhere.

    >>> made = [judge("c", s, "m", (v, v, v), below=1.0) for s, v in (("one", 0.5), ("two", 2.0))]
    >>> together(made)
    [('c', 'does not hold', 'holds in 1 of 2; not in: two')]
    """
    rows = []
    for claim in dict.fromkeys(one.claim for one in claims):
        mine = [one for one in claims if one.claim == claim]
        kinds = {kind: [one.setting for one in mine if one.verdict == kind] for kind in (HOLDS, FAILS, OPEN)}
        verdict = FAILS if kinds[FAILS] else OPEN if kinds[OPEN] else HOLDS
        rest = ((FAILS, "not in"), (OPEN, "cannot be told in"))
        parts = [f"{words}: {', '.join(kinds[kind])}" for kind, words in rest if kinds[kind]]
        rows.append((claim, verdict, "; ".join([f"holds in {len(kinds[HOLDS])} of {len(mine)}", *parts])))
    return rows


def mean(values: np.ndarray) -> Interval:
    """The mean over seeds with Student's 95 % interval; infinite, as in `ratio`, where a value is.

    >>> [round(x, 3) for x in mean(np.array([1.0, 2.0, 3.0]))[:3]]
    [2.0, -0.484, 4.484]
    """
    return ratio(values, np.ones(len(values)))


def markdown(claims: Sequence[Claim]) -> str:
    """Two tables: the verdict of each claim, then the evidence in every setting; and what an interval is."""
    lines = ["| claim | verdict | where |", "|---|---|---|"]
    lines += [f"| {claim} | **{verdict}** | {where} |" for claim, verdict, where in together(claims)]
    lines += [
        "",
        "| claim | setting | measured, with its 95 % interval over seeds | wanted | verdict |",
        "|---|---|---|---|---|",
    ]
    for one in claims:
        lines.append(f"| {one.claim} | {one.setting} | {one.evidence} | {one.wanted} | {one.verdict} |")
    return "\n".join([*lines, "", NOTE]) + "\n"


def write(
    folder: Path,
    figures: Mapping[str, Figure],
    tables: Mapping[str, Mapping[str, Any] | Table | str],
    found: Sequence[Claim],
    *,
    digits: Mapping[str, int] | None = None,
) -> list[str]:
    """Every figure as PNG and SVG, every table as CSV, and the claims; the names written.

    `tables` go by the names of their files, packed where these end in .gz, and `digits` says how many digits
    the numbers of a file have where they are not ten. A `Table` is written with a row per run and round, a
    text as it is.
    """
    for name, made in figures.items():
        plots.save(made, folder / f"{name}.png", folder / f"{name}.svg")
    for name, table in {**tables, "claims.csv": disk.to_columns(one._asdict() for one in found)}.items():
        if isinstance(table, str):
            disk.write_file(folder / name, table)
        else:
            columns = table.long() if isinstance(table, Table) else table
            write_csv(folder / name, columns, digits=(digits or {}).get(name, 10))
    disk.write_file(folder / "claims.md", markdown(found))
    return sorted(path.name for path in folder.iterdir())
