"""Experts that are networks: a policy's file (`.safetensors` with its card beside it) or a finished run. What
such a network makes of an image before it decides are frozen features for a linear policy.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .. import disk
from ..errors import UserError, damaged
from ..nested import batch_size, take
from ..policies import Encoder, NatureCNN, Network, TrainedPolicy
from .base import KINDS, Expert


def load(path: str | os.PathLike[str], *, expert_card: str | os.PathLike[str] | None = None) -> Expert:
    """The expert in a file that `save`, `TrainedPolicy.save` or training wrote, or in the folder of a run.

    Its card is the .json beside it or, where there is none, the entry `card` of its header; what the file
    `expert_card` says goes first.

    Its observations, its normaliser and its actions are those of the policy. A run on choices that learned
    with the cross-entropy loss answers with distributions, and so does a file whose card says so.
    """
    path = Path(path)
    policy, card = TrainedPolicy.read(path, "expert", expert_card)
    return of(policy, {**_about(path), **card} if path.is_dir() else {"name": path.stem, **card})


def of(policy: TrainedPolicy, card: Mapping[str, Any]) -> Expert:
    """The expert that plays a policy; its labels are of the card's `kind`, "action" or "distribution"."""
    kind = card.get("kind", "action")
    if kind not in KINDS:
        raise UserError(f"kind: {kind!r} is not a kind of label; accepted: {', '.join(KINDS)}.")
    if kind == "distribution" and policy.actions.kind != "discrete":
        raise UserError(f"kind: distributions are over Discrete actions, these are {policy.actions.space()}.")
    if policy.remembers:
        return _remembering(policy, card)
    network = policy.network(distribution=kind == "distribution")
    return from_network(
        network,
        kind=kind,
        observation_space=policy.observations.space(),
        action_space=policy.actions.space(),
        card={**card, "kind": kind},
        pure=network.traced(policy.observations, policy.actions, distribution=kind == "distribution"),
    )


def _remembering(policy: TrainedPolicy, card: Mapping[str, Any]) -> Expert:
    """The expert that plays a policy with memory: asked about one state after another of an episode."""

    def ask(observations: Any, infos: Any) -> np.ndarray:
        if batch_size(observations) != 1:
            raise UserError(f"expert: the policy {policy.policy.name!r} remembers one episode at a time.")
        return np.stack([np.asarray(policy.act(take(observations, 0)))])

    return Expert(
        str(card.get("name", "expert")),
        ask=ask,
        observation_space=policy.observations.space(),
        action_space=policy.actions.space(),
        card={**card, "kind": "action"},
        on_reset=policy.reset,
    )


def from_network(network: Network, *, card: Mapping[str, Any], **fields: Any) -> Expert:
    """The expert that answers with a network."""
    return Expert(
        str(card.get("name", "expert")),
        ask=lambda observations, infos: network(observations),
        card=card,
        network=network,
        alike=True,
        **fields,
    )


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


def save(path: str | os.PathLike[str], policy: TrainedPolicy, card: Mapping[str, Any]) -> Path:
    """Writes an expert's weights and card, each whole and synced.

    The card says `kind` ("action" or "distribution"); `name`, `algorithm`, `environments`, `settings`,
    `returns` and `made` are good to know.
    """
    of(policy, card)
    return policy.save(path, **card)


def _about(folder: Path) -> dict[str, Any]:
    """The card of a run: what its configuration says of the policy in it."""
    found: dict[str, Any] = {"name": folder.name}
    if not (folder / "config.json").is_file():
        return found
    with damaged(f"expert: {folder / 'config.json'}"):
        settings = disk.read_json(folder / "config.json", "expert")["settings"]
        made = settings.get("resolved", settings)
        loss = made["loss"]
        soft = isinstance(loss, Mapping) and loss.get("kind") == "CrossEntropy" and not loss.get("groups")
        return found | {
            "algorithm": f"imitation of {made['expert']} by {settings['name']}",
            "environments": [settings["env"]],
            "kind": "distribution" if soft else "action",
        }
