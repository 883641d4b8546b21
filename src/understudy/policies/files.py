"""A policy on disk: `NAME.safetensors` for the numbers and `NAME.json` for the architecture, no pickle."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import jax
import numpy as np

from .. import disk
from ..errors import UserError
from .base import Params, Policy

FORMAT = 1


def _named(params: Params) -> dict[str, np.ndarray]:
    leaves = jax.tree_util.tree_flatten_with_path(params)[0]
    return {"params" + jax.tree_util.keystr(path): np.ascontiguousarray(leaf) for path, leaf in leaves}


def _skeleton(params: Params) -> Any:
    """The nesting of lists and dicts with every array replaced by its name."""
    names = iter(_named(params))
    return jax.tree.map(lambda _: next(names), params)


def save(path: str | os.PathLike[str], policy: Policy, params: Params, **extra: Any) -> Path:
    """Writes `path`.safetensors and `path`.json, each whole and synced (see `disk.write`).

    `extra` is plain data kept beside the architecture (the environment's name, a return, …).
    """
    weights = Path(path).with_suffix(".safetensors")
    card = {"format": FORMAT, **policy.config(), "params": _skeleton(params), **extra}
    disk.write_tensors(weights, _named(params))
    disk.write(weights.with_suffix(".json"), disk.to_json(card, indent=2, sort=True) + "\n")
    return weights


def load(path: str | os.PathLike[str]) -> tuple[Policy, Params, dict[str, Any]]:
    """Reads what `save` wrote: the policy, its parameters (NumPy arrays) and everything in the card."""
    from . import from_config

    base = Path(path)
    weights, card = base.with_suffix(".safetensors"), base.with_suffix(".json")
    for file in (weights, card):
        if not file.is_file():
            raise UserError(f"policy: there is no file {file}; expected what save({str(base)!r}, …) writes.")
    try:
        data = disk.read_json(card, "policy")
        if data["format"] > FORMAT:
            raise UserError(
                f"policy: {card} has format {data['format']}, newer than the {FORMAT} known here."
            )
        arrays = disk.read_tensors(weights, "policy")[0]
        params = jax.tree.map(lambda name: arrays[name], data["params"])
    except (ValueError, KeyError, TypeError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"policy: {base} is damaged ({type(error).__name__}: {error}).") from None
    return from_config(data), params, data
