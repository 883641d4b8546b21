"""The scale of a regularised learner on a network, from what the first solves show."""

from __future__ import annotations

from typing import Any, final

import equinox as eqx
import numpy as np

from .online import Game

FACTOR = 10.0
"""α = 10 D. Measured with benchmarks/scores.py on Hopper-v5 and Walker2d-v5, five seeds each, 256-256 nets
and proximal Adam: with 10 the mean score is within 4 % of FTL's at 5,000 and at 25,000 queries in both; 3 is
too stiff for Walker2d (0.64 against 0.82 at 5,000), 30 is hardly a penalty any more."""


@final
class Automatic:
    """Sets 1/α of an adaptive, or 1/η of a √t schedule, once the first rounds have shown the size of things.

    Round 1 is solved without a penalty, and the distance D = ||w_2 − w_1|| it travels is the scale of the
    parameters: α = 10 D. For η_t = η/√t the gradient's size G is needed too, that of round 2, the first of a
    trained network: η = 10 D/G. The schedule counts from the round after.
    """

    def __init__(self, adaptive: bool):
        self.adaptive = adaptive
        self._distance = self._scale = np.nan

    @property
    def settled(self) -> bool:
        return bool(np.isfinite(self._scale))

    @property
    def start(self) -> int:
        """The first round that the schedule counts."""
        return 2 if self.adaptive else 3

    def see(self, t: int, *, distance: float, gradient: float) -> None:
        if t == 1:
            self._distance = distance
        if self.adaptive or t == 2:
            travelled = FACTOR * max(self._distance, 1e-12)
            self._scale = travelled if self.adaptive else travelled / max(gradient, 1e-12)

    def tuned(self, game: Game) -> Game:
        """The game with its schedule's number set. Before the schedule starts the number has no effect."""
        inverse = np.asarray(1.0 / self._scale if self.settled else 1.0)
        part = "adaptive" if self.adaptive else "root"
        return eqx.tree_at(lambda one: getattr(one.learner.schedule, part), game, inverse)

    def numbers(self) -> list[Any]:
        return [float(self._distance).hex(), float(self._scale).hex()]

    def restore(self, numbers: list[Any]) -> None:
        self._distance, self._scale = (float.fromhex(text) for text in numbers)
