"""The gridworld study as figures and files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..envs import gridworld
from ..mapping import Table
from ..report import plots
from ..report.style import FAINT, INK, style
from . import reporting
from .claims import Claim
from .gridworld import FIXED, LEARNERS, RADIUS
from .pure import UNTUNED, Outcome, chosen_columns

TITLES = {
    "own": "each policy's own walk",
    "recorded": "one recorded stream for all",
    "ball": f"own walk, on the ball of radius {RADIUS:g}",
}
COLOURS = ("#1F4E9E", "#7B3FA0")


def figures(study: Outcome) -> dict[str, Figure]:
    """Every figure by the name of its file."""
    marks = sorted({min(100, study.rounds), study.rounds})
    return {
        "experts": experts(),
        "regret_reward": regret_reward(study, marks),
        "variants": variants(study),
        "beside": beside(study),
    }


def experts() -> Figure:
    """The two expert grids: what is labelled in odd and in even rounds."""
    with style():
        made, [row] = plots.figure(columns=2, width=3.6, height=3.9)
        for axes, pair, colour, title in zip(
            row,
            gridworld.EXPERT,
            COLOURS,
            ("odd rounds: up or right", "even rounds: down or left"),
            strict=True,
        ):
            _grid(axes, pair, colour)
            axes.set_title(title, loc="center")
    return made


def _grid(axes: Axes, pair: np.ndarray, colour: str) -> None:
    size = gridworld.SIZE
    for line in range(size + 1):
        axes.plot([0, size], [line, line], color=FAINT, linewidth=1.0)
        axes.plot([line, line], [0, size], color=FAINT, linewidth=1.0)
    axes.plot([0, size, size, 0, 0], [0, 0, size, size, 0], color=INK, linewidth=1.6)
    for x in range(size):
        for y in range(size):
            for action in pair:
                dx, dy = gridworld.MOVES[action] * 0.36
                # The two arrows leave from a common tail that is set back, so that both fit the cell.
                tail = np.asarray([x + 0.5, y + 0.5]) - 0.2 * gridworld.MOVES[pair].sum(axis=0) * 0.9
                axes.annotate(
                    "",
                    xy=(tail[0] + dx * 1.5, tail[1] + dy * 1.5),
                    xytext=tuple(tail),
                    arrowprops={
                        "arrowstyle": "-|>",
                        "color": colour,
                        "linewidth": 1.3,
                        "shrinkA": 0,
                        "shrinkB": 0,
                    },
                )
    axes.set(aspect="equal", xlim=(-0.1, size + 0.1), ylim=(-0.1, size + 0.1))
    axes.axis("off")


def _draw(axes: Axes, runs: Table, column: str, upto: int, names: tuple[str, ...]) -> None:
    rounds = np.arange(1, upto + 1)
    for name in names:
        plots.band(axes, rounds, runs.where(learner=name)[column][:, :upto], name=name)
    axes.margins(x=0.02)
    axes.set_xlabel("round")


def regret_reward(study: Outcome, marks: list[int]) -> Figure:
    """The paper's figure: cumulative regret and reward, for the first hundred rounds and for all."""
    runs = study.runs.where(variant="own")
    with style():
        made, panels = plots.figure(columns=2, rows=len(marks), width=4.8, height=3.1)
        for (left, right), upto in zip(panels, marks, strict=True):
            _draw(left, runs, "regret", upto, LEARNERS)
            _draw(right, runs, "cumulative_reward", upto, LEARNERS)
            left.set(title=f"Cumulative regret, {upto} rounds", ylim=(0, None))
            right.set(title=f"Cumulative reward, {upto} rounds", ylim=(0, None))
        plots.legend_below(made, panels[0, 0], len(LEARNERS))
    return made


def variants(study: Outcome) -> Figure:
    """The same learners on their own walks, on one recorded stream, and on an L2 ball."""
    with style():
        made, [row] = plots.figure(columns=len(TITLES), width=4.2, height=3.3)
        for axes, (variant, title) in zip(row, TITLES.items(), strict=True):
            _draw(axes, study.runs.where(variant=variant), "regret", study.rounds, LEARNERS)
            axes.set(title=title.capitalize(), xscale="log", yscale="log")
        row[0].set_ylabel("Cumulative regret")
        plots.legend_below(made, row[0], len(LEARNERS))
    return made


def beside(study: Outcome) -> Figure:
    """AdaFTRL untuned against FTRL tuned, and FTL solved by two ways of starting the line search."""
    runs = study.runs.where(variant="own")
    with style():
        made, [[left, right]] = plots.figure(columns=2, width=4.8, height=3.3)
        _draw(left, runs, "regret", study.rounds, ("ftrl", "adaftrl", UNTUNED))
        _draw(right, runs, "regret", study.rounds, ("ftl", FIXED, "ftrl"))
        left.set(title="Without tuning", ylabel="Cumulative regret", ylim=(0, None))
        right.set(title="FTL is what its solver makes it", ylim=(0, None))
        for axes in (left, right):
            axes.legend(loc="lower right", fontsize=11)
    return made


def write(folder: Path, study: Outcome, claims: list[Claim]) -> list[str]:
    """Figures (PNG, SVG) and every number (CSV) into the folder; the names written."""
    runs, tuned = study.runs, study.tuning
    keep = ("cost", "reward", "cumulative", "cumulative_reward", "regret")
    marks = sorted({min(100, study.rounds), study.rounds})
    ends = {f"{name}_{mark}": runs[name][:, mark - 1] for name in keep[2:] for mark in marks}
    tables = {
        "rounds.csv.gz": Table(runs.labels, {name: runs[name] for name in keep}),
        "curves.csv.gz": reporting.curves(runs, ("regret", "cumulative_reward"), ("variant", "learner")),
        "runs.csv": {**runs.labels, **ends},
        "tuning.csv": {**tuned.labels, "regret_of_10_rounds": tuned["regret"][:, -1]},
        "steps.csv": chosen_columns(study),
    }
    return reporting.write(folder, figures(study), tables, claims, digits={"rounds.csv.gz": 9})
