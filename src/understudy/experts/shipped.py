"""The experts that come with the package: networks with their weights, planners and feedback laws, by name.

Every name has a card `weights/NAME.json`; a network has `weights/NAME.safetensors` beside it, dp-… is a
planner, and the others are laws of `controllers`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .. import disk
from ..errors import UserError, among, nearest
from .base import Expert

FOLDER = Path(__file__).parent / "weights"


@functools.cache
def _cards() -> Mapping[str, dict[str, Any]]:
    return {path.stem: disk.read_json(path, "expert") for path in sorted(FOLDER.glob("*.json"))}


def names() -> list[str]:
    """The names of all experts that come with the package.

    >>> "sac-Hopper-v5" in names()
    True
    """
    return list(_cards())


def card(name: str) -> dict[str, Any]:
    """What is known about an expert: algorithm, environments, settings, measured returns, how it was made."""
    among("expert", name, _cards())
    return dict(_cards()[name])


def get(name: str, *, env_id: str | None = None, env_kwargs: Mapping[str, Any] | None = None) -> Expert:
    """The expert of that name.

    `env_id` and `env_kwargs` matter to planners only, which plan in the environment itself: one of the ids
    the card lists, and the keywords it is made with.
    """
    about = card(name)
    if (FOLDER / f"{name}.safetensors").is_file():
        from . import networks

        return networks.load(FOLDER / f"{name}.safetensors")
    if not name.startswith("dp-"):
        from . import controllers

        return controllers.law(name, about)
    from . import planners

    if env_id is not None and env_id not in about["environments"]:
        served = ", ".join(about["environments"])
        raise UserError(f"expert: {name!r} plans in {served}, not in {env_id!r}.")
    import gymnasium

    # The first that the installed Gymnasium has: Taxi-v3 became Taxi-v4.
    known = [one for one in about["environments"] if one in gymnasium.registry]
    place = env_id or [*known, *about["environments"]][0]
    return planners.dynamic_programming(place, env_kwargs=env_kwargs, card=about)


def for_env(env_id: str, *, env_kwargs: Mapping[str, Any] | None = None) -> Expert:
    """The shipped expert for an environment, by the ids on the cards: sac-Hopper-v5 serves Hopper-v4 too."""
    serving = [name for name in names() if env_id in card(name)["environments"]]
    if not serving:
        served = sorted({other for name in names() for other in card(name)["environments"]})
        raise UserError(
            f"expert: none is shipped for {env_id!r}{nearest(env_id, served)} Name one, such as your own "
            f"module:function. There are experts for {', '.join(served)}."
        )
    return get(serving[0], env_id=env_id, env_kwargs=env_kwargs)
