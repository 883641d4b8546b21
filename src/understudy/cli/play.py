"""`understudy play`: a video of a run's policy, beside its expert."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from tyro.conf import Positional

from ..errors import UserError
from ..spec import WORLD, RunSpec
from .options import Flag


@dataclasses.dataclass(frozen=True, kw_only=True)
class Play:
    """Make a video of a run's policy, side by side with its expert where that one can be had by name."""

    run: Positional[Path]
    """The folder of a run."""
    video: Path = Path("play.mp4")
    """The file to write."""
    seed: int = 0
    """Seed of the episode."""
    steps: int = 1000
    """Longest video, in environment steps."""
    alone: Flag = False
    """The policy only, without its expert."""


def run(options: Play) -> int:
    """Writes the video and prints what was played."""
    from ..envs.gymnasium import maker
    from ..policies import TrainedPolicy
    from ..report import tables, video
    from ..runs import acting, read_config

    settings = read_config(options.run)["settings"]
    policy = TrainedPolicy.load(options.run)
    make = maker(settings["env"], settings["env_kwargs"])
    acts = {settings["name"]: acting(policy)}
    if not options.alone:
        expert = _expert(settings, make)
        if expert is not None:
            acts["expert"] = acting(expert)
    returns = video.record(options.video, make, acts, seed=options.seed, steps=options.steps)
    rows = [(name, f"return {value:.1f}") for name, value in returns.items()]
    tables.show(tables.facts(f"{settings['env']}: {options.video}", rows))
    return 0


def _expert(settings: dict[str, Any], make: Any) -> Any:
    """The run's expert, where it can be had again from its name alone."""
    from ..runs import World

    env = make()
    try:
        return World.of(make, env, RunSpec.of({name: settings.get(name) for name in WORLD})).expert
    except UserError:
        return None
    finally:
        env.close()
