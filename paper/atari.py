"""The Atari study: Pong and Breakout from pixels, linear on the expert's features and NatureCNN end to end.

Agent-driven from the first round, but for BC; the agent samples from its policy as it collects and plays its
mode in evaluation. Step sizes are tuned on the game itself: a coarse pass of 2,000 interactions in rounds of
100, the least average loss. On networks the regularised learners find their own scale, and take the mean form
of FTRL, which is Alt-FTRL: it is not run twice.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from understudy.studies import Entry, Study
from understudy.studies.tuning import setting_of

from .host import Part, is_untuned, play_part, played
from .protocol import Progress, silent

GAMES = {"pong": "ALE/Pong-v5", "breakout": "ALE/Breakout-v5"}
POLICIES = ("linear", "nature_cnn")
STEPPED = {"linear": ("ftrl", "alt_ftrl", "adaftrl", "ogd", "adagrad"), "nature_cnn": ("ogd", "adagrad")}
"""Learners that are given a step; on networks the regularised ones find theirs."""
TUNED = {
    "pong": {"ftrl": 1e5, "alt_ftrl": 1e5, "adaftrl": 1e4, "ogd": 1.0, "adagrad": 0.01},
    "breakout": {"ftrl": 1e5, "alt_ftrl": 1e5, "adaftrl": 1e3, "ogd": 0.1, "adagrad": 0.01},
}
"""The steps of linear policies that the full study's tuning chose; the small one takes them as they are."""
TUNING_SEED = 1000


@dataclasses.dataclass(frozen=True)
class Scale:
    """How much of the study is run.

    linear, networks: the learners; games, network_games: evaluation games a run at the end; iterations:
    Adam's steps a round (networks); steps, network_steps: the steps that tuning tries, of which networks
    bear fewer; none are tried where `tuned` is false, and linear learners get those of `TUNED`; limit: agent
    steps after which a game is cut; more: settings of all runs in place of the study's.
    """

    rounds: int = 10
    steps_per_round: int = 1000
    seeds: int | Sequence[int] = 3
    linear: tuple[str, ...] = ("ftl", "ftrl", "alt_ftrl", "adaftrl", "ogd", "adagrad", "bc")
    networks: tuple[str, ...] = ("ftl", "ftrl", "adaftrl", "ogd", "adagrad", "bc")
    games: int = 20
    network_games: int = 10
    end_to_end: tuple[str, ...] = tuple(GAMES)
    steps: str = "1e-5:1e5:log11"
    network_steps: str = "1e-5:1e1:log7"
    tuned: bool = True
    iterations: int = 2000
    limit: int = 2500
    more: Mapping[str, Any] = dataclasses.field(default_factory=dict)


SCALES = {
    "full": Scale(),
    "small": Scale(
        seeds=1,
        networks=("ftl", "adaftrl"),
        games=10,
        network_games=8,
        end_to_end=("pong",),
        tuned=False,
        iterations=300,
    ),
}


def study(game: str, policy: str, scale: Scale, learners: Sequence[str], **changes: Any) -> Study:
    """All candidates of one game and policy among these learners, as one study."""
    linear = policy == "linear"
    grid: dict[str, Any] = {"learner": tuple(learners)}
    if any(name in STEPPED[policy] for name in learners):
        grid["step"] = scale.steps if linear else scale.network_steps
    settings: dict[str, Any] = {
        "policy": policy,
        "first_round": "agent",
        "noise": 1.0,
        "standardise": False,
        "rounds": scale.rounds,
        "steps_per_round": scale.steps_per_round,
        "seeds": scale.seeds,
        "episodes": scale.games if linear else scale.network_games,
        "env_kwargs": {"max_frames": 4 * scale.limit},
        "comparator": "last" if linear else "none",
    }
    if linear:
        settings["solver"] = "newton"
    elif not set(learners) <= set(STEPPED[policy]):  # those take single steps, and have no solver
        settings |= {"max_iterations": scale.iterations, "learning_rate": 5e-4}
    if "adagrad" in learners:
        settings["diagonal"] = True
    return Study(GAMES[game], grid=grid, **(settings | dict(scale.more) | changes))


def part(
    game: str,
    policy: str,
    scale: Scale,
    folder: str | os.PathLike[str],
    progress: Progress = silent,
    **options: Any,
) -> Part:
    """One game with one kind of policy, all learners and seeds, in `folder`; see `play_part`."""
    name, linear = f"{game}-{policy}", policy == "linear"
    learners = scale.linear if linear else scale.networks
    stepped = [one for one in learners if one in STEPPED[policy]]

    def wanted(entry: Entry) -> bool:
        return entry.labels.get("step") in (None, TUNED[game].get(entry.labels["learner"]))

    def known(stage: str, some: Study) -> Part:
        """Plays a study whose steps are known."""
        home = Path(folder, name, stage.replace(" ", "-"))
        done = played(f"{name}: {stage}", some, home, progress, **options)
        return Part(
            name, None, done, [setting_of(one.labels, ()) for one in some.runs if wanted(one)], linear
        )

    free = study(game, policy, scale, [one for one in learners if one not in stepped])
    found = known("without steps", free)
    if not stepped:
        return found
    whole = study(game, policy, scale, stepped)
    if scale.tuned:
        how = {"untuned": linear, "seeds": (TUNING_SEED,), "progress": progress}
        more = play_part(name, whole, folder, **how, **options)
    else:
        more = known("with steps", whole.only(lambda entry: wanted(entry) or is_untuned(entry)))
    return Part(name, more.tuned, found.final + more.final, [*found.chosen, *more.chosen], linear)
