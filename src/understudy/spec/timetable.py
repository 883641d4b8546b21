"""The rounds of a run: how large each is, who acts in it, and after which the best in hindsight is found."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, final

from ..errors import UserError, among

if TYPE_CHECKING:
    from .runspec import RunSpec

LIBRARIES = ("brax", "gymnax", "mjx", "playground")
"""What the names of pure environments begin with, as in gymnax:CartPole-v1."""
ROUNDS = 25
"""Rounds of a run for which neither rounds nor a budget is given."""
STEPS, EACH = 1000, 50
"""Interactions of a round where nothing is said, and those of each environment where thousands are cheap."""
MOST = 100_000
"""No plan has more rounds."""


def is_pure(env: Any) -> bool:
    """Whether a name is one of a pure environment, or an object has its shape and is none of Gymnasium's.

    >>> is_pure("gymnax:CartPole-v1"), is_pure("CartPole-v1"), is_pure("my_module:make")
    (True, False, False)
    """
    if isinstance(env, str):
        library, _, name = env.partition(":")
        return bool(name) and library in LIBRARIES
    import gymnasium as gym

    if isinstance(env, type | gym.Env | gym.vector.VectorEnv):
        return False
    return hasattr(env, "reset") and hasattr(env, "step")


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
    """The rounds, of so many, after which `comparator` asks for the best in hindsight.

    >>> sorted(judged("every", 3)), sorted(judged("1,3", 3)), sorted(judged([2], 3))
    ([1, 2, 3], [1, 3], [2])
    """
    named = {"every": range(1, rounds + 1), "last": (rounds,), "none": ()}
    if isinstance(asked, str) and asked in named:
        return frozenset(named[asked])
    listed = asked.split(",") if isinstance(asked, str) else asked
    try:
        # By way of text, which a fraction or a truth value cannot go without being refused.
        chosen = [int(str(one)) for one in (listed if isinstance(listed, Iterable) else (listed,))]
    except ValueError:
        chosen = []
    if not chosen or not all(1 <= t <= rounds for t in chosen):
        raise UserError(f"comparator: {asked!r} is not 'every', 'last', 'none' or rounds among 1 … {rounds}.")
    return frozenset(chosen)


@final
@dataclasses.dataclass(frozen=True)
class Mixing:
    """Who acts: with probability β_t the expert, else the agent; drawn for every environment and step.

    β_t: `constant` value; `linear` max(0, 1 − (t−1)/value); `exponential` value^(t−1). Round 1 may be
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


def mixing(beta: Any, *, first_round: str = "expert") -> Mixing:
    """From a number in [0, 1], "linear:ROUNDS" or "exponential:RATE".

    >>> mixing("exponential:0.5", first_round="agent").beta(3), mixing(1).beta(7)
    (0.25, 1.0)
    """
    among("first_round", first_round, ("expert", "agent"))
    first = first_round == "expert"
    kind, _, text = beta.partition(":") if isinstance(beta, str) and ":" in beta else ("constant", "", beta)
    if kind not in ("constant", "linear", "exponential"):
        raise UserError(f"beta: {beta!r} is not a number in [0, 1], linear:ROUNDS or exponential:RATE.")
    try:
        value = float(text)
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    if kind == "linear":
        if not (math.isfinite(value) and value >= 1):
            raise UserError(f"beta: {beta!r} needs a number of rounds ≥ 1, as in linear:15.")
    elif isinstance(text, bool) or not 0.0 <= value <= 1.0:
        raise UserError(f"beta: {beta!r} is not accepted; β is a probability, a number in [0, 1].")
    return Mixing(kind, value, first)
