"""Who acts: with probability β_t the expert, else the agent; drawn for every environment and step."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, final

from ..errors import UserError, unknown

KINDS = ("constant", "linear", "exponential")


@final
@dataclasses.dataclass(frozen=True)
class Mixing:
    """β_t: `constant` value; `linear` max(0, 1 − (t−1)/value); `exponential` value^(t−1). Round 1 may be
    the expert's.

    >>> [Mixing("linear", 2, False).beta(t) for t in (1, 2, 3)]
    [1.0, 0.5, 0.0]
    """

    kind: str
    value: float
    expert_first: bool

    def beta(self, t: int) -> float:
        """The probability that the expert acts in round t = 1, 2, …"""
        if t == 1 and self.expert_first:
            return 1.0
        if self.kind == "linear":
            return max(0.0, 1.0 - (t - 1) / self.value)
        return self.value ** (t - 1) if self.kind == "exponential" else self.value

    def __str__(self) -> str:
        return f"{self.value:g}" if self.kind == "constant" else f"{self.kind}:{self.value:g}"


def mixing(beta: Any, *, first_round: str = "expert") -> Mixing:
    """From a number in [0, 1], "linear:ROUNDS" or "exponential:RATE".

    >>> str(mixing("exponential:0.5", first_round="agent")), mixing(1).beta(7)
    ('exponential:0.5', 1.0)
    """
    if first_round not in ("expert", "agent"):
        raise unknown("first_round", first_round, ("expert", "agent"))
    first = first_round == "expert"
    kind, _, text = beta.partition(":") if isinstance(beta, str) and ":" in beta else ("constant", "", beta)
    if kind not in KINDS:
        raise UserError(f"beta: {beta!r} is not a number in [0, 1], linear:ROUNDS or exponential:RATE.")
    try:
        value = float(text)
    except (TypeError, ValueError):
        value = math.nan
    if kind == "linear":
        if not (math.isfinite(value) and value >= 1):
            raise UserError(f"beta: {beta!r} needs a number of rounds ≥ 1, as in linear:15.")
    elif isinstance(text, bool) or not 0.0 <= value <= 1.0:
        raise UserError(f"beta: {beta!r} is not accepted; β is a probability, a number in [0, 1].")
    return Mixing(kind, value, first)
