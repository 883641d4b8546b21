"""Studies in host environments: many runs of `imitate`, planned, played on every core, and kept."""

from __future__ import annotations
