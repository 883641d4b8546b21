"""`understudy experts`: what comes with the package."""

from __future__ import annotations

import dataclasses

from ..report import tables
from .options import Flag


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExpertsList:
    """The experts that come with the package."""

    json: Flag = False
    """Print the cards as one last line of JSON."""


def run(options: ExpertsList) -> int:
    """Lists the shipped experts with their environments and what they were measured at."""
    from .. import experts

    cards = {name: experts.card(name) for name in experts.names()}
    rows = (
        (name, card["algorithm"], ", ".join(card["environments"]), _returns(card.get("returns")))
        for name, card in cards.items()
    )
    tables.show(tables.listed("experts", ("name", "algorithm", "environments", "return"), rows))
    if options.json:
        tables.json_line(cards)
    return 0


def _returns(measured: object) -> str:
    if isinstance(measured, dict):
        if "mean" in measured:
            spread = f" ± {measured['std']:g}" if isinstance(measured.get("std"), (int, float)) else ""
            return f"{measured['mean']:g}{spread}"
        return ", ".join(f"{key}: {_returns(value)}" for key, value in measured.items())
    return "" if measured is None else str(measured)
