"""Networks trained beside the learner's own: members of a committee, and the best one in hindsight."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from .. import threefry
from ..envs.gymnasium import derive
from ..machine import cores
from ..objectives import Limited, Losses, plain
from ..policies import Params
from ..programs import compiled_solver
from ..solvers import adam
from .trees import apart, stacked

if TYPE_CHECKING:
    from .state import RunState


def beside(run: RunState) -> list[Any]:
    """The parameters of the members beside the learner's own after the last round: each from a start of its
    own, on the losses that the learner saw.
    """
    parts, losses, policy = run.parts, run.state.losses, run.game.policy
    seen = losses.recall() if isinstance(losses, Limited) else losses
    seeds = [derive(run.spec.seed, "members", run.round, k) for k in range(run.resolved.ensemble - 1)]
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


@eqx.filter_jit
def search(losses: Losses, start: Params, key: Array, steps: int) -> tuple[Any, Any]:
    """The best network in hindsight, as well as a budget of steps can find it: an estimate, and called one.

    The least Σ l_s(w) that Adam finds from `start` with a step that decays to nothing, at most that of
    `start`, and how the search ended.
    """
    solver = adam(batch_size=losses.policy.minibatch, max_iterations=steps, measure=False, decay="cosine")
    found = solver(plain(losses, start), start, key)
    return jnp.minimum(losses.value(found.params), losses.value(start)), found.status
