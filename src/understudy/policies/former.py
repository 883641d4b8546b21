"""The former file format of experts, as the shipped ones have it; nothing writes it any more.

The card `NAME.json` has `architecture` (`network` "mlp" or "nature-cnn", `activation`, `head`: "tanh"
stretched to the bounds, "clip", "softmax" or "argmax"), `observation` (`shape`, `dtype`, `low`, `high`) and
`action` (`space` "Box" with `low` and `high`, or "Discrete" with `n`). Tensors: `layers.0.weight` (in, out),
`layers.0.bias`, …; for images `conv.0.weight` (HWIO), … and `dense.weight` before them; and, where the
network saw standardised observations, `observation.mean` and `observation.std` with `architecture.clip`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .. import disk
from ..errors import UserError, unknown
from .base import Params, Policy
from .mlp import MLP
from .nature_cnn import NatureCNN
from .network import require_fit
from .normaliser import Normaliser
from .spaces import Actions, Leaf, Observations

HEADS = ("tanh", "clip", "softmax", "argmax")
NETWORKS = ("mlp", "nature-cnn")
Made = tuple[Policy, Params, Observations, Actions, Normaliser]


def read(path: str | os.PathLike[str], card: Mapping[str, Any], field: str) -> Made:
    """The parts of a `TrainedPolicy`; half-precision tensors are widened."""
    arrays = disk.read_tensors(Path(path).with_suffix(".safetensors"), field)[0]
    tensors = {name: np.asarray(value, np.float32) for name, value in arrays.items()}
    try:
        return _made(tensors, card, f"{field} {card.get('name', '')!r}")
    except KeyError as error:
        raise UserError(f"{field} {card.get('name', '')!r}: its card or weights lack {error}.") from None


def _made(tensors: dict[str, np.ndarray], card: Mapping[str, Any], what: str) -> Made:
    made, shape = card["architecture"], tuple(card["observation"]["shape"])
    if made["network"] not in NETWORKS:
        raise unknown("architecture.network", made["network"], NETWORKS)
    actions = _actions(card["action"])
    layers, bounds = _layers(tensors, "layers"), _bounds(made["head"], actions)
    policy: Policy
    params: Params
    if made["network"] == "nature-cnn":
        conv, dense = _layers(tensors, "conv"), _layer(tensors, "dense")
        width = dense["weight"].shape[1]
        policy = NatureCNN(stack=shape[0], size=(shape[1], shape[2]), width=width, method="single")
        if len(layers) != 1:
            raise UserError(f"{what}: has {len(layers)} layers after its convolutions; one can be read.")
        params = {"conv": conv, "dense": dense, "head": layers[0]}
    else:
        widths = tuple(layer["weight"].shape[1] for layer in layers[:-1])
        policy = MLP(widths=widths, activation=made.get("activation", "relu"), **bounds)
        params = layers
    kind = "byte" if np.dtype(card["observation"].get("dtype", "float32")) == np.uint8 else "number"
    seen = Observations([Leaf((), kind, shape)])
    require_fit(what, policy, params, seen.width, actions.outputs)
    normaliser = Normaliser.identity(seen.width)
    if "observation.mean" in tensors:
        mean, std = (tensors[f"observation.{name}"] for name in ("mean", "std"))
        normaliser = Normaliser(mean, std, float(made.get("clip", math.inf)))
    return policy, params, seen, actions, normaliser


def _layers(tensors: Mapping[str, np.ndarray], name: str) -> list[dict[str, np.ndarray]]:
    count = 0
    while f"{name}.{count}.weight" in tensors:
        count += 1
    return [_layer(tensors, f"{name}.{i}") for i in range(count)]


def _layer(tensors: Mapping[str, np.ndarray], name: str) -> dict[str, np.ndarray]:
    return {part: np.ascontiguousarray(tensors[f"{name}.{part}"]) for part in ("weight", "bias")}


def _actions(card: Mapping[str, Any]) -> Actions:
    from gymnasium import spaces

    if card["space"] == "Discrete":
        return Actions.of(spaces.Discrete(int(card["n"])))
    low, high = (np.asarray(card[edge], np.float32) for edge in ("low", "high"))
    return Actions.of(spaces.Box(low, high))


def _bounds(head: str, actions: Actions) -> dict[str, Any]:
    """The head as an option of `MLP`: the others are how an action is taken from outputs."""
    if head not in HEADS:
        raise unknown("architecture.head", head, HEADS)
    if (head in ("tanh", "clip")) != (actions.kind == "box"):
        kind = "Box" if actions.kind == "box" else "Discrete"
        raise UserError(f"architecture.head: {head!r} does not go with {kind} actions.")
    if head != "tanh" or actions.low is None or actions.high is None:
        return {}
    low, high = (tuple(edge.astype(float).tolist()) for edge in (actions.low, actions.high))
    return {"head": "sb3-tanh", "low": low, "high": high}
