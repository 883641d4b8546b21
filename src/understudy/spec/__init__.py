"""The spec of a run: all its settings, checked. Importing this room does not import JAX or NumPy."""

from __future__ import annotations

from .presets import PRESETS
from .runspec import RunSpec
from .settings import FIELDS, OPTIONS, WORLD, Environment, Settings
from .timetable import ROUNDS, is_pure, mixing
from .values import describe, fits, read_toml, registries, stated

__all__ = ["FIELDS", "OPTIONS", "PRESETS", "ROUNDS", "WORLD", "Environment", "RunSpec", "Settings"]
__all__ += ["describe", "fits", "is_pure", "mixing", "read_toml", "registries", "stated"]
