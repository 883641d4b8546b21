"""All states, none, some by chance; and rules with a threshold that is set once."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any, ClassVar, final

import numpy as np

from ..errors import UserError
from .base import Asked, Informed, View, beside, fitted, positive, share, whole
from .distance import nearest, plain

if TYPE_CHECKING:
    from ..policies import Policy


@final
@dataclasses.dataclass(frozen=True)
class All:
    """Every state, as DAgger asks."""

    count: ClassVar[None] = None
    reads: ClassVar[bool] = False
    honest: ClassVar[bool] = True

    def choose(self, view: View) -> Asked:
        n = len(view.rows)
        return fitted(Asked(np.arange(n), np.ones(n)), view.most, view.rng)


@final
@dataclasses.dataclass(frozen=True)
class Driven:
    """None but those where the expert acts. On the spot (``moment="spot"``) it is for a person, who takes
    over and gives back as they see fit: HG-DAgger.
    """

    count: ClassVar[None] = None
    reads: ClassVar[bool] = False
    honest: ClassVar[bool] = False

    def choose(self, view: View) -> Asked:
        return Asked(np.zeros(0, int), np.zeros(0))

    def gate(self, view: View) -> None:
        """None: the person decides."""


@final
@dataclasses.dataclass(frozen=True)
class Random:
    """`number` states of a round, drawn without replacement: p = number/n for each of n."""

    number: int
    reads: ClassVar[bool] = False
    honest: ClassVar[bool] = True

    def __post_init__(self):
        object.__setattr__(self, "number", whole("random", self.number))

    @property
    def count(self) -> int:
        return self.number

    def choose(self, view: View) -> Asked:
        return beside(np.zeros(0, int), min(self.number, view.most), len(view.rows), view.rng)


@final
@dataclasses.dataclass(frozen=True)
class Fraction:
    """Every state with probability `number`, independently."""

    number: float
    count: ClassVar[None] = None
    reads: ClassVar[bool] = False
    honest: ClassVar[bool] = True

    def __post_init__(self):
        object.__setattr__(self, "number", share("fraction", self.number))

    def choose(self, view: View) -> Asked:
        index = np.flatnonzero(view.rng.random(len(view.rows)) < self.number)
        return fitted(Asked(index, np.full(len(index), self.number)), view.most, view.rng)


@final
@dataclasses.dataclass(frozen=True, kw_only=True)
class Radius(Informed):
    """Asks where the `neighbour`-th nearest labelled state is farther away than `number`, one state after the
    other: a state that is asked about counts as labelled at once.

    Distances are between observations as the policy sees them, standardised by the first round. With one
    neighbour no two states that were asked about are nearer to each other than `number`, so in a bounded
    part of the space the labels end by themselves: at most ``(1 + 2L/number)^d`` in a ball of radius L in d
    dimensions. CRSAIL sets the radius once, to a quantile of such distances in a first rollout: `distances`.

    >>> rows, known = np.array([[0.0], [3.0], [3.5], [9.0]]), np.array([[0.2]])
    >>> Radius(number=1.0).states(rows, known).tolist()
    [1, 3]
    >>> Radius(number=1.0).distances(rows, known).tolist()
    [0.2, 2.8, 3.3, 8.8]
    """

    number: float
    neighbour: int = 1
    random_share: float = 0.0
    count: ClassVar[None] = None

    def __post_init__(self):
        object.__setattr__(self, "number", positive("radius", self.number))
        object.__setattr__(self, "neighbour", whole("neighbour", self.neighbour))
        object.__setattr__(self, "random_share", share("random_share", self.random_share, zero=True))

    def choose(self, view: View) -> Asked:
        return self.above(self.states(view.rows, view.known), view)

    def distances(self, rows: np.ndarray, known: np.ndarray) -> np.ndarray:
        """How far each row (n, d) is from its `neighbour`-th nearest known one (m, d); infinite without
        one.
        """
        return nearest(plain(rows), plain(known), self.neighbour)

    def states(self, rows: np.ndarray, known: np.ndarray) -> np.ndarray:
        """The numbers of the rows (n, d) that are asked about, in order; `known` (m, d) were before."""
        places, labelled, found = plain(rows), plain(known), list[int]()
        for i in np.flatnonzero(self.distances(rows, known) > self.number):
            beside_it = np.concatenate([labelled, places[found]]) if self.neighbour > 1 else places[found]
            squares = np.sum((beside_it - places[i]) ** 2, axis=1)
            if np.count_nonzero(squares <= self.number**2) < self.neighbour:
                found.append(int(i))
        return np.asarray(found, int)


@final
@dataclasses.dataclass(frozen=True, kw_only=True)
class Leverage(Informed):
    """For linear policies: asks where ``xᵀ A⁻¹ x > number`` with ``A = ridge·I + Σ x xᵀ`` over the states
    asked so far, one state after the other: where the labels so far say little.

    Such a state multiplies det A by more than 1 + number, and det A is at most ``(ridge + N L²/d)^d`` after N
    states of norm ≤ L in d dimensions. Hence at most N labels are ever asked for, with

        N ≤ d log(1 + N L² / (d ridge)) / log(1 + number).

    A is kept as its triangular factor, which one QR of all labelled rows gives; ``x`` is a row of the linear
    policy's design.

    >>> Leverage(number=0.1).cap(dimensions=4, norm=2.0) < 400
    True
    """

    number: float
    ridge: float = 1.0
    random_share: float = 0.0
    count: ClassVar[None] = None

    def __post_init__(self):
        object.__setattr__(self, "number", positive("leverage's number", self.number))
        object.__setattr__(self, "ridge", positive("leverage's ridge", self.ridge))
        object.__setattr__(self, "random_share", share("random_share", self.random_share, zero=True))

    def cap(self, *, dimensions: int, norm: float) -> float:
        """The most states of norm ≤ `norm` that the rule ever asks about: the largest N of the formula.

        The right side grows like log N, so going back and forth from above ends at the largest solution.
        """
        most = 1e18
        while True:
            inside = 1.0 + most * norm**2 / (dimensions * self.ridge)
            new = dimensions * math.log(inside) / math.log1p(self.number)
            if new >= most * (1.0 - 1e-12):
                return new
            most = new

    def fits(self, policy: Policy) -> None:
        """Refuses a policy whose states have no leverage."""
        if not policy.linear:
            raise UserError(
                "ask: leverage is for policies that are linear in their parameters, and "
                f"{policy.name!r} is not; policy='linear' is."
            )

    def choose(self, view: View) -> Asked:
        self.fits(view.policy)
        return self.above(self.states(design(view.policy, view.rows), design(view.policy, view.known)), view)

    def states(self, rows: np.ndarray, known: np.ndarray) -> np.ndarray:
        """The numbers of the rows (n, d) that are asked about, in order; `known` (m, d) were before."""
        d = rows.shape[1]
        factor = np.linalg.qr(np.concatenate([math.sqrt(self.ridge) * np.eye(d), known]), mode="r")
        inverse = np.linalg.inv(factor)
        away = rows @ inverse @ inverse.T  # A⁻¹ x for every row
        found: list[int] = []
        for i, x in enumerate(rows):
            size = float(x @ away[i])
            if size > self.number:
                found.append(i)
                # Sherman and Morrison: A gains x xᵀ.
                away[i + 1 :] -= np.outer(rows[i + 1 :] @ away[i], away[i]) / (1.0 + size)
        return np.asarray(found, int)


def design(policy: Policy, rows: np.ndarray) -> np.ndarray:
    """The rows that a linear policy multiplies its parameters with, (n, d), in float64."""
    import jax

    with jax.enable_x64(True):
        given: Any = np.asarray(rows)  # NumPy's arrays do where JAX's are named
        return np.asarray(policy.design(given), np.float64)
