"""The folder of a run.

    config.json             what was asked for, cores and versions
    ledger.csv              one row per round, appended; the same seed gives the same bytes
    times.csv               seconds per round, kept apart because they differ from run to run
    samples/*.bin           every sample, appended (see `samples.SampleLog`)
    labels.bin              labels of the round under way, appended as the expert gives them (see `journal`)
    policy.safetensors/json the policy after the last round
    checkpoint.safetensors  everything needed to go on; its rename is the moment at which a round counts
    summary.json            written last: the run is finished

The appended files may be ahead of the checkpoint after a kill; resuming cuts them to the lengths it holds.
"""

from __future__ import annotations

import json
import os
import warnings
from pathlib import Path
from typing import Any, final

import numpy as np

from .. import disk
from ..disk import csv_line, reporting
from ..errors import UserError
from ..machine import cores, versions
from ..regret import Ledger
from .journal import Journal
from .state import NAMES, TIMES, RunState

FORMAT = 3
"""1: before runs had one spec and intervals of the regret. 2: before query rules and the journal."""
WORDS = {"solver_status", "comparator_status"}
WHOLE = {"round", "samples", "interactions", "queries", "unanswered", "handovers", "episodes"}
WHOLE |= {"solver_iterations", "solver_evaluations"}
SECONDS = ("round", *TIMES)


@final
class Folder:
    """A run's folder, opened for writing by one process at a time."""

    def __init__(
        self, path: str | os.PathLike[str], config: dict[str, Any], *, resume: bool, slow: bool = False
    ):
        self.path = Path(path)
        with reporting(self.path):
            self.fresh = self._open(config, resume)
        self._lock = disk.lock(self.path)
        # A slow expert is asked about a state once in the whole run, so its labels stay.
        self.journal = Journal(self.path / "labels.bin", keep=slow)

    @property
    def samples(self) -> Path:
        return self.path / "samples"

    @property
    def finished(self) -> bool:
        return (self.path / "summary.json").is_file()

    def _open(self, config: dict[str, Any], resume: bool) -> bool:
        """Makes the folder, or checks that it holds this very run; True where nothing has been done in it."""
        there = self.path.is_dir() and any(self.path.iterdir())
        if self.path.exists() and not self.path.is_dir():
            raise UserError(f"out: {str(self.path)!r} is a file; name a folder.")
        if there and not (self.path / "config.json").is_file():
            # A kill while the very first file was written leaves nothing but that file's draft.
            if {one.name for one in self.path.iterdir()} - {"config.json.tmp", "lock"}:
                raise UserError(
                    f"out: the folder {str(self.path)!r} holds other things than a run; name another."
                )
            there = False
        if there and not resume:
            state = "a finished" if self.finished else "an unfinished"
            raise UserError(
                f"out: the folder {str(self.path)!r} holds {state} run; resume it (--resume) or name another."
            )
        if not there:
            self.path.mkdir(parents=True, exist_ok=True)
            kept = {"format": FORMAT, "cores": cores(), "versions": versions(), "settings": config}
            disk.write(self.path / "config.json", disk.to_json(kept, indent=2, sort=True) + "\n")
            return True
        self._same(config)
        return not (self.path / "checkpoint.safetensors").is_file()

    def _same(self, config: dict[str, Any]) -> None:
        kept = read_config(self.path)
        was, now = _flat(kept["settings"]), _flat(json.loads(json.dumps(config)))
        # Settings come first: what was resolved follows from them.
        for name in sorted({*now, *was}, key=lambda name: (name.startswith("resolved"), name)):
            old, new = was.get(name), now.get(name)
            if old != new:
                raise UserError(
                    f"resume: {name} was {old!r} in {str(self.path)!r} and is {new!r} now; give the same."
                )
        if kept["cores"] != cores():
            raise UserError(
                f"resume: the run was begun with {kept['cores']} cores and this process has {cores()}: "
                "its last bits would differ; give it as many (taskset does)."
            )
        if kept["versions"] != versions():
            warnings.warn(
                "resume: other versions of the libraries than the run was begun with.", stacklevel=2
            )

    def begin(self, run: RunState) -> None:
        """For a run with no round done: empty files with their headers."""
        with reporting(self.path):
            run.samples.cut(0)
            for name, columns in (("ledger.csv", NAMES), ("times.csv", SECONDS)):
                disk.write(self.path / name, csv_line(columns))

    def commit(self, run: RunState, slots: list[dict[str, Any]]) -> None:
        """Makes the last round count; `slots` say where the run's environments are."""
        row, laps = run.rows[-1], run.times[-1]
        with reporting(self.path):
            ledger = disk.append(self.path / "ledger.csv", csv_line(row[name] for name in NAMES))
            seconds = [run.round, *(laps[name] for name in TIMES)]
            times = disk.append(self.path / "times.csv", csv_line(seconds))
            run.policy().save(self.path / "policy")
            arrays, plain = run.snapshot(slots)
            plain |= {"format": FORMAT, "ledger_bytes": ledger, "times_bytes": times}
            disk.write_tensors(self.path / "checkpoint.safetensors", arrays, {"run": json.dumps(plain)})
            self.journal.commit()

    def restore(self, run: RunState) -> list[dict[str, Any]]:
        """Brings `run` to the last round that counts, and the files back to it; gives the `slots` of then."""
        with reporting(self.path):
            arrays, plain = _read_checkpoint(self.path / "checkpoint.safetensors")
            try:
                for name in ("ledger", "times"):
                    _cut(self.path / f"{name}.csv", plain[f"{name}_bytes"])
                run.samples.cut(plain["rows"])
                rows = _rows(read_ledger(self.path))
                times = [
                    {k: float(v) for k, v in one.items() if k in TIMES}
                    for one in disk.read_csv(self.path / "times.csv", "run")
                ]
                if not len(rows) == len(times) == plain["round"]:
                    raise UserError(
                        f"run: {str(self.path)!r} is damaged: ledger and checkpoint do not agree."
                    )
                return run.restore(arrays, plain, rows, times)
            except (KeyError, ValueError, TypeError) as error:
                if isinstance(error, UserError):
                    raise
                raise UserError(
                    f"run: {str(self.path)!r} is damaged ({type(error).__name__}: {error})."
                ) from error

    def finish(self, summary: dict[str, Any]) -> None:
        """Says that the run is over, with its outcome."""
        with reporting(self.path):
            disk.write(self.path / "summary.json", disk.to_json(summary, indent=2) + "\n")

    def close(self) -> None:
        self.journal.close()
        if self._lock is not None:
            self._lock.close()


def write_run(
    path: Path, settings: dict[str, Any], ledger: Ledger, policy: Any, outcome: dict[str, Any]
) -> Path:
    """A finished run, without its samples and checkpoint, as a new folder."""
    folder = Folder(path, settings, resume=False)
    try:
        with reporting(path):
            ledger.to_csv(path / "ledger.csv")
            policy.save(path / "policy")
        folder.finish(outcome)
    finally:
        folder.close()
    return path


def _flat(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings and what was resolved from them, on one level."""
    resolved = {f"resolved {name}": value for name, value in settings.get("resolved", {}).items()}
    return {name: value for name, value in settings.items() if name != "resolved"} | resolved


def read_config(path: Path) -> dict[str, Any]:
    """config.json of a run's folder; a newer or damaged one is refused."""
    file = Path(path) / "config.json"
    if not file.is_file():
        raise UserError(f"run: {str(path)!r} is not the folder of a run (it has no config.json).")
    kept = disk.read_json(file, "run")
    if not isinstance(kept, dict) or not {"format", "settings", "cores", "versions"} <= set(kept):
        raise UserError(f"run: {file} is damaged.")
    _known(kept["format"], file)
    return kept


def read_summary(path: Path) -> dict[str, Any] | None:
    """summary.json of a finished run, None for one that is not."""
    file = Path(path) / "summary.json"
    return disk.read_json(file, "run") if file.is_file() else None


def read_ledger(path: Path) -> Ledger:
    """ledger.csv as columns."""
    rows = disk.read_csv(Path(path) / "ledger.csv", "run")
    if rows and list(rows[0]) != NAMES:
        raise UserError(f"run: {path}/ledger.csv is damaged: its columns are not those of a run.")
    return Ledger({name: [_value(name, row[name]) for row in rows] for name in NAMES})


def _value(name: str, text: str) -> Any:
    return text if name in WORDS else int(text) if name in WHOLE else float(text)


def _rows(ledger: Ledger) -> list[dict[str, Any]]:
    columns = {name: ledger[name].tolist() for name in ledger}
    return [{name: columns[name][t] for name in columns} for t in range(ledger.rounds)]


def _cut(file: Path, size: int) -> None:
    if not file.is_file() or file.stat().st_size < size:
        raise UserError(f"run: {file} is damaged: it is shorter than the checkpoint says.")
    os.truncate(file, size)


def _known(number: Any, file: Path) -> None:
    if number != FORMAT:
        raise UserError(
            f"run: {file} has format {number!r}, of another version of understudy; {FORMAT} is read here."
        )


def _read_checkpoint(file: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    arrays, metadata = disk.read_tensors(file, "run")
    try:
        plain = json.loads(metadata["run"])
    except (KeyError, ValueError) as error:
        raise UserError(f"run: {file} is damaged ({type(error).__name__}).") from None
    _known(plain.get("format"), file)
    return arrays, plain
