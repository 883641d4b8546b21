"""A policy on disk: `NAME.safetensors` for the numbers and `NAME.json` for the architecture, no pickle."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from .. import disk
from ..errors import UserError, damaged
from .base import Params, Policy

FORMAT = 1
HEADER = "card"
"""The entry of a safetensors file's header that holds a card."""


def packed(policy: Policy, params: Params, **extra: Any) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """A policy as named arrays and its card, plain data; `unpacked` reads them."""
    leaves = jax.tree_util.tree_flatten_with_path(params)[0]
    arrays = {"params" + jax.tree_util.keystr(path): np.ascontiguousarray(leaf) for path, leaf in leaves}
    names = iter(arrays)
    nesting = jax.tree.map(lambda _: next(names), params)  # of lists and dicts, with names for arrays
    return arrays, {"format": FORMAT, **policy.config(), "params": nesting, **extra}


def save(path: str | os.PathLike[str], policy: Policy, params: Params, **extra: Any) -> Path:
    """Writes `path`.safetensors and `path`.json, each whole and synced (see `disk.write`).

    `extra` is plain data kept beside the architecture (the environment's name, a return, …). The header of
    the safetensors file holds the same, but for `training`, so that it can be read without the other.
    """
    weights = Path(path).with_suffix(".safetensors")
    arrays, card = packed(policy, params, **extra)
    # Without the record of the training, which has times in it: one seed, the same bytes.
    header = {name: value for name, value in card.items() if name != "training"}
    disk.write_tensors(weights, arrays, {HEADER: disk.to_json(header, sort=True)})
    disk.write(weights.with_suffix(".json"), disk.to_json(card, indent=2, sort=True) + "\n")
    return weights


def load(path: str | os.PathLike[str]) -> tuple[Policy, Params, dict[str, Any]]:
    """Reads what `save` wrote: the policy, its parameters (NumPy arrays) and everything in the card."""
    card = read_card(path, "policy")
    found = disk.read_tensors(Path(path).with_suffix(".safetensors"), "policy")[0]
    return *unpacked(found, card, f"policy: {path}"), card


def read_card(
    path: str | os.PathLike[str], field: str, given: str | os.PathLike[str] | None = None
) -> dict[str, Any]:
    """What is known of `path`.safetensors: `path`.json, or the card in its header, with what the file `given`
    says instead. Refused where there is none, or it is damaged or of a newer format.
    """
    file, weights = Path(path).with_suffix(".json"), Path(path).with_suffix(".safetensors")
    card: Any = {}
    if file.is_file():
        card = disk.read_json(file, field)
    elif not weights.is_file():
        raise UserError(f"{field}: there is no file {weights}.")
    else:
        header = disk.read_tensors(weights, field)[1].get(HEADER)
        if header is None and given is None:
            raise UserError(
                f"{field}: nothing says what is in {weights}: there is no card {file.name} beside it and no "
                f"{HEADER!r} in its header; name a card with --expert-card."
            )
        with damaged(f"{field}: the header of {weights}"):
            card = {} if header is None else json.loads(header)
    if given is not None:
        file, more = Path(given), disk.read_json(Path(given), field)
        card = {"format": FORMAT, **card, **more} if isinstance(more, dict) else more
    return known(card, f"{field}: {file}")


def known(card: Any, what: str) -> dict[str, Any]:
    """The card; refused where it is none or of a newer format."""
    if not isinstance(card, dict) or not isinstance(card.get("format"), int):
        raise UserError(f"{what} is not the card of a policy.")
    if card["format"] > FORMAT:
        raise UserError(f"{what} has format {card['format']}, newer than the {FORMAT} known here.")
    return card


def unpacked(found: Mapping[str, np.ndarray], card: dict[str, Any], what: str) -> tuple[Policy, Params]:
    """The policy and the parameters that `packed` made; half-precision tensors are widened."""
    from . import from_config

    arrays = {k: v.astype(np.float32) if v.dtype == np.float16 else v for k, v in found.items()}
    with damaged(what):
        return from_config(card), jax.tree.map(lambda name: arrays[name], card["params"])
