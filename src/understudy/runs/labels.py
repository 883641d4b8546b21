"""The expert's answers to some states, and the states themselves, cut and joined."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..envs.vector import Seen
from ..errors import UserError, said
from ..nested import take


class Answers(NamedTuple):
    """labels (n, …): the expert's, zeros where there is none; answered (n,): where there is one; new (n,):
    which of them are queries, that is, were not known from before; errors: why a state has no label. whole:
    known to be all answered, and all new.
    """

    labels: Any
    answered: np.ndarray
    new: np.ndarray
    errors: dict[int, UserError]
    whole: bool = False


def answers_of(n: int, labels: dict[int, Any], new: np.ndarray, errors: dict[int, UserError]) -> Answers:
    """The answers to n states of which some, by number, have a label."""
    answered = np.zeros(n, bool)
    answered[list(labels)] = True
    full: Any = None
    if labels:
        one = np.asarray(next(iter(labels.values())))
        full = np.zeros((n, *one.shape), one.dtype)
        for i, label in labels.items():
            full[i] = label
    return Answers(full, answered, new & answered, errors)


def some_of(seen: Seen, chosen: Any) -> Seen:
    """What some of the states show."""
    return Seen(take(seen.batch, chosen), [seen.infos[i] for i in chosen] if len(seen.infos) else [])


def failure(who: str, error: BaseException) -> UserError:
    """Any error as a sentence of `who`, with the error behind it."""
    if isinstance(error, UserError):
        return error
    made = UserError(f"{who}: {said(error)}")
    made.__cause__ = error
    return made
