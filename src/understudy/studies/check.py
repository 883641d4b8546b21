"""What can be refused before anything runs: environments, experts, and parts that do not fit each other.

It must not start JAX: on an accelerator that would take the memory which a worker needs.
"""

from __future__ import annotations

from ..policies import Actions
from ..runs import World
from ..runs.choose import choose
from ..spec import FIELDS, WORLD
from .study import Study


def check(study: Study) -> None:
    """Makes every environment once, and the parts of every run; what does not fit is one sentence."""
    worlds: dict[str, World] = {}
    names = [name for name in FIELDS if name != "seed"]
    for spec in {entry.spec.key(*names): entry.spec for entry in study.runs}.values():
        if spec.key(*WORLD) not in worlds:
            worlds[spec.key(*WORLD)] = World.made(spec)
        world = worlds[spec.key(*WORLD)]
        choose(spec, world.shown, Actions.of(world.action_space), world.expert)
