"""Rules that give every state a score: the highest of a round are asked about, or those above a quantile."""

from __future__ import annotations

import abc
import dataclasses
import math
from collections.abc import Callable

import numpy as np

from ..errors import UserError
from .base import Asked, Gate, Informed, View, beside, share, whole

Score = Callable[[np.ndarray], np.ndarray]
"""From rows (n, width) to their scores (n,): the higher, the more there is to learn."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scored(Informed, abc.ABC):
    """Shared by the rules below.

    `number` ≥ 1 is how many states of a round are asked about: those with the highest scores. Below 1 it is
    a share α, and the threshold is the (1 − α) quantile of `calibration`; how many states lie above it
    differs from round to round. `random_share` of the labels is asked at random among the other
    states, so that every state has a probability above 0; without it the losses are means over the asked.
    `mix` is such a share too, but its labels weigh as much as the others: the losses are means over the asked
    still, and the policy learns more of where it usually is. Where `number` ≥ 1, states shortly before a
    terminal state are passed over if there are enough others, unless `falls`; `random_share` draws them.

    On the spot (``moment="spot"``, α only) the expert takes over where the score is above that threshold, set
    from the round before, and drives until it has fallen to `release` times it: SafeDAgger with `release` 1,
    LazyDAgger below.
    """

    number: float
    random_share: float = 0.0
    mix: float = 0.0
    release: float = 0.5
    falls: bool = False

    def __post_init__(self):
        if not (isinstance(self.number, float) and 0 < self.number < 1):
            object.__setattr__(self, "number", whole("the number", self.number))
        for name in ("random_share", "mix"):
            object.__setattr__(self, name, share(name, getattr(self, name), zero=True))
        if self.random_share and self.mix:
            raise UserError(
                f"ask: mix {self.mix!r} does not go with a random_share of {self.random_share!r}; "
                "give one of them."
            )
        object.__setattr__(self, "release", share("release", self.release))

    @property
    def count(self) -> int | None:
        return int(self.number) if self.number >= 1 else None

    @abc.abstractmethod
    def score(self, view: View) -> Score:
        """The score, made once a round from what is known."""

    def calibration(self, view: View, score: Score) -> np.ndarray:
        """Scores whose quantile is the threshold: by default those of the round's own states, as
        ThriftyDAgger sets its thresholds.
        """
        return score(view.rows)

    def threshold(self, view: View, score: Score) -> float:
        """The (1 − α) quantile of the calibration's scores: a score above it is asked about."""
        found = self.calibration(view, score)
        return float(np.quantile(found, 1.0 - self.number)) if len(found) else -math.inf

    def gate(self, view: View) -> Gate:
        """When the expert takes over in a round; the view's rows are the states of the round before."""
        score = self.score(view)
        high = self.threshold(view, score)
        return Gate(score, high, self.release * high)

    def highest(self, view: View, count: int) -> np.ndarray:
        """The numbers of the `count` states that are asked about."""
        scores = self.score(view)(view.rows)
        return np.argsort(-scores, kind="stable")[:count]

    def choose(self, view: View) -> Asked:
        n = len(view.rows)
        if self.count is not None:
            count = min(self.count, view.most, n)
            random = min(math.ceil((self.random_share or self.mix) * count), count)
            spared = np.zeros(n, bool) if view.lost is None or self.falls else view.lost
            if np.count_nonzero(~spared) < (count if self.mix else count - random):
                spared = np.zeros(n, bool)  # the others are not enough
            rows = np.flatnonzero(~spared)
            found = self.highest(dataclasses.replace(view, rows=view.rows[rows], lost=None), count - random)
            return beside(np.sort(rows[found]), random, n, view.rng, never=spared if self.mix else None)
        score = self.score(view)
        above = np.flatnonzero(score(view.rows) > self.threshold(view, score))
        return self.above(above, view)
