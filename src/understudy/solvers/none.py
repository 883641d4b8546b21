"""The solver that does not solve: for games that are judged elsewhere, so that nothing is compiled for it."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import Array

from ..objectives import Objective
from ..policies import Params
from .base import Solution, Status


class Unsolved(eqx.Module):
    """Returns where it started, with status RUNNING and nothing measured."""

    @property
    def minibatch(self) -> bool:
        return False

    def __call__(self, objective: Objective, params: Params, key: Array | None = None) -> Solution:
        nan = jnp.full((), jnp.nan, jax.tree.leaves(params)[0].dtype)
        none = jnp.zeros((), jnp.int32)
        status = jnp.full((), Status.RUNNING, jnp.int32)
        return Solution(params, status, nan, nan, none, none, optax.tree.zeros_like(params), nan)
