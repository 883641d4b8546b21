"""`understudy experts`: what comes with the package."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..report import tables
from .options import Json, Options

if TYPE_CHECKING:
    from ..experts.shipped import Card


class ExpertsList(Options):
    """The experts that come with the package."""

    json: Json = False


def list(options: ExpertsList) -> int:
    """Lists the shipped experts with their environments and what they were measured at."""
    from .. import experts

    cards = {name: experts.card(name) for name in experts.names()}
    rows = [(name, _returns(card), _here(card), card["algorithm"]) for name, card in cards.items()]
    tables.show(tables.listed("experts", ("name", "return ± 95 %", "environments", "algorithm"), rows))
    tables.json_line(cards)
    return 0


def _here(card: Card) -> str:
    """The environments that it is for, of those that the installed Gymnasium has."""
    import gymnasium

    known = [name for name in card["environments"] if name in gymnasium.registry or "/" in name]
    return ", ".join(known or card["environments"])


def _returns(card: Card) -> str:
    """What it was measured at in the first of its environments."""
    returns = card.get("returns") or {}
    measured = next(iter(returns.values()), None)
    if measured is None:
        return ""
    from ..intervals import of_moments

    middle, _, high, _ = of_moments(measured["mean"], measured["std"], measured["episodes"])
    return f"{tables.returned(middle)} ± {tables.returned(high - middle, beside=[middle])}"
