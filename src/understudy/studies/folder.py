"""The folder of a study, and its tables.

    study.json       settings, axes, seeds, every run with its id and labels; versions of what computes
    runs/ID.json     what came of a run, written in one rename when its shard has ended
    runs/ID.partial  a run that is under way, kept now and then: the folder of a run (see `runs.folder`)
    runs/ID          the folder of a run that has ended, where it is to be kept
    results.csv      one row per run and round, in the order of the plan (also .parquet, with pyarrow)
    summary.csv      one row per run

The tables are made from the files of runs, so their bytes depend on neither engine, workers, kills nor the
order in which runs ended. Seconds are in the files of runs alone.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import math
import shutil
import warnings
from collections.abc import Generator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypedDict

from .. import disk
from ..disk import Json, reporting
from ..errors import UserError, damaged
from ..machine import versions
from ..runs import NAMES
from ..spec import RunSpec
from .shard import Result, partial
from .study import Entry, Study

FORMAT = 3
SUMMARY = (
    *("rounds", "steps", "labels", "average_loss", "regret", "bound", "certificate"),
    *("return_mean", "return_std", "return_low", "return_high", "return_least", "episodes"),
    *("expert_return", "expert_return_low", "expert_return_high"),
    *("difference", "difference_low", "difference_high"),
)
"""The first columns of summary.csv, in this order; other entries of a run's summary follow."""
Columns: TypeAlias = dict[str, list[Json]]


class ShardRecord(TypedDict):
    """Of the shard that a run was played in: how many runs and steps it had, and how long it took."""

    name: str
    runs: int
    steps: int
    seconds: float
    engine: str


class Finished(NamedTuple):
    """What the file of a finished run holds."""

    result: Result
    shard: ShardRecord


@contextlib.contextmanager
def open_folder(path: Path, study: Study, *, stray: bool = False) -> Generator[None]:
    """A study's folder, which one process at a time may write to; one that holds another study is refused."""
    refuse_foreign(path)
    with reporting(path):
        (path / "runs").mkdir(parents=True, exist_ok=True)
    with disk.lock(path):
        if (path / "study.json").is_file():
            refuse_other(path, study, stray=stray)
        record = {
            "format": FORMAT,
            "versions": versions(),
            "study": study.described(),
            "runs": [
                {"id": entry.id, "labels": [*entry.labels.items()], "settings": entry.settings}
                for entry in study.runs
            ],
        }
        with reporting(path):
            disk.write_file(path / "study.json", disk.to_json(record, indent=1, sort=True) + "\n")
        yield


def settle_partial(path: Path, names: Iterable[str], *, whole: bool = False) -> None:
    """What was kept of ended runs, by id, while they were under way goes, or becomes their whole folder."""
    for name in names:
        under_way, kept = partial(path / "runs", name), path / "runs" / name
        if whole and not kept.is_dir() and (under_way / "summary.json").is_file():
            with reporting(path):
                under_way.rename(kept)
        shutil.rmtree(under_way, ignore_errors=True)


KEEP = ("best", "all")


def keep_best(path: Path, finished: Mapping[str, Result], entries: Iterable[Entry]) -> None:
    """Removes the folders of all runs but, of each environment, the one with the highest return."""
    for runs in kept_runs(path, finished, entries).values():
        for entry, _ in runs[1:]:
            shutil.rmtree(path / "runs" / entry.id, ignore_errors=True)


def kept_runs(
    path: Path, finished: Mapping[str, Result], entries: Iterable[Entry]
) -> dict[str, list[tuple[Entry, Path]]]:
    """The folders of runs that are there, by environment: the highest return first, else the least loss."""
    found: dict[str, list[tuple[Entry, Path]]] = {}

    def order(run: tuple[Entry, Path]) -> tuple[bool, float]:
        summary = finished[run[0].id].summary
        score, loss = float(summary["return_mean"]), float(summary["average_loss"])
        return (False, -score) if math.isfinite(score) else (True, loss if loss == loss else math.inf)

    for entry in entries:
        if entry.id in finished and (path / "runs" / entry.id / "config.json").is_file():
            found.setdefault(str(entry.labels["env"]), []).append((entry, path / "runs" / entry.id))
    return {env: sorted(runs, key=order) for env, runs in found.items()}


def write_result(
    path: Path, entry: Entry, result: Result, shard: ShardRecord, *, whole: bool = False
) -> None:
    """Makes a run count; whole: its folder stays."""
    columns = {name: [row[name] for row in result.rows] for name in NAMES}
    told = {name: value for name, value in result._asdict().items() if name != "rows"}
    record = {"settings": entry.settings, "columns": columns, **told, "shard": shard}
    with reporting(path):
        disk.write_file(path / "runs" / f"{entry.id}.json", disk.to_json(record, lossless=True))
    if result.error is None:  # one that failed may be played again, from where it was
        settle_partial(path, [entry.id], whole=whole)


def read_results(path: Path, entries: Iterable[Entry]) -> dict[str, Finished]:
    """What came of every finished run, by its id; a damaged file is none."""
    finished: dict[str, Finished] = {}
    for entry in entries:
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            found, settings = read_file(path / "runs" / f"{entry.id}.json")
            if settings == disk.from_json(disk.to_json(entry.settings, lossless=True)):
                finished[entry.id] = found
    return finished


def read_file(file: Path) -> tuple[Finished, dict[str, Json]]:
    """What the file of a finished run holds, and the settings of the run."""
    record = disk.read_json(file, "out")
    columns = [record["columns"][name] for name in NAMES]
    result = Result(
        rows=[dict(zip(NAMES, row, strict=True)) for row in zip(*columns, strict=True)],
        **{name: record[name] for name in ("summary", "error", "seconds")},
        **{name: record.get(name) for name in ("evaluation", "expert_evaluation")},
    )
    return Finished(result, record["shard"]), record["settings"]


def refuse_foreign(path: Path, what: str = "a study", marks: Sequence[str] = ("study.json",)) -> None:
    """Refuses a file, and a folder of other things: it holds something, and none of the `marks` of `what`."""
    if path.exists() and not path.is_dir():
        raise UserError(f"out: {str(path)!r} is a file; name a folder.")
    names = {entry.name for entry in path.iterdir()} if path.is_dir() else set[str]()
    # A kill before the first mark was written leaves these.
    if names - {"study.json.tmp", "lock", "runs"} and not names & {*marks}:
        raise UserError(f"out: {str(path)!r} holds other things than {what}; name another.")


def refuse_other(path: Path, study: Study, *, stray: bool = False) -> None:
    """Refuses a folder with runs that are not in `study`, unless they may be `stray`."""
    record, ids = _read_record(path / "study.json"), {entry.id for entry in study.runs}
    gone = [run for run in record.get("runs", ()) if run["id"] not in ids]
    if gone and not stray:
        old, new = record["study"], disk.to_plain(study.described())
        changed = [name for name in sorted({*old, *new}) if old.get(name) != new.get(name)]
        raise UserError(
            f"out: {str(path)!r} holds another study: {len(gone)} of its {len(record['runs'])} runs "
            f"are not in this one ({', '.join(changed)} changed); add runs to it, or name another folder."
        )
    if record.get("versions") != versions():
        warnings.warn("out: other versions of the libraries than the study was begun with.", stacklevel=6)


def read_entries(path: Path) -> Sequence[Entry]:
    """The runs of the study that a folder holds, finished or not."""
    if not (path / "study.json").is_file():
        raise UserError(f"study: {str(path)!r} is not the folder of a study (it has no study.json).")
    with damaged(f"study: {path / 'study.json'}"):
        record = _read_record(path / "study.json")
        if not all("labels" in run for run in record["runs"]):  # written before labels were kept
            return Study(**record["study"]).runs
        return [Entry(run["id"], dict(run["labels"]), RunSpec.of(run["settings"])) for run in record["runs"]]


def _read_record(path: Path) -> dict[str, Any]:
    record = disk.read_json(path, "out")
    with damaged(f"out: {str(path)!r}"):
        if record["format"] != FORMAT:
            raise UserError(f"out: {str(path)!r} has the format {record['format']}; {FORMAT} is read here.")
    return record


# ------------------------------------------------------------------------------------------------ tables


def column_of(name: str) -> str:
    """The column of an axis; one named like a column of results, as the loss is, gets a longer name.

    >>> column_of("step"), column_of("loss")
    ('step', 'loss_setting')
    """
    return f"{name}_setting" if name in NAMES or name in SUMMARY else name


def tabulate_rounds(entries: Sequence[Entry], results: Sequence[Result]) -> Columns:
    """One row per run and round: the run's labels and the ledger's columns."""
    each = [(entry, row) for entry, result in zip(entries, results, strict=True) for row in result.rows]
    columns = _label_columns([entry for entry, _ in each], entries)
    for name in NAMES:
        columns[name] = [row[name] for _, row in each]
    return columns


def tabulate_runs(entries: Sequence[Entry], results: Sequence[Result]) -> Columns:
    """One row per run: its labels, what it came to, and the sentence with which it failed where it did."""
    numbers = dict.fromkeys([*SUMMARY, *(name for result in results for name in sorted(result.summary))])
    columns = _label_columns(entries, entries)
    columns |= {name: [result.summary.get(name) for result in results] for name in numbers}
    columns["error"] = [result.error or "" for result in results]
    return columns


def _label_columns(rows: Sequence[Entry], entries: Sequence[Entry]) -> Columns:
    """The id and the labels of the run of each row; labels are those of all `entries`, seed last."""
    names = dict.fromkeys(name for entry in entries for name in entry.labels if name != "seed")
    columns: Columns = {"run": [entry.id for entry in rows]}
    return columns | {
        column_of(name): [entry.labels.get(name) for entry in rows] for name in (*names, "seed")
    }


def write_tables(folder: Path, **tables: Columns) -> None:
    """Writes each as NAME.csv, and as NAME.parquet where pyarrow is installed; same numbers, same bytes."""
    with reporting(folder):
        for name, columns in tables.items():
            disk.write_file(folder / f"{name}.csv", to_csv(columns))
            if (packed := to_parquet(columns)) is not None:
                disk.write_file(folder / f"{name}.parquet", packed)


def to_csv(columns: Mapping[str, Sequence[Json]]) -> str:
    """Columns as CSV: floats with every digit, nothing where nothing was measured.

    >>> to_csv({"step": [0.1, None], "bound": [math.inf, math.nan]})
    'step,bound\\n0.1,inf\\n,\\n'
    """
    return disk.to_csv(columns, _spell)


def to_parquet(columns: Mapping[str, Sequence[Json]]) -> bytes | None:
    """Columns as Parquet, with nulls where the CSV has nothing; None without pyarrow."""
    try:
        pyarrow, parquet = map(importlib.import_module, ("pyarrow", "pyarrow.parquet"))
    except ImportError:
        return None
    arrays: dict[str, Any] = {}
    for name, column in columns.items():
        values = [None if _is_missing(value) else value for value in column]
        kinds = {type(value) for value in values if value is not None}
        if kinds == {int}:
            kind = pyarrow.int64()
        elif kinds <= {int, float}:
            kind = pyarrow.float64()
        elif kinds == {bool}:
            kind = pyarrow.bool_()
        else:
            kind, values = pyarrow.string(), [None if value is None else _spell(value) for value in values]
        arrays[name] = pyarrow.array(values, kind)
    sink = io.BytesIO()
    parquet.write_table(pyarrow.table(arrays), sink)
    return sink.getvalue()


def _is_missing(value: Json) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _spell(value: Json) -> str:
    if _is_missing(value):
        return ""
    if isinstance(value, float):
        return repr(value)
    return value if isinstance(value, str) else json.dumps(value)
