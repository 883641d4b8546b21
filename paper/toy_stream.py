"""The toy problem: online regression or classification against a random linear expert, one state a round."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

FEATURES, OUTPUTS = 10, 3


class Problem(NamedTuple):
    """A random linear expert. States do not depend on the policy, so the key fixes the stream of losses."""

    weights: Array
    """W* (features, outputs), entries standard normal."""
    key: Array
    flip: Array | float
    """1 makes the expert −W* in even rounds (adversarial), 0 leaves it W*."""
    noise: Array | float
    """Scale of what is added to the expert's outputs: normal, or Gumbel where it chooses among actions."""


def problem(key: Array, *, flip: Array | float = 0.0, noise: Array | float = 0.0) -> Problem:
    """The problem that belongs to a key.

    >>> problem(jax.random.key(0)).weights.shape
    (10, 3)
    """
    first, second = jax.random.split(key)
    return Problem(jax.random.normal(first, (FEATURES, OUTPUTS), jnp.result_type(float)), second, flip, noise)


def sample(problem: Problem, t: Array | int, *, categorical: bool = False) -> tuple[Array, Array]:
    """State x (features,) and answer y (outputs,) of round t = 1, 2, …; the same whatever other rounds are
    asked for.

    The answer is ``±W*ᵀx + noise``; with `categorical` it is the one-hot row of ``argmax(±W*ᵀx + noise ·
    Gumbel)``, which for noise 1 is a draw from ``softmax(±W*ᵀx)`` and for noise 0 the expert's best action
    (separable data).

    >>> x, y = sample(problem(jax.random.key(0)), 1)
    >>> x.shape, y.shape
    ((10,), (3,))
    """
    features, outputs = problem.weights.shape
    dtype = problem.weights.dtype
    first, second = jax.random.split(jax.random.fold_in(problem.key, t))
    x = jax.random.normal(first, (features,), dtype)
    sign = jnp.where(jnp.asarray(t) % 2 == 0, 1.0 - 2.0 * jnp.asarray(problem.flip, dtype), 1.0)
    answer = sign * (x @ problem.weights)
    if not categorical:
        return x, answer + problem.noise * jax.random.normal(second, (outputs,), dtype)
    chosen = jnp.argmax(answer + problem.noise * jax.random.gumbel(second, (outputs,), dtype))
    return x, jax.nn.one_hot(chosen, outputs, dtype=dtype)


def stream(problem: Problem, rounds: int, *, categorical: bool = False) -> tuple[Array, Array]:
    """The first `rounds` rounds: states (rounds, features) and answers (rounds, outputs).

    >>> X, Y = stream(problem(jax.random.key(0)), 4)
    >>> X.shape, Y.shape
    ((4, 10), (4, 3))
    """
    return jax.vmap(lambda t: sample(problem, t, categorical=categorical))(jnp.arange(1, rounds + 1))
