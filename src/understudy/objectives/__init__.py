"""Objectives: the sum of the rounds' losses, with a tilt and a weight."""

from __future__ import annotations

from .memory import Limited, Reservoir, Window, limited, parse_memory, reservoir, window
from .objective import (
    Batch,
    Losses,
    Objective,
    Samples,
    batch,
    empty_samples,
    epsilon,
    orthonormal,
    plain,
    tiny,
    triangle,
    zeros,
)
from .statistics import Counts, Statistics, Unkept, empty_counts, empty_statistics

__all__ = [
    "Batch",
    "Counts",
    "Limited",
    "Losses",
    "Objective",
    "Reservoir",
    "Samples",
    "Statistics",
    "Unkept",
]
__all__ += ["Window", "batch", "empty_counts", "empty_samples", "empty_statistics", "epsilon", "limited"]
__all__ += ["orthonormal", "parse_memory", "plain", "reservoir", "tiny", "triangle", "window", "zeros"]
