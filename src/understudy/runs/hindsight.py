"""The best network in hindsight, as well as a budget of steps can find it: an estimate, and called one."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jax import Array

from ..objectives import Losses, plain
from ..policies import Params
from ..solvers import adam


@eqx.filter_jit
def search(losses: Losses, start: Params, key: Array, steps: int) -> tuple[Any, Any]:
    """The least Σ l_s(w) that Adam finds from `start` with a step that decays to nothing, at most that of
    `start`, and how the search ended.
    """
    solver = adam(batch_size=losses.policy.minibatch, max_iterations=steps, measure=False, decay="cosine")
    found = solver(plain(losses, start), start, key)
    return jnp.minimum(losses.value(found.params), losses.value(start)), found.status
