"""The progress of a run on the terminal."""

from __future__ import annotations

import contextlib
import math
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


def summary(row: dict[str, Any]) -> str:
    """A round in a few words: queries, loss, and regret and return where they were measured.

    >>> row = {"queries": 1000, "loss": 0.25, "average_loss": 0.5, "regret": math.nan, "return_mean": 12.0}
    >>> summary(row)
    'queries 1,000  loss 0.25  average 0.5  return 12'
    """
    parts = [f"queries {row['queries']:,}", f"loss {row['loss']:.4g}", f"average {row['average_loss']:.4g}"]
    for name, word in (("regret", "regret"), ("return_mean", "return")):
        if math.isfinite(row[name]):
            parts.append(f"{word} {row[name]:.4g}")
    return "  ".join(parts)


@contextlib.contextmanager
def rounds(title: str, total: int) -> Iterator[Callable[[int, dict[str, Any]], None]]:
    """A bar with the latest numbers on a terminal, and in a pipe a line per evaluated round, on the error
    stream.
    """
    if not sys.stderr.isatty():
        began = time.perf_counter()

        def line(done: int, row: dict[str, Any]) -> None:
            if math.isfinite(row["return_mean"]) or done == total:
                seconds = time.perf_counter() - began
                print(
                    f"{title}: round {done} of {total}  {summary(row)}  {seconds:.0f} s",
                    file=sys.stderr,
                    flush=True,
                )

        yield line
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[latest]}"),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task, seen = bar.add_task(title, total=total, latest=""), {"return_mean": math.nan}

        def show(done: int, row: dict[str, Any]) -> None:
            if math.isfinite(row["return_mean"]):
                seen["return_mean"] = row["return_mean"]
            bar.update(task, completed=done, latest=summary(row | seen))

        yield show
