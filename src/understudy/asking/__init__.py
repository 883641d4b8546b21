"""Ask rules: which states of a round the expert is asked about, and with which probability."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..errors import UserError
from ..registry import Registry
from .base import Asked, Gate, Rule, View
from .distance import Distance
from .rules import All, Driven, Fraction, Leverage, Radius, Random
from .scored import Disagreement

if TYPE_CHECKING:
    from ..disk import Json

RULES: Registry[Any] = Registry(
    "ask",
    Rule,
    {
        "all": All,
        "driven": Driven,
        "random": Random,
        "fraction": Fraction,
        "distance": Distance,
        "disagreement": Disagreement,
        "leverage": Leverage,
        "radius": Radius,
    },
    group="asking",
)


def rule(asked: str | Rule, options: Mapping[str, Json] | None = None) -> Rule:
    """The rule of a text such as ``random:50``, with its other options; objects as they are.

    >>> rule("random:50"), rule("distance:20", {"random_share": 0.1}).random_share
    (Random(number=50), 0.1)
    """
    if not isinstance(asked, str):
        return RULES.resolve(asked)
    name, _, text = asked.rpartition(":")
    number = None
    with contextlib.suppress(ValueError):
        number = float(text)
    if name and number is not None:
        return RULES.make(name, {"number": number} | dict(options or {}))
    known = name if name in RULES else asked  # random:x is no function x of the module random
    if known in RULES and "number" in RULES.needs(known) and (name or "number" not in (options or {})):
        example = {"fraction": 0.1, "leverage": 0.1, "radius": 1.0}.get(known, 50)
        raise UserError(f"ask: {asked!r} needs a number, as in {known}:{example}.")
    return RULES.make(asked, options or {})


__all__ = ["All", "Asked", "Disagreement", "Distance", "Driven", "Fraction", "Gate", "Leverage", "Radius"]
__all__ += ["Random", "Rule", "View", "rule"]
