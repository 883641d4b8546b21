"""`understudy play`: a video of a run's policy, beside its expert."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tyro.conf import Positional

from ..errors import UserError, check_int
from ..progress import count_up
from ..spec import WORLD, RunSpec
from .options import Flag, Name, Options

if TYPE_CHECKING:
    from ..disk import Json
    from ..experts import Expert
    from ..policies import TrainedPolicy
    from ..report.video import Act


class Play(Options):
    """Make a video of a run's policy, side by side with its expert where that one can be had by name."""

    run: Positional[Path]
    """The folder of a run, or of a study: then the best run that it kept."""
    video: Path = Path("play.mp4")
    """The file to write."""
    env: Name = None
    """Another environment than the run's: an id, or module:function that makes one."""
    env_kwargs: Name = None
    """More keywords for the environment, as JSON: '{"width": 640, "camera_name": "track"}'."""
    seed: int = 0
    """Seed of the episode."""
    steps: int = 1000
    """Longest video, in environment steps."""
    alone: Flag = False
    """The policy only, without its expert."""
    policy: Name = None
    """The student of your own (module:function) that the run was begun with, which no file keeps."""


def run(options: Play) -> int:
    """Writes the video and prints what was played."""
    from ..report import tables, video
    from ..runs import maker_of, read_config, read_policy
    from ..studies import best_folder

    folder = best_folder(options.run)
    settings = read_config(folder)["settings"]
    check_int("steps", options.steps)
    check_int("seed", options.seed, 0)
    make = maker_of(settings, options.env, options.env_kwargs)
    policy = read_policy(folder, options.policy)
    acts = {settings["name"]: _begin(policy)}
    if not options.alone and (expert := _expert(settings)) is not None:
        acts["expert"] = _begin(expert)
    with count_up(str(options.video), options.steps, "steps") as update:
        returns = video.record(
            options.video, make, acts, seed=options.seed, steps=options.steps, progress=update
        )
    rows = [(name, f"return {tables.returned(value)}") for name, value in returns.items()]
    tables.show(tables.facts(f"{make.name}: {options.video}", rows))
    return 0


def _begin(player: TrainedPolicy | Expert) -> Act:
    """What a player does from the beginning of an episode on."""
    from ..runs import acting

    if player.on_reset is not None:
        player.on_reset()
    return acting(player)


def _expert(settings: Mapping[str, Json]) -> Expert | None:
    """The run's expert, where it can be had again from its name alone."""
    from ..runs import spaces_of

    with contextlib.suppress(UserError):
        expert = spaces_of(RunSpec.of({name: settings.get(name) for name in WORLD})).expert
        return expert if expert.person is None else None  # a person is not asked for a video
    return None
