"""What an expert's network makes of an image before it decides: frozen features for a linear policy."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from ..errors import UserError
from ..policies import Encoder, NatureCNN
from ..policies.nature_cnn import encoder_params
from .base import Expert


def encoder(expert: Expert) -> Encoder:
    """The convolutions and the dense layer of an expert that is a NatureCNN (shipped, or of an archive)."""
    found = expert.network
    if found is None or found.cnn is None:
        raise UserError(
            f"encoder: the expert {expert.name!r} has no image network; name one that has, as 'ppo-pong'."
        )
    cnn = found.cnn
    stack = cnn.kernels[0].shape[2]
    shape = tuple(getattr(expert.observation_space, "shape", None) or (stack, 84, 84))
    plain = cnn.channels_first and math.isclose(cnn.scale, 1 / 255) and not expert.card.get("normalised")
    if shape[0] != stack or shape[1] != shape[2] or not plain:
        raise UserError(
            f"encoder: the expert {expert.name!r} sees images of shape {shape} in a way of its own; square "
            "stacks of frames, channels first, as fractions of 255, can be encoded."
        )
    network = NatureCNN(stack=stack, size=shape[1], width=cnn.features)
    dense = {"weight": cnn.dense_weight, "bias": cnn.dense_bias}
    params = encoder_params(zip(cnn.kernels, cnn.conv_biases, strict=True), dense)
    return Encoder(network, params, expert.name)


def head(expert: Expert) -> tuple[np.ndarray, np.ndarray]:
    """Weight (features, k) and bias (k,) of an expert whose logits are linear in its features."""
    layers = expert.network.mlp
    if len(layers.weights) != 1:
        raise UserError(f"expert {expert.name!r}: its logits are not linear in the features of its images.")
    return layers.weights[0], layers.biases[0]


def mode(expert: Expert) -> Expert:
    """The same expert, which answers with its most probable action instead of its distribution.

    >>> coin = Expert("coin", ask=lambda o, i: np.full((len(o), 2), [0.25, 0.75]), kind="distribution")
    >>> mode(coin).label(np.zeros((2, 1)))
    array([1, 1])
    """
    if expert.kind == "action":
        return expert

    def ask(observations: Any, infos: Any) -> np.ndarray:
        return expert.act(observations, infos)

    return dataclasses.replace(expert, ask=ask, kind="action")
