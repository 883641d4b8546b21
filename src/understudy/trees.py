"""Trees of arrays: of several runs in one, on several devices, and with random keys as plain numbers.

The environments of a run are spread over the devices, and a round comes together on the first; runs that are
solved together are spread run by run. With one device nothing is spread.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding


@jax.jit
def stacked(trees: Sequence[Any]) -> Any:
    """Trees of one shape as one, with their number in front of every array: one program for all arrays.

    >>> stacked([(1.0, 2.0), (3.0, 4.0)])[1].tolist()
    [2.0, 4.0]
    """
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


@functools.partial(jax.jit, static_argnums=1)
def apart(tree: Any, count: int) -> list[Any]:
    """The `count` trees that were `stacked`.

    >>> [one.tolist() for one in apart(jnp.array([[1, 2], [3, 4]]), 2)]
    [[1, 2], [3, 4]]
    """
    return [jax.tree.map(lambda leaf, i=i: leaf[i], tree) for i in range(count)]


@jax.jit
def one_of(tree: Any, i: Any) -> Any:
    """Number `i` of the trees that were `stacked`: one program for all arrays and all numbers.

    >>> one_of((jnp.array([1, 2]), jnp.array([3, 4])), 1)[1].item()
    4
    """
    return jax.tree.map(lambda leaf: leaf[i], tree)


def kind(tree: Any) -> Any:
    """What trees of arrays that one program takes have in common: their structure, shapes and types.

    >>> kind({"w": jnp.zeros(2)}) == kind({"w": jnp.ones(2)}), kind(jnp.zeros(2)) == kind(jnp.zeros(3))
    (True, False)
    """
    leaves, structure = jax.tree.flatten(tree)
    return structure, tuple((leaf.shape, str(leaf.dtype)) for leaf in leaves)


def architecture(policy: Any) -> Any:
    """What policies that act through one program have in common; arrays inside of them must be the same."""
    leaves, structure = jax.tree.flatten(policy)
    return structure, tuple(map(id, leaves))


def over_devices(tree: Any) -> Any:
    """Arrays with n in front, spread over all devices where their number divides n.

    >>> over_devices(jax.numpy.zeros(3)).shape
    (3,)
    """
    devices = jax.devices()
    leaves = jax.tree.leaves(tree)
    if len(devices) == 1 or any(leaf.ndim == 0 or leaf.shape[0] % len(devices) for leaf in leaves):
        return tree
    place = NamedSharding(Mesh(devices, ("lanes",)), PartitionSpec("lanes"))
    return jax.device_put(tree, place)


def to_one_device(tree: Any) -> Any:
    """The same arrays on the first device, where they are spread."""
    if len(jax.devices()) == 1:
        return tree
    return jax.device_put(tree, SingleDeviceSharding(jax.devices()[0]))


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
