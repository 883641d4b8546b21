"""SIGKILL at random moments: of a run, of one that waits for labels, of a study, of what is written last."""

from __future__ import annotations

import dataclasses
import os
import random
import shutil
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from torture.worst import SMALL, Outcome, content, different, fork, hit, killed, timed
from understudy import Record


def _train(out: Path, **more: Any) -> None:
    from understudy import imitate

    imitate("CartPole-v1", out=out, resume=True, **SMALL | more)


def train(folder: Path, cases: int, rng: random.Random) -> Outcome:
    """Runs that are killed until they are done have the bytes of the one that was left alone."""
    timed(partial(_train, folder / "warm"))  # compiles
    length = timed(partial(_train, folder / "alone"))
    whole, hits, lost, runs = content(folder / "alone"), 0, [], 0
    while hits < cases:
        out, runs = folder / "killed", runs + 1
        hits += hit(partial(_train, out), length, rng)
        lost += [f"run {runs}: {name} differs" for name in different(whole, content(out))]
        shutil.rmtree(out)
    return Outcome(hits, lost, f"{runs} runs, each byte for byte the one left alone")


def _slow(out: Path, log: Path, seconds: float, workers: int | None) -> None:
    from understudy import imitate
    from understudy.experts import from_callable

    def act(observation: np.ndarray) -> int:
        time.sleep(seconds)
        with open(log, "ab", buffering=0) as file:
            file.write(observation.tobytes())
        return int(observation[2] > 0)

    expert = dataclasses.replace(from_callable(act, name="slow"), workers=workers)
    imitate("CartPole-v1", expert=expert, out=out, resume=True, **SMALL)


def labels(folder: Path, cases: int, rng: random.Random) -> Outcome:
    """A run that waits for labels is killed: none that was given is asked for again."""
    lost, hits, runs, asked, kinds = [], 0, 0, 0, {None: 0.004, 8: 0.03}
    timed(partial(_slow, folder / "warm", folder / "log", 0.0, None))  # compiles
    lengths = {
        workers: timed(partial(_slow, folder / f"alone{workers}", folder / "log", seconds, workers))
        for workers, seconds in kinds.items()
    }
    while hits < cases:
        workers = rng.choice(list(kinds))
        runs, out, log, before = runs + 1, folder / f"run{runs}", folder / f"log{runs}", hits
        hits += hit(partial(_slow, out, log, kinds[workers], workers), lengths[workers], rng)
        data = log.read_bytes()
        calls = Counter(data[at : at + 16] for at in range(0, len(data), 16))
        asked += sum(calls.values())
        twice = sum(count - 1 for count in calls.values())
        # The expert writes its log before it returns, and a kill may fall between the two.
        if twice > (hits - before) * (workers or 1):
            lost.append(f"run {runs}: {twice} labels were asked for twice")
        alone = folder / f"alone{workers}"
        lost += [f"run {runs}: {name} differs" for name in different(content(alone), content(out))]
    return Outcome(hits, lost, f"{asked:,} labels in {runs} runs")


TABLES = ("results.csv", "summary.csv")


def _study(out: Path, seeds: int = 3) -> None:
    from understudy import Study
    from understudy.studies import run

    grid = {"learner": ["ftl", "ftrl"], "step": [0.1, 1.0]}
    few = {"policy": "linear", "rounds": 2, "steps_per_round": 30, "episodes": 0}
    run(Study("CartPole-v1", grid=grid, seeds=seeds, **few), out, engine="inline", shard=2)


def study(folder: Path, cases: int, rng: random.Random) -> Outcome:
    """Studies that are killed until they are done have the tables of the one that was left alone."""
    timed(partial(_study, folder / "warm"))
    length = timed(partial(_study, folder / "alone"))
    whole, hits, lost, runs = content(folder / "alone", TABLES), 0, [], 0
    while hits < cases:
        out, runs = folder / f"killed{runs}", runs + 1
        hits += hit(partial(_study, out), length, rng)
        lost += [f"study {runs}: {name} differs" for name in different(whole, content(out, TABLES))]
    return Outcome(hits, lost, f"{runs} studies")


def report(folder: Path, cases: int, rng: random.Random) -> Outcome:
    """Where a run is saved, and where a stream is replayed to a folder, there is a whole one or none."""

    timed(partial(_train, folder / "run"))
    lost, hits = [], 0
    names = {"config.json", "ledger.csv", "policy.json", "policy.safetensors", "summary.json", "rounds"}

    def save(out: Path) -> None:
        Record.load(folder / "run").save(out)

    length = timed(lambda: save(folder / "saved"))
    for case in range(cases):
        out = folder / f"saved{case}"
        hits += killed(partial(save, out), rng.uniform(0.0, 1.2) * length)
        there = {one.name for one in out.iterdir()} if out.is_dir() else set()
        if not there or not (out / "rounds").is_dir() or not list((out / "rounds").glob("*.json")):
            continue  # nothing counts
        try:
            loaded = Record.load(out)
        except ValueError as error:
            if "has no round yet" not in str(error) and there >= names:
                lost.append(f"case {case}: {error}")
            continue
        if loaded.ledger.rounds != 3:
            lost.append(f"case {case}: {loaded.ledger.rounds} rounds")
    return Outcome(cases, lost, f"{hits} kills hit", hits)


def twice(folder: Path, cases: int, rng: random.Random) -> Outcome:
    """Two processes on one folder: one plays, the other says that there is another."""
    lost = []
    timed(partial(_train, folder / "warm"))
    whole = content(folder / "warm")
    for case in range(cases):
        out = folder / f"run{case}"
        one = fork(partial(_train, out))
        time.sleep(rng.uniform(0.0, 0.4))
        two = fork(partial(_train, out))
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in (one, two)]
        if 0 not in codes or not set(codes) <= {0, 3}:
            lost.append(f"case {case}: exit codes {codes}")
        lost += [f"case {case}: {name} differs" for name in different(whole, content(out))]
    return Outcome(cases, lost)
