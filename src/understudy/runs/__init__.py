"""Runs: a student in an environment with an expert and a folder, round by round."""

from __future__ import annotations

from ..student import BY_EXPERT, EXTRA, NAMES, TIMES
from .evaluate import Evaluation, judged, paired
from .folder import Folder
from .players import acting, maker_of
from .reading import FORMAT, read_config, read_experts, read_ledger, read_policy, read_summary
from .record import Record, last_of_experts, unmeasured
from .resuming import merge_settings, parse_resume
from .run import Run
from .world import World, Worlds, spaces_of

__all__ = [
    "BY_EXPERT",
    "EXTRA",
    "FORMAT",
    "NAMES",
    "TIMES",
    "Evaluation",
    "Folder",
    "Record",
    "Run",
    "World",
    "Worlds",
]
__all__ += [
    "acting",
    "judged",
    "last_of_experts",
    "paired",
    "unmeasured",
    "maker_of",
    "read_config",
    "read_experts",
    "read_ledger",
    "read_policy",
    "read_summary",
    "merge_settings",
]
__all__ += ["parse_resume", "spaces_of"]
