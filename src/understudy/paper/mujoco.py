"""The MuJoCo study: Hopper and Walker2d, linear and network policies, squared and absolute loss, both drives.

The paper's settings: the agent drives from the first round with Gaussian noise (preset "paper"), or the
expert does (β = 1; FTL is then behavioural cloning); 25,000 interactions in rounds of 1,000, and for linear
policies also of 100. The protocol of tuning: on Hopper, steps over eleven decades and, for networks, the
inner step too, 2,000 interactions in rounds of 100; the three best by average loss in full, on one seed;
the best of them with every seed, and evaluated.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..studies import Results, Study, Tuned, run, tune
from ..studies.study import Entry

LEARNERS = ("ftl", "ftrl", "alt_ftrl", "adaftrl", "ogd", "adagrad")
OFFLINE = LEARNERS[:4]
UNTUNED = "adaftrl_untuned"
DRIVES = {0.0: "agent", 1.0: "expert"}
Told = Callable[[str, int, int], None]


class Kind(NamedTuple):
    """A part of the study: its policy, its rounds, its inner solver and which learners need it."""

    policy: str
    interactions: int
    solver: str
    learners: tuple[str, ...]
    title: str


PARTS = {
    "linear": Kind("linear", 1000, "auto", LEARNERS, "linear policies, rounds of 1,000"),
    "linear-100": Kind("linear", 100, "auto", LEARNERS, "linear policies, rounds of 100"),
    "network": Kind("mlp", 1000, "adam", LEARNERS, "256-256 networks, Adam"),
    "network-sls": Kind("mlp", 1000, "sls", OFFLINE, "256-256 networks, stochastic line search"),
}


@dataclasses.dataclass(frozen=True)
class Effort:
    """How much is spent on a part.

    losses: which; steps, rates: η or α, and the inner step of networks; kept: candidates of the coarse pass
    that are played in full (of one, the coarse pass decides); evaluations: how many in a run.
    """

    losses: tuple[str, ...] = ("squared", "absolute")
    steps: str = "1e-5:1e5:log11"
    rates: tuple[float, ...] = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
    kept: int = 3
    evaluations: int = 25


@dataclasses.dataclass(frozen=True)
class Scale:
    """How much of the study is run: what is spent on each part, and what all parts share.

    iterations: steps of the inner solver in a round of a network; episodes: of every evaluation.
    """

    parts: dict[str, Effort]
    envs: tuple[str, ...] = ("Hopper-v5", "Walker2d-v5")
    total: int = 25_000
    seeds: int = 3
    iterations: int = 1000
    episodes: int = 5


SCALES = {
    "full": Scale(
        {
            "linear": Effort(),
            "linear-100": Effort(),
            "network": Effort(evaluations=5),
        }
    ),
    "small": Scale(
        {
            "linear": Effort(steps="1e-3:1e3:log7", kept=1, evaluations=5),
            "network": Effort(("squared",), "1e-1:1e3:log3", (1e-3,), kept=1, evaluations=5),
        },
        envs=("Hopper-v5",),
        seeds=2,
        iterations=300,
    ),
}
OTHER = Effort(kept=1, evaluations=5)
"""What is spent on a part that is asked for by name and not in the scale."""


class Part(NamedTuple):
    """What came of a part: the tuning (choices included) and the runs with what was chosen."""

    name: str
    scale: Scale
    tuned: Tuned
    final: Results


def study(name: str, scale: Scale, **changes: Any) -> Study:
    """All candidates of a part, as one study; nothing is evaluated unless `changes` say so."""
    kind, effort = PARTS[name], scale.parts.get(name, OTHER)
    network = kind.policy == "mlp"
    grid: dict[str, Any] = {
        "env": scale.envs,
        "loss": effort.losses,
        "beta": tuple(DRIVES),
        "learner": kind.learners,
        "step": effort.steps,
    }
    settings: dict[str, Any] = {
        "policy": kind.policy,
        "preset": "paper",
        "solver": kind.solver,
        "rounds": scale.total // kind.interactions,
        "interactions": kind.interactions,
        "episodes": 0,
        "comparator": "none" if network else "last",
        "seeds": 1,
    }
    if "adagrad" in kind.learners:
        settings["diagonal"] = True
    if network:
        settings |= {"max_iterations": scale.iterations, "batch_size": 256}
    if kind.solver == "adam":
        grid["learning_rate"] = effort.rates
    return Study(grid=grid, **(settings | changes))


def part(
    name: str, scale: Scale, folder: str | os.PathLike[str], progress: Told | None = None, **options: Any
) -> Part:
    """Tunes a part and plays what was chosen, in `folder`; run again into it, it goes on where it was."""
    kind, effort = PARTS[name], scale.parts.get(name, OTHER)
    rounds = scale.total // kind.interactions
    every = max(1, rounds // effort.evaluations)
    whole = study(name, scale, seeds=scale.seeds, episodes=scale.episodes, evaluate_every=every)
    axes = [axis for axis in ("step", "learning_rate") if axis in whole.grid]

    def told(stage: str, done: int, total: int) -> None:
        if progress is not None:
            progress(f"{name}: {stage}", done, total)

    def play(some: Study, stage: str) -> Results:
        return run(some, home / stage, progress=lambda done, total: told(stage, done, total), **options)

    home = Path(folder, name)
    home.mkdir(parents=True, exist_ok=True)
    # Where the coarse pass decides, its choice is played at once with every seed and evaluated.
    candidates = study(name, scale) if effort.kept > 1 else whole
    how = {"coarse": {"env": scale.envs[0]}, "seeds": 1, "progress": told}
    tuned = tune(candidates, axes, home / "tuning", keep=effort.kept, **how, **options)
    best = [one.setting | one.values for one in tuned.choices]
    if effort.kept > 1:
        done = play(whole.only(lambda entry: _labels(entry) in best or _untuned(name, entry)), "final")
    else:
        done = tuned.full
        if any(_untuned(name, entry) for entry in whole.runs):
            missing = [entry.id for entry in done.entries]
            more = whole.only(lambda entry: _untuned(name, entry) and entry.id not in missing)
            if more.runs:
                extra = play(more, "untuned")
                done = Results([*done.entries, *extra.entries], [*done.results, *extra.results], home)
    return Part(name, scale, tuned, done)


def _labels(entry: Entry) -> dict[str, Any]:
    return {name: value for name, value in entry.labels.items() if name != "seed"}


def _untuned(name: str, entry: Entry) -> bool:
    """Whether this is AdaFTRL with α = 1 on a linear policy, which is reported whatever tuning chose."""
    ada = entry.labels["learner"] == "adaftrl" and entry.labels["step"] == 1.0
    return ada and PARTS[name].policy == "linear"


def rows(parts: Sequence[Part]) -> list[dict[str, Any]]:
    """Every round of every final run, with what a figure or a claim reads of it.

    A run of AdaFTRL with α = 1 is there as the untuned one, and as the tuned one where that was chosen.
    """
    found = []
    for one in parts:
        chosen = [choice.setting | choice.values for choice in one.tuned.choices]
        for entry, result in zip(one.final.entries, one.final.results, strict=True):
            names = [entry.labels["learner"]] if _labels(entry) in chosen else []
            names += [UNTUNED] if _untuned(one.name, entry) else []
            for name in names:
                where = {
                    "part": one.name,
                    "env": entry.labels["env"],
                    "loss_setting": entry.labels["loss"],
                    "drive": DRIVES[entry.labels["beta"]],
                    "learner": name,
                    "step": entry.labels["step"],
                    "learning_rate": entry.labels.get("learning_rate"),
                    "seed": entry.labels["seed"],
                }
                for row in result.rows:
                    kept = ("round", "interactions", "loss", "average_loss", "return_mean", "residual")
                    kept += ("regret", "bound", "solver_status")
                    found.append(
                        where
                        | {column: row[column] for column in kept}
                        | {"expert_return": result.summary["expert_return"]}
                    )
    return found
