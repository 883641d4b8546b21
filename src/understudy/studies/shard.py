"""A shard: some runs of a study, played in one process. What a run is called, and what came of it."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..envs.gymnasium import Maker, maker
from ..errors import UserError
from ..runs import NAMES, TIMES, Parts, Runner, RunState, World, parts, play_all, storage
from ..spec import WORLD, RunSpec

TOGETHER = ("rounds", "interactions", "first_interactions", "budget", "envs", "encoder", "labels")
TOGETHER += ("ask", "ask_options", "floor", "moment", "episode_limit")
"""What runs of one world must have in common to be played side by side."""


class Result(NamedTuple):
    """What came of one run.

    rows: one per round, with the ledger's columns (`understudy.runs.NAMES`), plain numbers and words.
    summary: plain numbers: return_mean, return_std, expert_return, regret, bound, average_loss, queries, ….
    error: one sentence where the run failed; its rows are those up to there.
    seconds: where the time went; first_round is what the first took to collect and solve, and to compile.
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
    """Plays runs, those of one world and round size side by side; results in their order.

    Args:
      threads: threads that step the environments.
      together: solve runs of one program in one vmapped call (default: where there is a GPU). Apart, a run
        has the bits that `imitate` would give it.
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
    for specs in worlds.values():
        one = next(iter(specs.values()))
        make = maker(one.env, one.env_kwargs, one.student_infos)
        for states in _states(make, specs, results):
            began, group = time.perf_counter(), list(states.values())

            def show(done: int, before: int = before, count: int = len(group)) -> None:
                if progress is not None:
                    progress(min(before + done * count, total), total)

            with Runner(group, make, threads=threads, together=together) as runner:
                play_all(runner, show)
            share = (time.perf_counter() - began) / len(group)
            for place, state, error in zip(states, group, runner.errors, strict=True):
                results[place] = _result(state, error, share)
            before += sum(len(specs[place].sizes) for place in states)
    if progress is not None:
        progress(total, total)
    return [results[place] for place in range(len(runs))]


def _states(
    make: Maker, specs: dict[int, RunSpec], results: dict[int, Result]
) -> Iterator[dict[int, RunState]]:
    """Runs of one world, by what the runs of a runner have in common; one that cannot be made is a result."""

    def refused(places: Iterable[int], error: UserError) -> None:
        results.update({place: Result([], _ended([]), str(error), {"total": 0.0}) for place in places})

    try:
        with contextlib.closing(make()) as first:
            world = World.of(make, first, next(iter(specs.values())))
    except UserError as error:
        return refused(specs, error)
    found: dict[Any, dict[int, Parts]] = {}
    for place, spec in specs.items():
        try:
            made = parts(world, spec)
        except UserError as error:
            refused([place], error)
            continue
        coded = repr(made.observations.config()), made.settings["resolved"]["encoder"]
        # An expert that remembers is asked about one run after another.
        alone = None if made.expert.on_reset is None else place
        found.setdefault((spec.key(*TOGETHER), coded, alone), {})[place] = made
    for group in found.values():
        states, around = {}, []
        for place, made in group.items():
            try:
                samples, mapped, folder = storage(made, keep=False)
                states[place] = RunState(made, samples, mapped=mapped)
                around.append(folder)  # as long as the run
            except UserError as error:
                refused([place], error)
        if states:
            yield states


def _result(run: RunState, error: UserError | None, total: float) -> Result:
    rows = [{name: row[name] for name in NAMES} for row in run.rows]
    summary = _ended(rows)
    if error is None:
        mine, theirs, made = run.evaluation, run.expert_evaluation, run.certificate()
        summary |= {
            "return_mean": mine.mean if mine else math.nan,
            "return_std": mine.std if mine else math.nan,
            "expert_return": theirs.mean if theirs else math.nan,
            "regret": float(made.regret),
            "bound": float(made.bound),
            "certificate": made.kind,
            "memory_bytes": run.memory_bytes(),
        }
    seconds = {name: sum(one[name] for one in run.times) for name in TIMES}
    seconds["first_round"] = sum(run.times[0][name] for name in ("collect", "solve")) if run.times else 0.0
    return Result(rows, summary, None if error is None else str(error), seconds | {"total": total})


def _ended(rows: list[dict[str, Any]]) -> dict[str, Any]:
    last = rows[-1] if rows else {"round": 0, "interactions": 0, "queries": 0, "average_loss": math.nan}
    return {
        "rounds": last["round"],
        **{name: last[name] for name in ("interactions", "queries", "average_loss")},
        **dict.fromkeys(("return_mean", "return_std", "expert_return", "regret", "bound"), math.nan),
        "certificate": "",
        "memory_bytes": math.nan,
    }
