"""The files of a policy: `NAME.safetensors` for the numbers and `NAME.json`, its card, no pickle."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .. import disk
from ..errors import UserError, damaged

FORMAT = 1
HEADER = "card"
"""The entry of a safetensors file's header that holds a card."""


def place(path: str | os.PathLike[str]) -> Path:
    """The file with the numbers; the ending may be left out, or be the card's.

    >>> place("runs/rate-0.5").name, place("hopper.json").name
    ('rate-0.5.safetensors', 'hopper.safetensors')
    """
    path = Path(path)
    stem = path.stem if path.suffix in (".safetensors", ".json") else path.name
    return path.with_name(f"{stem}.safetensors")


def write(path: str | os.PathLike[str], arrays: Mapping[str, np.ndarray], card: Mapping[str, Any]) -> Path:
    """Writes both files, each whole and synced (see `disk.write`). The header of the safetensors file holds
    the card too, but for `training`, so that it can be read without the other.
    """
    weights = place(path)
    # Without the record of the training, which has times in it: one seed, the same bytes.
    header = {name: value for name, value in card.items() if name != "training"}
    disk.write_tensors(weights, arrays, {HEADER: disk.to_json(header, sort=True)})
    disk.write(weights.with_suffix(".json"), disk.to_json(card, indent=2, sort=True) + "\n")
    return weights


def read(
    path: str | os.PathLike[str], field: str, given: str | os.PathLike[str] | None = None
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays and the card: the .json, or the one in the header, with what the file `given` says instead.
    Refused where there is none, or it is damaged or of a newer format.
    """
    weights = place(path)
    file = weights.with_suffix(".json")
    arrays, metadata = disk.read_tensors(weights, field)
    card: Any = {}
    if file.is_file():
        card = disk.read_json(file, field)
    elif HEADER in metadata:
        with damaged(f"{field}: the header of {weights}"):
            card = json.loads(metadata[HEADER])
    elif given is None:
        raise UserError(
            f"{field}: nothing says what is in {weights}: there is no card {file.name} beside it and no "
            f"{HEADER!r} in its header; name a card with --expert-card."
        )
    if given is not None:
        file, more = Path(given), disk.read_json(Path(given), field)
        card = {"format": FORMAT, **card, **more} if isinstance(more, dict) else more
    return arrays, known(card, f"{field}: {file}")


def known(card: Any, what: str) -> dict[str, Any]:
    """The card; refused where it is none or of a newer format."""
    if not isinstance(card, dict) or not isinstance(card.get("format"), int):
        raise UserError(f"{what} is not the card of a policy.")
    if card["format"] > FORMAT:
        raise UserError(f"{what} has format {card['format']}, newer than the {FORMAT} known here.")
    return card
