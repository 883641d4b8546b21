"""Objectives: the sum of the rounds' losses, with a tilt and a weight."""

from __future__ import annotations

from .memory import Limited, Reservoir, Window, limited, parse_memory, reservoir, window
from .objective import Losses, Objective, plain
from .samples import Samples, empty_samples
from .statistics import Statistics, empty_statistics

__all__ = [
    "Limited",
    "Losses",
    "Objective",
    "Reservoir",
    "Samples",
    "Statistics",
    "Window",
    "empty_samples",
    "empty_statistics",
    "limited",
    "parse_memory",
    "plain",
    "reservoir",
    "window",
]
