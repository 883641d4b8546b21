"""What an expert's network makes of an image before it decides: frozen features for a linear policy."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from ..errors import UserError
from ..policies import Encoder, NatureCNN
from .base import Expert


def encoder(expert: Expert) -> Encoder:
    """The convolutions and the dense layer of an expert that is a NatureCNN."""
    found = sees(expert)
    if found is None:
        raise UserError(f"encoder: the expert {expert.name!r} has no image network; name one, as 'ppo-pong'.")
    made = found.network
    if made.sides[0] != made.sides[1] or expert.card.get("normalised"):
        raise UserError(
            f"encoder: the expert {expert.name!r} sees images of {(made.stack, *made.sides)} normalised or "
            "not square; square stacks of frames, read as fractions of 255, can be encoded."
        )
    network = NatureCNN(stack=made.stack, size=made.sides[0], width=made.width, method=made.method)
    return Encoder(network, {name: found.params[name] for name in ("conv", "dense")}, expert.name)


def sees(expert: Expert) -> Encoder | None:
    """The image network of an expert, None where it has none."""
    net = expert.network
    if net is None:
        return None
    if net.encoder is not None:
        return net.encoder
    return Encoder(net.policy, net.params, expert.name) if isinstance(net.policy, NatureCNN) else None


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

    pure, first = expert.pure, int(getattr(expert.action_space, "start", 0))
    best = None if pure is None else lambda observations: pure(observations).argmax(axis=1) + first
    return dataclasses.replace(expert, ask=ask, kind="action", pure=best)
