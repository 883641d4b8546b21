"""How a run that is in a folder goes on: which settings may be others then, and when it is over."""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ..defaults import PORTIONS
from ..errors import UserError, check_name
from ..machine import count_cores, versions
from ..spec import FIELDS, PARTS, stated
from .reading import read_config

if TYPE_CHECKING:
    from ..disk import Json
    from ..spec import Setting
    from .reading import Config

RESUMES = ("exact", "new-episode", "other-machine")
"""How to go on: exactly; with a new episode, where the one under way cannot be played again; on a machine or
with libraries that may give other last bits. Several are joined by commas."""
GROWING = ("rounds", "budget")
"""Settings that may be larger when a run is resumed: it is extended."""
FREE = (
    *("episodes", "evaluate_every", "expert_episodes", "comparator", "comparator_steps", "memory_limit"),
    "expert_workers",
    "expert_timeout",
    "expert_retries",
    "episode_limit",
    "ensemble",
    "resolved ensemble",
    "resolved evaluate_every",
)
"""Settings that may be others when a run is resumed: they do not change what is learnt."""
LAST = ("episodes", "expert_episodes", "episode_limit", "resolved ensemble")
"""Those among them that change the last evaluation."""


def parse_resume(value: bool | str | None) -> frozenset[str]:
    """The ways to resume that a value names: none for False, the exact one for True.

    >>> sorted(parse_resume("new-episode,other-machine")), parse_resume(False)
    (['new-episode', 'other-machine'], frozenset())
    """
    if isinstance(value, bool) or value is None:
        return frozenset({"exact"} if value else ())
    ways = str(value).split(",")
    for way in ways:
        check_name("resume", way, RESUMES)
    return frozenset(ways)


def merge_settings(path: str | os.PathLike[str], given: Mapping[str, Setting]) -> dict[str, Setting]:
    """The settings that are given, over those that the run in a folder was begun with. Where there is no run
    yet, those that are given, which must have an environment.
    """
    given = stated(given)
    if not (Path(path) / "config.json").is_file():
        if (Path(path) / "study.json").is_file():
            raise UserError(f"resume: {str(path)!r} is a study; the same understudy sweep continues it.")
        if "env" not in given:
            raise UserError(f"resume: there is no run in {str(path)!r}, and no env for a new one.")
        return given
    begun_with = read_config(Path(path))["settings"]
    for name in PARTS:
        if name not in given and isinstance(begun_with.get(name), dict):
            raise UserError(
                f"resume: {name} was an object in {str(path)!r}, which is not kept; give it again."
            )
    return {name: value for name, value in begun_with.items() if name in FIELDS and value is not None} | given


def settings_at_start(path: str | os.PathLike[str] | None) -> dict[str, Setting]:
    """What the run in a folder was begun with (see `defaults.resolve`); nothing where there is none."""
    if path is None or not (Path(path) / "config.json").is_file():
        return {}
    return read_config(Path(path))["settings"].get("resolved", {})


def refuse_other(path: Path, before: Config, config: Mapping[str, Json], ways: frozenset[str]) -> None:
    """Refuses settings, and a machine, other than those in `before`, the config.json of a folder."""
    was, now = _flat(before["settings"]), _flat(json.loads(json.dumps(config)))
    # Settings come first: what was resolved follows from them.
    for name in sorted({*now, *was}, key=lambda name: (name.startswith("resolved"), name)):
        old, new, bare = was.get(name), now.get(name), name.removeprefix("resolved ")
        if name == "expert_options" and now["expert"] == "person":
            continue  # where the person sits
        if name != bare and name not in was:
            continue  # an earlier version kept less
        means = f"resolved {name}"
        if name in (*PORTIONS, *GROWING) and means in was and was[means] == now[means]:
            continue  # said, or decided in the same way
        if old == new or name in FREE or (bare in GROWING and longer(bare, was, now)):
            continue
        raise UserError(f"resume: {name} was {old!r} in {str(path)!r} and is {new!r} now; give the same.")
    difference = ""
    if before["cores"] != count_cores():
        difference = f"the run was begun with {before['cores']} cores and this process has {count_cores()}"
    elif before["versions"] != versions():
        old, new = before["versions"], versions()
        name = next(name for name in {**old, **new} if old.get(name) != new.get(name))
        difference = f"the run was begun with {name} {old.get(name)} and this is {new.get(name)}"
    if difference and "other-machine" not in ways:
        raise UserError(
            f"resume: {difference}, so its last bits may differ; --resume=other-machine goes on all the same."
        )
    if difference:
        warnings.warn(f"resume: {difference}; its last bits may differ.", stacklevel=2)


def longer(name: str, was: Mapping[str, Json], now: Mapping[str, Json]) -> bool:
    """Whether a run may have more rounds, or labels, now than it might then."""

    def most(settings: Mapping[str, Json]) -> float:
        value = settings.get(f"resolved {name}", settings[name])
        return value if isinstance(value, int | float) else math.inf

    return most(now) > most(was)


def over(was: Mapping[str, Json], now: Mapping[str, Json]) -> bool:
    """Whether a run that was finished with some settings has nothing left to do with those of now."""
    was, now = _flat(was), _flat(json.loads(json.dumps(now)))
    ended = not any(longer(name, was, now) for name in GROWING)
    return ended and all(was.get(name) == now.get(name) for name in LAST)


def _flat(settings: Mapping[str, Json]) -> dict[str, Json]:
    """Settings and what was resolved from them, on one level."""
    resolved = settings.get("resolved")
    flat = {name: value for name, value in settings.items() if name != "resolved"}
    if isinstance(resolved, Mapping):
        flat |= {f"resolved {name}": value for name, value in resolved.items()}
    return flat
