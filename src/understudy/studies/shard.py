"""A shard: some runs of a study, played in one process. What a run is called, and what came of it."""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ..errors import UserError, unknown
from ..imitation import imitate
from ..interaction import NAMES
from ..learners import LEARNERS
from ..policies import MLP
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

    rows: one per round, with the ledger's columns (`understudy.interaction.NAMES`), plain numbers and words.
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
    found["learner"] = _learner(run.get("learner", "ftl"), options, run.get("preset", "practical"))
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


def _learner(name: Any, options: dict[str, Any], preset: str) -> Any:
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
    if preset == "practical" and "start" in accepted:
        options = {"start": 2, **options}  # an untrained network's first gradient must not set the scale
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
    progress: Callable[[int, int], None] | None = None,
) -> list[Result]:
    """Plays runs of one environment and round size; results in the same order.

    A run that fails leaves its sentence, and the others go on. ``progress(done, total)`` counts rounds.

    >>> run = {"env": "CartPole-v1", "policy": "linear", "rounds": 2, "interactions": 50, "episodes": 0}
    >>> [len(result.rows) for result in play([run, run | {"seed": 1}])]
    [2, 2]
    """
    made = [keywords(run) for run in runs]
    lengths = [int(run.get("rounds", 25)) for run in made]
    results: list[Result] = []
    for place, run in enumerate(made):
        before = sum(lengths[:place])

        def told(t: int, row: dict[str, Any], rows: list[dict[str, Any]], before: int = before) -> None:
            rows.append({name: row[name] for name in NAMES})
            if progress is not None:
                progress(before + t, sum(lengths))

        results.append(_one(run, told))
        if progress is not None:
            progress(before + lengths[place], sum(lengths))
    return results


def _one(run: dict[str, Any], told: Callable[[int, dict[str, Any], list[dict[str, Any]]], None]) -> Result:
    rows: list[dict[str, Any]] = []
    began = time.perf_counter()
    try:
        done = imitate(**run, progress=lambda t, row: told(t, row, rows))
    except Exception as error:  # one run's fault, whatever it is, must not end its neighbours
        sentence = str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
        return Result(rows, _ended(rows), sentence, {"total": time.perf_counter() - began})
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
