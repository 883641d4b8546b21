"""A run on disk: a folder that survives a kill at any moment."""

from __future__ import annotations

from .files import atomic, cores, versions
from .folder import FORMAT, Folder, read_config, read_ledger, read_summary, write_run
from .run import Run

__all__ = [
    "FORMAT",
    "Folder",
    "Run",
    "atomic",
    "cores",
    "read_config",
    "read_ledger",
    "read_summary",
    "versions",
    "write_run",
]
