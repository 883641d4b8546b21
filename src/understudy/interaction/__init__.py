"""Interaction: rounds of labelled experience, and the loop that learns from them."""

from __future__ import annotations

from .automatic import Automatic
from .book import Book, temporary_folder
from .collect import Collector, Round
from .evaluate import Evaluation, Evaluator, acting
from .loop import EXTRA, NAMES, TIMES, Loop, Plan
from .mixing import Mixing, mixing
from .parts import Parts, World, parts

__all__ = [
    "EXTRA",
    "NAMES",
    "TIMES",
    "Automatic",
    "Book",
    "Collector",
    "Evaluation",
    "Evaluator",
    "Loop",
    "Mixing",
    "Parts",
    "Plan",
    "Round",
    "World",
    "acting",
    "mixing",
    "parts",
    "temporary_folder",
]
