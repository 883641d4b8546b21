"""The rounds of a run: how large each is, and after which of them the best in hindsight is found."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ..errors import UserError
from .kinds import is_pure
from .mixing import Mixing

if TYPE_CHECKING:
    from .runspec import RunSpec

ROUNDS = 25
"""Rounds of a run for which neither rounds nor a budget is given."""
STEPS, EACH = 1000, 50
"""Interactions of a round where nothing is said, and those of each environment where thousands are cheap."""
MOST = 100_000
"""No plan has more rounds."""


def pace(env: Any, envs: int) -> int:
    """Interactions of a round where nothing is said. Pure environments are stepped all at once, so that none
    of them is cheaper than all: each has `EACH` steps.

    >>> pace("CartPole-v1", 4096), pace("gymnax:CartPole-v1", 4096), pace("gymnax:CartPole-v1", 1)
    (1000, 204800, 1000)
    """
    return max(STEPS, EACH * envs) if is_pure(env) else STEPS


def planned(spec: RunSpec) -> tuple[tuple[int, int], ...]:
    """Interactions and the most queries of every round; demonstrations are a round without either.

    Where the rule does not say how many states it asks about, the budget may be spent in fewer rounds.
    """
    every, count, who = spec.decided("ask") == "all", spec.rule.count, spec.mixing
    first = spec.decided("first_interactions") or spec.interactions
    ends = every or (count is not None and who.beta(10_000) in (0.0, 1.0))
    last = spec.rounds
    if last is None:
        last = ROUNDS if spec.budget is None or not ends else math.inf
        last = 0 if spec.demos is not None and spec.name == "bc" else last
    before, left = int(spec.demos is not None), math.inf if spec.budget is None else spec.budget
    found = _rounds(first, spec.interactions, last, before, left, who, every, count)
    if found is None:
        field = "budget" if spec.rounds is None else "rounds"
        value = getattr(spec, field)
        raise UserError(f"{field}: {value} takes more than {MOST:,} rounds; let a round be larger.")
    return found


@functools.lru_cache(maxsize=64)  # thousands of runs of a study have the same rounds
def _rounds(
    first: int, each: int, last: float, before: int, left: float, who: Mixing, every: bool, count: int | None
) -> tuple[tuple[int, int], ...] | None:
    """The rounds of `planned`; None where there would be more than `MOST`."""
    found = [(0, 0)] * before
    while len(found) < last + before and left > 0:
        size = first if len(found) == before else each
        if len(found) >= MOST:
            return None
        beta = who.beta(len(found) + 1)
        most, whole = min(size, left), every or beta == 1.0
        exact = whole or (beta == 0.0 and count is not None)
        if count is not None and beta == 0.0 and not whole:
            most = min(most, count)
        found.append((int(most if whole else size), int(most)))
        left -= most if exact else 0
    return tuple(found)


def judged(asked: Any, rounds: int) -> frozenset[int]:
    """The rounds, of so many, that the setting `comparator` names.

    >>> sorted(judged("every", 3)), sorted(judged("1,3", 3))
    ([1, 2, 3], [1, 3])
    """
    named = {"every": range(1, rounds + 1), "last": (rounds,), "none": ()}
    if isinstance(asked, str) and asked in named:
        return frozenset(named[asked])
    listed = asked.split(",") if isinstance(asked, str) else asked
    try:
        chosen = [int(one) for one in (listed if isinstance(listed, Iterable) else (listed,))]
    except (TypeError, ValueError):
        chosen = []
    if not chosen or not all(1 <= t <= rounds for t in chosen):
        raise UserError(f"comparator: {asked!r} is not 'every', 'last', 'none' or rounds among 1 … {rounds}.")
    return frozenset(chosen)
