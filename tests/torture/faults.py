"""Disks that are full, read-only or slow; experts and environments that fail at random; workers that die."""

from __future__ import annotations

import errno
import os
import random
import shutil
import signal
import time
import warnings
from pathlib import Path
from typing import Any
from unittest import mock

import gymnasium as gym
import numpy as np

from torture.worst import SMALL, Outcome, content, different
from understudy import Study, UserError, disk, imitate
from understudy.studies import run as run_study


class _Disk:
    """Stands for `disk._put`: write number `fails` writes a part and raises, after `sleep` seconds each."""

    def __init__(self, fails: int, code: int = 0, sleep: float = 0.0):
        self.fails, self.code, self.sleep, self.writes = fails, code, sleep, 0

    def __call__(self, file: Any, data: Any) -> None:
        self.writes += 1
        data = data.encode() if isinstance(data, str) else data
        time.sleep(self.sleep)
        if self.writes == self.fails:
            file.write(data[: len(data) // 2])
            file.flush()
            raise OSError(self.code, os.strerror(self.code))
        file.write(data)
        file.flush()


def _go(out: Path, **more: Any) -> Any:
    return imitate("CartPole-v1", out=out, resume=True, **SMALL | more)


def full(folder: Path, cases: int, rng: random.Random) -> Outcome:
    """Each write of a run fails once, half done: one sentence, and resuming ends with the same bytes."""
    with mock.patch.object(disk, "_put", counted := _Disk(0)):
        _go(folder / "alone")
    whole, lost = content(folder / "alone"), []
    chosen = range(1, counted.writes + 1)
    chosen = chosen if cases >= len(chosen) else sorted(rng.sample(chosen, cases))
    for number in chosen:
        code = rng.choice([errno.ENOSPC, errno.EROFS, errno.EIO, errno.EDQUOT])
        out = folder / "run"
        try:
            with mock.patch.object(disk, "_put", _Disk(number, code)):
                _go(out)
            lost.append(f"write {number}: nobody noticed")
        except UserError as error:
            if "cannot write" not in str(error):
                lost.append(f"write {number}: {error}")
        try:
            _go(out)
            lost += [f"write {number}: {name} differs" for name in different(whole, content(out))]
        except UserError as error:
            lost.append(f"write {number}, resumed: {error}")
        shutil.rmtree(out, ignore_errors=True)
    return Outcome(len(chosen), lost, f"of {counted.writes} writes of a run")


def slow(folder: Path, cases: int, rng: random.Random) -> Outcome:
    """A disk that takes 20 ms a write changes no byte."""
    _go(folder / "alone")
    with mock.patch.object(disk, "_put", one := _Disk(0, sleep=0.02)):
        _go(folder / "slow")
    lost = [f"{name} differs" for name in different(content(folder / "alone"), content(folder / "slow"))]
    return Outcome(one.writes, lost)


def experts(folder: Path, cases: int, rng: random.Random) -> Outcome:
    """A slow expert raises, hangs, or answers with nan or the wrong shape at random: the run ends, with every
    label right and the states without one counted. A quick one ends the run in a sentence; resumed until it
    is done, no state is asked about twice.
    """
    lost, states, silent = [], 0, 0
    for case in range(cases):
        seed = rng.randrange(1 << 30)

        def act(observation: np.ndarray, seed: int = seed) -> Any:
            luck = random.Random(hash((seed, observation.tobytes()))).random()
            if luck < 0.03:
                raise RuntimeError("no idea")
            if luck < 0.06:
                return np.array([0, 1, 0])
            if luck < 0.09:
                return np.nan
            if luck < 0.10:
                time.sleep(1.0)
            return int(observation[2] > 0)

        run = imitate(
            "CartPole-v1", expert=act, **SMALL, expert_workers=8, expert_timeout=0.5, expert_retries=1
        )
        has = run.samples("weights") > 0
        right = run.samples("targets")[:, 1] == (run.samples("inputs")[:, 2] > 0)
        if not right[has].all():
            lost.append(f"case {case}: a label is wrong")
        if int(run.ledger["unanswered"][-1]) != int((~has).sum()):
            lost.append(f"case {case}: {(~has).sum()} states have no label, the ledger says otherwise")
        states, silent = states + len(has), silent + int((~has).sum())
        calls: list[bytes] = []

        def moody(observation: np.ndarray, mood: random.Random = rng, calls: list[bytes] = calls) -> Any:
            if mood.random() < 0.02:
                raise RuntimeError("not now")
            calls.append(observation.tobytes())
            return int(observation[2] > 0)

        moody.kind = "action"  # a function that does not say is asked once about some state
        for _ in range(200):
            try:
                imitate("CartPole-v1", expert=moody, out=folder / f"run{case}", resume=True, **SMALL)
                break
            except UserError as error:
                if "not now" not in str(error):
                    lost.append(f"case {case}: {error}")
        else:
            lost.append(f"case {case}: it never ended")
        if len(calls) != len(set(calls)):
            lost.append(f"case {case}: {len(calls) - len(set(calls))} states were asked about twice")
    return Outcome(cases, lost, f"{silent:,} of {states:,} states without an answer", silent)


class _Crashing(gym.Wrapper):
    """Raises in a step again and again, and the first time within the first 100."""

    luck, left = random.Random(0), 0

    def step(self, action: Any) -> Any:
        _Crashing.left -= 1
        if _Crashing.left == 0:
            _Crashing.left = _Crashing.luck.randint(1, 200)
            raise RuntimeError("motor stalled")
        return self.env.step(action)


def environments(folder: Path, cases: int, rng: random.Random) -> Outcome:
    """An environment raises in the middle of a round: a sentence, and resumed until done the same bytes."""
    lost, crashes = [], 0
    few = SMALL | {"expert": "lqr-CartPole-v1", "episodes": 0}
    imitate(lambda: gym.make("CartPole-v1"), out=folder / "alone", **few)
    _Crashing.luck = rng
    for case in range(cases):
        out, before = folder / f"run{case}", crashes
        _Crashing.left = rng.randint(1, 100)
        for _ in range(300):
            try:
                imitate(lambda: _Crashing(gym.make("CartPole-v1")), out=out, resume=True, **few)
                break
            except UserError as error:
                crashes += 1
                if "motor stalled" not in str(error):
                    lost.append(f"case {case}: {error}")
        else:
            lost.append(f"case {case}: it never ended")
            continue
        lost += [f"case {case}: nothing crashed"] * (crashes == before)
        both = content(folder / "alone"), content(out)
        lost += [f"case {case}: {name} differs" for name in different(*both)]
    return Outcome(cases, lost, f"{crashes} crashes", crashes)


def workers(folder: Path, cases: int, rng: random.Random) -> Outcome:
    """In every case a worker process of a study is killed, at some round that one of them reports: the tables
    are those of the study left alone.
    """

    def play(out: Path, **more: Any) -> None:
        grid = {"learner": ["ftl", "ftrl"], "step": [0.1, 1.0]}
        few = {"policy": "linear", "rounds": 3, "steps_per_round": 30, "episodes": 0}
        run_study(Study("CartPole-v1", grid=grid, seeds=2, **few), out, **more)

    names = ("results.csv", "summary.csv")
    play(folder / "alone", engine="inline")
    lost, hits = [], 0
    for case in range(cases):
        moment, dead = rng.randint(1, 12), list[int]()  # of 18 rounds

        def kill(done: int, total: int, moment: int = moment, dead: list[int] = dead) -> None:
            if done >= moment and not dead and (there := _workers()):
                dead.append(rng.choice(there))
                os.kill(dead[0], signal.SIGKILL)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            play(folder / f"study{case}", workers=2, shard=2, retries=3, progress=kill)
        hits += len(dead)
        lost += [f"case {case}: no worker was killed"] * (not dead)
        both = content(folder / "alone", names), content(folder / f"study{case}", names)
        lost += [f"case {case}: {name} differs" for name in different(*both)]
    return Outcome(cases, lost, f"{hits} workers killed", hits)


def _workers() -> list[int]:
    """The worker processes that this one has started, and that live."""
    found = []
    for task in Path("/proc/self/task").iterdir():
        for child in map(int, (task / "children").read_text().split()):
            # A dead one that nobody has waited for has no command any more.
            if b"serve_shards" in Path(f"/proc/{child}/cmdline").read_bytes():
                found.append(child)
    return found
