"""What is decided before a run's first round, the columns of its ledger, and where its time goes."""

from __future__ import annotations

import dataclasses
import time
from typing import final

from ..regret import COLUMNS
from ..spec import Mixing

EXTRA = {
    "interactions": "environment steps so far",
    "queries": "expert labels so far",
    "unanswered": "states so far that a slow expert gave no label for",
    "asked": "share of the round's states that have a label",
    "breaks": "times so far that the run was resumed with a new episode in place of the one under way",
    "beta": "probability that the expert acted",
    "by_expert": "share of the round's steps that the expert acted",
    "handovers": "times in the round that the expert took over from the policy within an episode",
    "episodes": "episodes that ended in the round",
    "agreement": "share of the round's states where the policy's most likely action was the expert's; nan "
    "where actions are not one choice",
    "visited_high": "with probability 95 %, in all rounds at once, cumulative loss on all states visited, "
    "labelled or not, is at most this; nan where cumulative_loss is an estimate of it without a proof",
    "return_mean": "mean return of the policy after the round; nan where it was not evaluated",
    "return_std": "its standard deviation over episodes",
}
"""Columns of a run's ledger beside `understudy.regret.COLUMNS`."""
NAMES = ["round", "samples", *EXTRA, *(name for name in COLUMNS if name not in ("round", "samples"))]
TIMES = ("collect", "solve", "judge", "evaluate")


@final
@dataclasses.dataclass(frozen=True)
class Plan:
    """What is decided before the first round.

    rounds: interactions and the most queries of every round; budget: queries after which the run ends;
    judged: rounds after which the best in hindsight is looked for; evaluated: rounds after which `episodes`
    episodes are played; search: steps of the search for the best network; average: how many of the last
    policies the acting one is the mean of; best: whether the best one evaluated is kept; demos: recorded
    demonstrations, which are round 1.
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
    best: bool
    seed: int
    demos: int = 0

    @property
    def sizes(self) -> tuple[int, ...]:
        """Interactions of every round."""
        return tuple(size for size, _ in self.rounds)

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


class Clock:
    """Seconds spent in each part of a round."""

    def __init__(self):
        self.laps: dict[str, float] = dict.fromkeys((str(name) for name in TIMES), 0.0)
        self._last = time.perf_counter()

    def lap(self, name: str, share: int = 1) -> None:
        """Counts the time since the last lap, or one of `share` equal parts of it."""
        now = time.perf_counter()
        self.laps[name] += (now - self._last) / share
        self._last = now

    def copy(self) -> Clock:
        """Another clock with the same laps, started now."""
        new = Clock()
        new.laps |= self.laps
        return new
