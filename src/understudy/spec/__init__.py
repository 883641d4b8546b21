"""The spec of a run: all its settings, checked. Importing this room does not import JAX or NumPy."""

from __future__ import annotations

from .presets import PRESETS
from .runspec import RunSpec
from .settings import FIELDS, OPTIONS, WORLD, Settings
from .timetable import ROUNDS, is_pure, mixing
from .values import describe, fits, read_toml, registries

__all__ = ["FIELDS", "OPTIONS", "PRESETS", "ROUNDS", "WORLD", "RunSpec", "Settings", "describe", "fits"]
__all__ += ["is_pure", "mixing", "read_toml", "registries"]
