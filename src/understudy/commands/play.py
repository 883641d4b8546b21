"""`understudy play`: a video of a run's policy, beside its expert."""

from __future__ import annotations

from typing import Any

from ..envs.gymnasium import maker
from ..errors import UserError
from ..options import Play
from ..policies import TrainedPolicy
from ..report import tables, video
from ..runs import World, acting, read_config
from ..spec import WORLD, RunSpec


def run(options: Play) -> int:
    """Writes the video and prints what was played."""
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
    env = make()
    try:
        return World.of(make, env, RunSpec.of({name: settings[name] for name in WORLD})).expert
    except UserError:
        return None
    finally:
        env.close()
