"""Runs: rounds of labelled experience, the loop that learns from them, and the run on disk."""

from __future__ import annotations

from .automatic import Automatic
from .collected import Round
from .evaluate import Evaluation, acting, world_of
from .finished import Run
from .folder import Folder, write_run
from .ledger import EXTRA, NAMES, TIMES
from .parts import Parts, World, parts
from .reading import FORMAT, read_config, read_ledger, read_summary
from .resume import resumed, resuming
from .runner import Runner, play_all
from .samples import SampleLog, storage
from .state import RunState

__all__ = ["EXTRA", "FORMAT", "NAMES", "TIMES", "Automatic", "Evaluation", "Folder", "Parts", "Round"]
__all__ += ["Run", "RunState", "Runner", "SampleLog", "World", "acting", "parts", "play_all", "read_config"]
__all__ += ["read_ledger", "read_summary", "resuming", "resumed", "storage", "world_of", "write_run"]
