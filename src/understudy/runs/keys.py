"""Random keys in trees of arrays, as plain numbers that a file can hold."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def plain_keys(tree: Any) -> Any:
    """The tree with keys as their numbers.

    >>> plain_keys({"key": jax.random.key(3), "other": jnp.ones(1)})["key"].tolist()
    [0, 3]
    """
    return jax.tree.map(lambda leaf: jax.random.key_data(leaf) if _is_key(leaf) else leaf, tree)


def keys_again(tree: Any, like: Any) -> Any:
    """What `plain_keys` was made of; `like` is a tree with the same kinds of leaves."""

    def kind(leaf: Array, was: Any) -> Array:
        return jax.random.wrap_key_data(leaf, impl="threefry2x32") if _is_key(was) else leaf

    return jax.tree.map(kind, tree, like)
