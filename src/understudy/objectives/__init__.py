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
    orthonormal,
    plain,
    triangle,
    zeros,
    zeros_like,
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
__all__ += ["Window", "batch", "empty_counts", "empty_samples", "empty_statistics", "limited", "orthonormal"]
__all__ += ["parse_memory", "plain", "reservoir", "triangle", "window", "zeros", "zeros_like"]
