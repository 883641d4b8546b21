"""What came of a study as tidy columns: one row per run and round, and one row per run."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .. import disk
from ..runs import NAMES
from .shard import Result
from .study import Entry

SUMMARY = ("rounds", "steps", "labels", "average_loss", "regret", "bound", "certificate")
SUMMARY += ("return_mean", "return_std", "return_low", "return_high", "return_least", "episodes")
SUMMARY += ("expert_return", "expert_return_low", "expert_return_high")
SUMMARY += ("difference", "difference_low", "difference_high")
"""The first columns of summary.csv, in this order; other entries of a run's summary follow."""

Columns = dict[str, list[Any]]


def label(name: str) -> str:
    """The column of an axis; one named like a column of results, as the loss is, gets a longer name.

    >>> label("step"), label("loss")
    ('step', 'loss_setting')
    """
    return f"{name}_setting" if name in NAMES or name in SUMMARY else name


def per_round(entries: Sequence[Entry], results: Sequence[Result]) -> Columns:
    """One row per run and round: the run's labels and the ledger's columns."""
    names = _labels(entries)
    each = [(entry, row) for entry, result in zip(entries, results, strict=True) for row in result.rows]
    columns: Columns = {"run": [entry.id for entry, _ in each]}
    columns |= {label(name): [entry.labels.get(name) for entry, _ in each] for name in names}
    return columns | {name: [row[name] for _, row in each] for name in NAMES}


def per_run(entries: Sequence[Entry], results: Sequence[Result]) -> Columns:
    """One row per run: its labels, what it came to, and the sentence with which it failed where it did."""
    names = _labels(entries)
    numbers = list(dict.fromkeys([*SUMMARY, *(name for one in results for name in sorted(one.summary))]))
    columns: Columns = {"run": [entry.id for entry in entries]}
    columns |= {label(name): [entry.labels.get(name) for entry in entries] for name in names}
    columns |= {name: [result.summary.get(name) for result in results] for name in numbers}
    return columns | {"error": [result.error or "" for result in results]}


def _labels(entries: Sequence[Entry]) -> list[str]:
    """Names of labels, seed last."""
    found = list(dict.fromkeys(name for entry in entries for name in entry.labels))
    return [name for name in found if name != "seed"] + ["seed"]


def write(folder: Path, **tables: Columns) -> None:
    """Writes each as NAME.csv, and as NAME.parquet where pyarrow is installed; same numbers, same bytes."""
    with disk.reporting(folder):
        for name, columns in tables.items():
            disk.write_file(folder / f"{name}.csv", to_csv(columns))
            if (packed := to_parquet(columns)) is not None:
                disk.write_file(folder / f"{name}.parquet", packed)


def to_csv(columns: Mapping[str, Sequence[Any]]) -> str:
    """Columns as CSV: floats with every digit, nothing where nothing was measured.

    >>> to_csv({"step": [0.1, None], "bound": [math.inf, math.nan]})
    'step,bound\\n0.1,inf\\n,\\n'
    """
    return disk.to_csv(columns, _text)


def to_parquet(columns: Mapping[str, Sequence[Any]]) -> bytes | None:
    """Columns as Parquet, with nulls where the CSV has nothing; None without pyarrow."""
    try:
        import pyarrow  # pyright: ignore[reportMissingImports] # optional
        import pyarrow.parquet  # pyright: ignore[reportMissingImports]
    except ImportError:
        return None
    arrays = {}
    for name, column in columns.items():
        kept = [None if _nothing(one) else one for one in column]
        kinds = {type(one) for one in kept if one is not None}
        if kinds <= {int} and kinds:
            kind = pyarrow.int64()
        elif kinds <= {int, float}:
            kind = pyarrow.float64()
        elif kinds == {bool}:
            kind = pyarrow.bool_()
        else:
            kind, kept = pyarrow.string(), [None if one is None else _text(one) for one in kept]
        arrays[name] = pyarrow.array(kept, kind)
    sink = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(arrays), sink)
    return sink.getvalue()


def _nothing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _text(value: Any) -> str:
    if _nothing(value):
        return ""
    if isinstance(value, float):
        return repr(value)
    return value if isinstance(value, str) else json.dumps(value)
