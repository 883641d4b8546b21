"""The best network in hindsight, as well as a budget of steps can find it: an estimate, and called one."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
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
    """Adam with a step that decays to nothing, from `start`, which stays the answer where nothing better is
    found.
    """
    solver = adam(batch_size=losses.policy.minibatch, max_iterations=steps, measure=False, decay="cosine")
    found = solver(plain(losses, start), start, key)
    before, after = losses.value(start), losses.value(found.params)
    params = jax.tree.map(lambda new, old: jnp.where(after < before, new, old), found.params, start)
    return Found(jnp.minimum(after, before), params, found.status)


def comparator(losses: Any, start: Params, key: Array, steps: int) -> tuple[float, Params, int]:
    """`search` with the numbers brought to the host."""
    found = search(losses, start, key, steps)
    return float(found.total), found.params, int(found.status)
