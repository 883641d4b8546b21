"""`understudy demo`: what online imitation is for, from start to finish, with a table, a plot and a video."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

from .. import disk
from ..defaults import plan_of
from ..errors import UserError, check_int
from ..progress import count_up
from ..spec import RunSpec
from .options import Options

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.table import Table

    from ..runs import Record


class Demo(Options):
    """Walker2d with the shipped expert: three ways to spend the same labels; table, plot and video."""

    out: Path = Path("demo-out")
    """Where plot, video and runs go; made anew."""
    budget: int = 1000
    """Labels for each of the three."""
    seed: int = 0
    """Seed of everything."""
    episodes: int = 5
    """Episodes by which policies are judged, after every second round."""


ENV = "Walker2d-v5"
WAYS = {"cloning": "bc", "dagger": "ftl", "default": "adaftrl"}
"""How the labels are spent, by the names of the folders; and whose colours that has in the figure."""
STEPS = 1000
"""Of the video, at most."""


def specs(options: Demo) -> dict[str, RunSpec]:
    """The settings of the three. The networks, the labels of every round and how the best policy is chosen
    are those of the default. Cloning: the expert drives. DAgger: the policy does, all states have labels.
    """
    default = RunSpec(
        env=ENV,
        budget=options.budget,
        seed=options.seed,
        episodes=options.episodes,
        evaluate_every=2,
        comparator="none",
    )
    first, later = (labels for _, labels in (plan_of(default).rounds * 2)[:2])
    dagger = default.replace(ask="all", first_steps=first, steps_per_round=later, keep_best=True)
    return {"cloning": dagger.replace(learner="bc"), "dagger": dagger, "default": default}


def run(options: Demo) -> int:
    """Plays the three, one after the other, then shows what the same labels have come to."""
    from .. import imitate
    from ..report import plots, tables

    began = time.perf_counter()
    check_int("episodes", options.episodes)
    planned = specs(options)
    if not _is_demo(options.out):  # which is made anew
        disk.refuse_taken(options.out)
    shutil.rmtree(options.out, ignore_errors=True)
    runs: dict[str, Record] = {
        name: imitate(spec, out=options.out / name, progress=True) for name, spec in planned.items()
    }
    measured = runs["default"].expert_evaluation
    assert measured is not None
    expert = measured.mean
    tables.show(_table(runs, expert))
    print(
        f"* cloning: the expert drives. dagger: every state is labelled. default: --budget {options.budget}"
    )
    plots.save(_figure(runs, expert), options.out / "demo.png")
    print(f"plot: {options.out / 'demo.png'}")
    try:
        _film(options, runs)
        print(f"video: {options.out / 'demo.mp4'}")
    except UserError as error:
        print(f"no video: {error}")
    print(f"{time.perf_counter() - began:.0f} s in all")
    return 0


def _is_demo(out: Path) -> bool:
    """Whether a folder holds what a demo makes and nothing else: it will be removed."""
    from ..runs import read_config

    if not (out / "default" / "config.json").is_file():
        return False
    settings = read_config(out / "default")["settings"]
    others = {path.name for path in out.iterdir()} - {*WAYS, "demo.png", "demo.mp4"}
    return not others and (settings.get("env"), settings.get("comparator")) == (ENV, "none")


def _film(options: Demo, runs: dict[str, Record]) -> None:
    """What the three have kept, from the same start."""
    from ..envs.gymnasium import maker
    from ..report import video
    from ..runs import acting

    acts = {f"{name}, {run.ledger['labels'][-1]:,} labels": acting(run) for name, run in runs.items()}
    with count_up("demo.mp4", STEPS, "steps") as update:
        file = options.out / "demo.mp4"
        video.record(file, maker(ENV), acts, seed=options.seed, steps=STEPS, progress=update)


def _table(runs: dict[str, Record], expert: float) -> Table:
    from ..report import tables

    headings = ("way*", "labels", "return", "share", "least", "to 90 %", "seconds")
    rows: list[list[str]] = []
    for name, run in runs.items():
        got, ledger = run.summary(), run.ledger
        reached = ledger["labels"][ledger["return_mean"] >= 0.9 * expert]
        high = got["return_high"]  # None of one episode
        half = "" if high is None else f" ± {high - got['return_mean']:.0f}"
        row = [name, f"{got['labels']:,}", f"{got['return_mean']:.0f}{half}"]
        row += [f"{got['return_mean'] / expert:.2f}", f"{got['return_least']:.0f}"]
        row += [f"{reached[0]:,}" if len(reached) else "not reached"]
        rows.append([*row, f"{got['seconds_total']:.0f}"])
    title = f"{ENV}, expert {expert:.0f} (±: 95 % interval; to 90 %: labels until then)"
    return tables.listed(title, headings, rows)


def _figure(runs: dict[str, Record], expert: float) -> Figure:
    import numpy as np

    from ..report import plots
    from ..report.style import look, style

    with style():
        made, [[axes]] = plots.figure(width=6.4, height=4.0)
        for name, run in runs.items():
            drawn, labels, returns = look(WAYS[name]), run.ledger["labels"], run.ledger["return_mean"]
            seen, line = np.isfinite(returns), {"color": drawn.colour, "linestyle": drawn.dashes}
            axes.plot(labels[seen], returns[seen], label=name, **line)
            assert run.evaluation is not None
            axes.plot(labels[-1:], [run.evaluation.mean], color=drawn.colour, marker="D", clip_on=False)
        axes.axhline(expert, color="black", linestyle=":", label="expert")
        axes.set(
            title=f"{ENV}: return against labels", xlabel="expert labels", ylabel="return", ylim=(0, None)
        )
        axes.legend(title="diamond: what is kept")
    return made
