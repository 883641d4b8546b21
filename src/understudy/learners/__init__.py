"""Learners: from the losses so far to the next parameters."""

from __future__ import annotations

from ..registry import Registry
from .base import AnyLearner, Learner, LearnerState, Schedule, schedule, theorem
from .named import adaftrl, adagrad, alt_ftrl, ftl, ftrl, linearised, ogd, started

LEARNERS: Registry[AnyLearner] = Registry(
    "learner",
    AnyLearner,
    {"ftl": ftl, "ftrl": ftrl, "alt_ftrl": alt_ftrl, "adaftrl": adaftrl, "ogd": ogd, "adagrad": adagrad},
    aliases={"dagger": "ftl", "alt-ftrl": "alt_ftrl"},
    group="learners",
)

__all__ = ["LEARNERS", "AnyLearner", "Learner", "LearnerState", "Schedule", "adaftrl", "adagrad", "alt_ftrl"]
__all__ += ["ftl", "ftrl", "linearised", "ogd", "schedule", "started", "theorem"]
