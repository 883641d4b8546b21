"""The toy figure: how long it takes, what each method of mapping gives, what plain loops would have cost.

    python benchmarks/bench_toy.py            # some minutes
    python benchmarks/bench_toy.py --budget 5 --seeds 3
    python benchmarks/bench_toy.py --only plain --losses absolute huber

Two plain loops, both on arrays: the paper's description (Armijo descent to 1e-8), and the best that NumPy and
SciPy have for the loss: running sums, Newton, HiGHS' simplex and L-BFGS-B on the dual. The losses of the best
one and of ours agree, which is asserted. A plain run is stopped after `--budget` seconds, so its time, and
every ratio made from it, is then a lower bound, marked ≥. Exit code 1 where the figure takes over 6 minutes.
Ratios are of processor seconds on one core, so that neither the other cores nor other work on the machine
count.
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

from understudy.machine import count_cores

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for `paper`
from paper import toy, toy_figures
from paper import toy_stream as env
from paper.mapping import METHODS

FIGURE_SECONDS = 360.0
PARTS = ["figure", "methods", "plain"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20, help="seeds of the figure")
    parser.add_argument("--budget", type=float, default=30.0, help="seconds after which a plain run stops")
    parser.add_argument("--runs", type=int, default=16, help="runs per method of mapping")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="which parts (all)")
    parser.add_argument("--losses", nargs="+", choices=list(toy.LOSSES), default=list(toy.LOSSES))
    parser.add_argument("--out", type=Path, help="an existing folder to keep the figure's files in")
    options = parser.parse_args()
    print(
        f"{count_cores()} cores, load {os.getloadavg()[0]:.1f}, jax {jax.__version__}, "
        f"{jax.default_backend()}, float64\n"
    )
    missed = figure(options.seeds, options.out) if "figure" in options.only else []
    if "methods" in options.only:
        methods(options.losses, options.runs)
    if "plain" in options.only:
        plain(options.losses, options.budget, options.runs)
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


def plain(losses: list[str], budget: float, runs: int) -> None:
    """FTL and FTRL by plain loops and as one compiled run, all in processor seconds of one core."""
    print(
        f"Processor seconds per run of {toy.ROUNDS} rounds, seconds per run when mapped over the cores, and"
    )
    print(
        "the largest difference of a round's loss, ours and the best plain loop's, relative to the mean loss:"
    )
    heads = f"{'armijo':>10}{'rounds':>8}{'best':>9}{'ours':>9}{'mapped':>9}"
    print(f"  {'loss':10}{'problem':13}{'learner':9}{heads}{'armijo/ours':>13}{'best/ours':>11}{'away':>9}")
    for loss in losses:
        sums = np.zeros(3)
        for problem, learner in (("simple", "ftl"), ("adversarial", "ftl"), ("adversarial", "ftrl")):
            wanted = toy.configs({(problem, loss, learner): [0.1]})
            costs, speed = _timed(wanted, runs, "auto")
            ours = _processor(wanted, 4)
            flip, noise = toy.setting(problem, loss)
            with jax.enable_x64(True):
                key = jax.random.fold_in(jax.random.key(0), 0)
                made = env.problem(key, flip=flip, noise=noise)
                drawn = env.stream(made, toy.ROUNDS, categorical=toy.LOSSES[loss].categorical)
            X, Y = map(np.asarray, drawn)
            armijo, played = plain_loop.toy(loss, X, Y, learner, 0.1, budget, "armijo")
            laps = [plain_loop.toy(loss, X, Y, learner, 0.1, np.inf, "best") for _ in range(2)]
            best, found = min(laps, key=lambda one: one[0])
            # In its first rounds FTL has several minimisers, or (separable classes) none.
            since = 0 if learner == "ftrl" else 4 * X.shape[1]
            away = np.max(np.abs(found - costs[0])[since:]) / np.mean(costs[0])
            assert away < 0.01, f"{loss}, {problem}, {learner}: {away:.1e} away"
            more = "≥" if len(played) < toy.ROUNDS else ""
            print(
                f"  {loss:10}{problem:13}{learner:9}{more + f'{armijo:.2f}':>10}{len(played):8d}{best:9.4f}"
                f"{ours:9.4f}{1 / speed:9.4f}{more + f'{armijo / ours:.1f}':>13}{best / ours:11.2f}"
                f"{away:9.0e}",
                flush=True,
            )
            sums += armijo, best, ours
        print(
            f"  {loss:10}{'together':22}{sums[0]:10.2f}{'':8}{sums[1]:9.4f}{sums[2]:9.4f}{'':9}"
            f"{sums[0] / sums[2]:13.1f}{sums[1] / sums[2]:11.2f}\n"
        )


def _processor(wanted: list, runs: int) -> float:
    """Processor seconds of one compiled run after another, all threads of the process counted."""
    toy.map_runs(toy.run_of(toy.ROUNDS), wanted, seeds=runs, method="serial")
    began = time.process_time()
    toy.map_runs(toy.run_of(toy.ROUNDS), wanted, seeds=runs, method="serial")
    return (time.process_time() - began) / runs


if __name__ == "__main__":
    sys.exit(main())
