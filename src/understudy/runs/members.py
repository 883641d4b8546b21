"""The members of a committee: networks that are trained apart on the labels so far."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from .. import threefry
from ..envs.gymnasium import derive
from ..machine import cores
from ..objectives import Limited
from ..programs import compiled_solver
from .spread import apart, stacked

if TYPE_CHECKING:
    from .state import RunState


def beside(run: RunState) -> list[Any]:
    """The parameters of the members beside the learner's own after the last round: each from a start of its
    own, on the losses that the learner saw.
    """
    parts, losses, policy = run.parts, run.state.losses, run.game.policy
    seen = losses.recall() if isinstance(losses, Limited) else losses
    seeds = [derive(run.plan.seed, "members", run.round, k) for k in range(run.plan.members - 1)]
    pairs = [threefry.split(threefry.key(seed), 2) for seed in seeds]
    starts = [policy.init(first, parts.observations.width, parts.actions.outputs) for first, _ in pairs]
    keys = [key for _, key in pairs]
    if jax.default_backend() != "cpu" and run.reader is None:
        found = compiled_solver(run.game, mapped=True)(seen, *stacked(list(zip(starts, keys, strict=True))))
        return [jax.tree.map(np.array, one) for one in apart(found, len(seeds))]
    solve = compiled_solver(run.game)
    # A small network keeps one core busy, so that members are solved side by side.
    with ThreadPoolExecutor(min(len(seeds), cores())) as pool:
        found = pool.map(lambda start, key: solve(seen, start, key), starts, keys)
        return [jax.tree.map(np.array, params) for params in found]
