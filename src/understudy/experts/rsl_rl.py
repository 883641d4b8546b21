"""Checkpoints of rsl_rl (Isaac Lab, mjlab, legged gym) as experts; nothing in the file is run.

A checkpoint `model_1500.pt` is a file of torch.save: a dict of state dicts. Three layouts are known:

    1, 2    model_state_dict: actor.N.*, std or log_std; obs_norm_state_dict: _mean, _std
    3       model_state_dict: actor.N.*, actor_obs_normalizer._mean, …; of distillation student.N.*, …
    4, 5    actor_state_dict (student_state_dict, teacher_state_dict): mlp.N.*, obs_normalizer._mean, …

The activation is in none of them; it is ELU unless `activation` names another.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from ..errors import UserError, damaged
from ..policies import Normaliser
from . import Expert
from .networks import existing, from_layers
from .sb3 import torchfile
from .sb3.layout import dense_layers

if TYPE_CHECKING:
    from . import Space

EPSILON = 1e-2
"""What rsl_rl's EmpiricalNormalization adds to the deviation."""
WHO = ("actor", "student", "teacher")
"""Whose network is taken, where there are several: an actor's, else the student's."""
RECURRENT = ("memory", "rnn")


def load(
    path: str | os.PathLike[str],
    *,
    observation_space: Space | None = None,
    action_space: Space | None = None,
    activation: str | None = None,
    who: str | None = None,
    name: str | None = None,
) -> Expert:
    """The expert in a checkpoint of rsl_rl: its answers are those of `act_inference`, the mean action.

    The file says neither spaces nor activation: the spaces are the environment's, the activation is "elu"
    unless it is given. `who`: "actor", "student" or "teacher", where the checkpoint has several (default: the
    first of these that it has). Recurrent and convolutional networks are refused.
    """
    path, what = existing(path, "checkpoint")
    if who is not None and who not in WHO:
        raise UserError(f"who: {who!r} is not accepted; accepted: {', '.join(WHO)}.")
    with damaged(what):
        wanted = ["model_state_dict", "obs_norm_state_dict", *(f"{owner}_state_dict" for owner in WHO)]
        states = torchfile.checkpoint(path, what, wanted)
        owner, tensors, prefix = _network(states, who, what)
        normaliser = _normaliser(states, tensors, owner)
        layers = dense_layers({k: v for k, v in tensors.items() if k.startswith(f"{prefix}.")}, prefix, what)
        made = {"algorithm": f"rsl_rl, its {owner}", "made": f"read from {path.name}"}
        return from_layers(
            layers,
            what,
            observation_space=observation_space,
            action_space=action_space,
            activation=activation or "elu",
            normaliser=normaliser,
            card={"name": name or path.stem, **made},
        )


def _network(
    states: Mapping[str, Mapping[str, np.ndarray]], who: str | None, what: str
) -> tuple[str, Mapping[str, np.ndarray], str]:
    """Whose network it is, the tensors it is among, and what its layers are called."""
    whole = states.get("model_state_dict", {})
    choices: dict[str, tuple[Mapping[str, np.ndarray], str]] = {}
    for owner in WHO:
        if (own := states.get(f"{owner}_state_dict")) is not None:
            choices[owner] = own, "mlp"
        elif any(key.startswith(f"{owner}.") for key in whole):
            choices[owner] = whole, owner
    chosen = who or next((owner for owner in WHO if owner in choices), "actor")
    if chosen not in choices:
        there = ", ".join(choices) or "none of these"
        raise UserError(f"{what}: has no {chosen} of rsl_rl in it; it has {there}.")
    tensors, prefix = choices[chosen]
    if odd := [key for key in tensors if key.split(".")[0].startswith(RECURRENT)]:
        raise UserError(f"{what}: its {chosen} is recurrent ({odd[0]}); dense networks can be read.")
    return chosen, tensors, prefix


def _normaliser(
    states: Mapping[str, Mapping[str, np.ndarray]], tensors: Mapping[str, np.ndarray], owner: str
) -> Normaliser | None:
    for part, prefix in (
        (tensors, "obs_normalizer."),
        (tensors, f"{owner}_obs_normalizer."),
        (states.get("obs_norm_state_dict", {}), ""),
    ):
        if f"{prefix}_mean" in part:
            mean, deviation = (part[f"{prefix}{name}"].reshape(-1) for name in ("_mean", "_std"))
            return Normaliser(mean, deviation + np.float32(EPSILON))
    return None
