"""The fewest labels in the least time: what a budget of labels takes and gives, seed by seed.

    python benchmarks/budgets.py --out runs/budgets                    # ten seeds that chose nothing
    python benchmarks/budgets.py --tuning --seeds 1 2 --tasks Hopper-v5:400
    python benchmarks/budgets.py --out runs/budgets --table            # what is there, in a table
    python benchmarks/budgets.py --out runs/budgets --publish docs/figures/budgets

A task is an environment and its budget, and perhaps an expert: ``Pendulum-v1:400:runs/expert``,
``unseen:walker:5000:unseen:walker_expert``. Every run has a process and a core of its own, `--jobs` at a
time; the first run of a task, which compiles, is played twice, and its first seconds are the cold ones.
Seconds are of the whole process until its record is there: starting, imports, evaluations and all. What the
run would keep, had it ended after a round, then plays 20 episodes that no run has seen, as the expert and
random actions do; the first such one with a score (R − random)/(expert − random) of 0.9 says how many labels
that takes. *Kept* is the score of the policy that is kept in the episodes by which all runs are judged. Every
run is a line of ``runs.jsonl`` as soon as it has ended, and what is there is not played again. Seeds that
chose settings (benchmarks/seeds.py) are refused without `--tuning`.
"""

from __future__ import annotations

import time

BEGAN = time.perf_counter()

import argparse  # noqa: E402
import copy  # noqa: E402
import csv  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
import queue  # noqa: E402
import re  # noqa: E402
import subprocess  # noqa: E402
import sys  # noqa: E402
from collections.abc import Iterable  # noqa: E402
from concurrent.futures import ThreadPoolExecutor  # noqa: E402
from pathlib import Path  # noqa: E402
from statistics import mean, median  # noqa: E402
from typing import Any  # noqa: E402

TASKS = ["HalfCheetah-v5:5000", "Ant-v5:1500", "Walker2d-v5:1000", "Hopper-v5:400", "Pendulum-v1:400"]
"""The longest first."""
TASK = re.compile(r"(.+?):(\d+)(?::(.+))?")
"""Of a task: its environment, which may have a colon in its name, its budget, its expert."""
EPISODES, NUMBER, ENOUGH = 20, 1 << 20, 0.9
"""Episodes of a policy that a run would have kept, a number that no run has, and the score that counts."""


def one(task: str, seed: int, settings: dict[str, Any]) -> dict[str, Any]:
    """A run in this process: its seconds, and the score of each policy that it would have kept."""
    import understudy
    from understudy.runs.evaluate import EpisodeSet, play_episodes

    understudy.use_cache()
    env, budget, expert = TASK.fullmatch(task).groups()  # type: ignore[union-attr]
    with understudy.Run(env, budget=int(budget), seed=seed, expert=expert, **settings) as run:
        kept: list[tuple[int, Any]] = []
        for row in run:
            best = run.judge.best
            if best is not None and (not kept or kept[-1][1] is not best):
                kept.append((int(row["labels"]), best))
        record = run.finish()
        seconds, cpu = time.perf_counter() - BEGAN, time.process_time()
        asked, student, arena = EpisodeSet(seed, EPISODES, NUMBER), run.student, run.judge.arena
        slots = run.world.lend(1)
        with slots as alone:
            space = copy.deepcopy(alone.action_space)
            space.seed(seed)
            chance = play_episodes(alone, env, asked, lambda *_: [space.sample()]).mean
        expert_mean = arena.of_expert(asked).mean
        found = [
            (
                labels,
                (arena.of_policy(student.mean(best.members), asked).mean - chance) / (expert_mean - chance),
            )
            for labels, best in kept
        ]
        mine, theirs = record.evaluation, record.expert_evaluation
        assert mine is not None and theirs is not None
        return {
            "task": task,
            "seed": seed,
            "seconds": seconds,
            "cpu": cpu,
            "parts": record.seconds,
            "labels": next((labels for labels, score in found if score >= ENOUGH), None),
            "kept": (mine.mean - chance) / (theirs.mean - chance),
            "round": record.kept_round,
            "curve": found,
            "cores": len(os.sched_getaffinity(0)),
        }


def played(
    options: argparse.Namespace, task: str, seed: int, cold: bool, cores: queue.SimpleQueue[int]
) -> None:
    """Plays a run in a process on a core of its own, and adds its line."""
    core = cores.get()
    try:
        command = ["taskset", "-c", str(core), sys.executable, __file__, "--one", task, "--seeds", str(seed)]
        command += ["--settings", options.settings]
        found = subprocess.run(command, capture_output=True, text=True, check=False)
    finally:
        cores.put(core)
    if found.returncode:
        print(task, seed, "failed:", found.stderr[-2000:], file=sys.stderr, flush=True)
        return
    line = json.loads(found.stdout.splitlines()[-1]) | {"cold": cold, "shared": options.shared}
    with (options.out / "runs.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")
    labels = "not" if line["labels"] is None else f"{line['labels']:,}"
    print(f"{task} {seed}: {labels} labels, {line['seconds']:.1f} s, kept {line['kept']:.3f}", flush=True)


def read(folder: Path) -> list[dict[str, Any]]:
    """The runs that are there."""
    file = folder / "runs.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.is_file() else []


def from_csv(file: Path) -> list[dict[str, Any]]:
    """The runs that `publish` wrote."""
    with file.open(newline="") as lines:
        return [{name: json.loads(cell) for name, cell in row.items()} for row in csv.DictReader(lines)]


def publish(runs: list[dict[str, Any]], folder: Path) -> None:
    """Writes ``runs.csv``, every cell as JSON, and the figure: what a run would keep, by labels."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    import numpy as np

    from understudy.report import style

    folder.mkdir(parents=True, exist_ok=True)
    columns = ("task", "seed", "cold", "shared", "labels", "kept", "seconds", "cpu", "round", "curve")
    ordered = sorted(runs, key=lambda run: (run["task"], run["seed"], run["cold"]))
    with (folder / "runs.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([[json.dumps(run.get(name, False)) for name in columns] for run in ordered])
    warm = [run for run in ordered if not run["cold"]]
    tasks = [task for task in TASKS[::-1] if any(run["task"] == task for run in warm)]
    with style.style():
        figure, axes = plt.subplots(
            1, len(tasks), figsize=(2.9 * len(tasks), 2.9), sharey=True, squeeze=False
        )
        for axis, task in zip(axes[0], tasks, strict=True):
            env, budget = task.split(":")[:2]
            at = np.arange(0, int(budget) + 1, max(int(budget) // 200, 1))
            scores = np.full((sum(run["task"] == task for run in warm), len(at)), np.nan)
            for row, run in zip(scores, (run for run in warm if run["task"] == task), strict=True):
                for labels, score in run["curve"]:
                    row[at >= labels] = score
            known = ~np.isnan(scores).any(axis=0)
            colour = style.look("ftl").colour
            axis.fill_between(
                at[known], scores.min(axis=0)[known], scores.max(axis=0)[known], alpha=0.2, color=colour, lw=0
            )
            axis.plot(at[known], np.median(scores, axis=0)[known], color=colour)
            axis.axhline(1.0, color="black", ls=":", lw=1)
            axis.set(title=env, xlabel="labels", ylim=(0.0, 1.15), xlim=(0, int(budget)))
        axes[0][0].set_ylabel("score of the policy kept so far")
        figure.tight_layout()
        figure.savefig(folder / "budgets.png", bbox_inches="tight")
        plt.close(figure)


def spread(values: Iterable[float | None], form: str) -> str:
    """The median (least to most); None is beyond all others."""
    known = sorted(float("inf") if one is None else one for one in values)
    words = [
        "not" if one == float("inf") else format(one, form) for one in (median(known), known[0], known[-1])
    ]
    return f"{words[0]} ({words[1]} to {words[2]})"


def table(runs: list[dict[str, Any]]) -> str:
    """Medians (least to most), a row for each task."""
    lines = [
        "| environment | budget | seeds | labels to 90 % | seconds | score of what is kept: mean (least) |",
        "|---|---|---|---|---|---|",
    ]
    for task in dict.fromkeys([*TASKS[::-1], *sorted({run["task"] for run in runs})]):
        warm = [run for run in runs if run["task"] == task and not run["cold"]]
        if warm:
            env, budget = task.removeprefix("unseen:").split(":")[:2]
            labels = spread([run["labels"] for run in warm], ",.0f")
            seconds = spread([run["cpu" if run.get("shared") else "seconds"] for run in warm], ".0f")
            seconds += " of a processor" if any(run.get("shared") for run in warm) else ""
            kept = [run["kept"] for run in warm]
            cells = (
                env,
                f"{int(budget):,}",
                len(warm),
                labels,
                seconds,
                f"{mean(kept):.3f} ({min(kept):.2f})",
            )
            lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def main() -> None:
    import seeds

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("runs/budgets"))
    parser.add_argument("--tasks", nargs="+", default=TASKS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[*seeds.REPORTING])
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--tuning", action="store_true", help="to choose a setting, not to publish")
    parser.add_argument("--warm", action="store_true", help="play no run for its cold seconds")
    parser.add_argument("--settings", default="{}", help="other settings of the runs, as JSON")
    parser.add_argument("--table", action="store_true", help="print the table of what is there, play nothing")
    parser.add_argument(
        "--publish", type=Path, help="write the runs and their figure to a folder, play nothing"
    )
    parser.add_argument("--shared", action="store_true", help="other work runs here: count processor seconds")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    for task in options.tasks:
        if not TASK.fullmatch(task):
            parser.error(f"--tasks: {task!r} has no budget; Hopper-v5:400 has.")
    if options.one is not None:
        print(json.dumps(one(options.one, options.seeds[0], json.loads(options.settings))))
        return
    if options.publish is not None:
        publish(read(options.out), options.publish)
    elif not options.table:
        (seeds.tuning if options.tuning else seeds.reporting)(options.seeds)
        options.out.mkdir(parents=True, exist_ok=True)
        cores: queue.SimpleQueue[int] = queue.SimpleQueue()
        for core in sorted(os.sched_getaffinity(0))[-options.jobs :]:
            cores.put(core)
        known = {(run["task"], run["seed"], run["cold"]) for run in read(options.out)}
        for cold in (
            (False,) if options.warm else (True, False)
        ):  # the first run of a task compiles, and the others find its programs
            jobs = [(task, seed) for task in options.tasks for seed in options.seeds[: 1 if cold else None]]
            with ThreadPoolExecutor(options.jobs) as pool:
                for job in jobs:
                    if (*job, cold) not in known:
                        pool.submit(played, options, *job, cold, cores)
    print(table(read(options.out)))


if __name__ == "__main__":
    main()
