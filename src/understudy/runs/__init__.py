"""Runs: a student in an environment with an expert and a folder, round by round."""

from __future__ import annotations

from ..student import EXTRA, NAMES
from .evaluate import Evaluation, acting, judged, maker_of, paired
from .folder import Folder, resumed, resuming
from .reading import FORMAT, TIMES, read_config, read_ledger, read_policy, read_summary
from .record import Record, unmeasured
from .run import Run
from .world import World, Worlds, spaces_of

__all__ = ["EXTRA", "FORMAT", "NAMES", "TIMES", "Evaluation", "Folder", "Record", "Run", "World", "Worlds"]
__all__ += [
    "acting",
    "judged",
    "paired",
    "unmeasured",
    "maker_of",
    "read_config",
    "read_ledger",
    "read_policy",
    "read_summary",
    "resumed",
]
__all__ += ["resuming", "spaces_of"]
