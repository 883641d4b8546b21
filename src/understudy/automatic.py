"""The scale of a regularised learner on a network, from what the first solves show."""

from __future__ import annotations

from typing import final

import equinox as eqx
import numpy as np

from .defaults import Scale
from .online import Game


@final
class Automatic:
    """Sets 1/α of an adaptive, or 1/η of a √t schedule, once the first rounds have shown the size of things,
    by the rule that `Scale` states.
    """

    def __init__(self, rule: Scale):
        self.rule, self.adaptive = rule, rule.name == "alpha"
        self._distance = self._scale = np.nan

    @property
    def settled(self) -> bool:
        return bool(np.isfinite(self._scale))

    def see(self, t: int, *, distance: float, gradient: float) -> None:
        if t == 1:
            self._distance = distance
        if self.adaptive or t == 2:
            travelled = self.rule.factor * max(self._distance, 1e-12)
            self._scale = travelled if self.adaptive else travelled / max(gradient, 1e-12)

    def tuned(self, game: Game) -> Game:
        """The game with its schedule's number set. Before the schedule starts the number has no effect."""
        inverse = np.asarray(1.0 / self._scale if self.settled else 1.0)
        part = "adaptive" if self.adaptive else "root"
        return eqx.tree_at(lambda one: getattr(one.learner.schedule, part), game, inverse)

    def numbers(self) -> list[str]:
        return [float(self._distance).hex(), float(self._scale).hex()]

    def restore(self, numbers: list[str]) -> None:
        self._distance, self._scale = (float.fromhex(text) for text in numbers)
