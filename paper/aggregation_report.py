"""What the study of aggregation found: loss, return, seconds and bytes; claims, a figure, tables."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from understudy import disk
from understudy.report import plots
from understudy.report.style import INK

from . import claims
from .aggregation import SERIES, Part
from .host import failed, measured

PAIR = ("ftl", "window:1")
SPREAD = (np.min, np.median, np.max)


def rows(parts: Sequence[Part]) -> list[dict[str, Any]]:
    """One row a run: its loss in the last round and on average, its return, its seconds, and the bytes of
    samples that it learns from. Seconds are those of all rounds at the pace of the rounds after the first,
    which compiles; runs that were solved in one call have equal parts of its time.
    """
    found = []
    for one in parts:
        for entry, result in one.final:
            if result.error is not None or not result.rows:
                continue
            series, last, rounds = entry.labels["series"], result.rows[-1], len(result.rows)
            later = result.seconds["collect"] + result.seconds["solve"] - result.seconds["first_round"]
            found.append(
                {
                    "env": one.scale.env,
                    "steps": one.total,
                    "series": series,
                    "seed": entry.labels["seed"],
                    "last_loss": last["loss"],
                    "average_loss": last["average_loss"],
                    "return": last["return_mean"],
                    "expert_return": result.summary["expert_return"],
                    "seconds": later * rounds / max(rounds - 1, 1),
                    "collect_seconds": result.seconds["collect"],
                    "solve_seconds": result.seconds["solve"],
                    "first_round_seconds": result.seconds["first_round"],
                    "memory_bytes": result.summary["memory_bytes"],
                }
            )
    return found


def rounds(parts: Sequence[Part]) -> Iterator[dict[str, Any]]:
    """One row a round: its loss, and how many episodes ended in it."""
    for one in parts:
        for entry, result in one.final:
            labels = {name: entry.labels[name] for name in ("series", "seed")}
            for row in result.rows:
                shown = {name: row[name] for name in ("round", "loss", "episodes")}
                yield {"env": one.scale.env, "steps": one.total, **labels, **shown}


def _of(
    every: Sequence[dict[str, Any]], one: Part, series: str, name: str, lost: float | None = None
) -> np.ndarray:
    """One number a seed, in their order; that of a run that failed is `lost`, or left out."""
    here = [row for row in every if row["steps"] == one.total and row["series"] == series]
    mine = {row["seed"]: row[name] for row in here}
    seeds = sorted(entry.labels["seed"] for entry, _ in one.final if entry.labels["series"] == series)
    found = [mine.get(seed, lost) for seed in seeds]
    return np.array([number for number in found if number is not None], float)


def judged(parts: Sequence[Part]) -> list[claims.Claim]:
    """How the current round alone compares with all rounds, and FTRL and AdaFTRL with both.

    Claims 1 to 5 are of the loss on average over all rounds, which the theory bounds.
    """
    return list(_judged(parts, rows(parts)))


def _judged(parts: Sequence[Part], every: Sequence[dict[str, Any]]) -> Iterator[claims.Claim]:
    pairs = (
        ("(1) all rounds have less loss than the current round alone", "ftl", "window:1"),
        ("(2) FTRL on all rounds has less loss than FTL", "ftrl", "ftl"),
        ("(3) AdaFTRL on all rounds has less loss than FTL", "adaftrl", "ftl"),
        ("(4) AdaFTRL on all rounds has less loss than the current round alone", "adaftrl", "window:1"),
        ("(5) three rounds have less loss than one", "window:3", "window:1"),
    )
    for one in parts:
        where = f"{one.scale.env}, {one.total:,}"
        for claim, mine, other in pairs:
            yield from _less(claim, where, one, every, (mine, other), "average_loss")
        for series in PAIR:
            mine = _of(every, one, series, "return", lost=-np.inf)
            if len(mine):
                expert = _of(every, one, series, "expert_return", lost=0.0)
                size = np.abs(expert)  # returns may be negative
                share = claims.ratio(size + mine - expert, size)
                claim = f"(6) {SERIES[series].look.label}: nine tenths of the expert's return"
                yield claims.judge(claim, where, "1 + (return − expert's) / abs(expert's)", share, above=0.9)
        claim = "(7) all rounds have less loss than the current round alone, in the last round"
        yield from _less(claim, where, one, every, PAIR, "last_loss")
        ftl, current = (_of(every, one, series, "return", lost=-np.inf) for series in PAIR)
        if len(ftl) and len(ftl) == len(current):
            claim = "(8) all rounds have more return than the current round alone"
            # Where a seed lost both runs there is no difference.
            apart = np.subtract(ftl, current, out=np.zeros(len(ftl)), where=ftl != current)
            found = claims.mean(apart / np.abs(_of(every, one, "ftl", "expert_return", lost=1.0)))
            yield claims.judge(claim, where, "difference / abs(expert's)", found, above=0.0)


def _less(
    claim: str, where: str, one: Part, every: Sequence[dict[str, Any]], pair: Sequence[str], name: str
) -> Iterator[claims.Claim]:
    """Judges that the first of a pair of series has less loss; that of a run that failed is infinite."""
    found = [_of(every, one, series, name, lost=np.inf) for series in pair]
    if len(found[0]) and len(found[0]) == len(found[1]):
        yield claims.judge(claim, where, "/".join(pair), claims.ratio(*found), below=1.0)


def facts(parts: Sequence[Part]) -> list[tuple[str, str]]:
    """Per number of interactions the medians over seeds of loss, return, seconds and megabytes."""
    every, found = rows(parts), []
    for one in parts:
        for name, shown, size in (
            ("average_loss", "average loss", 1.0),
            ("return", "return", 1.0),
            ("seconds", "seconds a run", 1.0),
            ("memory_bytes", "MB learned from", 1e6),
        ):
            text = ", ".join(
                f"{series} {_spelled(float(np.median(values)) / size)}"
                for series in one.scale.series
                if len(values := _of(every, one, series, name))
            )
            found.append((f"{one.total:,}: {shown}", text))
    return [*found, ("runs that failed", failed(parts))]


def _spelled(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else claims.short(value)


def draw(parts: Sequence[Part], every: Sequence[dict[str, Any]]) -> Any:
    """Average loss, return, seconds and bytes against interactions: the median of the seeds, and bars from
    the least to the greatest. Series stand a little beside each other, so that none hides another.
    """
    shown = (
        ("average_loss", "average loss"),
        ("return", "return after the last round"),
        ("seconds", "seconds a run, compiled"),
        ("memory_bytes", "megabytes learned from"),
    )
    totals = np.array([one.total for one in parts])
    names = list(dict.fromkeys(row["series"] for row in every))
    with plots.panels(range(2), range(2), size=(4.7, 3.0), xlabel="environment steps", below=3) as (
        made,
        grid,
    ):
        for axes, row, column in grid:
            name, title = shown[2 * row + column]
            for place, series in enumerate(names):
                found = [_of(every, one, series, name) for one in parts]
                if not all(map(len, found)):
                    continue
                scale = 1e-6 if name == "memory_bytes" else 1.0
                low, middle, high = (np.array([of(one) for one in found]) * scale for of in SPREAD)
                x = totals * 1.07 ** (place - (len(names) - 1) / 2)
                drawn, how = SERIES[series].look, {"marker": "o", "markersize": 4.5, "elinewidth": 1.6}
                bars = [middle - low, high - middle]
                axes.errorbar(
                    x, middle, bars, color=drawn.colour, linestyle=drawn.dashes, label=drawn.label, **how
                )
            axes.set(title=title, xscale="log")
            if name != "return":
                axes.set_yscale("linear" if name == "average_loss" else "log")
                if name == "seconds":
                    plots.decades(axes)
                continue
            expert = measured([row["expert_return"] for row in every])
            if math.isfinite(expert):
                axes.axhline(expert, color=INK, linewidth=0.9, linestyle=":")
                axes.annotate(
                    "expert", (0.01, expert), xycoords=("axes fraction", "data"), va="bottom", size=9
                )
            axes.yaxis.set_major_formatter("{x:,.0f}")
    return made


def write(folder: Path, parts: Sequence[Part], found: list[claims.Claim]) -> list[str]:
    """The figure, a row a run, a row a round and the claims; the names of the files."""
    every = rows(parts)
    tables = {"runs.csv": disk.to_columns(every), "rounds.csv": disk.to_columns(rounds(parts))}
    figures = {"aggregation": draw(parts, every)}
    return claims.write(folder, figures, tables, found, digits={"rounds.csv": 6})
