"""Runs that are stopped after some of their rounds and resumed, against the run that was left alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from understudy.runs import Run

TIMED = {"times.csv", "summary.json", "lock"}
"""Files with seconds in them, and the lock; of rounds/ and labels.bin nothing is left to compare."""


class Stop(Exception):
    """Ends a run from outside, after a round."""


def stopping(*rounds: int) -> Callable[[int, dict[str, Any]], None]:
    """Progress that stops a run after these rounds; none: after any."""

    def stop(number: int, row: dict[str, Any]) -> None:
        if not rounds or number in rounds:
            raise Stop

    return stop


def content(folder: Path) -> dict[str, bytes]:
    """Every file of a run whose bytes the seed decides."""
    files = {str(one.relative_to(folder)): one for one in folder.rglob("*") if one.is_file()}
    kept = {name for name in files if not name.startswith(("rounds/", "labels")) and name not in TIMED}
    return {name: files[name].read_bytes() for name in sorted(kept)}


def resumed(go: Callable[..., Run], folder: Path, *rounds: int) -> tuple[Run, Run]:
    """`go(out=…, resume=…, progress=…)` left alone, and stopped after each of these rounds: all bytes of the
    two folders are the same. The runs.
    """
    whole = go(out=folder / "whole")
    for number in rounds:
        with pytest.raises(Stop):
            go(out=folder / "pieces", resume=True, progress=stopping(number))
    last = go(out=folder / "pieces", resume=True)
    one, other = content(folder / "whole"), content(folder / "pieces")
    different = sorted(name for name in {*one, *other} if one.get(name) != other.get(name))
    assert not different, f"not the same: {', '.join(different)}"
    return whole, last
