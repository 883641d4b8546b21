"""A shard: some runs of a study, played in one process. What a run is called, and what came of it."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ..envs.fleet import fleet
from ..envs.gymnasium import maker
from ..errors import UserError
from ..imitation import imitate
from ..runs import NAMES, TIMES, Evaluation, Loop, World, parts
from ..runs.convoy import Convoy, Unkept
from ..spec import WORLD, RunSpec

TOGETHER = ("rounds", "interactions", "budget", "envs", "encoder", "labels")
"""What runs of one world must have in common to be played side by side."""


class Result(NamedTuple):
    """What came of one run.

    rows: one per round, with the ledger's columns (`understudy.runs.NAMES`), plain numbers and words.
    summary: plain numbers: return_mean, return_std, expert_return, regret, bound, average_loss, queries, ….
    error: one sentence where the run failed; its rows are those up to there.
    seconds: where the time went.
    """

    rows: list[dict[str, Any]]
    summary: dict[str, Any]
    error: str | None
    seconds: dict[str, float]


def play(
    runs: Sequence[RunSpec | Mapping[str, Any]],
    *,
    threads: int = 1,
    together: bool | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[Result]:
    """Plays runs side by side, those of one environment and round size in one convoy; results in their order.

    Args:
      threads: threads that step the environments.
      together: solve runs of one program in one vmapped call (default: where there is a GPU). Apart, a run
        has the bits that `imitate` would give it.
      progress: ``progress(done, total)``, counted in rounds.

    A run that fails leaves its sentence, and the others go on.

    >>> run = {"env": "CartPole-v1", "policy": "linear", "rounds": 2, "interactions": 50, "episodes": 0}
    >>> [len(result.rows) for result in play([run, run | {"seed": 1}])]
    [2, 2]
    """
    made = [run if isinstance(run, RunSpec) else RunSpec.of(run) for run in runs]
    results: dict[int, Result] = {}
    groups: dict[str, list[int]] = {}
    for place, run in enumerate(made):
        groups.setdefault(run.key(*WORLD, *TOGETHER), []).append(place)
    total, before = sum(len(run.sizes) for run in made), 0
    for places in groups.values():
        rounds = len(made[places[0]].sizes) * len(places)

        def told(done: int, before: int = before) -> None:
            if progress is not None:
                progress(min(before + done, total), total)

        if made[places[0]].envs > 1:
            # A convoy has one environment a run.
            found = [_alone(made[place]) for place in places]
        else:
            found = _abreast([made[place] for place in places], threads, together, told)
        results |= dict(zip(places, found, strict=True))
        before += rounds
        told(0, before)
    return [results[place] for place in range(len(runs))]


def _abreast(
    runs: list[RunSpec], threads: int, together: bool | None, told: Callable[[int], None]
) -> list[Result]:
    began, first = time.perf_counter(), runs[0]
    make = maker(first.env, first.env_kwargs)
    many = functools.partial(fleet, make, threads=threads)
    loops: dict[int, Loop] = {}
    failed: dict[int, Result] = {}
    one = many(1)
    world = World.of(make, one, first)
    one.close()
    for place, run in enumerate(runs):
        try:
            loops[place] = parts(world, run).loop(None, None, Unkept())
        except UserError as error:
            failed[place] = Result([], _ended([]), str(error), {"total": 0.0})
    if loops:
        convoy = Convoy([*loops.values()], many, world.expert, together=together)
        try:
            while convoy.round < convoy.rounds:
                convoy.advance()
                told(convoy.round * len(runs))
            theirs = _experts(convoy, [runs[place] for place in loops])
        finally:
            convoy.close()
        share = (time.perf_counter() - began) / len(loops)
        for i, place in enumerate(loops):
            failed[place] = _result(convoy.loops[i], convoy.errors[i], theirs[i], share)
    return [failed[place] for place in range(len(runs))]


def _experts(convoy: Convoy, runs: list[RunSpec]) -> list[Evaluation | None]:
    """The expert on every run's last episodes, played once for all runs of a seed."""
    known: dict[tuple[int, int], Evaluation] = {}
    found: list[Evaluation | None] = []
    for run, seed in zip(runs, convoy.seeds, strict=True):
        episodes = run.expert_measured
        if not episodes:
            found.append(None)
            continue
        if (seed, episodes) not in known:
            known[seed, episodes] = convoy.evaluate_expert(seed, episodes, convoy.rounds)
        found.append(known[seed, episodes])
    return found


def _result(loop: Loop, error: str | None, theirs: Evaluation | None, total: float) -> Result:
    rows = [{name: row[name] for name in NAMES} for row in loop.rows]
    summary = _ended(rows)
    if error is None:
        mine, made = loop.evaluation, loop.certificate()
        summary |= {
            "return_mean": mine.mean if mine else math.nan,
            "return_std": mine.std if mine else math.nan,
            "expert_return": theirs.mean if theirs else math.nan,
            "regret": float(made.regret),
            "bound": float(made.bound),
            "certificate": made.kind,
        }
    seconds = {name: sum(one[name] for one in loop.times) for name in TIMES}
    return Result(rows, summary, error, seconds | {"total": total})


def _alone(run: RunSpec) -> Result:
    rows: list[dict[str, Any]] = []
    began = time.perf_counter()
    try:
        done = imitate(run, progress=lambda t, row: rows.append({name: row[name] for name in NAMES}))
    except UserError as error:
        return Result(rows, _ended(rows), str(error), {"total": time.perf_counter() - began})
    mine, theirs, made = done.evaluation, done.expert_evaluation, done.certificate
    summary = _ended(rows) | {
        "return_mean": mine.mean if mine else math.nan,
        "return_std": mine.std if mine else math.nan,
        "expert_return": theirs.mean if theirs else math.nan,
        "regret": float(made.regret),
        "bound": float(made.bound),
        "certificate": made.kind,
    }
    return Result(rows, summary, None, done.seconds)


def _ended(rows: list[dict[str, Any]]) -> dict[str, Any]:
    last = rows[-1] if rows else {"round": 0, "interactions": 0, "queries": 0, "average_loss": math.nan}
    return {
        "rounds": last["round"],
        **{name: last[name] for name in ("interactions", "queries", "average_loss")},
        **dict.fromkeys(("return_mean", "return_std", "expert_return", "regret", "bound"), math.nan),
        "certificate": "",
    }
