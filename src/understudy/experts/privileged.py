"""Experts that see other things than the policy: keys and slices of the observation, entries of the info."""

from __future__ import annotations

import dataclasses
from typing import Any

from ..errors import UserError
from ..policies.sight import Sight
from .base import Expert


def seeing(expert: Expert, sees: str) -> Expert:
    """The expert, asked about a group of observations (`understudy.policies.sight` says how it is written)
    and not about the whole of them. The infos are one dict per observation, or the dict of arrays that
    Gymnasium's vector environments give.

    >>> import numpy as np
    >>> tripled = seeing(Expert("tripled", ask=lambda states, infos: states * 3.0), "info:state")
    >>> tripled.label(np.zeros((2, 8)), [{"state": [1.0]}, {"state": [2.0]}])
    array([[3.],
           [6.]], dtype=float32)
    """
    inner, sight = expert.ask, Sight.of(sees, "expert_sees")

    def ask(observations: Any, infos: Any) -> Any:
        try:
            seen = sight.seen(observations, infos)
        except UserError as error:
            raise UserError(f"expert {expert.name!r}: {error}") from error
        return inner(seen, infos)

    card = {**expert.card, "sees": sees}
    needs = expert.needs_infos or bool(sight.infos)
    inside = expert.pure
    pure = None if inside is None or needs else lambda batch: inside(sight.seen(batch, None))
    changes = {"ask": ask, "observation_space": None, "card": card, "needs_infos": needs, "pure": pure}
    return dataclasses.replace(expert, **changes)
