"""Several devices: the environments of a run are spread over them, and a round comes together on the first.

With one device nothing here does anything. Runs that are solved together are spread run by run.
"""

from __future__ import annotations

from typing import Any

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding


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
