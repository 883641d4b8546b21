"""`understudy demo`: the main job from start to finish, with a table, a plot and a video."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

from .. import disk
from ..errors import UserError, check_int
from ..progress import count_up
from ..spec import RunSpec
from .options import Options

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.table import Table

    from ..runs import Record


class Demo(Options):
    """Hopper with the shipped expert: FTL, AdaFTRL and behavioural cloning; table, plot and video."""

    out: Path = Path("demo-out")
    """Where plot, video and runs go; made anew."""
    rounds: int = 8
    """Rounds of 1000 labels for each."""
    seed: int = 0
    """Seed of everything."""
    episodes: int = 5
    """Evaluation episodes after every second round."""


ENV = "Hopper-v5"
LEARNERS = ("ftl", "adaftrl", "bc")
SEARCH = 1000
"""Steps of the search for the best network in hindsight, fewer than elsewhere."""
STEPS, EARLY, SEARCHED = 1000, 250, 5
"""Steps of the video, labels of the policy that falls in it, and starts among which the soonest is taken."""


def run(options: Demo) -> int:
    """Runs the three, one after the other, then shows what they cost and what they reached."""
    from .. import imitate
    from ..report import plots, tables

    began = time.perf_counter()
    check_int("episodes", options.episodes)
    specs = {
        name: RunSpec(
            env=ENV,
            learner=name,
            rounds=options.rounds,
            seed=options.seed,
            episodes=options.episodes,
            evaluate_every=2 if options.rounds > 4 else 1,
            expert_episodes=options.episodes if name == "ftl" else 0,
            comparator_steps=SEARCH,
        )
        for name in LEARNERS
    }
    if not _is_demo(options.out):  # which is made anew
        disk.refuse_taken(options.out)
    shutil.rmtree(options.out, ignore_errors=True)
    runs: dict[str, Record] = {
        name: imitate(spec, out=options.out / name, progress=True) for name, spec in specs.items()
    }
    measured = runs["ftl"].expert_evaluation
    assert measured is not None
    expert = measured.mean
    tables.show(_table(runs, expert))
    print("* bc's loss is on the expert's states, not its own. Regrets of networks are estimates.")
    plots.save(_figure(runs, expert), options.out / "demo.png")
    print(f"plot: {options.out / 'demo.png'}")
    try:
        _film(options, runs["ftl"])
        print(f"video: {options.out / 'demo.mp4'}")
    except UserError as error:
        print(f"no video: {error}")
    print(f"{time.perf_counter() - began:.0f} s in all")
    return 0


def _is_demo(out: Path) -> bool:
    """Whether a folder holds what a demo makes and nothing else: it will be removed."""
    from ..runs import read_config

    if not (out / "ftl" / "config.json").is_file():
        return False
    settings = read_config(out / "ftl")["settings"]
    others = {path.name for path in out.iterdir()} - {*LEARNERS, "demo.png", "demo.mp4"}
    return not others and (settings.get("env"), settings.get("comparator_steps")) == (ENV, SEARCH)


def _film(options: Demo, final: Record) -> None:
    """A policy that has seen little and falls, FTL's last policy and the expert, from the same start."""
    from .. import evaluate, experts, imitate
    from ..envs.gymnasium import maker
    from ..report import video
    from ..runs import acting

    nothing = {"episodes": 0, "expert_episodes": 0, "comparator": "none"}
    early = imitate(ENV, rounds=1, steps_per_round=EARLY, seed=options.seed, **nothing)
    make = maker(ENV)
    starts: dict[int, tuple[bool, int]] = {}
    for seed in range(SEARCHED):
        fell, stood = (
            int(evaluate(run, make, episodes=1, seed=seed, stream="video").lengths[0])
            for run in (early, final)
        )
        starts[seed] = (stood < STEPS, fell)
    acts = {
        f"ftl after {EARLY} labels": acting(early),
        f"ftl after {final.ledger['labels'][-1]:,} labels": acting(final),
        "expert": acting(experts.resolve(None, env_id=ENV)),
    }
    seed = min(starts, key=starts.__getitem__)
    with count_up("demo.mp4", STEPS, "steps") as update:
        video.record(options.out / "demo.mp4", make, acts, seed=seed, steps=STEPS, progress=update)


def _table(runs: dict[str, Record], expert: float) -> Table:
    from ..report import tables

    # Eight columns fit into a terminal of 80 only with short headings.
    headings = ("learner", "labels", "return", "to 90 %", "loss", "regret", "collect", "solve")
    rows: list[list[str]] = []
    for name, run in runs.items():
        got, ledger = run.summary(), run.ledger
        reached = ledger["labels"][ledger["return_mean"] >= 0.9 * expert]
        high = got["return_high"]  # None of one episode
        half = "" if high is None else f" ± {high - got['return_mean']:.0f}"
        row = [name, f"{got['labels']:,}", f"{got['return_mean']:.0f}{half}"]
        row += [f"{reached[0]:,}" if len(reached) else "not reached"]
        row += [f"{got['average_loss']:.4f}" + ("*" if name == "bc" else ""), f"{got['regret']:.3f}"]
        rows.append([*row, f"{got['seconds_collect']:.0f} s", f"{got['seconds_solve']:.0f} s"])
    title = f"{ENV}, expert {expert:.0f} (±: 95 % interval; to 90 %: labels until then; loss: average)"
    return tables.listed(title, headings, rows)


def _figure(runs: dict[str, Record], expert: float) -> Figure:
    import numpy as np

    from ..report import plots
    from ..report.style import style

    with style():
        made, [[left, right]] = plots.figure(columns=2)
        for name, run in runs.items():
            ledger = run.ledger
            seen = np.isfinite(ledger["return_mean"])
            plots.curve(left, ledger["labels"][seen], ledger["return_mean"][seen], name=name)
            plots.curve(right, ledger["labels"], ledger["average_loss"], name=name)
        left.axhline(expert, color="black", linestyle=":", label="expert")
        left.set(title="Return", xlabel="expert labels")
        right.set(title="Average cumulative loss", xlabel="expert labels", yscale="log")
        left.legend()
    return made
