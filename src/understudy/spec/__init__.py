"""The spec of a run: all its settings, checked. Importing this room does not import JAX or NumPy."""

from __future__ import annotations

from .fit import fits, registries
from .mixing import Mixing, mixing
from .presets import PRESETS, Preset
from .run import FIELDS, OPTIONS, PARTS, ROUNDS, WORLD, RunSpec
from .values import describe, read_toml

__all__ = [
    "FIELDS",
    "OPTIONS",
    "PARTS",
    "PRESETS",
    "ROUNDS",
    "WORLD",
    "Mixing",
    "Preset",
    "RunSpec",
    "describe",
    "mixing",
    "read_toml",
    "fits",
    "registries",
]
