"""A policy on disk: `NAME.safetensors` for the numbers and `NAME.json` for the architecture, no pickle."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import jax
import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file
from safetensors.numpy import save as as_bytes

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
    """Writes `path`.safetensors and `path`.json, each by rename so that a kill leaves old or new, never half.

    `extra` is plain data kept beside the architecture (the environment's name, a return, …).
    """
    base = Path(path)
    base.parent.mkdir(parents=True, exist_ok=True)
    weights, card = base.with_suffix(".safetensors"), base.with_suffix(".json")
    # Not by save_file: it makes files that only their owner can read, whatever the umask.
    Path(str(weights) + ".tmp").write_bytes(as_bytes(_named(params)))
    text = json.dumps(
        {"format": FORMAT, **policy.config(), "params": _skeleton(params), **extra}, indent=2, sort_keys=True
    )
    Path(str(card) + ".tmp").write_text(text + "\n")
    os.replace(str(weights) + ".tmp", weights)
    os.replace(str(card) + ".tmp", card)
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
        data = json.loads(card.read_text())
        if data["format"] > FORMAT:
            raise UserError(
                f"policy: {card} has format {data['format']}, newer than the {FORMAT} known here."
            )
        arrays = load_file(weights)
        params = jax.tree.map(lambda name: arrays[name], data["params"])
    except (ValueError, KeyError, TypeError, SafetensorError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"policy: {base} is damaged ({type(error).__name__}: {error}).") from None
    return from_config(data), params, data
