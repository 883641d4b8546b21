"""Plots, on matplotlib's objects alone: no window, no global figure, the same bytes for the same numbers."""

# matplotlib leaves keywords without types.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

import contextlib
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter
from numpy.typing import ArrayLike

from .style import INK, Look, look, style

R = TypeVar("R")
C = TypeVar("C")


def figure(
    columns: int = 1, rows: int = 1, *, width: float = 4.6, height: float = 3.3
) -> tuple[Figure, np.ndarray]:
    """A figure and its axes (rows, columns); `width` and `height` are of one panel, in inches.

    Call it, and draw, inside ``with style():``.
    """
    drawing = Figure(figsize=(width * columns, height * rows), layout="constrained")
    FigureCanvasAgg(drawing)
    return drawing, drawing.subplots(rows, columns, squeeze=False)


@contextlib.contextmanager
def panels(
    rows: Sequence[R],
    columns: Sequence[C],
    *,
    size: tuple[float, float] = (4.6, 3.3),
    xlabel: str = "",
    ylabel: str = "",
    below: int = 0,
) -> Generator[tuple[Figure, list[tuple[Axes, R, C]]]]:
    """A figure, and its panels as (axes, row, column): one for every pair, `size` inches each.

    When the block ends well, the lowest panels get `xlabel` and the leftmost `ylabel`; with `below` there is
    one legend of so many columns below all panels, of every name in any of them.
    """
    with style():
        drawing, grid = figure(columns=len(columns), rows=len(rows), width=size[0], height=size[1])
        yield drawing, [(grid[i, j], r, c) for i, r in enumerate(rows) for j, c in enumerate(columns)]
        for axes in grid[-1] if xlabel else ():
            axes.set_xlabel(xlabel)
        for axes in grid[:, 0] if ylabel else ():
            axes.set_ylabel(ylabel)
        if below:
            names: dict[str, Artist] = {}
            for axes in grid.flat:
                for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
                    names.setdefault(label, handle)
            drawing.legend(
                names.values(), names, loc="outside lower center", ncols=min(below, 7), fontsize=11
            )


def save(made: Figure, *paths: Path) -> None:
    """Writes the figure to each path, in the format of its ending, with no date or program's name inside."""
    for path in paths:
        nameless = {".png": {"Software": None}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
        with style():
            made.savefig(path, metadata=nameless.get(path.suffix))


def curve(axes: Axes, x: Sequence[float] | np.ndarray, y: Sequence[float] | np.ndarray, *, name: str) -> None:
    """One run, in the look of `name`; a single point is a dot."""
    drawn, dot = look(name), "o" if len(x) == 1 else ""
    axes.plot(x, y, color=drawn.colour, linestyle=drawn.dashes, label=drawn.label, marker=dot)


def band(
    axes: Axes,
    x: ArrayLike,
    runs: ArrayLike,
    *,
    name: str = "",
    label: str | None = None,
    drawn: Look | None = None,
    positive: bool = False,
    **line: Any,
) -> None:
    """Draws the mean of `runs` (seeds, len(x)) and the band between their 5 % and 95 % quantiles.

    The look is that of `name`, or `drawn`. Gaps are left out; with `positive`, which a logarithmic axis
    needs, values that are not above zero are left out too.
    """
    drawn = look(name) if drawn is None else drawn
    runs = np.atleast_2d(np.asarray(runs, float))
    with np.errstate(all="ignore"):
        here = (np.isfinite(runs) & ((runs > 0) | (not positive))).all(axis=0)
        x, runs = np.asarray(x)[here], runs[:, here]
        middle = runs.mean(axis=0)
    label = drawn.label if label is None else label
    axes.plot(x, middle, color=drawn.colour, linestyle=drawn.dashes, label=label, **line)
    if len(runs) > 1 and len(x):
        low, high = np.quantile(runs, [0.05, 0.95], axis=0)
        axes.fill_between(x, low, high, color=drawn.colour, alpha=0.18, linewidth=0)


def decades(axes: Axes) -> None:
    """Labels between the decades of a logarithmic axis where few of them are in sight."""
    low, high = axes.get_ylim()
    if high / low < 200:
        axes.yaxis.set_minor_locator(LogLocator(subs=(2.0, 5.0)))
        axes.yaxis.set_minor_formatter("{x:g}")
        axes.yaxis.set_major_formatter("{x:g}")
    else:
        axes.yaxis.set_minor_formatter(NullFormatter())


def regret(ledgers: Mapping[str, Mapping[str, np.ndarray]], *, bound: bool = True) -> Figure:
    """Cumulative regret with its certified bound (dotted) on the left, average cumulative loss on the right.

    `ledgers` maps a learner's name to its ledger. A bound far above all regrets is
    written in the title instead of drawn.
    """
    with style():
        drawing, [[left, right]] = figure(columns=2)
        for name, ledger in ledgers.items():
            rounds, values = ledger["round"], ledger["regret"]
            known = np.isfinite(values)
            curve(left, rounds[known], values[known], name=name)
            curve(right, rounds, ledger["average_loss"], name=name)
        if bound:
            _bounds(left, ledgers)
        left.axhline(0.0, color=INK, linewidth=0.8)
        left.set(title="Cumulative regret", xlabel="round")
        right.set(title="Average cumulative loss", xlabel="round")
        for axes in (left, right):
            axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
            axes.margins(x=0.02)
        legend(drawing, left)
    return drawing


def legend(made: Figure, axes: Axes) -> None:
    """One legend for the whole figure: inside `axes` where it is short, else to the right of all panels."""
    handles, labels = axes.get_legend_handles_labels()
    if len(labels) <= 3:
        axes.legend(handles, labels)
    else:
        made.legend(handles, labels, loc="outside right upper")


def _bounds(axes: Axes, ledgers: Mapping[str, Mapping[str, np.ndarray]]) -> None:
    highest = max(np.nanmax(np.append(ledger["regret"], 0.0)) for ledger in ledgers.values())
    hidden: list[str] = []
    for name, ledger in ledgers.items():
        limit, drawn = ledger["bound"], look(name)
        if not np.isfinite(limit[-1]):
            continue
        if limit[-1] > 8 * max(highest, np.finfo(float).tiny):
            hidden.append(f"{drawn.label}: {limit[-1]:.3g}")
            continue
        seen = np.isfinite(limit)
        axes.plot(ledger["round"][seen], limit[seen], color=drawn.colour, linestyle=":", linewidth=1.2)
    if not any(np.isfinite(ledger["bound"][-1]) for ledger in ledgers.values()):
        return
    out_of_sight = f" (out of sight for {', '.join(hidden)})" if hidden else ""
    axes.plot([], [], color=INK, linestyle=":", linewidth=1.2, label=f"certified bound{out_of_sight}")
