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
class Scale:
    """How much of the study is run.

    steps, rates: η or α, and the inner step of networks; kept: candidates played in full; iterations: steps
    of the inner solver in a round of a network; evaluations: how many in a run, of `episodes` each.
    """

    parts: tuple[str, ...] = tuple(PARTS)
    envs: tuple[str, ...] = ("Hopper-v5", "Walker2d-v5")
    losses: tuple[str, ...] = ("squared", "absolute")
    network_losses: tuple[str, ...] = ("squared", "absolute")
    total: int = 25_000
    seeds: int = 3
    steps: str = "1e-5:1e5:log11"
    network_steps: str = "1e-5:1e5:log11"
    rates: tuple[float, ...] = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
    kept: int = 3
    iterations: int = 1000
    episodes: int = 5
    evaluations: int = 25
    network_evaluations: int = 13


SCALES = {
    "full": Scale(),
    "small": Scale(
        parts=("linear", "network"),
        envs=("Hopper-v5",),
        network_losses=("squared",),
        seeds=2,
        steps="1e-3:1e3:log7",
        network_steps="1e-1:1e3:log3",
        rates=(1e-3,),
        kept=1,
        iterations=300,
        evaluations=5,
        network_evaluations=5,
    ),
}


class Part(NamedTuple):
    """What came of a part: the tuning (choices included) and the runs with what was chosen."""

    name: str
    scale: Scale
    tuned: Tuned
    final: Results


def study(name: str, scale: Scale, **changes: Any) -> Study:
    """All candidates of a part, as one study; nothing is evaluated unless `changes` say so."""
    kind = PARTS[name]
    network = kind.policy == "mlp"
    grid: dict[str, Any] = {
        "env": scale.envs,
        "loss": scale.network_losses if network else scale.losses,
        "beta": tuple(DRIVES),
        "learner": kind.learners,
        "step": scale.network_steps if network else scale.steps,
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
        grid["learning_rate"] = scale.rates
    return Study(grid=grid, **(settings | changes))


def part(
    name: str, scale: Scale, folder: str | os.PathLike[str], progress: Told | None = None, **options: Any
) -> Part:
    """Tunes a part and plays what was chosen, in `folder`; run again into it, it goes on where it was."""
    axes = [axis for axis in ("step", "learning_rate") if axis in study(name, scale).grid]

    def told(stage: str) -> Told:
        return lambda which, done, total: (
            progress(f"{name}: {which or stage}", done, total) if progress is not None else None
        )

    home = Path(folder, name)
    home.mkdir(parents=True, exist_ok=True)
    tuned = tune(
        study(name, scale),
        axes,
        home / "tuning",
        keep=scale.kept,
        coarse={"env": scale.envs[0]},
        progress=told(""),
        **options,
    )
    network = PARTS[name].policy == "mlp"
    whole = study(
        name,
        scale,
        seeds=scale.seeds,
        episodes=scale.episodes,
        evaluate_every=max(
            1,
            scale.total
            // PARTS[name].interactions
            // (scale.network_evaluations if network else scale.evaluations),
        ),
    )
    best = [one.setting | one.values for one in tuned.choices]
    final = whole.only(lambda entry: _labels(entry) in best or (not network and _untuned(entry)))
    last = told("final")
    done = run(final, home / "final", progress=lambda d, t: last("", d, t), **options)
    return Part(name, scale, tuned, done)


def _labels(entry: Entry) -> dict[str, Any]:
    return {name: value for name, value in entry.labels.items() if name != "seed"}


def _untuned(entry: Entry) -> bool:
    return entry.labels["learner"] == "adaftrl" and entry.labels["step"] == 1.0


def rows(parts: Sequence[Part]) -> list[dict[str, Any]]:
    """Every round of every final run, with what a figure or a claim reads of it.

    A run of AdaFTRL with α = 1 is there as the untuned one, and as the tuned one where that was chosen.
    """
    found = []
    for one in parts:
        chosen = [choice.setting | choice.values for choice in one.tuned.choices]
        for entry, result in zip(one.final.entries, one.final.results, strict=True):
            names = [entry.labels["learner"]] if _labels(entry) in chosen else []
            names += [UNTUNED] if _untuned(entry) and PARTS[one.name].policy == "linear" else []
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
