"""The gridworld study as figures and files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from understudy.report import plots
from understudy.report.style import FAINT, INK

from . import gridworld_env
from .claims import Claim
from .gridworld import FIXED, LEARNERS, RADIUS, judged
from .mapping import Table
from .protocol import UNTUNED, Outcome, facts, write_pure

__all__ = ["facts", "figures", "judged", "write"]
TITLES = {
    "own": "each policy's own walk",
    "recorded": "one recorded stream for all",
    "ball": f"own walk, on the ball of radius {RADIUS:g}",
}
COLOURS = ("#1F4E9E", "#7B3FA0")


def figures(study: Outcome) -> dict[str, Figure]:
    """Every figure by the name of its file."""
    return {
        "experts": experts(),
        "regret_reward": regret_reward(study),
        "variants": variants(study),
        "beside": beside(study),
    }


def _marks(study: Outcome) -> list[int]:
    return sorted({min(100, study.rounds), study.rounds})


def experts() -> Figure:
    """The two expert grids: what is labelled in odd and in even rounds."""
    titles = ("odd rounds: up or right", "even rounds: down or left")
    drawn = list(zip(gridworld_env.EXPERT, COLOURS, titles, strict=True))
    with plots.panels([""], drawn, size=(3.6, 3.9)) as (made, panels):
        for axes, _, (pair, colour, title) in panels:
            _grid(axes, pair, colour)
            axes.set_title(title, loc="center")
    return made


def _grid(axes: Axes, pair: np.ndarray, colour: str) -> None:
    size = gridworld_env.SIZE
    for line in range(size + 1):
        axes.plot([0, size], [line, line], color=FAINT, linewidth=1.0)
        axes.plot([line, line], [0, size], color=FAINT, linewidth=1.0)
    axes.plot([0, size, size, 0, 0], [0, 0, size, size, 0], color=INK, linewidth=1.6)
    arrow = {"arrowstyle": "-|>", "color": colour, "linewidth": 1.3, "shrinkA": 0, "shrinkB": 0}
    for x in range(size):
        for y in range(size):
            for action in pair:
                dx, dy = gridworld_env.MOVES[action] * 0.36
                # The two arrows leave from a common tail that is set back, so that both fit the cell.
                tail = np.asarray([x + 0.5, y + 0.5]) - 0.2 * gridworld_env.MOVES[pair].sum(axis=0) * 0.9
                tip = (tail[0] + dx * 1.5, tail[1] + dy * 1.5)
                axes.annotate("", xy=tip, xytext=tuple(tail), arrowprops=arrow)
    axes.set(aspect="equal", xlim=(-0.1, size + 0.1), ylim=(-0.1, size + 0.1))
    axes.axis("off")


def _draw(axes: Axes, runs: Table, column: str, upto: int, names: tuple[str, ...]) -> None:
    rounds = np.arange(1, upto + 1)
    for name in names:
        plots.band(axes, rounds, runs.where(learner=name)[column][:, :upto], name=name)
    axes.margins(x=0.02)
    axes.set_xlabel("round")


def regret_reward(study: Outcome) -> Figure:
    """The paper's figure: cumulative regret and reward, for the first hundred rounds and for all."""
    runs, columns = study.runs.where(variant="own"), ("regret", "cumulative_reward")
    with plots.panels(_marks(study), columns, size=(4.8, 3.1), below=len(LEARNERS)) as (made, panels):
        for axes, upto, column in panels:
            _draw(axes, runs, column, upto, LEARNERS)
            what = column.rpartition("_")[2]
            axes.set(title=f"Cumulative {what}, {upto} rounds", ylim=(0, None))
    return made


def variants(study: Outcome) -> Figure:
    """The same learners on their own walks, on one recorded stream, and on an L2 ball."""
    title, below = "Cumulative regret", len(LEARNERS)
    with plots.panels([""], [*TITLES], size=(4.2, 3.3), ylabel=title, below=below) as (made, panels):
        for axes, _, variant in panels:
            _draw(axes, study.runs.where(variant=variant), "regret", study.rounds, LEARNERS)
            axes.set(title=TITLES[variant].capitalize(), xscale="log", yscale="log")
    return made


def beside(study: Outcome) -> Figure:
    """AdaFTRL untuned against FTRL tuned, and FTL solved by two ways of starting the line search."""
    shown = {
        "Without tuning": ("ftrl", "adaftrl", UNTUNED),
        "FTL is what its solver makes it": ("ftl", FIXED, "ftrl"),
    }
    runs = study.runs.where(variant="own")
    with plots.panels([""], [*shown], size=(4.8, 3.3), ylabel="Cumulative regret") as (made, panels):
        for axes, _, title in panels:
            _draw(axes, runs, "regret", study.rounds, shown[title])
            axes.set(title=title, ylim=(0, None))
            axes.legend(loc="lower right", fontsize=11)
    return made


def write(folder: Path, study: Outcome, claims: list[Claim]) -> list[str]:
    """Figures (PNG, SVG) and every number (CSV) into the folder; the names written."""
    keep, marks = ("cost", "reward", "cumulative", "cumulative_reward", "regret"), _marks(study)
    ends = {f"{name}_{mark}": study.runs[name][:, mark - 1] for name in keep[2:] for mark in marks}
    drawn = ("regret", "cumulative_reward")
    return write_pure(folder, study, figures(study), claims, keep=keep, drawn=drawn, runs=ends)
