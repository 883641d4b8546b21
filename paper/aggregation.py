"""The study of aggregation: what it costs to learn from the current round alone, as parallel simulators do.

Brax's `bc` fits the current rollout and rsl_rl clears its storage after every update: a window of one round.
Here that stands beside the sum of all rounds (FTL, which is DAgger), a window of three, and FTRL and AdaFTRL
on the sum, from 10⁴ to 10⁷ interactions of one pure environment, with the same solver everywhere.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from understudy.report.style import Look, look
from understudy.studies import Results, Study

from .host import by_series, played
from .protocol import Progress, silent


class Series(NamedTuple):
    """What a series learns with and from, and how it is drawn."""

    learner: str
    memory: str
    look: Look


DASHED, DOTTED = (0, (5, 2)), (0, (1, 1))
SERIES = {
    "ftl": Series("ftl", "all", Look(look("ftl").colour, "-", "all rounds (FTL)")),
    "window:1": Series("ftl", "window:1", Look("#CC79A7", DASHED, "current round alone")),
    "window:3": Series("ftl", "window:3", Look("#E69F00", DOTTED, "last three rounds")),
    "ftrl": Series("ftrl", "all", Look(look("ftrl").colour, "-", "all rounds, FTRL")),
    "adaftrl": Series("adaftrl", "all", Look(look("adaftrl").colour, "-", "all rounds, AdaFTRL")),
}


@dataclasses.dataclass(frozen=True)
class Scale:
    """How much of the study is run. totals: interactions of a run, spent in `rounds` equal rounds of `steps`
    steps in as many environments as that takes.
    """

    env: str = "mjx:Hopper"
    series: tuple[str, ...] = tuple(SERIES)
    totals: tuple[int, ...] = (10_000, 100_000, 1_000_000, 10_000_000)
    seeds: int | Sequence[int] = 3
    rounds: int = 10
    steps: int = 100
    episodes: int = 20
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)


SCALES = {
    "full": Scale(),
    "small": Scale(
        env="gymnax:Pendulum-v1",
        series=("ftl", "window:1", "ftrl", "adaftrl"),
        totals=(1000, 10_000),
        seeds=2,
        steps=50,
        episodes=5,
        settings={"widths": (32, 32), "max_iterations": 300},
    ),
}


class Part(NamedTuple):
    """What came of the runs with a number of interactions."""

    total: int
    scale: Scale
    final: Results


def study(total: int, scale: Scale) -> Study:
    """All runs with so many interactions, as one study."""
    each = max(1, total // scale.rounds)
    made: dict[str, Any] = {
        "rounds": scale.rounds,
        "steps_per_round": each,
        "num_envs": max(1, each // scale.steps),
        "episodes": scale.episodes,
        "comparator": "none",
        "policy": "mlp",
        **scale.settings,
    }
    found = {}
    for name in scale.series:
        grid = {"learner": [SERIES[name].learner], "memory": [SERIES[name].memory]}
        found[name] = Study(scale.env, grid=grid, seeds=scale.seeds, **made)
    return by_series(found)


def part(
    total: int, scale: Scale, folder: str | os.PathLike[str], progress: Progress = silent, **options: Any
) -> Part:
    """Plays the runs with so many interactions that are not in `folder` yet."""
    stage, home = f"{total:,} interactions", Path(folder, str(total))
    return Part(total, scale, played(stage, study(total, scale), home, progress, stray=True, **options))
