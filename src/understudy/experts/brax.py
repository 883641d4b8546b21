"""Parameters of brax's PPO as experts: from memory, or from files that hold numbers and nothing else.

They are a tuple: the statistics of observations, the policy's parameters, (the value function's). Its layers
are hidden_0, hidden_1, …; the last gives the mean and the deviation, and the action is tanh of the mean. In a
file they are read from flax's msgpack (``flax.serialization.to_bytes(params)``) or from an .npz with names
such as 0/mean, 0/std, 1/params/hidden_0/kernel. brax's own save_params writes a pickle, which is never read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from .. import disk
from ..errors import UserError, damaged
from ..nested import nest
from ..policies import Normaliser
from .base import Expert
from .msgpack import unpack
from .networks import dense

KEYS = ("state", "proprio", "obs")
"""Which of several groups of observations the policy sees, where brax keeps statistics of all."""


def load(path: str | os.PathLike[str], **options: Any) -> Expert:
    """The expert in a file with brax's parameters; see `from_params` for the options."""
    path = Path(path)
    what = f"file {path.name!r}"
    if not os.path.isfile(path):
        raise UserError(f"expert: there is no file {path}.")
    with damaged(what):
        tree = _archive(path, what) if path.suffix == ".npz" else unpack(path.read_bytes(), what)
    return from_params(tree, what=what, **{"name": path.stem, **options})


def from_params(
    params: Any,
    *,
    observation_space: Any = None,
    action_space: Any = None,
    activation: str | None = None,
    name: str | None = None,
    what: str = "brax parameters",
) -> Expert:
    """The expert that plays brax's PPO parameters: (statistics, policy, …), or the dict of them that a file
    holds. `activation` is "silu" (brax's default, swish) unless it is given.

    >>> layers = {"hidden_0": {"kernel": np.ones((2, 2)), "bias": np.zeros(2)}}
    >>> made = from_params(({"mean": np.zeros(2), "std": np.ones(2)}, {"params": layers}))
    >>> made.label(np.array([[0.25, 0.25]])).shape  # a mean and a deviation are one action
    (1, 1)
    """
    with damaged(what):
        statistics, policy = (_part(params, number, what) for number in (0, 1))
        inner = policy.get("params", policy)
        if not isinstance(inner, Mapping) or "hidden_0" not in inner:
            raise UserError(f"{what}: the policy has no layers hidden_0, hidden_1, …, as brax's have.")
        layers = []
        while f"hidden_{len(layers)}" in inner:
            one = inner[f"hidden_{len(layers)}"]
            layers.append({"weight": _numbers(one["kernel"], what), "bias": _numbers(one["bias"], what)})
        if odd := [key for key in inner if key not in {f"hidden_{i}" for i in range(len(layers))}]:
            raise UserError(f"{what}: {odd[0]!r} is not part of a plain network of dense layers.")
        if action_space is None:
            action_space = spaces.Box(-1.0, 1.0, (layers[-1]["bias"].size // 2,))
        return dense(
            layers,
            what,
            observation_space=observation_space,
            action_space=action_space,
            activation=activation or "silu",
            head="tanh",
            normaliser=_normaliser(statistics, what),
            card={"name": name or "brax", "algorithm": "PPO (brax)", "made": f"read from {what}"},
        )


def _part(params: Any, number: int, what: str) -> Any:
    """A part of the tuple, as a mapping: a dataclass by its fields, a msgpack tuple by its numbers."""
    if isinstance(params, Mapping):
        params = [params[key] for key in sorted(params, key=str)] if "0" in params else params
    if not isinstance(params, list | tuple) or len(params) < 2:
        raise UserError(f"{what}: is not brax's (statistics, policy, …).")
    one = params[number]
    return one if one is None or isinstance(one, Mapping) else vars(one)


def _normaliser(statistics: Any, what: str) -> Normaliser | None:
    if not statistics:
        return None
    mean, deviation = statistics["mean"], statistics["std"]
    if isinstance(mean, Mapping):
        key = next((key for key in KEYS if key in mean), next(iter(mean)))
        mean, deviation = mean[key], deviation[key]
    return Normaliser(_numbers(mean, what).reshape(-1), _numbers(deviation, what).reshape(-1))


def _numbers(value: Any, what: str) -> np.ndarray:
    found = np.asarray(value)
    if found.dtype.kind not in "fiu" or not np.isfinite(found).all():
        raise UserError(f"{what}: holds an array that is not of finite numbers.")
    return np.ascontiguousarray(found, np.float32)


def _archive(path: Path, what: str) -> dict[str, Any]:
    """The arrays of an .npz, nested by their names."""
    arrays = [(tuple(re.split(r"[/.]", name)), array) for name, array in disk.read_npz(path, what).items()]
    return nest(arrays) if arrays else {}
