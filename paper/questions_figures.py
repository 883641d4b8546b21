"""The open questions as figures and files."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from understudy import disk
from understudy.report import plots
from understudy.report.style import DASHDOT, DASHED, DOTTED, INK, SOLID, Look, look

from . import claims
from .claims import Claim, mean
from .mapping import Table
from .protocol import STEPS, at_best
from .questions import FORMS, VIEWS, Answers, step_for
from .questions_claims import end, exponent, judged
from .streams import TOY

# Gradient descent from pale to dark as its steps grow; the stochastic solvers in colours of their own.
SOLVERS = {
    "gd-1": Look("#9ecae1", SOLID, "GD, 1 step"),
    "gd-3": Look("#4292c6", SOLID, "GD, 3 steps"),
    "gd-10": Look("#2171b5", SOLID, "GD, 10 steps"),
    "gd-30": Look("#08306b", SOLID, "GD, 30 steps"),
    "adam": Look("#D55E00", DASHED, "Adam, 30 minibatches"),
    "proximal-sgd": Look("#009E73", DASHED, "proximal SGD, 30 minibatches"),
    "sls": Look("#CC79A7", DASHDOT, "SLS, 30 minibatches"),
    "exact": Look(INK, DOTTED, "exact"),
}
VIEW_LOOKS = {
    "as recorded": Look(INK, SOLID, "FTRL, as recorded"),
    "rotated": Look("#56B4E9", DOTTED, "FTRL, rotated"),
    "random": Look("#CC79A7", DASHDOT, "FTRL, random"),
    "scaled": Look("#D55E00", SOLID, "FTRL, scaled"),
    "whitened": Look("#009E73", DASHED, "FTRL, whitened"),
}
FLOOR = 1e-16
WIDE, AVERAGE = (3.9, 3.4), "Average regret at the end"
__all__ = ["facts", "figures", "judged", "write"]


def figures(study: Answers) -> dict[str, Figure]:
    """Every figure by the name of its file."""
    made = {}
    for stream in study.names:
        made[f"inexact_{stream.split('-')[0].replace(' ', '_').lower()}"] = inexact(study, stream)
    made |= {"memory": memory(study), "parameterisation": views(study), "untuned": untuned(study)}
    if study.interactive is not None:
        made["interactive"] = interactive(study)
    return made


def inexact(study: Answers, stream: str) -> Figure:
    """Average regret above, accumulated residual below; a column for each form, a curve for each solver."""
    rounds, here = np.arange(1, study.rounds + 1), study.inexact.where(stream=stream)
    both = ("regret", "residual")
    with plots.panels(both, FORMS, size=(3.3, 2.8), xlabel="round", below=4) as (made, panels):
        for axes, what, form in panels:
            for solver, drawn in SOLVERS.items():
                if what == "residual" and solver == "exact":
                    continue  # rounding alone
                runs = here.where(learner=form, solver=solver)[what]
                values = runs / rounds if what == "regret" else runs
                plots.band(axes, rounds, values, drawn=drawn, positive=True)
            if what == "regret":
                last = f"{look(form).label}, around the last"
                axes.set_title(last if form in ("ftrl", "adaftrl") else look(form).label)
        upper, lower = ([axes for axes, one, _ in panels if one == what] for what in both)
        _same(upper, _focus(upper))
        _same(lower, _focus(lower, below=1e-4, above=300.0))
        upper[0].set_ylabel("Average regret")
        lower[0].set_ylabel("Residual (gradient left)")
        made.suptitle(f"{stream}: what inexact solves leave behind", x=0.01, ha="left", fontweight="bold")
    return made


def _focus(row: list[Axes], *, below: float = 0.1, above: float = 8.0) -> tuple[float, float]:
    """Limits for curves from the fifth round on, at most so many times `below` and `above` their median."""
    values = [np.asarray(line.get_ydata(), float)[4:] for axes in row for line in axes.lines]
    joined = np.concatenate([v[np.isfinite(v)] for v in values])
    middle = float(np.median(joined))
    return max(0.8 * joined.min(), below * middle), min(1.3 * joined.max(), above * middle)


def _same(row: list[Axes], limits: tuple[float, float]) -> None:
    for axes in row:
        axes.set(yscale="log", ylim=limits)
        plots.decades(axes)
        axes.margins(x=0.02)
        if axes is not row[0]:
            axes.tick_params(labelleft=False, which="both")


def memory(study: Answers) -> Figure:
    """Final average regret over the share of the samples that is held, up to all of them."""
    kinds = (("window", DASHED, "s"), ("reservoir", SOLID, "o"))
    with plots.panels([""], study.names, size=WIDE, ylabel=AVERAGE, below=4) as (made, panels):
        for axes, _, stream in panels:
            for name in ("ftl", "ftrl"):
                whole = end(at_best(study.steps.where(stream=stream, learner=name)))
                kept = study.memory.where(stream=stream, learner=name)
                sizes = np.unique(kept["rounds_held"])
                for kind, dashes, mark in kinds:
                    parts = [end(at_best(kept.where(memory=kind, rounds_held=size))) for size in sizes]
                    runs = np.stack([*parts, whole], axis=1) / study.rounds
                    drawn = Look(look(name).colour, dashes, f"{look(name).label}, {kind}")
                    x, marks = [*sizes, study.rounds], {"marker": mark, "markersize": 5}
                    plots.band(axes, x, runs, drawn=drawn, positive=True, **marks)
            axes.set(xscale="log", yscale="log", title=stream, xlabel="rounds' worth of samples held")
            axes.set_xticks([*sizes, study.rounds], [*map(str, sizes), "all"], minor=False)
            axes.xaxis.set_minor_formatter(NullFormatter())
            plots.decades(axes)
    return made


def views(study: Answers) -> Figure:
    """Above: regret over step sizes through other features. Below: how far the outputs are apart."""
    with plots.panels(("regret", "outputs"), study.names, size=(3.9, 3.0), below=3) as (made, panels):
        for axes, half, stream in panels:
            here = study.parameterisation.where(stream=stream)
            (_regrets if half == "regret" else _outputs)(axes, here, study, stream)
            plots.decades(axes)
        panels[0][0].set_ylabel(AVERAGE)
        panels[len(study.names)][0].set_ylabel("Outputs apart from recorded")
    return made


def _regrets(axes: Axes, here: Table, study: Answers, stream: str) -> None:
    leader = end(here.where(learner="ftl", view="as recorded")).mean() / study.rounds
    axes.axhline(leader, color=look("ftl").colour, linewidth=1.2, label="FTL (below: through each)")
    for view in VIEWS:
        plots.band(axes, STEPS, _over_steps(here, study, view=view), drawn=VIEW_LOOKS[view], positive=True)
    best = min(np.nanmin(np.asarray(line.get_ydata(), float)) for line in axes.lines)
    axes.set(xscale="log", yscale="log", title=stream, xlabel="step size η")
    axes.set_ylim(0.8 * best, min(axes.get_ylim()[1], 60 * best))


def _outputs(axes: Axes, here: Table, study: Answers, stream: str) -> None:
    rounds, base = np.arange(1, study.rounds + 1), step_for(study.best, stream, "ftrl")
    for view in VIEWS[1:]:
        apart = here.where(learner="ftrl", view=view, step=base)["apart"] + FLOOR
        plots.band(axes, rounds, apart, drawn=VIEW_LOOKS[view], label="", positive=True)
    for view in ("random", "scaled", "whitened"):
        apart = here.where(learner="ftl", view=view)["apart"] + FLOOR
        drawn = Look(look("ftl").colour, VIEW_LOOKS[view].dashes, "")
        plots.band(axes, rounds, apart, drawn=drawn, positive=True, linewidth=1.2)
    axes.set(yscale="log", ylim=(1e-17, 1e2), xlabel="round", title=f"at η = {base:g}")


def _over_steps(table: Table, study: Answers, learner: str = "ftrl", **where: Any) -> np.ndarray:
    """Average regrets at the end (seeds, steps) of a learner at every step."""
    mine = table.where(learner=learner, **where)
    return np.stack([end(mine.where(step=step)) for step in STEPS], axis=1) / study.rounds


def interactive(study: Answers) -> Figure:
    """Average cumulative loss: dashed on the frozen stream, solid where the learner's own policy acts."""
    assert study.interactive is not None
    rounds = np.arange(1, study.rounds + 1)
    names = [name for name in study.names if name != TOY]
    learners = list(dict.fromkeys(study.interactive["learner"].tolist()))
    labels = {"xlabel": "round", "ylabel": "Average cumulative loss"}
    with plots.panels(names, learners, size=(3.3, 2.7), **labels, below=2) as (made, panels):
        for axes, stream, name in panels:
            mine, colour = study.interactive.where(stream=stream, learner=name), look(name).colour
            for kind, dashes, label in (
                ("interactive", SOLID, "its own run"),
                ("frozen", DOTTED, "the frozen stream of FTL's run"),
            ):
                runs = np.cumsum(mine[kind], axis=1) / rounds
                # One legend for all panels, whose colours differ: drawn in ink.
                axes.plot([], [], color=INK, linestyle=dashes, label=label)
                plots.band(axes, rounds, runs, drawn=Look(colour, dashes, "_nolegend_"), positive=True)
            step = "" if name == "ftl" else f", {'α' if 'ada' in name else 'η'} = {mine['step'][0]:g}"
            axes.set_title(f"{stream.split('-')[0]}: {look(name).label}{step}")
        for stream in names:
            row = [axes for axes, one, _ in panels if one == stream]
            _same(row, _focus(row))
    return made


def untuned(study: Answers) -> Figure:
    """Regret of FTRL and AdaFTRL over eleven decades, and of AdaFTRL as it comes."""
    with plots.panels([""], study.names, size=WIDE, ylabel=AVERAGE, below=3) as (made, panels):
        for axes, _, stream in panels:
            here = study.steps.where(stream=stream)
            for name in ("ftrl", "adaftrl"):
                drawn = Look(look(name).colour, SOLID, f"{look(name).label} at every step")
                plots.band(axes, STEPS, _over_steps(here, study, name), drawn=drawn, positive=True)
            leader = end(here.where(learner="ftl")).mean() / study.rounds
            axes.axhline(leader, color=look("ftl").colour, linewidth=1.2, label="FTL")
            for rule, mark in (("α = 1", "o"), ("α = D/√2", "D")):
                runs = study.untuned.where(stream=stream, rule=rule)
                where = float(np.exp(np.log(runs["step"]).mean()))
                value, colour = end(runs).mean() / study.rounds, look("adaftrl_untuned").colour
                axes.plot(where, value, mark, color=colour, markersize=8, label=f"AdaFTRL, {rule}", zorder=3)
                axes.axhline(value, color=colour, linestyle=DOTTED, linewidth=0.9)
            axes.set(xscale="log", yscale="log", title=stream, xlabel="step size η or α")
            plots.decades(axes)
    return made


def facts(study: Answers) -> list[tuple[str, str]]:
    """The streams, and the best steps on each."""
    rows = [("streams", "; ".join(study.names))]
    for stream in study.names:
        steps = {name: study.best[stream, name] for name in ("ftrl", "adaftrl", "ogd")}
        rows.append((f"best steps, {stream}", ", ".join(f"{k} {v:g}" for k, v in steps.items())))
    return rows


def summary(study: Answers) -> dict[str, list[Any]]:
    """Question 1 by stream, learner and solver: regret, cost against exact, residual, its growth."""
    rows, table = [], study.inexact
    for stream, form in itertools.product(study.names, FORMS):
        exact = end(table.where(stream=stream, learner=form, solver="exact"))
        for solver in SOLVERS:
            mine = table.where(stream=stream, learner=form, solver=solver)
            growth, last = mean(exponent(mine["residual"])), end(mine).mean()
            row = {
                "stream": stream,
                "learner": form,
                "step": mine["step"][0],
                "solver": solver,
                "rate": mine["rate"][0],
                "average_regret": last / study.rounds,
                "against_exact": last / exact.mean(),
                "residual": mine["residual"][:, -1].mean(),
            }
            rows.append(
                row | dict(zip(("exponent", "exponent_low", "exponent_high"), growth[:3], strict=True))
            )
    return disk.to_columns(rows)


def write(folder: Path, study: Answers, found: list[Claim]) -> list[str]:
    """Figures (PNG, SVG) and every number (CSV) into the folder; the names written."""
    tables: dict[str, Any] = {"inexact_summary.csv": summary(study)}
    digits = {}
    for name, table in vars(study).items():
        if isinstance(table, Table):
            # Every round of every step size would be megabytes: of those, the best.
            rounds, tuned = f"{name}_rounds.csv.gz", name in ("memory", "parameterisation", "steps")
            tables |= {f"{name}.csv": _ends(table), rounds: at_best(table) if tuned else table}
            digits[rounds] = 7
    return claims.write(folder, figures(study), tables, found, digits=digits)


def _ends(table: Table) -> dict[str, np.ndarray]:
    """One row a run: the average of losses, and everything else as it is at the end."""
    found: dict[str, np.ndarray] = dict(table.labels)
    for name, column in table.results.items():
        if name in ("loss", "frozen", "interactive"):
            with np.errstate(over="ignore"):  # OGD with steps far too long
                average = column.mean(axis=1)
            found[f"average_{name}" if name == "loss" else f"average_loss_{name}"] = average
        else:
            found[name] = column[:, -1]
    return found
