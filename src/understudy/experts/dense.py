"""An expert from dense layers alone, in the spaces of the environment it is used in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import UserError, among
from ..policies import MLP, Actions, Network, Normaliser, require_fit
from ..policies.mlp import ACTIVATIONS
from .base import Expert
from .networks import from_network
from .sb3.layout import as_rows, flat_size, rows_of


def expert(
    layers: Sequence[Mapping[str, np.ndarray]],
    what: str,
    *,
    observation_space: Any = None,
    action_space: Any = None,
    activation: str,
    card: Mapping[str, Any],
    normaliser: Normaliser | None = None,
    head: str = "identity",
) -> Expert:
    """The expert that answers with a network of these layers, ``{"weight": (in, out), "bias": (out,)}``.

    Spaces that are None are taken from the layers. Where the network gives twice as many numbers as an action
    has, the first half is the mean and the second the deviation, which is left out.
    """
    from gymnasium import spaces

    among("activation", activation, ACTIVATIONS)
    if not layers:
        raise UserError(f"{what}: holds no dense layer.")
    takes, gives = layers[0]["weight"].shape[0], layers[-1]["bias"].size
    seen = spaces.Box(-np.inf, np.inf, (takes,)) if observation_space is None else observation_space
    acts = spaces.Box(-np.inf, np.inf, (gives,)) if action_space is None else action_space
    if not isinstance(acts, spaces.Box):
        raise UserError(f"{what}: its actions are numbers (Box); the environment's are {acts}.")
    if flat_size(seen, what) != takes:
        raise UserError(
            f"{what}: its network takes {takes} numbers, the observations have {flat_size(seen, what)}; "
            "expert_sees says which of them it sees."
        )
    actions = Actions.of(acts)
    if gives not in (actions.outputs, 2 * actions.outputs):
        raise UserError(f"{what}: its network gives {gives} numbers, actions {acts} have {actions.outputs}.")
    if normaliser is not None and normaliser.mean.size != takes:
        raise UserError(f"{what}: it normalises {normaliser.mean.size} numbers, its network takes {takes}.")
    params = [dict(layer) for layer in layers]
    params[-1] = {
        name: np.ascontiguousarray(part[..., : actions.outputs]) for name, part in params[-1].items()
    }
    policy = MLP(tuple(layer["bias"].size for layer in params[:-1]), activation, head)
    require_fit(what, policy, params, takes, actions.outputs)
    network = Network(policy, params, rows_of(seen, True, what), actions.plays, normaliser)
    widths = [takes, *(layer["bias"].size for layer in params)]
    about = {
        "kind": "action",
        "architecture": {"network": "mlp", "widths": widths, "activation": activation},
        "normalised": normaliser is not None,
    }
    return from_network(
        network,
        observation_space=seen,
        action_space=acts,
        card={**card, **about},
        pure=network.traced(as_rows(seen), actions),
    )
