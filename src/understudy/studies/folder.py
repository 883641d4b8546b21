"""The folder of a study.

    study.json       settings, axes, seeds, every run with its id and labels; versions of what computes
    runs/ID.json     what came of a run, written in one rename when its shard has ended
    runs/ID.partial  a run that is under way, kept now and then: the folder of a run (see `runs.folder`)
    results.csv      one row per run and round, in the order of the plan (also .parquet, with pyarrow)
    summary.csv      one row per run

The tables are made from the files of runs, so their bytes depend on neither engine, workers, kills nor the
order in which runs ended. Seconds are in the files of runs alone.
"""

from __future__ import annotations

import contextlib
import shutil
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from .. import disk
from ..disk import reporting
from ..errors import UserError, damaged
from ..machine import versions
from ..runs import NAMES
from ..spec import RunSpec
from .shard import Result, partial
from .study import Entry, Study

FORMAT = 3


@contextlib.contextmanager
def opened(path: Path, study: Study, *, stray: bool = False) -> Iterator[None]:
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


def forget(path: Path, names: Iterable[str]) -> None:
    """Removes what was kept of runs, by id, while they were under way."""
    for name in names:
        shutil.rmtree(partial(path / "runs", name), ignore_errors=True)


def write(path: Path, entry: Entry, result: Result, shard: dict[str, Any]) -> None:
    """Makes a run count; `shard` says with how many others it was played, and how long that took."""
    record = {
        "settings": entry.settings,
        "columns": {name: [row[name] for row in result.rows] for name in NAMES},
        "summary": result.summary,
        "error": result.error,
        "seconds": result.seconds,
        "evaluation": result.evaluation,
        "expert_evaluation": result.expert_evaluation,
        "shard": shard,
    }
    with reporting(path):
        disk.write_file(path / "runs" / f"{entry.id}.json", disk.to_json(record, lossless=True))
    if result.error is None:  # one that failed may be played again, from where it was
        forget(path, [entry.id])


def refuse_foreign(path: Path, what: str = "a study", marks: Sequence[str] = ("study.json",)) -> None:
    """Refuses a file, and a folder of other things: it holds something, and none of the `marks` of `what`."""
    if path.exists() and not path.is_dir():
        raise UserError(f"out: {str(path)!r} is a file; name a folder.")
    names = {one.name for one in path.iterdir()} if path.is_dir() else set()
    # A kill before the first mark was written leaves these.
    if names - {"study.json.tmp", "lock", "runs"} and not names & {*marks}:
        raise UserError(f"out: {str(path)!r} holds other things than {what}; name another.")


def refuse_other(path: Path, study: Study, *, stray: bool = False) -> None:
    """Refuses a folder with runs that are not in `study`, unless they may be `stray`."""
    kept, now = _read(path / "study.json"), {entry.id for entry in study.runs}
    gone = [run for run in kept.get("runs", ()) if run["id"] not in now]
    if gone and not stray:
        old, new = kept["study"], disk.to_plain(study.described())
        changed = [name for name in sorted({*old, *new}) if old.get(name) != new.get(name)]
        raise UserError(
            f"out: {str(path)!r} holds another study: {len(gone)} of its {len(kept['runs'])} runs "
            f"are not in this one ({', '.join(changed)} changed); add runs to it, or name another folder."
        )
    if kept.get("versions") != versions():
        warnings.warn("out: other versions of the libraries than the study was begun with.", stacklevel=6)


def finished(path: Path, entries: Iterable[Entry]) -> dict[str, tuple[Result, dict[str, Any]]]:
    """What came of every finished run, and of its shard, by its id; a damaged file is none."""
    made = {}
    for entry in entries:
        try:
            found = disk.read_json(path / "runs" / f"{entry.id}.json", "out")
            columns = [found["columns"][name] for name in NAMES]
            rows = [dict(zip(NAMES, row, strict=True)) for row in zip(*columns, strict=True)]
            played = (found.get(name) for name in ("evaluation", "expert_evaluation"))
            result = Result(rows, found["summary"], found["error"], found["seconds"], *played)
            if found["settings"] == disk.from_json(disk.to_json(entry.settings, lossless=True)):
                made[entry.id] = result, found["shard"]
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return made


def entries_of(path: Path) -> Sequence[Entry]:
    """The runs of the study that a folder holds, finished or not."""
    if not (path / "study.json").is_file():
        raise UserError(f"study: {str(path)!r} is not the folder of a study (it has no study.json).")
    with damaged(f"study: {path / 'study.json'}"):
        kept = _read(path / "study.json")
        if not all("labels" in one for one in kept["runs"]):  # written before labels were kept
            return Study(**kept["study"]).runs
        return [Entry(one["id"], dict(one["labels"]), RunSpec.of(one["settings"])) for one in kept["runs"]]


def _read(path: Path) -> dict[str, Any]:
    found = disk.read_json(path, "out")
    with damaged(f"out: {str(path)!r}"):
        if found["format"] != FORMAT:
            raise UserError(f"out: {str(path)!r} has the format {found['format']}; {FORMAT} is read here.")
    return found
