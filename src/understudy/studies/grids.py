"""Values along an axis, as they are typed: lists, and ranges with equal factors or equal distances."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import UserError

RANGE = re.compile(r"([^:,]+):([^:,]+):(log|lin)(\d+)")
NEARLY = re.compile(r"[-+.\de]+:[^,]*")
"""What begins as a range does: a number and a colon."""
MOST_VALUES = 10_000
"""Most values along one axis; a longer one is a typing error."""


def values(field: str, given: Any) -> tuple[Any, ...]:
    """The values of an axis: a sequence as it is, a text as it is typed on the command line.

    ``a,b,c`` is a list, ``lo:hi:logN`` are N values with equal factors between, ``lo:hi:linN`` with equal
    distances; both ends are included. Words that read as numbers, true, false or null become those.

    >>> values("step", "1e-2:1e2:log5"), values("loss", "squared,huber"), values("rounds", (5, 10))
    ((0.01, 0.1, 1.0, 10.0, 100.0), ('squared', 'huber'), (5, 10))
    """
    if isinstance(given, str):
        matched = RANGE.fullmatch(given)
        found = _range(field, matched) if matched else tuple(map(word, given.split(",")))
        if any(one == "" for one in found) or (not matched and NEARLY.fullmatch(given)):
            raise _not(field, given)
    elif isinstance(given, (bool, int, float, np.generic)):
        found = (_plain(given),)
    elif isinstance(given, (Sequence, np.ndarray)) and not isinstance(given, bytes):
        found = tuple(map(_plain, given))
    else:
        raise _not(field, given)
    if not found:
        raise UserError(f"{field}: the axis is empty; at least one value is needed.")
    spelt = []
    for one in found:
        if isinstance(one, float) and not math.isfinite(one):
            raise UserError(f"{field}: {one!r} is not finite.")
        try:
            spelt.append(json.dumps(one, sort_keys=True))
        except TypeError:
            raise UserError(
                f"{field}: {one!r} is not plain: numbers, words, lists and mappings are."
            ) from None
    if twice := [one for place, one in enumerate(spelt) if one in spelt[:place]]:
        raise UserError(f"{field}: {twice[0]} is there twice; name every value once.")
    return found


def _plain(value: Any) -> Any:
    """NumPy's number as Python's, and a list as a tuple: what is tuned is looked up by its values."""
    value = value.item() if isinstance(value, np.generic) else value
    return tuple(value) if isinstance(value, list) else value


def word(text: str) -> Any:
    """A typed word as a number, truth value or None where it reads as one.

    >>> word("3"), word("1e-3"), word("true"), word("squared")
    (3, 0.001, True, 'squared')
    """
    text = text.strip()
    if text in ("true", "false", "null"):
        return {"true": True, "false": False}.get(text)
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def axis(text: str) -> tuple[str, tuple[Any, ...]]:
    """``name=values`` as typed.

    >>> axis("eta=0.1,1")
    ('eta', (0.1, 1))
    """
    name, equals, rest = text.partition("=")
    if not equals or not name or not rest:
        raise UserError(f"grid: {text!r} is not NAME=VALUES, as step=1e-5:1e5:log11 or loss=squared,huber.")
    return name.replace("-", "_"), values(name, rest)


def _range(field: str, matched: re.Match[str]) -> tuple[float, ...]:
    text = matched[0]
    try:
        low, high = float(matched[1]), float(matched[2])
    except ValueError:
        raise _not(field, text) from None
    count, log = int(matched[4]), matched[3] == "log"
    if not (math.isfinite(low) and math.isfinite(high) and low < high) or not 2 <= count <= MOST_VALUES:
        raise UserError(f"{field}: {text!r} needs finite lo < hi and between 2 and {MOST_VALUES} values.")
    if log and low <= 0:
        raise UserError(f"{field}: {text!r} has equal factors between its values, so lo must be > 0.")
    if log:
        found = 10 ** np.linspace(math.log10(low), math.log10(high), count)
    else:
        found = np.linspace(low, high, count)
    # Twelve digits: 1e-05 is then the very number that one would type.
    return tuple(float(f"{one:.12g}") for one in found)


def _not(field: str, given: Any) -> UserError:
    return UserError(f"{field}: {given!r} is neither a list (a,b,c) nor a range (lo:hi:logN, lo:hi:linN).")
