"""Playing runs of a study in one process: what a run is called, and what came of it."""

from __future__ import annotations

import contextlib
import functools
import math
import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import jax

from .. import disk
from ..defaults import plan_of
from ..errors import UserError
from ..runs import NAMES, TIMES, Run, World, Worlds, judged, last_of_experts
from ..spec import RunSpec
from ..together import Together
from .study import digest

ROUNDS = ("rounds", "next", "policy.*")
"""What the folder of a run holds of its rounds, beside the labels that it was given."""
EVERY, SPEED = 10.0, 5e6
"""Seconds between two rounds that are kept, at least; and as many as its bytes take at 1 % of a disk's speed.
"""
STAY = 2
"""Worlds that stay open for the next runs."""
LEAVING = 10.0
"""Seconds for another process to leave the folder of a run: a worker whose study was killed does so soon."""

Row: TypeAlias = dict[str, Any]
"""One row of a ledger: numbers and words by column."""


class Result(NamedTuple):
    """What came of one run.

    rows: one per round, with the ledger's columns (`understudy.runs.NAMES`), plain numbers and words.
    summary: plain numbers: return_mean, return_std, expert_return, regret, bound, average_loss, labels, ….
      expert_return is what was measured, nan where nothing was; what the expert's card says is not here.
      return_low, return_high and their like are 95 % intervals of means over the episodes. Of several experts
      also labels_of_NAME, loss_of_NAME and agreement_of_NAME.
    error: one sentence where the run failed; its rows are those up to there.
    seconds: where the time went; first_round is what the first took to collect and solve, and to compile.
    evaluation, expert_evaluation: the episodes of the last evaluations, as `Evaluation.listed` has them.
    """

    rows: list[Row]
    summary: Row
    error: str | None
    seconds: dict[str, float]
    evaluation: dict[str, list[float]] | None = None
    expert_evaluation: dict[str, list[float]] | None = None


def play(
    runs: Sequence[RunSpec | Mapping[str, disk.Json]],
    *,
    threads: int = 1,
    together: bool | None = None,
    keep: Path | None = None,
    whole: bool = False,
    progress: Callable[[int, int], None] | None = None,
    worlds: Worlds | None = None,
) -> list[Result]:
    """Plays runs; results in their order. A run that fails leaves its sentence, and the others go on.

    Args:
      threads: threads that step the environments.
      together: play runs at the same time, and those of one program in one vmapped call (default: where there
        is a GPU). One after another, a run has the bits that `imitate` would give it.
      keep: where a round is kept now and then, as `imitate` keeps it, in a folder a run (see `partial`). Runs
        that are there already go on, bit for bit; the caller removes them. A folder that does not exist on
        this machine keeps nothing.
      whole: leave there the whole folder of every run that ends, with its samples and policy.
      progress: ``progress(done, total)``, counted in rounds.
      worlds: those of runs before, which these share; the last ones stay open.

    >>> run = {"env": "Pendulum-v1", "policy": "linear", "rounds": 3, "steps_per_round": 40, "episodes": 0}
    >>> [len(result.rows) for result in play([run, run | {"seed": 1}])]
    [3, 3]
    """
    specs = [run if isinstance(run, RunSpec) else RunSpec.of(run) for run in runs]
    together = jax.default_backend() != "cpu" if together is None else together
    keep = keep if keep is not None and keep.is_dir() else None
    meeting = Together(len(specs)) if together and len(specs) > 1 else None
    count = _Count(sum(len(plan_of(spec).sizes) for spec in specs), progress)
    shared = Worlds() if worlds is None else worlds

    def open_run(spec: RunSpec) -> Run | UserError:
        try:
            return _open(spec, shared.of(spec), keep, threads, meeting, whole)
        except UserError as error:
            return error

    try:
        with disk.unsynced():
            if meeting is None:
                return [_play_run(open_run(spec), spec, count, whole) for spec in specs]
            pairs = [(open_run(spec), spec) for spec in specs]
            return meeting.each([functools.partial(_play_run, *pair, count, whole) for pair in pairs])
    finally:
        shared.close(but=0 if worlds is None else STAY)


class _Count:
    """How many rounds of all runs are done."""

    def __init__(self, total: int, progress: Callable[[int, int], None] | None):
        self._total, self._progress, self._done, self._lock = total, progress, 0, threading.Lock()

    def add(self, rounds: int) -> None:
        with self._lock:
            self._done += rounds
            if self._progress is not None:
                self._progress(self._done, self._total)


def _play_run(run: Run | UserError, spec: RunSpec, count: _Count, whole: bool) -> Result:
    """What comes of a run when it is played to its end."""
    planned = len(plan_of(spec).sizes)
    if isinstance(run, UserError):
        count.add(planned)
        return Result([], _summary([]), str(run), {"total": 0.0})
    error = None
    if run.student.round:
        count.add(run.student.round)
    with run:
        try:
            for _ in run:
                count.add(1)
            run.finish()
        except UserError as failure:
            error = failure
        count.add(planned - run.student.round)
        result = _result(run, error)
        if whole and error is None and run.folder is not None:
            with contextlib.suppress(UserError):  # the disk refuses; the study says that nothing is kept
                run.folder.commit(run)
                run.folder.finish(run.record.outcome(), run.record.policy)
        return result


def partial(keep: Path, name: str) -> Path:
    """The folder of a run that is under way, by its id."""
    return keep / f"{name}.partial"


def _open(
    spec: RunSpec, world: World, keep: Path | None, threads: int, meeting: Together | None, whole: bool
) -> Run:
    """A run that begins, or goes on from what is kept of it. One that cannot loses its rounds, and where that
    does not help its labels too; where the disk refuses, it is not kept. It is refused where labels of a slow
    or expensive expert would be lost, and where another process holds its folder.
    """
    path = None if keep is None else partial(keep, digest(spec.changes()))
    expensive = world.spaces.expert.workers is not None

    def begin(out: Path | None) -> Run:
        resume = False if out is None else "exact,other-machine"
        pace = 0.0 if out is None else EVERY
        return Run(
            spec,
            out=out,
            resume=resume,
            pace=pace,
            world=world,
            together=meeting,
            threads=threads,
            keep=whole,
        )

    if path is None:
        return begin(None)
    _await_unlocked(path)
    (path / "summary.json").unlink(missing_ok=True)  # it had ended, and its result was lost: it ends again
    for damaged in (ROUNDS, ("*",)):
        try:
            run = begin(path)
        except UserError as error:
            of_folder = str(error).startswith(("run: ", "resume: ", "out: "))
            if isinstance(error, disk.Locked) or not of_folder:
                raise
            refused = isinstance(error.__cause__, OSError)
            if expensive and (refused or damaged != ROUNDS):
                raise
            if refused:
                break
            _remove(path, damaged)
            continue
        assert run.folder is not None
        size = sum(leaf.nbytes for leaf in jax.tree.leaves(run.student.state))
        run.folder.pace = max(EVERY, size / SPEED)
        return run
    return begin(None)


def _await_unlocked(path: Path) -> None:
    """Waits a while for another process to leave the folder."""
    until = time.monotonic() + LEAVING
    while path.is_dir() and time.monotonic() < until:
        try:
            with disk.lock(path):
                return
        except disk.Locked:
            time.sleep(0.05)
        except UserError:  # the disk refuses; opening the folder will say so
            return


def _remove(folder: Path, patterns: Sequence[str]) -> None:
    for path in [path for pattern in patterns for path in folder.glob(pattern)]:
        shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)


def _result(run: Run, error: UserError | None) -> Result:
    rows: list[Row] = [{name: row[name] for name in NAMES} for row in run.student.rows]
    mine, theirs = (None, None) if error else (run.judge.evaluation, run.judge.expert_evaluation)
    summary = _summary(rows)
    if error is None:
        certificate = run.student.certificate
        summary |= {
            **judged(mine, theirs),
            "expert_return": theirs.mean if theirs else math.nan,
            "regret": float(certificate.regret),
            "bound": float(certificate.bound),
            "certificate": certificate.kind,
            "memory_bytes": run.student.memory_bytes(),
        }
        summary |= run.record.statement.numbers() if run.record.statement else {}
    for name, about in last_of_experts(run.student.experts).items():
        summary |= {f"{what}_of_{name}": math.nan if n is None else n for what, n in about.items()}
    seconds = {name: sum(laps[name] for laps in run.times) for name in TIMES}
    seconds["first_round"] = sum(run.times[0][name] for name in ("collect", "solve")) if run.times else 0.0
    seconds["total"] = time.perf_counter() - run.began
    episodes = (evaluation and evaluation.listed() for evaluation in (mine, theirs))
    return Result(rows, summary, None if error is None else str(error), seconds, *episodes)


def _summary(rows: Sequence[Row]) -> Row:
    """What the last row says, and that nothing was measured."""
    last: Row = rows[-1] if rows else {"round": 0, "steps": 0, "labels": 0, "average_loss": math.nan}
    return {
        "rounds": last["round"],
        **{name: last[name] for name in ("steps", "labels", "average_loss")},
        **judged(None, None),
        **dict.fromkeys(("expert_return", "regret", "bound"), math.nan),
        "certificate": "",
        "memory_bytes": math.nan,
    }
