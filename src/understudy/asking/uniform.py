"""Rules that do not look at the states: all of them, none, k at random, each with probability p."""

from __future__ import annotations

import dataclasses
from typing import ClassVar, final

import numpy as np

from .base import Asked, View, beside, fitted, share, whole


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
