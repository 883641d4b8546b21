"""What the study of aggregation found: loss, return, seconds and bytes; claims, a figure, tables."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..report import plots
from ..report.style import Look, look
from . import claims, reporting
from .aggregation import NAMES, Part

LOOKS = {
    "ftl": Look(look("ftl").colour, "-", NAMES["ftl"]),
    "window:1": Look("#CC79A7", (0, (5, 2)), NAMES["window:1"]),
    "window:3": Look("#E69F00", (0, (1, 1)), NAMES["window:3"]),
    "ftrl": Look(look("ftrl").colour, "-", NAMES["ftrl"]),
    "adaftrl": Look(look("adaftrl").colour, "-", NAMES["adaftrl"]),
}


def rows(parts: Sequence[Part]) -> list[dict[str, Any]]:
    """One row a run: its loss in the last round and on average, its return, its seconds, and the bytes of
    samples that it learns from. Seconds are those of all rounds at the pace of the rounds after the first,
    which compiles; runs that were solved in one call have equal parts of its time.
    """
    found = []
    for one in parts:
        for entry, result in zip(one.final.entries, one.final.results, strict=True):
            if result.error is not None or not result.rows:
                continue
            series, last, rounds = entry.labels["series"], result.rows[-1], len(result.rows)
            later = result.seconds["collect"] + result.seconds["solve"] - result.seconds["first_round"]
            found.append(
                {
                    "env": one.scale.env,
                    "interactions": one.total,
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


def _of(every: Sequence[dict[str, Any]], total: int, series: str, name: str) -> np.ndarray:
    """One number a seed."""
    mine = [row for row in every if row["interactions"] == total and row["series"] == series]
    return np.array([row[name] for row in sorted(mine, key=lambda row: row["seed"])], float)


def judged(parts: Sequence[Part]) -> list[claims.Claim]:
    """How the current round alone compares with all rounds, and FTRL and AdaFTRL with both."""
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
            a, b = (_of(every, one.total, name, "average_loss") for name in (mine, other))
            if len(a) and len(a) == len(b):
                yield claims.judge(claim, where, f"{mine}/{other}", claims.ratio(a, b), below=1.0)
        for series in ("ftl", "window:1"):
            mine, expert = (_of(every, one.total, series, name) for name in ("return", "expert_return"))
            if len(mine):
                size = np.abs(expert)  # returns may be negative
                share = claims.ratio(size + mine - expert, size)
                claim = f"(6) {NAMES[series]}: nine tenths of the expert's return"
                yield claims.judge(claim, where, "1 + (return − expert's) / |expert's|", share, above=0.9)


def facts(parts: Sequence[Part]) -> list[tuple[str, str]]:
    """Per number of interactions the mean losses, returns, seconds and megabytes."""
    every, found = rows(parts), []
    for one in parts:
        for name, shown, size in (
            ("average_loss", "average loss", 1.0),
            ("return", "return", 1.0),
            ("seconds", "seconds a run", 1.0),
            ("memory_bytes", "MB learned from", 1e6),
        ):
            text = ", ".join(
                f"{series} {claims.short(float(np.mean(values)) / size)}"
                for series in one.scale.series
                if len(values := _of(every, one.total, series, name))
            )
            found.append((f"{one.total:,}: {shown}", text))
    return [*found, ("runs that failed", str(sum(len(one.final.failed) for one in parts)))]


def draw(parts: Sequence[Part], every: Sequence[dict[str, Any]]) -> Any:
    """Average loss, return, seconds and bytes against interactions."""
    shown = (
        ("average_loss", "average loss"),
        ("return", "return"),
        ("seconds", "seconds a run, compiled"),
        ("memory_bytes", "bytes learned from"),
    )
    totals = [one.total for one in parts]
    with plots.panels(
        range(1), range(len(shown)), size=(3.9, 3.1), xlabel="interactions", ylabel="", below=3
    ) as (
        made,
        grid,
    ):
        for axes, _, column in grid:
            name, title = shown[column]
            for series in dict.fromkeys(row["series"] for row in every):
                found = [_of(every, total, series, name) for total in totals]
                count = min(map(len, found))
                if not count:
                    continue
                values = np.array([one[:count] for one in found]).T
                plots.band(axes, np.array(totals), values, drawn=LOOKS[series])
            axes.set(title=title, xscale="log")
            if column != 1:
                axes.set_yscale("log")
            else:
                expert = float(np.nanmean([row["expert_return"] for row in every]))
                if math.isfinite(expert):
                    axes.axhline(expert, color="#999999", linewidth=0.8, linestyle=":")
    return made


def write(folder: Path, parts: Sequence[Part], found: list[claims.Claim]) -> list[str]:
    """The figure, a row a run and the claims; the names of the files."""
    every = rows(parts)
    table = {name: [row[name] for row in every] for name in every[0]} if every else {}
    return reporting.write(folder, {"aggregation": draw(parts, every)}, {"runs.csv": table}, found)
