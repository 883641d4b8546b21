"""Linear policies on Hopper: a study side by side, against bare physics, and one run after another.

    python benchmarks/bench_sweep.py                  # 168 runs of 5 rounds; a few minutes
    python benchmarks/bench_sweep.py --rounds 25      # the whole study

Three things are timed in one go: `mujoco.rollout` on every core, playing again what runs of this study
played (physics alone: the floor), before the study and after it, since a machine's speed drifts; the study by
worker processes, from their start to the results; and some of the same runs by `imitate`, one after another
in one process, already compiled. Without evaluations, which would only add physics.
"""

from __future__ import annotations

import argparse
import itertools
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import mujoco
import numpy as np
from mujoco import rollout

from understudy import imitate
from understudy.envs.gymnasium import derive, maker
from understudy.studies import Study

LEARNERS = ("ftl", "ftrl", "alt_ftrl", "adaftrl", "ogd", "adagrad")
NEAR, TIMES = 1.3, 3.5


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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--env", default="Hopper-v5")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--serial", type=int, default=6, help="runs that are also played one after another")
    options = parser.parse_args()
    study = Study(
        options.env,
        grid={"learner": LEARNERS, "step": "1e-5:1e5:log11"},
        seeds=options.seeds,
        policy="linear",
        preset="paper",
        rounds=options.rounds,
        interactions=1000,
        episodes=0,
    )
    steps = len(study.runs) * options.rounds * 1000
    print(f"{options.workers} cores, load {os.getloadavg()[0]:.1f}; {study}, {steps:,} interactions")
    bare = physics(study, 12, options.workers)
    before, began = bare(), time.perf_counter()
    done = study.run(workers=options.workers)
    took, after = time.perf_counter() - began, bare()
    floor = steps * (1 / before + 1 / after) / 2
    print(f"bare mujoco.rollout, {options.workers} threads: {before:,.0f} steps/s before, {after:,.0f} after")
    print(f"as many steps bare: {floor:.1f} s")
    print(f"side by side: {took:.1f} s, {steps / took:,.0f} steps/s, {len(done.failed)} failed")
    chosen = [study.runs[i].settings for i in np.linspace(0, len(study.runs) - 1, options.serial).astype(int)]
    for one in chosen:  # each learner's program is compiled before the clock starts
        imitate(**one | {"rounds": 1, "interactions": 1000})
    began = time.perf_counter()
    for one in chosen:
        imitate(**one)
    alone = (time.perf_counter() - began) / len(chosen)
    each = took / len(study.runs)
    print(f"one after another: {alone:.2f} s a run ({len(chosen)} runs, compiled); side by side {each:.3f} s")
    near, times = took / floor, alone / each
    print(f"\nside by side / bare physics: {near:.2f} (at most {NEAR}), compiling and starting included")
    print(
        f"runs per hour: {3600 / each:,.0f} against {3600 / alone:,.0f}: {times:.1f} times (at least {TIMES})"
    )
    missed = [name for name, bad in (("bare", near > NEAR), ("serial", times < TIMES)) if bad]
    print("missed: " + ", ".join(missed) if missed else "both met")
    return int(bool(missed))


if __name__ == "__main__":
    raise SystemExit(main())
