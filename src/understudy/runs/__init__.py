"""Runs: rounds of labelled experience, the loop that learns from them, and the run on disk."""

from __future__ import annotations

from .collected import Round
from .evaluate import Evaluation, acting, judged, paired, world_of
from .finished import Run, unmeasured
from .folder import Folder
from .ledger import EXTRA, NAMES, TIMES
from .parts import Parts, World, parts
from .reading import FORMAT, read_config, read_ledger, read_policy, read_summary
from .resume import resumed, resuming
from .runner import Runner, play_all
from .samples import SampleLog, storage
from .state import RunState

__all__ = ["EXTRA", "FORMAT", "NAMES", "TIMES", "Evaluation", "Folder", "Parts", "Round", "Run", "RunState"]
__all__ += ["Runner", "SampleLog", "World", "acting", "judged", "paired", "parts", "play_all"]
__all__ += [
    "read_config",
    "read_ledger",
    "read_policy",
    "read_summary",
    "resumed",
    "resuming",
    "storage",
    "unmeasured",
    "world_of",
]
