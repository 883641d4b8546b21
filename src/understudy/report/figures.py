"""One figure from the folders of runs and studies, for a paper."""

# matplotlib leaves keywords without types.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from .. import disk
from ..errors import UserError, check_name
from . import plots
from .account import AXES, CURVES, Curve, Group, curves, group_runs, looks
from .sources import find_folders, read_folder
from .style import Look, look

HEIGHTS = {name.replace(" ", "-"): column for name, column in CURVES.items()} | {"regret": "regret"}
"""What can be drawn, with its column of the ledger."""


def write_plot(
    *paths: str | os.PathLike[str],
    x: str = "labels",
    y: str = "return",
    out: str | os.PathLike[str] = "figure.pdf",
) -> Path:
    """Draws one curve for each setting of the runs and studies in `paths`, and returns the file's path.

    A curve is the mean over the runs that differ in their seed alone, with the band between their 5 % and
    95 % quantiles, in a panel for each environment. Of returns the expert's is a dotted line. The same runs
    make the same bytes.

    Args:
      paths: folders of runs or studies, or folders that hold such.
      x: "labels", "steps", "rounds" or "seconds".
      y: "return", "loss", "average-loss" or "regret".
      out: the file to write, a .pdf, .png or .svg.

    >>> import tempfile
    >>> from understudy import Study
    >>> study = Study("CartPole-v1", seeds=2, policy="linear", rounds=3, steps_per_round=40, episodes=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     done = study.run(f"{folder}/study", engine="inline")
    ...     write_plot(f"{folder}/study", y="loss", out=f"{folder}/loss.pdf").read_bytes()[:4]
    b'%PDF'
    """
    check_name("x", x, AXES)
    check_name("y", y, HEIGHTS)
    if not paths:
        raise UserError("plot: name at least one folder of a run or a study.")
    target = Path(out)
    disk.check_ending("out", target, ".pdf", ".png", ".svg")
    groups = group_runs([run for path in find_folders(paths, "plot") for run in read_folder(path)])
    panels: dict[str, list[tuple[Group, Look, Curve]]] = {}
    for group, drawn in zip(groups, looks(groups), strict=True):
        if (band := curves(group.sources, {y: HEIGHTS[y]})[y].get(x)) is not None:
            panels.setdefault(group.env, []).append((group, drawn, band))
    if not panels:
        raise UserError(f"y: no run in {', '.join(map(str, paths))} has kept its {y} along {x}.")
    names = min(max(map(len, panels.values())) + 1, 4)
    with plots.panels([y], list(panels), xlabel=x, ylabel=y.replace("-", " "), below=names) as (made, grid):
        for axes, _, env in grid:
            for group, drawn, band in panels[env]:
                _draw(axes, drawn, band, group.counted)
            known = [group.expert.middle for group, *_ in panels[env] if math.isfinite(group.expert.middle)]
            if y == "return" and known:
                theirs = look("expert")
                axes.axhline(known[0], color=theirs.colour, linestyle=theirs.dashes, label=theirs.label)
            axes.set_title(env)
            axes.margins(x=0.02)
    with disk.reporting(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        plots.save(made, target)
    return target


def _draw(axes: Axes, drawn: Look, band: Curve, runs: int) -> None:
    """A mean with its band; the label says where runs are left out, which have no place in common with it."""
    x, middle = np.asarray(band["x"]), np.asarray(band["middle"])
    left_out = "" if band["runs"] == runs else f" ({band['runs']} of {runs} runs)"
    dot, label = "o" if len(x) == 1 else "", drawn.label + left_out
    axes.plot(x, middle, color=drawn.colour, linestyle=drawn.dashes, marker=dot, label=label)
    if "low" in band:
        low, high = np.asarray(band["low"]), np.asarray(band["high"])
        axes.fill_between(x, low, high, color=drawn.colour, alpha=0.18, linewidth=0)
