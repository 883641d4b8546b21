"""The toy figure: how long it takes, what each method of mapping gives, what a plain loop would have cost.

    python benchmarks/bench_toy.py            # a quarter of an hour; most of it is the plain loop
    python benchmarks/bench_toy.py --times 50 --seeds 3
    python benchmarks/bench_toy.py --only plain --losses absolute huber

A plain run is stopped when it has taken `--times` as long as the compiled one (and half a minute at least),
so its time, and every ratio made from it, is then a lower bound, marked ≥. Exit code 1 where a target is
missed: 6 minutes for the figure, 300 times the plain loop for every loss. Ratios are of processor seconds
on one core, so that neither the other cores nor other work on the machine count.
"""

# ruff: noqa: E402
from __future__ import annotations

import time

BEGAN = time.perf_counter()  # before the imports, which are part of the figure's price

import argparse
import os
import sys
import tempfile
from pathlib import Path

import jax
import numpy as np
import plain_loop

from understudy.envs import toy as env
from understudy.machine import cores
from understudy.mapping import METHODS
from understudy.paper import toy, toy_figures

FIGURE_SECONDS, FASTER, LEAST_BUDGET = 360.0, 300.0, 30.0
PARTS = ["figure", "methods", "plain"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20, help="seeds of the figure")
    parser.add_argument("--times", type=float, default=500.0, help="stop a plain run at so many times ours")
    parser.add_argument("--runs", type=int, default=16, help="runs per method of mapping")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="which parts (all)")
    parser.add_argument("--losses", nargs="+", choices=list(toy.LOSSES), default=list(toy.LOSSES))
    parser.add_argument("--out", type=Path, help="an existing folder to keep the figure's files in")
    options = parser.parse_args()
    print(
        f"{cores()} cores, load {os.getloadavg()[0]:.1f}, jax {jax.__version__}, {jax.default_backend()}, "
        "float64\n"
    )
    missed = figure(options.seeds, options.out) if "figure" in options.only else []
    if "methods" in options.only:
        methods(options.losses, options.runs)
    if "plain" in options.only:
        missed += plain(options.losses, options.times, options.runs)
    print("\n" + ("missed: " + "; ".join(missed) if missed else "all targets met"))
    return int(bool(missed))


def figure(seeds: int, out: Path | None) -> list[str]:
    """Both stages, the claims, the plots and the files, from the start of the process."""
    study = toy.study(seeds=seeds)
    solved = time.perf_counter() - BEGAN
    with tempfile.TemporaryDirectory() as folder:
        toy_figures.write(out or Path(folder), study, toy.judged(study))
    took = time.perf_counter() - BEGAN
    first, second = study.tuning.info, study.runs.info
    print(f"The complete figure, {seeds} seeds, both stages, imports and compiling included: {took:.1f} s")
    print(f"  processor time {time.process_time():.1f} s; load at the end {os.getloadavg()[0]:.1f}")
    for table, rounds, info in ((study.tuning, 10, first), (study.runs, study.rounds, second)):
        times = f"compile {info['compile_seconds']:.1f} s, run {info['run_seconds']:.1f} s"
        print(f"  {len(table):5d} runs of {rounds:3d} rounds: {times}")
    print(f"  drawing and writing {took - solved:.1f} s")
    compiling = first["compile_seconds"] + second["compile_seconds"]
    programs = first["programs"] + second["programs"]
    print(f"  what remains: the compiler has {compiling / took:.0%} of it ({programs} programs)\n")
    return [] if took <= FIGURE_SECONDS else [f"the figure took {took:.0f} s"]


def methods(losses: list[str], runs: int) -> None:
    """Runs per second of each method, on the adversarial problem; compiled before the clock starts."""
    print(f"Runs per second (250 rounds, adversarial, {runs} runs of FTRL, η = 0.1, and {4 * runs} of OGD),")
    print("the better of two times, and how far any round's loss is from serial:")
    heads = "".join(f"{method:>12}" for method in METHODS)
    print(f"  {'loss':10}{'learner':9}{heads}{'chosen':>10}{'difference':>14}")
    for loss in losses:
        for learner, step, count in (("ftrl", 0.1, runs), ("ogd", 0.01, 4 * runs)):
            wanted = toy.configs({("adversarial", loss, learner): [step]})
            timed = {method: _timed(wanted, count, method) for method in METHODS}
            away = max(float(np.max(np.abs(cost - timed["serial"][0]))) for cost, _ in timed.values())
            chosen = toy.map_runs(toy.run_of(toy.ROUNDS), wanted, seeds=1).info["methods"][0]["method"]
            row = "".join(f"{speed:12.1f}" for _, speed in timed.values())
            print(f"  {loss:10}{learner:9}{row}{chosen:>10}{away:14.1e}", flush=True)
    print()


def _timed(wanted: list, runs: int, method: str) -> tuple[np.ndarray, float]:
    toy.map_runs(toy.run_of(toy.ROUNDS), wanted, seeds=runs, method=method)  # compiles
    tables = [toy.map_runs(toy.run_of(toy.ROUNDS), wanted, seeds=runs, method=method) for _ in range(2)]
    return tables[0]["cost"], runs / min(table.info["run_seconds"] for table in tables)


def plain(losses: list[str], times: float, runs: int) -> list[str]:
    """FTL and FTRL by the plain loop and as one compiled run, both in processor seconds of one core."""
    print(
        f"Processor seconds per run of {toy.ROUNDS} rounds, and seconds per run when mapped over the cores:"
    )
    heads = f"{'plain loop':>13}{'rounds':>8}{'compiled':>11}{'mapped':>10}{'times faster':>15}"
    print(f"  {'loss':10}{'problem':13}{'learner':9}{heads}")
    missed = []
    for loss in losses:
        kind = toy.LOSSES[loss]
        spent, ours = 0.0, 0.0
        for problem, learner in (("simple", "ftl"), ("adversarial", "ftl"), ("adversarial", "ftrl")):
            wanted = toy.configs({(problem, loss, learner): [0.1]})
            mapped = 1 / _timed(wanted, runs, "auto")[1]
            single = _processor(wanted, 4)
            flip, noise = toy.setting(problem, loss)
            with jax.enable_x64(True):
                key = jax.random.fold_in(jax.random.key(0), 0)
                made = env.problem(key, flip=flip, noise=noise)
                drawn = env.stream(made, toy.ROUNDS, categorical=kind.categorical)
            budget = max(times * single, LEAST_BUDGET)
            seconds, rounds = plain_loop.play(loss, *map(np.asarray, drawn), learner, 0.1, budget)
            more = "≥" if rounds < toy.ROUNDS else " "
            print(
                f"  {loss:10}{problem:13}{learner:9}{more}{seconds:12.1f}{rounds:8d}{single:11.4f}"
                f"{mapped:10.4f}{more:>8}{seconds / single:7.0f}",
                flush=True,
            )
            spent, ours = spent + seconds, ours + single
        print(
            f"  {loss:10}{'together':22}≥{spent:12.1f}{'':8}{ours:11.4f}{'':10}{'≥':>8}{spent / ours:7.0f}\n"
        )
        if spent / ours < FASTER:
            missed.append(f"{loss}: {spent / ours:.0f} times the plain loop")
    return missed


def _processor(wanted: list, runs: int) -> float:
    """Processor seconds of one compiled run after another, all threads of the process counted."""
    toy.map_runs(toy.run_of(toy.ROUNDS), wanted, seeds=runs, method="serial")
    began = time.process_time()
    toy.map_runs(toy.run_of(toy.ROUNDS), wanted, seeds=runs, method="serial")
    return (time.process_time() - began) / runs


if __name__ == "__main__":
    sys.exit(main())
