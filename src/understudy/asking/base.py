"""What an ask rule is: of the states of a round it chooses those that the expert is asked about."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, final, runtime_checkable

import numpy as np

from ..errors import ContractError, UserError, calling, kind_of, name_of

if TYPE_CHECKING:  # importing this room is cheap
    from ..disk import Json
    from ..losses import Loss
    from ..policies import Params, Policy


class Asked(NamedTuple):
    """Which of n states are asked about: their numbers in order, (k,), and the probability with which each of
    them was to be asked, given everything before the round, (k,).
    """

    index: np.ndarray  # pyright: ignore[reportIncompatibleMethodOverride]  a tuple has a method of that name
    p: np.ndarray


@final
@dataclasses.dataclass(frozen=True, eq=False)
class View:
    """What a rule sees of a round, all of it on the host.

    rows (n, width): the states in question, as the policy sees them (standardised). known (m, width),
    targets (m, k): the states labelled so far and their labels. policy, params, loss: the policy that visited
    the states. most: how many may be asked about. rng: the rule's only randomness, which follows from the
    run's seed and the round. lost (n,): the states shortly before a terminal state, see `shortly_before`,
    where the rule has ``falls = False`` and so passes over them; else None.
    """

    rows: np.ndarray
    known: np.ndarray
    targets: np.ndarray
    policy: Policy
    params: Params
    loss: Loss
    most: int
    rng: np.random.Generator
    lost: np.ndarray | None = None


class Gate(NamedTuple):
    """When the expert takes over and gives back, on the spot: where ``score(rows)`` (n,) is above `high`, and
    then until it is at most `low`.
    """

    score: Callable[[np.ndarray], np.ndarray]
    high: float
    low: float

    def driving(self, rows: np.ndarray, before: np.ndarray) -> np.ndarray:
        """Where the expert drives (n,), given the states and where it drove before."""
        scores = self.score(rows)
        return scores > np.where(before, self.low, self.high)


@runtime_checkable
class Rule(Protocol):
    """An ask rule.

    count: how many states of a round are asked about, where it is always the same number; else None. reads:
    whether it needs the states labelled so far. honest: whether every state has a probability above 0 of
    being asked; the losses are then weighted by 1/p and unbiased, else they are means over the asked.
    A rule that is not for every policy may have ``fits(policy)``, which refuses one before the first round.
    """

    if TYPE_CHECKING:

        @property
        def count(self) -> int | None: ...

        @property
        def reads(self) -> bool: ...

        @property
        def honest(self) -> bool: ...

    else:  # a subclass may set them, as properties it could not, or leave them out
        count = None
        reads = False
        honest = False

    def choose(self, view: View) -> Asked:
        """At most ``view.most`` of the states of a round."""
        ...


def chosen_by(rule: Rule, view: View) -> Asked:
    """What a rule chooses of a view; an answer that is no choice of its states is refused in one sentence."""
    with calling("ask rule", rule, "choose"):
        asked: Any = rule.choose(view)  # whatever it returned
    n, who = len(view.rows), f"ask rule {name_of(rule)!r}: its choose returned"
    if not isinstance(asked, Asked):
        raise ContractError(f"{who} {kind_of(asked)}; an understudy.asking.Asked(index, p) is expected.")
    index, p = np.asarray(asked.index), np.asarray(asked.p)
    if index.ndim != 1 or (len(index) and index.dtype.kind not in "iu") or index.shape != p.shape:
        raise ContractError(
            f"{who} index {index.shape} of {index.dtype} and p {p.shape}; whole numbers (k,) and their "
            "probabilities (k,) are expected."
        )
    if len(index) and (index.min() < 0 or index.max() >= n or len(np.unique(index)) < len(index)):
        raise ContractError(f"{who} index {index.tolist()[:10]}; numbers below {n}, each once, are expected.")
    if not np.all((p > 0) & (p <= 1)):
        raise ContractError(f"{who} p {p.tolist()[:10]}; probabilities above 0 and at most 1 are expected.")
    if len(index) > view.most:
        raise ContractError(f"{who} {len(index)} states; at most {view.most} (view.most) may be asked about.")
    return Asked(index, p)


BEFORE, SHARE = 15, 5
"""So many states of an episode are shortly before its end, and at most one in SHARE of them."""


def shortly_before(ends: np.ndarray, envs: int = 1) -> np.ndarray:
    """Which states of a round come shortly before a terminal state, (m,): the last BEFORE of the episode, but
    at most a fifth of what was played of it. `ends` (m,): after which states an episode was terminated; row i
    is of environment i modulo `envs`.

    Where a robot falls, nothing can be done any more in the last moments, and what the expert would do there
    says nothing about how not to get there. (An episode that was cut off by a limit of time had no such end.)

    >>> shortly_before(np.array([False] * 9 + [True] + [False] * 4)).nonzero()[0].tolist()
    [8, 9]
    """
    found = np.zeros(len(ends), bool)
    for slot in range(envs):
        begin, mine = 0, found[slot::envs]
        for end in np.flatnonzero(ends[slot::envs]) + 1:
            mine[end - min(BEFORE, (end - begin) // SHARE) : end] = True
            begin = end
    return found


def number(field: str, value: Json, fits: Callable[[float], bool], what: str) -> float:
    """A finite number that fits; any other is refused: it is not `what`."""
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not (math.isfinite(value) and fits(value))
    ):
        raise UserError(f"ask: {field} {value!r} is not {what}.")
    return float(value)


def whole(field: str, value: Json) -> int:
    """A number of states."""
    return int(number(field, value, lambda one: one == int(one) and one >= 1, "a whole number ≥ 1"))


def positive(field: str, value: Json) -> float:
    """A number above 0."""
    return number(field, value, lambda one: one > 0, "a positive number")


def share(field: str, value: Json, *, zero: bool = False) -> float:
    """A number in (0, 1], or in [0, 1)."""
    if zero:
        return number(field, value, lambda one: 0 <= one < 1, "a number in [0, 1)")
    return number(field, value, lambda one: 0 < one <= 1, "a number in (0, 1]")


def beside(
    chosen: np.ndarray, random: int, n: int, rng: np.random.Generator, never: np.ndarray | None = None
) -> Asked:
    """Chosen states, and `random` of the n − k others, drawn without replacement: every state has p > 0, but
    for those that are `never` (n,) drawn.

    >>> beside(np.array([2]), 1, 3, np.random.default_rng(0)).p.tolist()
    [0.5, 1.0]
    """
    p = np.zeros(n)
    p[chosen] = 1.0
    others = np.flatnonzero(p == 0.0 if never is None else (p == 0.0) & ~never)
    random = min(random, len(others))
    if random:
        p_one = random / len(others)
        p[rng.choice(others, random, replace=False)] = p_one
    index = np.flatnonzero(p)
    return Asked(index, p[index])


def at_random(rule: object, chosen: int) -> int:
    """How many states to draw at random in addition to the `chosen` ones of a rule with a threshold, so that
    they are the rule's `random_share`, or `mix`, of all labels; 0 if it has neither.
    """
    random_share, mix = getattr(rule, "random_share", 0.0), getattr(rule, "mix", 0.0)
    count = math.ceil((random_share or mix) * chosen / (1.0 - (random_share or mix)))
    return max(count, 1) if random_share else count  # p > 0 also where none is chosen


def fitted(asked: Asked, most: int, rng: np.random.Generator) -> Asked:
    """At most `most` of the k asked: if there are more, a random choice of them, with p multiplied by most/k,
    the probability of being kept, so that weights 1/p stay unbiased.
    """
    if len(asked.index) <= most:
        return asked
    kept = np.sort(rng.choice(len(asked.index), most, replace=False))
    return Asked(asked.index[kept], asked.p[kept] * (most / len(asked.index)))


class Informed:
    """Shared by the rules that look at the states labelled so far and may ask about others at random too."""

    random_share: float
    reads: ClassVar[bool] = True

    @property
    def honest(self) -> bool:
        return self.random_share > 0

    def above(self, chosen: np.ndarray, view: View) -> Asked:
        """The states above the rule's threshold, and others at random."""
        asked = beside(chosen, at_random(self, len(chosen)), len(view.rows), view.rng)
        return fitted(asked, view.most, view.rng)
