"""Linear policies on Hopper: a study side by side, against plain loops in as many processes and bare physics.

    python benchmarks/bench_sweep.py                  # 168 runs of 5 rounds; a few minutes
    python benchmarks/bench_sweep.py --rounds 25      # the whole study

Three things are timed in one go, wall-clock: `mujoco.rollout` on every core, playing again what runs of this
study played (physics alone: the floor), before the study and after it, since a machine's speed drifts; the
study by worker processes, from their start to the results, compiling included; and the same runs (learners,
steps, seeds) by `plain_loop.study` in as many processes, from their start too. That loop and the package have
the same losses on the same episodes, which is asserted for every learner. Without evaluations, which would
only add physics. The plain processes keep no more than losses.
"""

from __future__ import annotations

import argparse
import itertools
import os
import resource
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from typing import Any

import mujoco
import numpy as np
import plain_loop
from mujoco import rollout

from understudy import imitate
from understudy.envs.gymnasium import derive, maker
from understudy.studies import Study

LEARNERS = ("ftl", "ftrl", "alt_ftrl", "adaftrl", "ogd", "adagrad")
NEAR = 1.3


def physics(study: Study, runs: int, threads: int, seconds: float = 10.0) -> Callable[[], float]:
    """A clock for `mujoco.rollout` along episodes that some of the study's runs played: steps per second.

    States cost what they cost, a fallen body more than a standing one, so it must be the study's own.
    """
    some = [study.runs[i].settings for i in np.linspace(0, len(study.runs) - 1, runs).astype(int)]
    made = maker(some[0]["env"])()
    inner, full = made.unwrapped, mujoco.mjtState.mjSTATE_FULLPHYSICS
    model, skip = inner.model, inner.frame_skip
    size = mujoco.mj_stateSize(model, full)
    episodes: dict[int, list[tuple[np.ndarray, np.ndarray]]] = {}
    for settings in some:
        run = imitate(**settings | {"rounds": 2, "episodes": 0, "comparator": "none"})
        ends = np.flatnonzero(run.samples("flags") & 3) + 1
        for number, (first, last) in enumerate(itertools.pairwise([0, *ends.tolist()])):
            made.reset(seed=derive(settings["seed"], "collect", 0, number))
            state = np.zeros(size)
            mujoco.mj_getState(model, inner.data, state, full)
            control = np.repeat(run.samples("executed")[first:last].astype(float), skip, axis=0)
            episodes.setdefault(last - first, []).append((state, control))
    batches = [tuple(map(np.stack, zip(*some, strict=True))) for some in episodes.values()]
    each = sum(len(batch[0]) * batch[1].shape[1] // skip for batch in batches)

    def lap(play: rollout.Rollout) -> None:
        data = mujoco.MjData(model)
        for start, control in batches:
            play.rollout(model, data, start, control)

    def rate() -> float:
        # Episodes of one length are few: a thread plays all of them, beside others that do the same.
        with ThreadPoolExecutor(threads) as pool:
            players = [rollout.Rollout(nthread=1) for _ in range(threads)]
            began, steps = time.perf_counter(), 0
            while (took := time.perf_counter() - began) < seconds:
                list(pool.map(lap, players))
                steps += each * threads
        return steps / took

    return rate


def plain(jobs: list[tuple[str, float, int]], rounds: int, processes: int) -> None:
    """All jobs by plain loops in so many processes, which take pieces in turn; BLAS has one thread in each,
    as in the study's workers.
    """
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        pieces = [jobs[first::16] for first in range(16)]
        done = list(pool.map(plain_loop.study, pieces, [rounds] * 16, [1000] * 16))
    assert sum(map(len, done)) == len(jobs)


def clocks(call: Callable[[], Any]) -> tuple[Any, float, float]:
    """What a call returns, its wall seconds, and the CPU seconds of processes that it started and ended."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    found = call()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return found, time.perf_counter() - began, used


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args()
    study = Study(
        "Hopper-v5",
        grid={"learner": LEARNERS, "step": "1e-5:1e5:log11"},
        seeds=options.seeds,
        policy="linear",
        preset="paper",
        rounds=options.rounds,
        steps_per_round=1000,
        episodes=0,
    )
    steps = len(study.runs) * options.rounds * 1000
    print(f"{options.workers} cores, load {os.getloadavg()[0]:.1f}; {study}, {steps:,} interactions")
    bare = physics(study, 12, options.workers)
    before = bare()
    done, took, used = clocks(lambda: study.run(workers=options.workers))
    after = bare()
    floor = steps * (1 / before + 1 / after) / 2
    print(f"bare mujoco.rollout, {options.workers} threads: {before:,.0f} steps/s before, {after:,.0f} after")
    print(f"as many steps bare: {floor:.1f} s")
    rate, failed = steps / took, len(done.failed)
    print(f"side by side: {took:.1f} s ({used:.1f} of CPU), {rate:,.0f} steps/s, {failed} failed")
    away = [plain_loop.same_as_a_run(name.replace("alt_", ""), 0.1, seed=0, rounds=2) for name in LEARNERS]
    jobs = []
    for one in study.runs:
        name, step = one.settings["learner"], one.settings.get("eta", one.settings.get("alpha", 1.0))
        jobs.append((name.replace("alt_", ""), float(step), one.settings["seed"]))
    _, alone, cpu = clocks(lambda: plain(jobs, options.rounds, options.workers))
    print(f"plain loops, {options.workers} processes: {alone:.1f} s ({cpu:.1f} of CPU)")
    print(f"losses agree with ours to {max(away):.0e}")
    over = f"{took / alone:.2f}, in CPU seconds {used / cpu:.2f}"
    print(f"\nside by side / plain loops: {over}, compiling and starting included")
    print(f"side by side / bare physics: {took / floor:.2f} (at most {NEAR})")
    print(f"runs per hour: {3600 * len(jobs) / took:,.0f}; plain {3600 * len(jobs) / alone:,.0f}")
    return int(took / floor > NEAR)


if __name__ == "__main__":
    raise SystemExit(main())
