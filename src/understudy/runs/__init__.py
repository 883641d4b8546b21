"""Runs: a student in an environment with an expert and a folder, round by round."""

from __future__ import annotations

from ..student import EXTRA, NAMES
from .evaluate import Evaluation, acting, maker_of
from .folder import Folder, resumed, resuming
from .reading import FORMAT, TIMES, read_config, read_ledger, read_policy, read_summary
from .record import Record
from .run import Run
from .world import World, Worlds, spaces_of

__all__ = ["EXTRA", "FORMAT", "NAMES", "TIMES", "Evaluation", "Folder", "Record", "Run", "World", "Worlds"]
__all__ += [
    "acting",
    "maker_of",
    "read_config",
    "read_ledger",
    "read_policy",
    "read_summary",
    "resumed",
]
__all__ += ["resuming", "spaces_of"]
