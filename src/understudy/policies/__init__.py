"""Policies: parameters in, actions out."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from ..errors import UserError, unknown
from ..registry import Registry
from .acting import Encoded, Encoder, Network, Seen, require_fit, softmax
from .base import Linear, Params, Policy, Tabular, flat, norm
from .camera import Camera
from .codecs import Actions, History, Normaliser, Observations, Recalled, not_finite_rows, require_finite
from .gru import GRU
from .guest import Guest, Job, Student, adopted
from .mlp import MLP, Committee
from .nature_cnn import NatureCNN
from .trained import TrainedPolicy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..disk import Json

POLICIES: Registry[Policy] = Registry(
    "policy",
    Policy,
    {one.name: one for one in (Linear, Tabular, MLP, GRU, Committee, NatureCNN, Camera)},
    group="policies",
    adopt=adopted,
)


def from_config(config: Mapping[str, Json]) -> Policy:
    """The policy that `Policy.config()` described; fields that it does not have are left out."""
    name = config["policy"]
    # Never module:name, which would let a file choose what is imported.
    if not isinstance(name, str) or name not in POLICIES:
        raise unknown("policy", name, POLICIES.names())
    maker = POLICIES.maker(name)
    if not (isinstance(maker, type) and issubclass(maker, Policy)):
        raise UserError(f"policy: {name!r} cannot be made from a file.")
    fields = {field.name for field in dataclasses.fields(maker)}
    return maker(**{k: tuple(v) if isinstance(v, list) else v for k, v in config.items() if k in fields})


__all__ = ["GRU", "MLP", "POLICIES", "Actions", "Camera", "Committee", "Encoded", "Encoder", "Guest"]
__all__ += ["History", "Job", "Linear", "NatureCNN", "Network", "Normaliser", "Observations", "Params"]
__all__ += ["Policy", "Recalled", "Seen", "Student", "Tabular", "TrainedPolicy", "flat", "from_config"]
__all__ += ["norm", "not_finite_rows", "require_finite", "require_fit", "softmax"]
