"""Objectives: the sum of the rounds' losses, with a tilt and a weight."""

from __future__ import annotations

from .objective import Losses, Objective, plain
from .samples import Samples, empty_samples
from .statistics import Statistics, empty_statistics

__all__ = ["Losses", "Objective", "Samples", "Statistics", "empty_samples", "empty_statistics", "plain"]
