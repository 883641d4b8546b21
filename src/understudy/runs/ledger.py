"""The ledger of a run: its columns, the row of a round, and where the round's time goes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from ..regret import COLUMNS
from ..solvers import Status

if TYPE_CHECKING:
    from .collected import Round
    from .state import RunState

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


def row_of(run: RunState, round: Round, record: dict[str, Any], *, judged: bool) -> dict[str, Any]:
    """The row of the round that `run` has just ended, as plain numbers and words; returns come later.

    `record` is what `Game.play` and the search for the best in hindsight gave.
    """
    # Without a rule every state is labelled. States without an answer were not left out at random.
    high = float(record["cumulative_loss"]) if run.visited is None else run.visited.high()
    row: dict[str, Any] = {
        "round": run.round,
        "samples": round.labelled,
        "interactions": run.interactions,
        "queries": run.queries,
        "unanswered": run.unanswered,
        "breaks": run.breaks,
        "asked": round.labelled / len(round),
        "beta": run.plan.mixing.beta(run.round),
        **round.counts._asdict(),
        "visited_high": np.nan if run.unanswered else high,
        "return_mean": np.nan,
        "return_std": np.nan,
    }
    for name in NAMES:
        if name in ("solver_status", "comparator_status"):
            asked = name == "solver_status" or (judged and np.isfinite(record["comparator"]))
            row[name] = Status(int(record[name])).name.lower() if asked else ""
        elif name in record:
            value = np.asarray(record[name])
            row[name] = int(value) if value.dtype.kind == "i" else float(value)
    return row


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
