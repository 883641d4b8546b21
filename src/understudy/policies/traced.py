"""What `Observations`, `Actions` and `Normaliser` do, on arrays of the device, inside programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ..nested import at
from .actions import Actions
from .network import Network
from .normaliser import Normaliser
from .observations import Leaf, Observations


def rows(observations: Observations, batch: Any) -> Array:
    """A batch of observations (n in front) as rows (n, width): `Observations.rows`.

    >>> from gymnasium.spaces import Box, Dict, Discrete
    >>> seen = Observations.of(Dict(a=Box(-1, 1, (2,)), b=Discrete(3)))
    >>> rows(seen, {"a": jnp.array([[0.5, -0.5]]), "b": jnp.array([2])}).tolist()
    [[0.5, -0.5, 0.0, 0.0, 1.0]]
    """
    parts = [_encoded(leaf, at(batch, leaf.path), observations.dtype) for leaf in observations.leaves]
    return jnp.concatenate(parts, axis=1).astype(observations.dtype)


def _encoded(leaf: Leaf, value: Array, dtype: Any) -> Array:
    flat = jnp.reshape(value, (value.shape[0], -1))
    if leaf.kind == "number":
        flat = flat.astype(jnp.float32)
        return flat[:, jnp.array(leaf.picks)] if leaf.picks else flat
    if leaf.kind == "byte":
        return flat if dtype == np.uint8 else flat.astype(jnp.float32) / np.float32(255)
    whole = flat.astype(jnp.int32) - jnp.array(leaf.starts, jnp.int32)
    if leaf.kind == "state":
        return whole
    return _choices(whole, leaf.counts)


def _choices(whole: Array, counts: tuple[int, ...]) -> Array:
    hot = [jax.nn.one_hot(whole[:, j], n, dtype=jnp.float32) for j, n in enumerate(counts)]
    return jnp.concatenate(hot, axis=1)


def plays(actions: Actions, outputs: Array) -> Array:
    """The deterministic actions for rows of outputs, n in front: `Actions.plays`.

    >>> from gymnasium.spaces import Discrete
    >>> plays(Actions.of(Discrete(3)), jnp.array([[0.1, 0.7, 0.2]])).tolist()
    [1]
    """
    if actions.kind == "box":
        assert actions.low is not None and actions.high is not None
        clipped = jnp.minimum(jnp.maximum(outputs.astype(jnp.float32), actions.low), actions.high)
        return clipped.reshape(len(outputs), *actions.shape)
    if actions.kind == "discrete":
        return jnp.argmax(outputs, axis=1).astype(jnp.int32) + actions.starts[0]
    edges = np.cumsum(actions.counts)[:-1]
    chosen = [jnp.argmax(group, axis=1) for group in jnp.split(outputs, edges, axis=1)]
    whole = jnp.stack(chosen, axis=1).astype(jnp.int32) + jnp.array(actions.starts, jnp.int32)
    return whole.reshape(len(outputs), *actions.shape)


def targets(actions: Actions, labels: Array, kind: str) -> Array:
    """Answers as target rows (n, outputs): `Actions.targets`."""
    flat = labels.reshape(len(labels), -1)
    if actions.kind == "box" or kind == "distribution":
        return flat.astype(jnp.float32)
    return _choices(flat.astype(jnp.int32) - jnp.array(actions.starts, jnp.int32), actions.counts)


def standardised(normaliser: Normaliser, numbers: Array) -> Array:
    """``(x − mean) / scale``, clipped: `Normaliser`, in float32."""
    if normaliser.nothing:
        return numbers
    numbers = (numbers - normaliser.mean.astype(np.float32)) / normaliser.scale.astype(np.float32)
    return (
        jnp.clip(numbers, -normaliser.limit, normaliser.limit) if np.isfinite(normaliser.limit) else numbers
    )


def answering(
    network: Network, seen: Any, actions: Actions, *, distribution: bool = False
) -> Callable[[Any], Array] | None:
    """A network as a function of n observations on the device: its outputs as actions or, with
    `distribution`, as probabilities. None for one that sees through a frozen image network, or otherwise than
    `Observations` do.
    """
    if network.encoder is not None or not isinstance(seen, Observations):
        return None

    def answers(batch: Any) -> Array:
        params, inputs = jax.tree.map(jnp.asarray, network.params), rows(seen, batch)
        if network.normaliser is not None:
            inputs = standardised(network.normaliser, inputs)
        outputs = network.policy.apply(params, inputs)
        return jax.nn.softmax(outputs) if distribution else plays(actions, outputs)

    return answers
