"""A study of linear policies on Hopper: runs side by side, against bare physics and against one after another.

    python benchmarks/bench_sweep.py                  # 168 runs of 5 rounds; a few minutes
    python benchmarks/bench_sweep.py --rounds 25      # the whole study

Three things are timed in one go: `mujoco.rollout` on every core, playing what the expert played in this
environment (physics alone: the floor); the study by worker processes, from their start to the results; and
some of the same runs by `imitate`, one after another in one process, already compiled. Without evaluations,
which would only add physics.
"""

from __future__ import annotations

import argparse
import os
import time

import mujoco
import numpy as np
from mujoco import rollout

from understudy import experts, imitate
from understudy.envs.gymnasium import maker
from understudy.studies import Study
from understudy.studies.shard import keywords

LEARNERS = ("ftl", "ftrl", "alt_ftrl", "adaftrl", "ogd", "adagrad")
NEAR, TIMES = 1.3, 3.5


def bare(env: str, threads: int, seconds: float = 8.0) -> float:
    """Environment steps per second of `mujoco.rollout` along the expert's first 100 actions."""
    made, expert = maker(env)(), experts.resolve(None, env_id=env)
    inner, many, length = made.unwrapped, 16 * threads, 100
    model, full = inner.model, mujoco.mjtState.mjSTATE_FULLPHYSICS
    start = np.zeros((many, mujoco.mj_stateSize(model, full)))
    control = np.zeros((many, length * inner.frame_skip, model.nu))
    for episode in range(many):
        seen, _ = made.reset(seed=episode)
        mujoco.mj_getState(model, inner.data, start[episode], full)
        for step in range(length):
            action = expert.act(seen[None])[0]
            control[episode, step * inner.frame_skip : (step + 1) * inner.frame_skip] = action
            seen, _, terminated, truncated, _ = made.step(action)
            assert not terminated and not truncated
    data = [mujoco.MjData(model) for _ in range(threads)]
    with rollout.Rollout(nthread=threads) as play:
        play.rollout(model, data, start, control)
        began, steps = time.perf_counter(), 0
        while (took := time.perf_counter() - began) < seconds:
            play.rollout(model, data, start, control)
            steps += many * length
    return steps / took


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
    rate = bare(options.env, options.workers)
    floor = steps / rate
    print(f"bare mujoco.rollout, {options.workers} threads: {rate:,.0f} steps/s, {floor:.1f} s for as many")
    began = time.perf_counter()
    done = study.run(workers=options.workers)
    took = time.perf_counter() - began
    print(f"side by side: {took:.1f} s, {steps / took:,.0f} steps/s, {len(done.failed)} failed")
    chosen = [study.runs[i].settings for i in np.linspace(0, len(study.runs) - 1, options.serial).astype(int)]
    warm = {}
    for one in chosen:  # each learner's program is compiled before the clock starts
        imitate(**keywords(one) | {"rounds": 1, "interactions": 1000})
    began = time.perf_counter()
    for one in chosen:
        warm[one["seed"]] = imitate(**keywords(one))
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
