"""The study of queries: return against labels for ask rules, FTL, AdaFTRL and behavioural cloning.

In every environment a budget of labels is spent in several ways: by the default of the preset practical
(`understudy train` with `--budget` alone), by the other rules with rounds of the same size, by asking about
every state (DAgger) and by letting the expert drive (BC).
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from understudy import RunSpec, disk
from understudy.defaults import MEMBERS, plan_of
from understudy.errors import UserError, damaged
from understudy.studies import Results, Study

from .host import by_series, played
from .protocol import Progress, silent


class World(NamedTuple):
    """An environment of the study: the labels spent, the return of random actions, the labels that are wanted
    to be enough for nine tenths of the expert's return (0: nothing is wanted), and other settings.
    """

    budget: int
    random: float
    target: int = 0
    settings: Mapping[str, Any] = MappingProxyType({})


WORLDS = {
    "Hopper-v5": World(400, 0.0, 400),
    "Walker2d-v5": World(1000, 0.0, 1000),
    "HalfCheetah-v5": World(5000, 0.0, 5000),
    "Ant-v5": World(1500, 0.0, 1500),
    "CartPole-v1": World(200, 20.0),
    "Pendulum-v1": World(800, -1250.0),
    "Acrobot-v1": World(400, -500.0),
    "Pong": World(2000, -20.7, 0, {"policy": "linear", "episodes": 4}),
}
DEFAULT = "distance"
SERIES = {
    "distance": "distance (default)",
    "random": "random",
    "disagreement": "disagreement",
    "adaftrl": "distance, AdaFTRL",
    "one": "distance, one network",
    "all": "all states (DAgger)",
    "bc": "BC",
}
PEER = "imitation"
"""The peer whose DAgger is drawn beside them, where it was measured."""


@dataclasses.dataclass(frozen=True)
class Scale:
    """How much of the study is run; share: of the labels of `WORLDS`; budget: labels in place of those;
    evaluations: how many in a run, about.
    """

    envs: tuple[str, ...] = tuple(WORLDS)
    series: tuple[str, ...] = tuple(SERIES)
    seeds: int | Sequence[int] = 5
    episodes: int = 20
    evaluations: int = 16
    budget: int | None = None
    share: float = 1.0
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)
    peer: Path | None = None


SCALES = {
    "full": Scale(),
    "small": Scale(
        envs=("Hopper-v5", "Pendulum-v1", "CartPole-v1"),
        series=("distance", "random", "all", "bc"),
        seeds=2,
        episodes=5,
        evaluations=6,
        share=0.5,
        settings={"max_iterations": 1000},
    ),
}


class Part(NamedTuple):
    """What came of an environment; peer: a peer's runs, each with its expert's return and its curve."""

    env: str
    final: Results
    peer: Sequence[Mapping[str, Any]] = ()


AXES = ("ask", "learner", "ensemble", "steps_per_round", "first_steps", "evaluate_every")
"""What the series differ in."""


def settings(series: str, env: str, scale: Scale) -> dict[str, Any]:
    """The settings of a series in an environment."""
    world = WORLDS[env]
    budget = scale.budget or round(scale.share * world.budget)
    plan = plan_of(RunSpec(env=env, budget=budget))
    first, each = plan.rounds[0][0], int(str(plan.ask).partition(":")[2])
    made: dict[str, Any] = {"ask": plan.ask, "first_steps": first, "keep_best": plan.keep_best}
    made |= {"budget": budget, "episodes": scale.episodes, "comparator": "none", "learner": "ftl"}
    rounds = (budget - first) / each
    made |= {"steps_per_round": 1000, "evaluate_every": max(1, round(rounds / scale.evaluations))}
    if series in ("all", "bc"):
        size = max(1, budget // 40)
        made |= {"ask": "all", "steps_per_round": size, "first_steps": size}
        made |= {
            "learner": "bc" if series == "bc" else "ftl",
            "evaluate_every": max(1, round(40 / scale.evaluations)),
        }
    elif series in ("random", "disagreement"):
        made["ask"] = f"{series}:{each}"
    elif series == "adaftrl":
        made["learner"] = series
    made |= {**world.settings, **scale.settings}
    linear = made.get("policy") == "linear"
    if linear:
        made.pop("max_iterations", None)  # it is for networks
    made["ensemble"] = MEMBERS if series == DEFAULT and not linear else 1
    return made


def study(env: str, scale: Scale) -> Study:
    """All runs in an environment, as one study."""
    found = {}
    for series in scale.series:
        made = settings(series, env, scale)
        grid = {name: [made.pop(name)] for name in AXES}
        found[series] = Study(env, grid=grid, seeds=scale.seeds, **made)
    return by_series(found)


def part(
    env: str, scale: Scale, folder: str | os.PathLike[str], progress: Progress = silent, **options: Any
) -> Part:
    """Plays the runs in an environment that are not in `folder` yet."""
    peer = () if scale.peer is None else measured(scale.peer, env)
    final = played(env, study(env, scale), Path(folder, env), progress, stray=True, **options)
    return Part(env, final, peer)


def measured(folder: Path, env: str) -> list[dict[str, Any]]:
    """The peer's runs of an environment, of whichever version, in a folder of `make bench-imitation`."""
    if not folder.is_dir():
        raise UserError(f"peer: {folder} is no folder; it is the one that make bench-imitation writes.")
    found = sorted(folder.glob(f"{env.partition('-')[0]}-*-{PEER}-*.json"))
    runs = []
    for path in found:
        with damaged(f"peer: {path}"):
            run = disk.read_json(path, "peer")
            curve = [(float(queries), float(score)) for queries, score, *_ in run["curve"]]
            assert curve, "its curve has no point"
            runs.append({"expert": float(run["expert"]), "curve": curve})
    return runs
