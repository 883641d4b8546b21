"""Runs: rounds of labelled experience, the loop that learns from them, and the run on disk."""

from __future__ import annotations

from .automatic import Automatic
from .collect import Collector, Round
from .evaluate import Evaluation, Evaluator, acting
from .folder import FORMAT, Folder, read_config, read_ledger, read_summary, write_run
from .loop import EXTRA, NAMES, TIMES, Loop, Plan
from .parts import Parts, World, parts
from .run import Run
from .samples import Book, temporary_folder

__all__ = [
    "EXTRA",
    "FORMAT",
    "NAMES",
    "TIMES",
    "Automatic",
    "Book",
    "Collector",
    "Evaluation",
    "Evaluator",
    "Folder",
    "Loop",
    "Parts",
    "Plan",
    "Round",
    "Run",
    "World",
    "acting",
    "parts",
    "read_config",
    "read_ledger",
    "read_summary",
    "temporary_folder",
    "write_run",
]
