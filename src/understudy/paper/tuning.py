"""The paper's protocol for toy and gridworld: steps of eleven decades, judged by the regret of ten rounds."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..learners import Learner, adaftrl, adagrad, alt_ftrl, ftl, ftrl, ogd
from ..mapping import Table

STEPS = tuple(float(f"1e{power}") for power in range(-5, 6))
TUNING_ROUNDS = 10
UNTUNED = "adaftrl_untuned"

MAKERS: dict[str, Callable[..., Learner]] = {
    "ftl": lambda step, **options: ftl(**options),
    "ftrl": lambda step, **options: ftrl(eta=step, **options),
    "alt_ftrl": lambda step, **options: alt_ftrl(eta=step, **options),
    "adaftrl": lambda step, **options: adaftrl(alpha=step, **options),
    UNTUNED: lambda step, **options: adaftrl(alpha=1.0, **options),
    "ogd": lambda step, **options: ogd(eta=step, **options),
    "adagrad": lambda step, **options: adagrad(alpha=step, diagonal=True, **options),
    "adagrad_norm": lambda step, **options: adagrad(alpha=step, **options),
}
"""Learners by name; `adagrad` is the diagonal form of practice, `adagrad_norm` that of the theory."""


def make(name: str, step: float, **options: Any) -> Learner:
    """A learner without its name, so that those that differ in numbers only share a program."""
    return dataclasses.replace(MAKERS[name](step, **options), name="")


def steps_of(name: str) -> tuple[float, ...]:
    """The step sizes to try; FTL has none, and AdaFTRL untuned has α = 1."""
    return {"ftl": (float("nan"),), UNTUNED: (1.0,)}.get(name, STEPS)


class Chosen(NamedTuple):
    """The step size that a learner got in one setting, and what it was chosen by."""

    setting: tuple[str, ...]
    learner: str
    step: float
    regret: float
    """Mean regret over the seeds after the rounds of tuning."""
    edge: str
    """'low' or 'high' where the best step is the first or last of the grid: a better one may lie beyond."""


def choose(table: Table, settings: Sequence[str], learners: Sequence[str]) -> list[Chosen]:
    """For every combination of `settings` (columns of the table) and learner, the step with least mean
    final regret.

    A run that left the finite numbers counts as infinitely bad; of equal steps the smaller is taken.
    """
    found = []
    combinations = dict.fromkeys(zip(*(table[name].tolist() for name in settings), strict=True))
    for setting in combinations:
        here = table.where(**dict(zip(settings, setting, strict=True)))
        for learner in learners:
            mine = here.where(learner=learner)
            tried = np.unique(mine["step"])
            if np.isnan(tried).all():
                found.append(Chosen(setting, learner, float("nan"), float(_end(mine).mean()), ""))
                continue
            means = np.asarray([_end(mine.where(step=step)).mean() for step in tried])
            best = int(np.argmin(means))
            edge = "" if len(tried) < 2 else {0: "low", len(tried) - 1: "high"}.get(best, "")
            found.append(Chosen(setting, learner, float(tried[best]), float(means[best]), edge))
    return found


def _end(table: Table) -> np.ndarray:
    last = table["regret"][:, -1]
    return np.where(np.isfinite(last), last, np.inf)
