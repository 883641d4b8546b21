"""The best network in hindsight, as well as a budget of steps can find it: an estimate, and called one."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
from jax import Array

from ..objectives import Losses, plain
from ..policies import Params
from ..solvers import adam


class Found(NamedTuple):
    """The least Σ l_s(w) seen, the parameters that have it, and how the search ended."""

    total: Array
    params: Params
    status: Array


@eqx.filter_jit
def search(losses: Losses, start: Params, key: Array, steps: int) -> Found:
    """Adam with a step that decays to nothing, from `start`, which stays the answer where nothing better is found."""
    objective = plain(losses, start)
    found = adam(batch_size=256, max_iterations=steps, decay="cosine")(objective, start, key)
    before = losses.value(start)
    after = found.value * objective.rounds
    better = after < before
    params = jax.tree.map(lambda new, old: jax.numpy.where(better, new, old), found.params, start)
    return Found(jax.numpy.minimum(after, before), params, found.status)


def comparator(losses: Any, start: Params, key: Array, steps: int) -> tuple[float, Params, int]:
    """`search` with the numbers brought to the host."""
    found = search(losses, start, key, steps)
    return float(found.total), found.params, int(found.status)
