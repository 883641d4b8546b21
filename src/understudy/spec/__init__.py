"""The spec of a run: all its settings, checked. Importing this room does not import JAX or NumPy."""

from __future__ import annotations

from .presets import PRESETS, Preset
from .runspec import RunSpec
from .settings import FIELDS, OPTIONS, PARTS, WORLD, Settings
from .timetable import ROUNDS, Mixing, is_pure, mixing
from .values import describe, fits, read_toml, registries

__all__ = ["FIELDS", "OPTIONS", "PARTS", "PRESETS", "ROUNDS", "WORLD", "Mixing", "Preset", "RunSpec"]
__all__ += ["Settings", "describe", "mixing", "read_toml", "fits", "is_pure", "registries"]
