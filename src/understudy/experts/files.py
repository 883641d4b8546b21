"""An expert network on disk: `NAME.safetensors` and, beside it, its card `NAME.json`. No pickle.

The card is plain JSON. What is needed to play: `kind` ("action" or "distribution"), `architecture` (`network`
"mlp" or "nature-cnn", `activation`, `head`: "tanh" stretched to the bounds, "clip", "softmax" or "argmax"),
`observation` (`shape`, `dtype`, `low`, `high`) and `action` (`space` "Box" with `low` and `high`, or
"Discrete" with `n`). What is good to know: `name`, `algorithm`, `environments` (the ids it serves),
`settings`, `returns`, `made`. Tensors: `layers.0.weight` (in, out), `layers.0.bias`, …; for images
`conv.0.weight` (HWIO), … and `dense.weight` before them; and, where the network saw standardised
observations, `observation.mean` and `observation.std` with `architecture.clip`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .. import disk
from ..errors import UserError, unknown
from . import network as net
from .base import Expert, rowwise

FORMAT = 1
HEADS = ("tanh", "clip", "softmax", "argmax")
NETWORKS = ("mlp", "nature-cnn")


def load(path: str | os.PathLike[str]) -> Expert:
    """The expert in `path` (.safetensors) with its card (.json) beside it."""
    network, card = read(path)
    return as_expert(network, card)


def read(path: str | os.PathLike[str]) -> tuple[net.Network, dict[str, Any]]:
    """The network and the card of an expert on disk, for its features as well as its answers."""
    weights = Path(path)
    card = read_card(weights.with_suffix(".json"))
    return build(disk.read_tensors(weights, "expert")[0], card), card


def read_card(path: Path) -> dict[str, Any]:
    """A card, refused when it is missing, damaged or of a newer format."""
    if not path.is_file():
        raise UserError(f"expert: there is no card {path} beside the weights.")
    card = disk.read_json(path, "expert")
    if not isinstance(card, dict) or not isinstance(card.get("format"), int):
        raise UserError(f"expert: {path} is not the card of an expert.")
    if card["format"] > FORMAT:
        raise UserError(
            f"expert: the card {path} has format {card['format']}, newer than the {FORMAT} known here."
        )
    return card


def save(path: str | os.PathLike[str], tensors: Mapping[str, np.ndarray], card: Mapping[str, Any]) -> Path:
    """Writes weights and card, each whole and synced; what could not be loaded again is refused first."""
    card = {"format": FORMAT, **card}
    build(tensors, card)
    weights = Path(path).with_suffix(".safetensors")
    disk.write_tensors(weights, tensors)
    disk.write(weights.with_suffix(".json"), disk.to_json(card, indent=2) + "\n")
    return weights


def build(tensors: Mapping[str, np.ndarray], card: Mapping[str, Any]) -> net.Network:
    """The network that a card describes, from its tensors; half-precision ones are widened."""
    try:
        return _build({name: np.asarray(value, np.float32) for name, value in tensors.items()}, card)
    except KeyError as error:
        raise UserError(f"expert {card.get('name', '')!r}: its card or weights lack {error}.") from None


def _build(tensors: dict[str, np.ndarray], card: Mapping[str, Any]) -> net.Network:
    made = card["architecture"]
    if made["network"] not in NETWORKS:
        raise unknown("architecture.network", made["network"], NETWORKS)
    count = 0
    while f"layers.{count}.weight" in tensors:
        count += 1
    mlp = net.Mlp(
        [tensors[f"layers.{i}.weight"] for i in range(count)],
        [tensors[f"layers.{i}.bias"] for i in range(count)],
        made.get("activation", "relu"),
    )
    cnn = None
    if made["network"] == "nature-cnn":
        kernels = [tensors[f"conv.{i}.weight"] for i in range(3)]
        biases = [tensors[f"conv.{i}.bias"] for i in range(3)]
        cnn = net.NatureCnn(kernels, biases, tensors["dense.weight"], tensors["dense.bias"])
    inputs = cnn.features if cnn else int(np.prod(card["observation"]["shape"]))
    action = card["action"]
    outputs = int(action["n"]) if action["space"] == "Discrete" else len(action["low"])
    if (mlp.widths[0], mlp.widths[-1]) != (inputs, outputs):
        raise UserError(
            f"expert {card.get('name', '')!r}: its network goes from {mlp.widths[0]} to {mlp.widths[-1]} "
            f"numbers, its card says from {inputs} to {outputs}."
        )
    return net.Network(mlp, _head(made["head"], action), _standardiser(tensors, made), cnn)


def _head(name: str, action: Mapping[str, Any]) -> net.Row:
    if name not in HEADS:
        raise unknown("architecture.head", name, HEADS)
    if (name in ("tanh", "clip")) != (action["space"] == "Box"):
        raise UserError(f"architecture.head: {name!r} does not go with {action['space']} actions.")
    if name == "softmax":
        return net.softmax
    if name == "argmax":
        return net.argmax()
    return {"tanh": net.squash, "clip": net.clip}[name](np.asarray(action["low"]), np.asarray(action["high"]))


def _standardiser(tensors: Mapping[str, np.ndarray], made: Mapping[str, Any]) -> net.Row | None:
    if "observation.mean" not in tensors:
        return None
    mean, std, limit = (
        tensors["observation.mean"],
        tensors["observation.std"],
        float(made.get("clip", np.inf)),
    )
    return lambda x: np.minimum(np.maximum((np.asarray(x, np.float32) - mean) / std, -limit), limit)


def as_expert(network: net.Network, card: Mapping[str, Any]) -> Expert:
    """The expert that plays a network as its card says."""
    from gymnasium import spaces

    seen, action = card["observation"], card["action"]
    observation_space = spaces.Box(
        seen.get("low", -np.inf),
        seen.get("high", np.inf),
        tuple(seen["shape"]),
        np.dtype(seen.get("dtype", "float32")),
    )
    if action["space"] == "Discrete":
        action_space = spaces.Discrete(int(action["n"]))
    else:
        action_space = spaces.Box(
            np.asarray(action["low"], np.float32), np.asarray(action["high"], np.float32)
        )
    return Expert(
        str(card.get("name", "expert")),
        ask=rowwise(network),
        kind=card["kind"],
        observation_space=observation_space,
        action_space=action_space,
        card=card,
        network=network,
    )
