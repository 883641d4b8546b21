"""What is decided before a run's first round."""

from __future__ import annotations

import dataclasses
from typing import final

from ..spec import Mixing


@final
@dataclasses.dataclass(frozen=True)
class Plan:
    """What is decided before the first round.

    rounds: interactions and the most queries of every round; budget: queries after which the run ends;
    judged: rounds after which the best in hindsight is looked for; evaluated: rounds after which `episodes`
    episodes are played; search: steps of the search for the best network; average: how many of the last
    policies the acting one is the mean of; members: networks of the committee that is evaluated and kept;
    best: whether the best one evaluated is kept; demos: recorded demonstrations, which are round 1; ordinary:
    where labels weigh alike, how many of them weigh as much as a round otherwise does.
    """

    rounds: tuple[tuple[int, int], ...]
    budget: int | None
    mixing: Mixing
    judged: frozenset[int]
    evaluated: frozenset[int]
    episodes: int
    standardise: bool
    search: int
    average: int
    members: int
    best: bool
    seed: int
    demos: int = 0
    ordinary: int | None = None

    @property
    def sizes(self) -> tuple[int, ...]:
        """Interactions of every round."""
        return tuple(size for size, _ in self.rounds)

    def share(self, labels: int) -> float:
        """What the losses of a round with so many labels are multiplied by."""
        return 1.0 if self.ordinary is None else labels / self.ordinary

    @property
    def rows(self) -> int:
        """The most labelled samples that a round has."""
        return max(self.demos, *(most for _, most in self.rounds))

    @property
    def capacity(self) -> int:
        """The most labelled samples that the run has."""
        most = sum(most for _, most in self.rounds)
        return self.demos + (most if self.budget is None else min(most, self.budget))

    def last(self, t: int, queries: int) -> bool:
        """Whether round t, after which there are so many queries, ends the run."""
        return t >= len(self.rounds) or (self.budget is not None and queries >= self.budget)

    def due(self, chosen: frozenset[int], t: int, queries: int) -> bool:
        """Whether round t is among those `chosen`; what is due after the last planned round is due after the
        one that spends the budget.
        """
        return t in chosen or (self.last(t, queries) and len(self.rounds) in chosen)
