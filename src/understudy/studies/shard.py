"""A shard: some runs of a study, played in one process. What a run is called, and what came of it."""

from __future__ import annotations

import contextlib
import math
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax

from .. import disk
from ..envs.gymnasium import Maker, maker
from ..errors import UserError
from ..runs import (
    NAMES,
    TIMES,
    Folder,
    Parts,
    Runner,
    RunState,
    World,
    judged,
    parts,
    play_all,
    resuming,
    storage,
)
from ..spec import WORLD, RunSpec
from .study import digest

TOGETHER = ("rounds", "interactions", "first_interactions", "budget", "envs", "encoder", "labels")
TOGETHER += ("ask", "ask_options", "floor", "moment", "episode_limit")
"""What runs of one world must have in common to be played side by side."""
ROUNDS = ("rounds", "next", "policy.*")
"""What the folder of a run holds of its rounds, beside the labels that it was given."""
EVERY, SPEED = 10.0, 5e6
"""Seconds between two rounds that are kept, at least; and as many as its bytes take at 1 % of a disk's speed.
"""

LEAVING = 10.0
"""Seconds for another process to leave the folder of a run: a worker whose study was killed does so soon."""


class Result(NamedTuple):
    """What came of one run.

    rows: one per round, with the ledger's columns (`understudy.runs.NAMES`), plain numbers and words.
    summary: plain numbers: return_mean, return_std, expert_return, regret, bound, average_loss, queries, ….
      expert_return is what was measured, nan where nothing was; what the expert's card says is not here.
      return_low, return_high and their like are 95 % intervals of means over the episodes.
    error: one sentence where the run failed; its rows are those up to there.
    seconds: where the time went; first_round is what the first took to collect and solve, and to compile.
    evaluation, expert_evaluation: the episodes of the last evaluations, as `Evaluation.listed` has them.
    """

    rows: list[dict[str, Any]]
    summary: dict[str, Any]
    error: str | None
    seconds: dict[str, float]
    evaluation: dict[str, list[Any]] | None = None
    expert_evaluation: dict[str, list[Any]] | None = None


def play(
    runs: Sequence[RunSpec | Mapping[str, Any]],
    *,
    threads: int = 1,
    together: bool | None = None,
    keep: Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[Result]:
    """Plays runs, those of one world and round size side by side; results in their order.

    Args:
      threads: threads that step the environments.
      together: solve runs of one program in one vmapped call (default: where there is a GPU). Apart, a run
        has the bits that `imitate` would give it.
      keep: where a round is kept now and then, as `imitate` keeps it, in a folder a run (see `partial`). Runs
        that are there already go on, bit for bit; the caller removes them. A folder that does not exist on
        this machine keeps nothing.
      progress: ``progress(done, total)``, counted in rounds.

    A run that fails leaves its sentence, and the others go on.

    >>> run = {"env": "Pendulum-v1", "policy": "linear", "rounds": 3, "interactions": 40, "episodes": 0}
    >>> [len(result.rows) for result in play([run, run | {"seed": 1}])]
    [3, 3]
    """
    made = [run if isinstance(run, RunSpec) else RunSpec.of(run) for run in runs]
    results: dict[int, Result] = {}
    worlds: dict[str, dict[int, RunSpec]] = {}
    for place, spec in enumerate(made):
        worlds.setdefault(spec.key(*WORLD), {})[place] = spec
    total, before = sum(len(spec.sizes) for spec in made), 0
    keep = keep if keep is not None and keep.is_dir() else None
    how: dict[str, Any] = {"threads": threads, "together": together}
    with disk.unsynced(), contextlib.ExitStack() as opened:
        for specs in worlds.values():
            one = next(iter(specs.values()))
            make = maker(one.env, one.env_kwargs, one.student_infos)
            for states, folders in _states(make, specs, results, keep, opened):
                began, group = time.perf_counter(), list(states.values())

                def show(done: int, before: int = before, count: int = len(group)) -> None:
                    if progress is not None:
                        progress(min(before + done * count, total), total)

                size = sum(leaf.nbytes for run in group for leaf in jax.tree.leaves(run.state))
                pace, failed = max(EVERY, size / SPEED), None
                with Runner(group, make, folders=folders, pace=pace, **how) as runner:
                    try:
                        runner.begin()
                    except UserError as error:  # not where they were kept: it does not replay
                        failed = error
                    else:
                        play_all(runner, show)
                share = (time.perf_counter() - began) / len(group)
                kept = [folder for folder in folders if folder is not None and not folder.fresh]
                dear = group[0].parts.expert.workers is not None
                if failed is None or (dear and not kept):  # no label is paid for that cannot be kept
                    pairs = zip(group, runner.errors, strict=True)
                    found = [_result(state, failed or error, share) for state, error in pairs]
                else:  # from the beginning: with the labels that are kept, and where that fails without
                    for folder in kept:
                        folder.close()
                        _remove(folder.path, ROUNDS)
                    found = play([specs[place] for place in states], keep=keep if kept else None, **how)
                results.update(zip(states, found, strict=True))
                before += sum(len(specs[place].sizes) for place in states)
    if progress is not None:
        progress(total, total)
    return [results[place] for place in range(len(runs))]


def partial(keep: Path, name: str) -> Path:
    """The folder of a run that is under way, by its id."""
    return keep / f"{name}.partial"


def _folder(keep: Path | None, made: Parts, opened: contextlib.ExitStack) -> Folder | None:
    """The folder of a run; None: it is not kept, because the disk refuses. A run that cannot go on from what
    is there loses its rounds, and where that does not help its labels too. But a run whose expert is slow or
    dear is refused where its labels would be lost or not kept. So is one whose folder another process holds.
    """
    if keep is None:
        return None
    path, ways = partial(keep, digest(made.spec.changes())), resuming("exact,other-machine")
    dear = made.expert.workers is not None
    _await(path)
    for hurt in (ROUNDS, ("*",), ()):
        try:
            folder = Folder(path, made.settings, resume=ways, slow=dear)
            opened.callback(folder.close)
            return folder
        except UserError as error:
            refused = isinstance(error.__cause__, OSError)
            if isinstance(error, disk.Locked) or (dear and (refused or hurt != ROUNDS)):
                raise
            if refused:
                return None
            _remove(path, hurt)
    return None


def _await(path: Path) -> None:
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


def _remove(folder: Path, names: Iterable[str]) -> None:
    for one in [found for name in names for found in folder.glob(name)]:
        shutil.rmtree(one, ignore_errors=True) if one.is_dir() else one.unlink(missing_ok=True)


def _states(
    make: Maker,
    specs: dict[int, RunSpec],
    results: dict[int, Result],
    keep: Path | None,
    opened: contextlib.ExitStack,
) -> Iterator[tuple[dict[int, RunState], list[Folder | None]]]:
    """Runs of one world with their folders, by what the runs of a runner have in common, the round they were
    kept at too; one that cannot be made is a result.
    """

    def refused(places: Iterable[int], error: UserError) -> None:
        results.update({place: Result([], _ended([]), str(error), {"total": 0.0}) for place in places})

    try:
        with contextlib.closing(make()) as first:
            world = World.of(make, first, next(iter(specs.values())))
    except UserError as error:
        return refused(specs, error)
    found: dict[Any, dict[int, tuple[Parts, Folder | None]]] = {}
    for place, spec in specs.items():
        try:
            made = parts(world, spec)
            folder = _folder(keep, made, opened)
        except UserError as error:
            refused([place], error)
            continue
        coded = repr(made.observations.config()), made.settings["resolved"]["encoder"]
        # An expert that remembers is asked about one run after another.
        alone = None if made.expert.on_reset is None else place
        number = 0 if folder is None else folder.round
        # A budget takes other rounds where the expert drives more of them.
        kind = spec.key(*TOGETHER), spec.sizes, coded, alone, number
        found.setdefault(kind, {})[place] = made, folder
    for group in found.values():
        states, folders = {}, []
        for place, (made, folder) in group.items():
            try:
                states[place] = RunState(made, storage(made, folder, keep=False))
                folders.append(folder)
            except UserError as error:
                refused([place], error)
        if states:
            yield states, folders


def _result(run: RunState, error: UserError | None, total: float) -> Result:
    rows = [{name: row[name] for name in NAMES} for row in run.rows]
    summary = _ended(rows)
    mine, theirs = (None, None) if error else (run.evaluation, run.expert_evaluation)
    if error is None:
        made = run.certificate()
        summary |= {
            **judged(mine, theirs),
            "expert_return": theirs.mean if theirs else math.nan,
            "regret": float(made.regret),
            "bound": float(made.bound),
            "certificate": made.kind,
            "memory_bytes": run.memory_bytes(),
        }
    seconds = {name: sum(one[name] for one in run.times) for name in TIMES}
    seconds["first_round"] = sum(run.times[0][name] for name in ("collect", "solve")) if run.times else 0.0
    played = (one and one.listed() for one in (mine, theirs))
    return Result(rows, summary, None if error is None else str(error), seconds | {"total": total}, *played)


def _ended(rows: list[dict[str, Any]]) -> dict[str, Any]:
    last = rows[-1] if rows else {"round": 0, "interactions": 0, "queries": 0, "average_loss": math.nan}
    return {
        "rounds": last["round"],
        **{name: last[name] for name in ("interactions", "queries", "average_loss")},
        **judged(None, None),
        **dict.fromkeys(("expert_return", "regret", "bound"), math.nan),
        "certificate": "",
        "memory_bytes": math.nan,
    }
