"""Comparisons on the same episodes: of a policy with its expert, and of two groups of runs.

Episodes differ in luck by more than policies do. On common ones the luck is in both returns and not in their
difference, so what counts is the interval of the mean difference; where there are no common ones nothing is
compared.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from .. import intervals
from ..intervals import LEVEL, Interval
from ..runs import paired
from .sources import Source

WORLD = ("env", "env_kwargs", "episode_limit")
"""Settings that runs whose returns are compared agree in."""


def against_expert(runs: Sequence[Source], *, alone: bool) -> tuple[Interval, Interval]:
    """The mean paired difference of these runs' returns and their expert's, and the ratio of the means: of
    one run `alone` over the episodes that both have played, else over runs. Of all runs or none; a ratio
    means something where both returns are above zero, in every run.
    """
    played = ((one.evaluation, one.expert_evaluation) for one in runs)
    pairs = [paired(mine, theirs) for mine, theirs in played if mine is not None and theirs is not None]
    nothing = Interval(math.nan)
    if not pairs or len(pairs) < len(runs) or not all(len(mine) for mine, _ in pairs):
        return nothing, nothing
    gap = intervals.difference(*pairs[0]) if alone else intervals.mean([np.mean(a - b) for a, b in pairs])
    if not all(np.mean(mine) >= 0 and np.mean(theirs) > 0 for mine, theirs in pairs):
        return gap, nothing
    if alone:
        return gap, intervals.ratio(*pairs[0])
    return gap, intervals.mean([np.mean(mine) / np.mean(theirs) for mine, theirs in pairs])


def between(mine: Sequence[Source], theirs: Sequence[Source], level: float = LEVEL) -> tuple[Interval, str]:
    """The mean paired difference of the returns of two groups of runs, and what it is over: "20 episodes" of
    two single runs, or the seeds that both groups have. The interval is nan where nothing can be compared,
    and the words say why.
    """
    mine, theirs = ([one for one in distinct(runs) if math.isfinite(one.score)] for runs in (mine, theirs))
    settings = [[one.settings.get(name) for name in WORLD] for one in (*mine, *theirs)]
    if any(one != settings[0] for one in settings):
        return Interval(math.nan), "in another environment"
    if len(mine) == len(theirs) == 1:
        runs = [(mine[0], theirs[0])]
    else:
        seeds = {one.settings.get("seed"): one for one in theirs}
        runs = [(one, seeds[seed]) for one in mine if (seed := one.settings.get("seed")) in seeds]
        if len(runs) < 2:
            return Interval(math.nan), "fewer than two seeds in common"
    played = [
        paired(one.evaluation, other.evaluation)
        for one, other in runs
        if one.evaluation is not None and other.evaluation is not None
    ]
    count = min((len(each) for each, _ in played), default=0)
    if len(played) < len(runs) or not count:
        return Interval(math.nan), "on other episodes"
    if len(runs) == 1:
        return intervals.difference(*played[0], level), f"{count} episodes"
    gaps = [np.mean(one - other) for one, other in played]
    return intervals.mean(gaps, level), f"{len(gaps)} seeds, {count} episodes each"


def distinct(runs: Sequence[Source]) -> list[Source]:
    """The runs that count: of those with the same seed and the same losses one, the longest."""
    kept: list[Source] = []
    usable = [one for one in runs if one.state in ("finished", "unfinished") and one.rounds]
    for one in sorted(usable, key=lambda one: -one.rounds):
        if not any(_repeats(one, other) for other in kept):
            kept.append(one)
    return [one for one in usable if any(one is other for other in kept)]


def _repeats(one: Source, other: Source) -> bool:
    if one.settings.get("seed") != other.settings.get("seed"):
        return False
    mine, theirs = (np.asarray(run.columns["loss"], float)[: one.rounds] for run in (one, other))
    return np.allclose(mine, theirs, rtol=1e-6, atol=0.0, equal_nan=True)
