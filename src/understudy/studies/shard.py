"""A shard: some runs of a study, played in one process. What a run is called, and what came of it."""

from __future__ import annotations

import functools
import inspect
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ..envs.fleet import fleet
from ..envs.gymnasium import maker
from ..errors import UserError, unknown
from ..imitation import imitate
from ..learners import LEARNERS
from ..policies import MLP
from ..runs import NAMES, TIMES, Evaluation, Loop, World, parts
from ..runs.convoy import Convoy, Unkept
from ..runs.parts import whole
from ..solvers import SOLVERS

LEARNER_OPTIONS = ("eta", "alpha", "schedule", "start", "radius", "diagonal")
SOLVER_OPTIONS = ("learning_rate", "max_iterations", "batch_size", "tolerance")
OWN = ("out", "resume", "progress", "solver_options")
"""What `imitate` takes and a run cannot say: a study has its own folder, and solver options are flat."""
FIELDS = tuple(name for name in inspect.signature(imitate).parameters if name not in OWN)
NAMED = (*FIELDS, *LEARNER_OPTIONS, *SOLVER_OPTIONS, "widths")
"""Every name that a run may have."""


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


def keywords(run: Mapping[str, Any]) -> dict[str, Any]:
    """A run's flat names as keyword arguments of `imitate`; a name that does not exist is refused.

    >>> made = keywords({"env": "Hopper-v5", "learner": "ftrl", "eta": 0.1, "tolerance": 1e-6})
    >>> made["learner"].name, made["solver_options"], made["env"]
    ('ftrl', {'tolerance': 1e-06}, 'Hopper-v5')
    """
    for name in run:
        if name not in NAMED:
            raise unknown("run", name, NAMED)
    if not isinstance(run.get("env"), str):
        raise UserError(f"env: {run.get('env')!r} is not the id of an environment, such as 'Hopper-v5'.")
    found = {name: value for name, value in run.items() if name in FIELDS and value is not None}
    options = {name: run[name] for name in LEARNER_OPTIONS if run.get(name) is not None}
    found["learner"] = _learner(run.get("learner", "ftl"), options)
    if solving := {name: run[name] for name in SOLVER_OPTIONS if run.get(name) is not None}:
        found["solver_options"] = solving
    if (solver := run.get("solver", "auto")) != "auto":
        SOLVERS.maker(solver)
    if run.get("widths") is not None:
        if run.get("policy", "auto") not in ("auto", "mlp"):
            raise UserError(f"widths: the policy {run['policy']!r} has none; mlp has.")
        found["policy"] = MLP(widths=tuple(run["widths"]))
    return found


def takes(learner: str) -> tuple[str, ...]:
    """The options that a learner takes.

    >>> takes("ogd"), takes("bc")
    (('eta', 'schedule', 'radius'), ())
    """
    if learner == "bc":
        return ()
    has = inspect.signature(LEARNERS.maker(learner)).parameters
    return tuple(name for name in LEARNER_OPTIONS if name in has)


def _learner(name: Any, options: dict[str, Any]) -> Any:
    if not isinstance(name, str):
        raise UserError(f"learner: {name!r} is not a learner's name.")
    accepted = takes(name) if name == "bc" or name in LEARNERS.aliases else None
    if accepted is None:
        if name not in LEARNERS.makers:
            raise unknown("learner", name, [*LEARNERS.names(), "bc"])
        accepted = takes(name)
    if foreign := [option for option in options if option not in accepted]:
        offer = f"it takes {', '.join(accepted)}" if accepted else "it takes no options"
        raise UserError(f"learner: {name!r} does not take {', '.join(foreign)}; {offer}.")
    if not options:
        return name
    return _made(name, options)


def _made(name: str, options: dict[str, Any]) -> Any:
    maker = LEARNERS.maker(name)
    parameters = inspect.signature(maker).parameters.values()
    needed = [p.name for p in parameters if p.default is p.empty and p.kind is p.KEYWORD_ONLY]
    if missing := [one for one in needed if one not in options]:
        raise UserError(f"learner: {name!r} needs {', '.join(missing)}.")
    return maker(**options)


def play(
    runs: Sequence[Mapping[str, Any]],
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
    made = [keywords(run) for run in runs]
    results: dict[int, Result] = {}
    groups: dict[str, list[int]] = {}
    for place, run in enumerate(made):
        groups.setdefault(_company(run), []).append(place)
    total, before = sum(int(run.get("rounds", 25)) for run in made), 0
    for places in groups.values():
        rounds = int(made[places[0]].get("rounds", 25)) * len(places)

        def told(done: int, before: int = before) -> None:
            if progress is not None:
                progress(min(before + done, total), total)

        if int(made[places[0]].get("envs", 1)) > 1:
            # A convoy has one environment a run.
            found = [_alone(made[place]) for place in places]
        else:
            found = _abreast([made[place] for place in places], threads, together, told)
        results |= dict(zip(places, found, strict=True))
        before += rounds
        told(0, before)
    return [results[place] for place in range(len(runs))]


def _company(run: dict[str, Any]) -> str:
    """What runs of a convoy have in common."""
    names = ("env", "env_kwargs", "expert", "expert_options", "rounds", "interactions", "budget", "envs")
    return repr([run.get(name) for name in (*names, "encoder", "labels")])


def _abreast(
    runs: list[dict[str, Any]], threads: int, together: bool | None, told: Callable[[int], None]
) -> list[Result]:
    began, first = time.perf_counter(), runs[0]
    world_options = {name: first[name] for name in ("env_kwargs", "expert_options") if name in first}
    make = maker(first["env"], first.get("env_kwargs"))
    many = functools.partial(fleet, make, threads=threads)
    loops: dict[int, Loop] = {}
    failed: dict[int, Result] = {}
    one = many(1)
    world = World.of(make, one, first.get("expert"), **world_options)
    one.close()
    for place, run in enumerate(runs):
        own = {
            name: value
            for name, value in run.items()
            if name not in ("env", "expert", "envs", "memory_limit")
        }
        try:
            whole("seed", own.get("seed", 0), 0)
            made = parts(world, **{name: value for name, value in own.items() if name not in world_options})
            loops[place] = made.loop(None, None, Unkept())
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


def _experts(convoy: Convoy, runs: list[dict[str, Any]]) -> list[Evaluation | None]:
    """The expert on every run's last episodes, played once for all runs of a seed."""
    known: dict[tuple[int, int], Evaluation] = {}
    found: list[Evaluation | None] = []
    for run, seed in zip(runs, convoy.seeds, strict=True):
        wanted = run.get("expert_episodes")
        episodes = int(run.get("episodes", 10) if wanted is None else wanted)
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


def _alone(run: dict[str, Any]) -> Result:
    rows: list[dict[str, Any]] = []
    began = time.perf_counter()
    try:
        done = imitate(**run, progress=lambda t, row: rows.append({name: row[name] for name in NAMES}))
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
