"""Ask wherever nothing that is labelled is near: a threshold that is set once."""

from __future__ import annotations

import dataclasses
from typing import ClassVar, final

import numpy as np

from .base import Asked, View, at_random, beside, fitted, number, share, whole
from .distance import nearest, plain


@final
@dataclasses.dataclass(frozen=True, kw_only=True)
class Radius:
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
    reads: ClassVar[bool] = True

    def __post_init__(self):
        value = number("radius", self.number, lambda x: x > 0, "a positive number")
        object.__setattr__(self, "number", value)
        object.__setattr__(self, "neighbour", whole("neighbour", self.neighbour))
        object.__setattr__(self, "random_share", share("random_share", self.random_share, zero=True))

    @property
    def honest(self) -> bool:
        return self.random_share > 0

    def choose(self, view: View) -> Asked:
        chosen = self.states(view.rows, view.known)
        asked = beside(chosen, at_random(self, len(chosen)), len(view.rows), view.rng)
        return fitted(asked, view.most, view.rng)

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
