"""The toy study as figures and files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from understudy.report import plots
from understudy.report.style import DASHDOT, DASHED, SOLID, Look, look

from .claims import Claim
from .protocol import STEPS, UNTUNED, Outcome, facts, write_pure
from .toy import PROBLEMS, judged, unsolved

__all__ = ["facts", "figures", "judged", "write"]
SIZE = (3.5, 2.9)
DRAWN = ("ogd", "adagrad", "ftl", "ftrl", "alt_ftrl", "adaftrl")
PROBLEM_LOOKS = {
    "interpolated": Look("#009E73", SOLID, "expert in the class, no noise"),
    "noisy": Look("#E69F00", DASHED, "with noise"),
    "adversarial": Look("#CC3311", DASHDOT, "expert changes sign"),
}


def figures(study: Outcome) -> dict[str, Figure]:
    """Every figure by the name of its file."""
    return {
        "regret": _curves(study, "regret", "Cumulative regret"),
        "average_loss": _curves(study, "average", "Average cumulative loss"),
        "steps": steps(study),
        "untuned": _curves(study, "regret", "Cumulative regret", ("ftl", "ftrl", "adaftrl", UNTUNED)),
        "interpolation": interpolation(study),
    }


def _losses(study: Outcome) -> list[str]:
    return list(dict.fromkeys(study.runs["loss"].tolist()))


def _curves(study: Outcome, column: str, title: str, names: tuple[str, ...] = DRAWN) -> Figure:
    """Problems in rows, losses in columns; mean over seeds with 5 % and 95 % quantiles."""
    rounds = np.arange(1, study.rounds + 1)
    labels = {"xlabel": "round", "ylabel": title}
    with plots.panels(PROBLEMS, _losses(study), size=SIZE, **labels, below=len(names)) as (made, panels):
        for axes, problem, loss in panels:
            for name in names:
                runs = study.runs.where(problem=problem, loss=loss, learner=name)
                values = runs["cumulative"] / rounds if column == "average" else runs[column]
                plots.band(axes, rounds, values, name=name, positive=True)
                if name == "ftl":
                    # Where it coincides with a regularised learner it shows as a rim.
                    axes.lines[-1].set_linewidth(4.5)
            axes.set_yscale("log")
            if column == "regret":
                # The first rounds are the same for all learners: the axis begins after them.
                axes.set_ylim(bottom=_early(axes, study.rounds))
            plots.decades(axes)
            axes.set_title(f"{loss.capitalize()}, {problem}")
            axes.margins(x=0.02)
    return made


def _early(axes: Axes, rounds: int) -> float:
    """The least mean at a fiftieth of the rounds."""
    place = max(rounds // 50, 2) - 1
    values = [np.asarray(line.get_ydata(), float)[place] for line in axes.lines]
    return 0.8 * float(np.nanmin(values))


def steps(study: Outcome) -> Figure:
    """What the step size was chosen by: regret after ten rounds over eleven decades, the choice marked."""
    labels = {"xlabel": "step size", "ylabel": "Regret after 10 rounds"}
    with plots.panels(PROBLEMS, _losses(study), size=SIZE, **labels, below=len(DRAWN)) as (made, panels):
        for axes, problem, loss in panels:
            here = study.tuning.where(problem=problem, loss=loss)
            floor = max(here.where(learner="ftl")["regret"][:, -1].mean(), 1e-12)
            axes.axhline(floor, color=look("ftl").colour, linewidth=1.2, label="FTL (no step size)")
            for name in DRAWN:
                if name == "ftl":
                    continue
                mine = here.where(learner=name)
                means = np.asarray([mine.where(step=step)["regret"][:, -1].mean() for step in STEPS])
                means = np.where(np.isfinite(means), means, np.nan)
                plots.curve(axes, STEPS, means, name=name)
                best = int(np.nanargmin(means))
                axes.plot(STEPS[best], means[best], "o", color=look(name).colour, markersize=6, zorder=3)
            best = min(np.nanmin(line.get_ydata()) for line in axes.lines)  # type: ignore[type-var]
            # A step that is far too long costs astronomically much; what matters is near the best.
            limits = (0.8 * best, max(5 * best, 1.4 * floor))
            axes.set(xscale="log", yscale="log", ylim=limits, title=f"{loss.capitalize()}, {problem}")
            plots.decades(axes)
    return made


def interpolation(study: Outcome) -> Figure:
    """FTL's regret where the expert is in the class, where there is noise, and where it changes sign."""
    rounds = np.arange(1, study.rounds + 1)
    labels = {"xlabel": "round", "ylabel": "Cumulative regret"}
    with plots.panels([""], _losses(study), size=(3.5, 3.1), **labels, below=3) as (made, panels):
        for axes, _, loss in panels:
            for problem, drawn in PROBLEM_LOOKS.items():
                runs = study.runs.where(problem=problem, loss=loss, learner="ftl")["regret"]
                plots.band(axes, rounds, runs, drawn=drawn)
            axes.set(yscale="log", title=f"{loss.capitalize()}, FTL")
            axes.set_ylim(bottom=_early(axes, study.rounds))
            plots.decades(axes)
    return made


def write(folder: Path, study: Outcome, claims: list[Claim]) -> list[str]:
    """Figures (PNG, SVG) and every number (CSV) into the folder; the names written."""
    keep = ("cost", "cumulative", "comparator", "regret")
    last = {name: study.runs[name][:, -1] for name in keep[1:]}
    drawn, more = ("regret", "cumulative"), {"runs": last, "solves": unsolved(study.runs)}
    return write_pure(folder, study, figures(study), claims, keep=keep, drawn=drawn, **more)
