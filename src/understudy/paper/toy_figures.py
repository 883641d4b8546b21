"""The toy study as figures and files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from ..mapping import Table, write_csv
from ..report import plots
from ..report.style import look, style
from . import claims as claims_module
from .claims import Claim
from .pure import STEPS, UNTUNED, Outcome, chosen_columns
from .toy import PROBLEMS, unsolved

DRAWN = ("ogd", "adagrad", "ftl", "ftrl", "alt_ftrl", "adaftrl")
PROBLEM_LOOKS = {
    "interpolated": ("#009E73", "-", "expert in the class, no noise"),
    "noisy": ("#E69F00", (0, (5, 2)), "with noise"),
    "adversarial": ("#CC3311", (0, (6, 2, 1, 2)), "expert changes sign"),
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
    losses, rounds = _losses(study), np.arange(1, study.rounds + 1)
    with style():
        made, panels = plots.figure(columns=len(losses), rows=len(PROBLEMS), width=3.5, height=2.9)
        for row, problem in zip(panels, PROBLEMS, strict=True):
            for axes, loss in zip(row, losses, strict=True):
                for name in names:
                    runs = study.runs.where(problem=problem, loss=loss, learner=name)
                    values = runs["cumulative"] / rounds if column == "average" else runs[column]
                    plots.band(axes, rounds, np.where(values > 0, values, np.nan), name=name)
                    if name == "ftl":
                        # Where it coincides with a regularised learner it shows as a rim.
                        axes.lines[-1].set_linewidth(4.5)
                axes.set_yscale("log")
                if column == "regret":
                    # The first rounds are alike for all: what differs deserves the room.
                    axes.set_ylim(bottom=_early(axes, study.rounds))
                _decades(axes)
                axes.set_title(f"{loss.capitalize()}, {problem}")
                axes.margins(x=0.02)
        for axes in panels[-1]:
            axes.set_xlabel("round")
        for axes in panels[:, 0]:
            axes.set_ylabel(title)
        legend_below(made, panels[0, 0], len(names))
    return made


def _early(axes: Axes, rounds: int) -> float:
    """The least mean at a fiftieth of the rounds."""
    place = max(rounds // 50, 2) - 1
    values = [np.asarray(line.get_ydata(), float)[place] for line in axes.lines]
    return 0.8 * float(np.nanmin(values))


def _decades(axes: Axes) -> None:
    low, high = axes.get_ylim()
    if high / low < 200:  # few whole decades: label the steps between, too
        axes.yaxis.set_minor_locator(LogLocator(subs=(2.0, 5.0)))
        axes.yaxis.set_minor_formatter("{x:g}")
        axes.yaxis.set_major_formatter("{x:g}")
    else:
        axes.yaxis.set_minor_formatter(NullFormatter())


def legend_below(made: Figure, axes: Axes, columns: int) -> None:
    """One legend for all panels, under them, where it covers nothing."""
    handles, labels = axes.get_legend_handles_labels()
    made.legend(handles, labels, loc="outside lower center", ncols=min(columns, 7), fontsize=11)


def steps(study: Outcome) -> Figure:
    """What the step size was chosen by: regret after ten rounds over eleven decades, the choice marked."""
    losses = _losses(study)
    with style():
        made, panels = plots.figure(columns=len(losses), rows=len(PROBLEMS), width=3.5, height=2.9)
        for row, problem in zip(panels, PROBLEMS, strict=True):
            for axes, loss in zip(row, losses, strict=True):
                here = study.tuning.where(problem=problem, loss=loss)
                ends = {name: here.where(learner=name) for name in DRAWN}
                floor = max(ends["ftl"]["regret"][:, -1].mean(), 1e-12)
                axes.axhline(floor, color=look("ftl").colour, linewidth=1.2, label="FTL (no step size)")
                for name in DRAWN:
                    if name == "ftl":
                        continue
                    mine = ends[name]
                    means = np.asarray([mine.where(step=step)["regret"][:, -1].mean() for step in STEPS])
                    means = np.where(np.isfinite(means), means, np.nan)
                    plots.curve(axes, STEPS, means, name=name)
                    best = int(np.nanargmin(means))
                    axes.plot(STEPS[best], means[best], "o", color=look(name).colour, markersize=6, zorder=3)
                best = min(np.nanmin(line.get_ydata()) for line in axes.lines)  # type: ignore[type-var]
                # A step that is far too long costs astronomically much; what matters is near the best.
                limits = (0.8 * best, max(5 * best, 1.4 * floor))
                axes.set(xscale="log", yscale="log", ylim=limits, title=f"{loss.capitalize()}, {problem}")
                _decades(axes)
        for axes in panels[-1]:
            axes.set_xlabel("step size")
        for axes in panels[:, 0]:
            axes.set_ylabel("Regret after 10 rounds")
        legend_below(made, panels[0, 0], len(DRAWN))
    return made


def interpolation(study: Outcome) -> Figure:
    """FTL's regret where the expert is in the class, where there is noise, and where it changes sign."""
    losses, rounds = _losses(study), np.arange(1, study.rounds + 1)
    with style():
        made, [row] = plots.figure(columns=len(losses), width=3.5, height=3.1)
        for axes, loss in zip(row, losses, strict=True):
            for problem, (colour, dashes, label) in PROBLEM_LOOKS.items():
                runs = study.runs.where(problem=problem, loss=loss, learner="ftl")["regret"]
                axes.plot(rounds, runs.mean(axis=0), color=colour, linestyle=dashes, label=label)
                low, high = np.quantile(runs, [0.05, 0.95], axis=0)
                axes.fill_between(rounds, low, high, color=colour, alpha=0.18, linewidth=0)
            axes.set(yscale="log", title=f"{loss.capitalize()}, FTL", xlabel="round")
            axes.set_ylim(bottom=_early(axes, study.rounds))
            _decades(axes)
        row[0].set_ylabel("Cumulative regret")
        legend_below(made, row[0], 3)
    return made


def curves(runs: Table, columns: tuple[str, ...], by: tuple[str, ...]) -> dict[str, np.ndarray]:
    """What the figures draw: per setting and round the mean over seeds, and the 5 % and 95 % quantiles."""
    found: dict[str, list[np.ndarray]] = {}
    keys = dict.fromkeys(zip(*(runs[name].tolist() for name in by), strict=True))
    for key in keys:
        here = runs.where(**dict(zip(by, key, strict=True)))
        rounds = np.arange(1, here[columns[0]].shape[1] + 1)
        parts: dict[str, np.ndarray] = {
            name: np.full(len(rounds), k) for name, k in zip(by, key, strict=True)
        }
        parts["round"] = rounds
        for name in columns:
            low, high = np.quantile(here[name], [0.05, 0.95], axis=0)
            parts |= {f"{name}_mean": here[name].mean(axis=0), f"{name}_05": low, f"{name}_95": high}
        for name, part in parts.items():
            found.setdefault(name, []).append(part)
    return {name: np.concatenate(parts) for name, parts in found.items()}


def write(folder: Path, study: Outcome, claims: list[Claim]) -> list[str]:
    """Figures (PNG, SVG) and every number (CSV) into the folder; the names written."""
    for name, made in figures(study).items():
        plots.save(made, folder / f"{name}.png", folder / f"{name}.svg")
    keep = ("cost", "cumulative", "comparator", "regret")
    runs = study.runs
    Table(runs.labels, {name: runs[name] for name in keep}).to_csv(folder / "rounds.csv.gz", digits=9)
    write_csv(
        folder / "curves.csv.gz", curves(runs, ("regret", "cumulative"), ("problem", "loss", "learner"))
    )
    ends = {name: runs[name][:, -1] for name in keep if name != "cost"}
    write_csv(folder / "runs.csv", {**runs.labels, **ends})
    tuned = study.tuning
    write_csv(folder / "tuning.csv", {**tuned.labels, "regret_of_10_rounds": tuned["regret"][:, -1]})
    write_csv(folder / "steps.csv", chosen_columns(study))
    write_csv(folder / "solves.csv", unsolved(runs))
    write_csv(folder / "claims.csv", claims_module.columns(claims))
    (folder / "claims.md").write_text(claims_module.markdown(claims))
    return sorted(path.name for path in folder.iterdir())
