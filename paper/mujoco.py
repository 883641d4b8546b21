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
from typing import Any, NamedTuple

from understudy.studies import Study

from .host import Part, play_part
from .protocol import SEEDS, Progress, Seeds, silent

LEARNERS = ("ftl", "ftrl", "alt_ftrl", "adaftrl", "ogd", "adagrad")
OFFLINE = LEARNERS[:4]
DRIVES = (0.0, 1.0)
"""β: the agent acts, or the expert does."""


class Kind(NamedTuple):
    """A part of the study: its policy, its rounds, its inner solver and which learners need it."""

    policy: str
    steps_per_round: int
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
    that are played in full (of one, the coarse pass decides); evaluations: how many in a run; seeds: of the
    final runs, in place of the scale's.
    """

    losses: tuple[str, ...] = ("squared", "absolute")
    steps: str = "1e-5:1e5:log11"
    rates: tuple[float, ...] = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
    kept: int = 3
    evaluations: int = 25
    seeds: Seeds | None = None


@dataclasses.dataclass(frozen=True)
class Scale:
    """How much of the study is run: what is spent on each part, and what all parts share.

    iterations: steps of the inner solver in a round of a network; episodes: of every evaluation.
    """

    parts: dict[str, Effort]
    envs: tuple[str, ...] = ("Hopper-v5", "Walker2d-v5")
    total: int = 25_000
    seeds: Seeds = 3
    iterations: int = 1000
    episodes: int = 5


SCALES = {
    "full": Scale(
        {
            "linear": Effort(seeds=SEEDS),
            "linear-100": Effort(seeds=SEEDS),
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


def study(name: str, scale: Scale, **changes: Any) -> Study:
    """All candidates of a part, as one study; nothing is evaluated unless `changes` say so."""
    kind, effort = PARTS[name], scale.parts.get(name, OTHER)
    network = kind.policy == "mlp"
    grid: dict[str, Any] = {
        "env": scale.envs,
        "loss": effort.losses,
        "beta": DRIVES,
        "learner": kind.learners,
        "step": effort.steps,
    }
    settings: dict[str, Any] = {
        "policy": kind.policy,
        "preset": "paper",
        "solver": kind.solver,
        "rounds": scale.total // kind.steps_per_round,
        "steps_per_round": kind.steps_per_round,
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


def reported(name: str, scale: Scale) -> Study:
    """As `study`, with the seeds that are reported and their evaluations."""
    kind, effort = PARTS[name], scale.parts.get(name, OTHER)
    every = max(1, scale.total // kind.steps_per_round // effort.evaluations)
    seeds = scale.seeds if effort.seeds is None else effort.seeds
    return study(name, scale, seeds=seeds, episodes=scale.episodes, evaluate_every=every)


def part(
    name: str, scale: Scale, folder: str | os.PathLike[str], progress: Progress = silent, **options: Any
) -> Part:
    """Tunes a part on the first environment and plays what was chosen, in `folder`; see `play_part`."""
    kind, effort = PARTS[name], scale.parts.get(name, OTHER)
    return play_part(
        name,
        reported(name, scale),
        folder,
        # Where the coarse pass decides, its choice is played at once with every seed and evaluated.
        candidates=study(name, scale) if effort.kept > 1 else None,
        keep=effort.kept,
        untuned=kind.policy == "linear",
        coarse={"env": scale.envs[0]},
        progress=progress,
        **options,
    )
