"""Objectives: the sum of the rounds' losses, with a tilt and a weight."""

from __future__ import annotations

from .counts import Counts, Unkept, empty_counts
from .memory import Limited, Reservoir, Window, limited, parse_memory, reservoir, window
from .objective import Losses, Objective, plain
from .samples import Samples, empty_samples
from .statistics import Statistics, empty_statistics, triangle

__all__ = ["Counts", "Limited", "Losses", "Objective", "Reservoir", "Samples", "Statistics", "Unkept"]
__all__ += ["Window", "empty_counts", "empty_samples", "empty_statistics", "limited", "parse_memory", "plain"]
__all__ += ["reservoir", "triangle", "window"]
