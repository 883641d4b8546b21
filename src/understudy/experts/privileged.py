"""Experts that see more than the policy: the environment's `info`, or another key of a Dict observation."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import UserError, unknown
from .base import Expert, batch_size


def from_info(expert: Expert, key: str) -> Expert:
    """The expert, asked about `info[key]` of every environment instead of about the observation.

    The infos are a sequence of one dict per observation, or the dict of arrays that Gymnasium's vector
    environments give.

    >>> from understudy.experts.base import Expert
    >>> tripled = from_info(Expert("tripled", ask=lambda states, infos: states * 3.0), "state")
    >>> tripled.label(np.zeros((2, 8)), [{"state": [1.0]}, {"state": [2.0]}])
    array([[3.],
           [6.]], dtype=float32)
    """
    inner = expert.ask

    def ask(observations: Any, infos: Any) -> Any:
        rows = [_entry(infos, i, key, expert.name) for i in range(batch_size(observations))]
        try:
            seen = np.stack([np.asarray(row) for row in rows])
        except ValueError:
            raise UserError(
                f"expert {expert.name!r}: info[{key!r}] does not have the same shape everywhere."
            ) from None
        return inner(seen, infos)

    card = {**expert.card, "sees": f"info:{key}"}
    return dataclasses.replace(expert, ask=ask, observation_space=None, card=card, needs_infos=True)


def from_observation(expert: Expert, key: str) -> Expert:
    """The expert, asked about one key of a Dict observation (which the policy need not use)."""
    inner = expert.ask

    def ask(observations: Any, infos: Any) -> Any:
        if not isinstance(observations, Mapping):
            raise UserError(
                f"expert {expert.name!r}: sees the key {key!r}, but the observations are no dict."
            )
        if key not in observations:
            raise unknown(f"expert {expert.name!r}: its observation key", key, map(str, observations))
        return inner(observations[key], infos)

    card = {**expert.card, "sees": f"observation:{key}"}
    return dataclasses.replace(expert, ask=ask, observation_space=None, card=card)


def seeing(expert: Expert, sees: str) -> Expert:
    """The expert with what it sees in words: "info:KEY" or "observation:KEY"."""
    source, _, key = sees.partition(":")
    if source not in ("info", "observation") or not key:
        raise UserError(f"sees: {sees!r} is not accepted; write info:KEY or observation:KEY.")
    return from_info(expert, key) if source == "info" else from_observation(expert, key)


def info_at(infos: Any, index: int) -> Mapping[str, Any]:
    """The info of environment `index`, from a sequence of dicts or a vector environment's dict of arrays.

    A vector environment marks with a boolean array `_key` which environments have given the key.
    """
    if isinstance(infos, Mapping):
        found = {}
        for key, values in infos.items():
            given = infos.get(f"_{key}")
            if isinstance(key, str) and key.startswith("_") and key[1:] in infos:
                continue
            if given is not None and not given[index]:
                continue
            found[key] = info_at(values, index) if isinstance(values, Mapping) else values[index]
        return found
    if isinstance(infos, Sequence | np.ndarray) and not isinstance(infos, str) and index < len(infos):
        return infos[index]
    raise UserError(f"infos: one dict per environment is expected, got {type(infos).__name__}.")


def _entry(infos: Any, index: int, key: str, name: str) -> Any:
    if infos is None:
        raise UserError(f"expert {name!r}: sees info[{key!r}], but no infos were given to it.")
    info = info_at(infos, index)
    if key not in info:
        shown = ", ".join(sorted(map(str, info))) or "none"
        raise UserError(
            f"expert {name!r}: info has no key {key!r} in environment {index}; its keys: {shown}."
        )
    return info[key]
