"""The files of a study of the paper: figures, numbers and claims, written by one function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from .. import disk
from ..mapping import Table, write_csv
from ..report import plots
from . import claims
from .claims import Claim
from .protocol import Outcome, chosen_columns

Columns = Mapping[str, Any]


def write(
    folder: Path,
    figures: Mapping[str, Figure],
    tables: Mapping[str, Columns | Table | str],
    found: Sequence[Claim],
    *,
    digits: Mapping[str, int] | None = None,
) -> list[str]:
    """Every figure as PNG and SVG, every table as CSV, and the claims; the names written.

    `tables` go by the names of their files, packed where these end in .gz, and `digits` says how many digits
    the numbers of a file have where they are not ten. A `Table` is written with a row per run and round, a
    text as it is.
    """
    for name, made in figures.items():
        plots.save(made, folder / f"{name}.png", folder / f"{name}.svg")
    for name, table in {**tables, "claims.csv": disk.columns(one._asdict() for one in found)}.items():
        if isinstance(table, str):
            disk.write(folder / name, table)
        else:
            columns = table.long() if isinstance(table, Table) else table
            write_csv(folder / name, columns, digits=(digits or {}).get(name, 10))
    disk.write(folder / "claims.md", claims.markdown(found))
    return sorted(path.name for path in folder.iterdir())


def write_pure(
    folder: Path,
    study: Outcome,
    figures: Mapping[str, Figure],
    found: Sequence[Claim],
    *,
    keep: Sequence[str],
    drawn: Sequence[str],
    **more: Columns,
) -> list[str]:
    """The files of a study in a pure environment: figures, and every number.

    keep: the columns of every round. drawn: the columns that figures draw.
    more: further tables, ``runs`` with the labels of the runs before its columns.
    """
    runs, tuned = study.runs, study.tuning
    tables: dict[str, Any] = {
        "rounds.csv.gz": Table(runs.labels, {name: runs[name] for name in keep}),
        "curves.csv.gz": curves(runs, drawn),
        "tuning.csv": {**tuned.labels, "regret_of_10_rounds": tuned["regret"][:, -1]},
        "steps.csv": chosen_columns(study),
    }
    tables |= {f"{name}.csv": {**runs.labels, **one} if name == "runs" else one for name, one in more.items()}
    return write(folder, figures, tables, found, digits={"rounds.csv.gz": 9})


def curves(runs: Table, columns: Sequence[str]) -> dict[str, np.ndarray]:
    """What the figures draw: per setting and round the mean over seeds, and the 5 % and 95 % quantiles."""
    found: dict[str, list[np.ndarray]] = {}
    by = [name for name in runs.labels if name not in ("step", "seed")]
    keys = dict.fromkeys(zip(*(runs[name].tolist() for name in by), strict=True))
    for key in keys:
        where = dict(zip(by, key, strict=True))
        here = runs.where(**where)
        rounds = np.arange(1, here[columns[0]].shape[1] + 1)
        parts: dict[str, np.ndarray] = {name: np.full(len(rounds), one) for name, one in where.items()}
        parts["round"] = rounds
        for name in columns:
            low, high = np.quantile(here[name], [0.05, 0.95], axis=0)
            parts |= {f"{name}_mean": here[name].mean(axis=0), f"{name}_05": low, f"{name}_95": high}
        for name, part in parts.items():
            found.setdefault(name, []).append(part)
    return {name: np.concatenate(parts) for name, parts in found.items()}
