"""Samples: the states that were visited, round by round, with the labels that the expert gave for them."""

from __future__ import annotations

from .demos import checksum, recorded
from .log import UNREAD, Reader, SampleLog, storage
from .rounds import (
    BREAK,
    EXPERT,
    TERMINATED,
    TRUNCATED,
    Counts,
    Labels,
    Path,
    Question,
    Round,
    Sequences,
    count,
)

__all__ = ["BREAK", "EXPERT", "TERMINATED", "TRUNCATED", "UNREAD", "Counts", "Labels", "Path", "Question"]
__all__ += ["Reader", "Round", "SampleLog", "Sequences", "checksum", "count", "recorded", "storage"]
