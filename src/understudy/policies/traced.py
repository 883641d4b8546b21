"""A network as a function of observations inside programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from .actions import Actions
from .network import Network
from .observations import Observations


def answering(
    network: Network, seen: Any, actions: Actions, *, distribution: bool = False
) -> Callable[[Any], Array] | None:
    """A network as a function of n observations on the device: its outputs as actions or, with
    `distribution`, as probabilities. None for one that sees through a frozen image network, or otherwise than
    `Observations` do.

    >>> from gymnasium.spaces import Box, Dict, Discrete
    >>> from understudy import Linear
    >>> seen, acts = Observations.of(Dict(a=Box(-1, 1, (1,)), b=Discrete(3))), Actions.of(Discrete(4))
    >>> network = Network(Linear(), jnp.eye(4), seen.rows, acts.plays)
    >>> answering(network, seen, acts)({"a": jnp.array([[0.5]]), "b": jnp.array([2])}).tolist()
    [3]
    """
    if network.encoder is not None or not isinstance(seen, Observations):
        return None

    def answers(batch: Any) -> Array:
        params, inputs = jax.tree.map(jnp.asarray, network.params), seen.rows(batch)
        if network.normaliser is not None:
            inputs = network.normaliser(inputs)
        outputs = network.policy.apply(params, inputs)
        return jax.nn.softmax(outputs) if distribution else actions.plays(outputs)

    return answers
