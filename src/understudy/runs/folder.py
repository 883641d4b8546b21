"""The folder of a run.

    config.json             what was asked for, cores and versions
    ledger.csv              one row per round, appended; the same seed gives the same bytes
    times.csv               seconds per round, kept apart because they differ from run to run
    samples/*.bin           every sample, appended (see `samples.SampleLog`)
    labels.bin              labels of the round under way, appended as the expert gives them (see `journal`)
    policy.safetensors/json the policy after the last round
    rounds/                 the last two rounds: checksums of all files, and what is needed to go on
    summary.json            the outcome, once the run is finished

The appended files may be ahead of the last round after a kill; resuming cuts them to the lengths it had.
"""

from __future__ import annotations

import json
import math
import os
import warnings
import zlib
from pathlib import Path
from typing import Any, final

import numpy as np

from .. import disk
from ..disk import csv_line, reporting
from ..errors import UserError, damaged, unknown
from ..machine import cores, versions
from ..regret import Ledger
from ..spec import FIELDS, ROUNDS
from . import rounds
from .journal import Journal
from .rounds import Record, Sums, sum_of
from .state import NAMES, TIMES, RunState

FORMAT = 3
"""1: before runs had one spec and intervals of the regret. 2: before query rules and the journal."""
WORDS = {"solver_status", "comparator_status"}
WHOLE = {"round", "samples", "interactions", "queries", "unanswered", "breaks", "handovers", "episodes"}
WHOLE |= {"solver_iterations", "solver_evaluations"}
SECONDS = ("round", *TIMES)
POLICY = ("policy.safetensors", "policy.json")
RESUMES = ("exact", "new-episode", "other-machine")
"""How to go on: exactly; with a new episode, where the one under way cannot be played again; on a machine or
with libraries that may give other last bits. Several are joined by commas."""
GROWING = ("rounds", "budget")
"""Settings that may be larger when a run is resumed: it is extended."""
FREE = ("episodes", "evaluate_every", "expert_episodes", "comparator", "search", "memory_limit")
FREE += ("expert_workers", "expert_timeout", "expert_retries", "episode_limit")
"""Settings that may be others when a run is resumed: they do not change what is learnt."""


def resuming(value: Any) -> frozenset[str]:
    """The ways to resume that a value names: none for False, the exact one for True.

    >>> sorted(resuming("new-episode,other-machine")), resuming(False)
    (['new-episode', 'other-machine'], frozenset())
    """
    if isinstance(value, bool) or value is None:
        return frozenset({"exact"} if value else ())
    ways = str(value).split(",")
    for way in ways:
        if way not in RESUMES:
            raise unknown("resume", way, RESUMES)
    return frozenset(ways)


def settings_of(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The settings that the run in a folder was begun with, for those that are not given when it is resumed;
    none where there is no run.
    """
    if not (Path(path) / "config.json").is_file():
        return {}
    kept = read_config(Path(path))["settings"]
    return {name: value for name, value in kept.items() if name in FIELDS and value is not None}


@final
class Folder:
    """A run's folder, opened for writing by one process at a time.

    Args:
      resume: ways to go on with the run that is in it (see `RESUMES`); empty: there must be none.
      slow: the expert is slow or dear, so its labels are kept for the whole run.

    Attributes:
      fresh: nothing counts yet.
      finished: the run is over and all its files are as they were written.
      journal: where the labels of the round under way are.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        config: dict[str, Any],
        *,
        resume: frozenset[str] = frozenset(),
        slow: bool = False,
    ):
        self.path, self.resume, self._config = Path(path), resume, config
        self._record: Record | None = None
        self.finished, self._sums = False, Sums(self.path)
        with reporting(self.path):
            there = self._refuse()
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = disk.lock(self.path)
            try:
                if there:
                    self._enter()
                else:
                    disk.write(self.path / "config.json", self._text())
            except BaseException:
                self.close()
                raise
        # A slow expert is asked about a state once in the whole run, so its labels stay.
        self.journal = Journal(self.path / "labels.bin", keep=slow)

    @property
    def samples(self) -> Path:
        return self.path / "samples"

    @property
    def fresh(self) -> bool:
        return self._record is None or self._record.round == 0

    def _text(self) -> str:
        kept = {"format": FORMAT, "cores": cores(), "versions": versions(), "settings": self._config}
        return disk.to_json(kept, indent=2, sort=True) + "\n"

    def _refuse(self) -> bool:
        """Whether a run is there; what must not be written to is refused."""
        if self.path.exists() and not self.path.is_dir():
            raise UserError(f"out: {str(self.path)!r} is a file; name a folder.")
        names = {one.name for one in self.path.iterdir()} if self.path.is_dir() else set()
        if not names or (self.path / "config.json").is_file():
            if names and not self.resume:
                state = "a finished" if (self.path / "summary.json").is_file() else "an unfinished"
                raise UserError(
                    f"out: the folder {str(self.path)!r} holds {state} run; resume it (--resume) or name "
                    "another."
                )
            return bool(names)
        # A kill while the very first file was written leaves nothing but that file's draft.
        if names - {"config.json.tmp", "lock"}:
            what = "is damaged: config.json is missing"
            raise UserError(
                f"run: {str(self.path)!r} {what}."
                if "rounds" in names
                else f"out: the folder {str(self.path)!r} holds other things than a run; name another."
            )
        return False

    def _enter(self) -> None:
        """Finds the last round that counts and is whole, and checks that this is the same run."""
        kept = rounds.numbers(self.path)
        if not kept:
            if any((self.path / name).exists() for name in POLICY):
                raise UserError(f"run: {str(self.path)!r} is damaged: rounds/ is missing.")
            self._same(read_config(self.path))
            return
        hurt: list[str] = []
        for number in kept:
            try:
                record = rounds.read(self.path / f"{rounds.name_of(number)}.json")
            except UserError as error:
                hurt.append(str(error).removesuffix("."))
                continue
            record.settle(self.path)
            self._mend_config(record)
            # The policy can be written again from the checkpoint, and the outcome found again.
            if told := record.damage(self.path, but=("config.json", "summary.json", *POLICY)):
                hurt.append(f"run: {told}")
                continue
            self._record = record
            break
        if self._record is None:
            raise UserError(f"{hurt[0]}; there is no good round to go back to.")
        if hurt:
            warnings.warn(f"{hurt[0]}; going on from round {self._record.round}.", stacklevel=2)
        config = read_config(self.path)
        self._same(config)
        whole = self._record.damage(self.path) is None
        if self._record.finished and whole and not hurt:
            self.finished = not self._more(config["settings"])
        if not self.finished:
            self._reopen(config)

    def _mend_config(self, record: Record) -> None:
        """config.json that is not what it was is written again where the settings of now give its bytes."""
        text = self._text().encode()
        if sum_of(self.path / "config.json") == record.whole["config.json"]:
            return
        if (len(text), zlib.crc32(text)) != record.whole["config.json"]:
            raise UserError(
                f"run: {self.path / 'config.json'} is damaged: its bytes are not those that were written; "
                "give all settings of the run, and it is written again."
            )
        disk.write(self.path / "config.json", text)

    def _more(self, was: dict[str, Any]) -> bool:
        """Whether the run is longer now than it was."""
        return any(_longer(name, was, self._config) for name in GROWING)

    def _reopen(self, config: dict[str, Any]) -> None:
        """The round that counts, without an outcome and with the settings of now."""
        assert self._record is not None
        if self._record.round and self._record.checkpoint not in self._record.whole:
            raise UserError(
                f"resume: the run in {str(self.path)!r} was saved without its samples; it cannot go on."
            )
        rounds.forget(self.path, self._record.round)
        if config["settings"] == json.loads(json.dumps(self._config)) and not self._record.finished:
            return
        disk.write(
            self.path / "next" / "config.json",
            disk.to_json(config | {"settings": self._config}, indent=2, sort=True) + "\n",
        )
        self._count(self._record.round, "config.json", drop=("summary.json",))
        (self.path / "summary.json").unlink(missing_ok=True)

    def _same(self, kept: dict[str, Any]) -> None:
        was, now = _flat(kept["settings"]), _flat(json.loads(json.dumps(self._config)))
        # Settings come first: what was resolved follows from them.
        for name in sorted({*now, *was}, key=lambda name: (name.startswith("resolved"), name)):
            old, new = was.get(name), now.get(name)
            if old == new or name in FREE or (name in GROWING and _longer(name, was, now)):
                continue
            raise UserError(
                f"resume: {name} was {old!r} in {str(self.path)!r} and is {new!r} now; give the same."
            )
        told = ""
        if kept["cores"] != cores():
            told = f"the run was begun with {kept['cores']} cores and this process has {cores()}"
        elif kept["versions"] != versions():
            old, new = kept["versions"], versions()
            name = next(name for name in {**old, **new} if old.get(name) != new.get(name))
            told = f"the run was begun with {name} {old.get(name)} and this is {new.get(name)}"
        if told and "other-machine" not in self.resume:
            raise UserError(
                f"resume: {told}, so its last bits may differ; --resume=other-machine goes on all the same."
            )
        if told:
            warnings.warn(f"resume: {told}; its last bits may differ.", stacklevel=2)

    def begin(self, run: RunState) -> None:
        """For a run with no round done: empty files with their headers."""
        with reporting(self.path):
            run.samples.clear()
            self._sums.clear()
            for name, columns in (("ledger.csv", NAMES), ("times.csv", SECONDS)):
                (self.path / name).unlink(missing_ok=True)
                self._sums.append(name, csv_line(columns))
            self._record = None
            self._count(0, "config.json", grown=dict(self._sums))

    def _count(
        self, number: int, *new: str, grown: dict[str, Any] | None = None, drop: tuple[str, ...] = ()
    ) -> None:
        """Makes a round count, with the `new` files of next/; those of the record before that are not
        dropped stay in it.
        """
        whole = {} if self._record is None else dict(self._record.whole)
        if grown is None:
            assert self._record is not None
            grown = self._record.grown
        elif self._record is not None:
            drop = (*drop, self._record.checkpoint)
        for name in new:
            ahead = self.path / "next" / name
            found = sum_of(ahead if ahead.is_file() else self.path / name)
            assert found is not None
            whole[name] = found
        self._record = Record(number, {k: v for k, v in whole.items() if k not in drop}, grown)
        self._record.write(self.path)
        self._record.settle(self.path)
        rounds.forget(self.path, number)

    def commit(self, run: RunState, slots: list[dict[str, Any]]) -> None:
        """Makes the last round count; `slots` say where the run's environments are."""
        row, laps = run.rows[-1], run.times[-1]
        with reporting(self.path):
            self._sums.append("ledger.csv", csv_line(row[name] for name in NAMES))
            self._sums.append("times.csv", csv_line([run.round, *(laps[name] for name in TIMES)]))
            run.policy().save(self.path / "next" / "policy")
            arrays, plain = run.snapshot(slots)
            file = f"{rounds.name_of(run.round)}.safetensors"
            disk.write_tensors(self.path / file, arrays, {"run": json.dumps(plain | {"format": FORMAT})})
            grown = dict(self._sums) | {f"samples/{k}": v for k, v in run.samples.sums.items()}
            self._count(run.round, file, *POLICY, grown=grown)
            self.journal.commit()

    def restore(self, run: RunState) -> list[dict[str, Any]]:
        """Brings `run` to the last round that counts, and the files back to it; gives the `slots` of then."""
        assert self._record is not None
        grown = self._record.grown
        with reporting(self.path):
            arrays, plain = _read_checkpoint(self.path / self._record.checkpoint)
            try:
                self._sums.back({name: one for name, one in grown.items() if "/" not in name})
                ours = {k.removeprefix("samples/"): one for k, one in grown.items() if "/" in k}
                run.samples.back(plain["rows"], ours)
                rows = _rows(read_ledger(self.path))
                times = [
                    {k: float(v) for k, v in one.items() if k in TIMES}
                    for one in disk.read_csv(self.path / "times.csv", "run")
                ]
                return run.restore(arrays, plain, rows, times)
            except (KeyError, ValueError, TypeError) as error:
                if isinstance(error, UserError):
                    raise
                raise UserError(
                    f"run: {str(self.path)!r} is damaged ({type(error).__name__}: {error})."
                ) from error

    def finish(self, summary: dict[str, Any], policy: Any) -> None:
        """Says that the run is over, with its outcome."""
        assert self._record is not None
        with reporting(self.path):
            policy.save(self.path / "next" / "policy")
            disk.write(self.path / "next" / "summary.json", disk.to_json(summary, indent=2) + "\n")
            self._count(self._record.round, "summary.json", *POLICY)

    def saved(self, number: int) -> None:
        """Makes round `number` of a run count that has a config and a ledger only."""
        self._count(number, "config.json", "ledger.csv", grown={})

    def close(self) -> None:
        if journal := getattr(self, "journal", None):
            journal.close()
        if self._lock is not None:
            self._lock.close()


def verified(path: Path) -> Record:
    """The last round of a run, after its files were compared with their checksums."""
    if not (path / "config.json").is_file():
        raise UserError(f"run: {str(path)!r} is not the folder of a run (it has no config.json).")
    told = f"{str(path)!r} has no round yet"
    for _ in range(3):  # a process that writes to it may be between two rounds
        kept = rounds.numbers(path)
        if not kept:
            break
        record = rounds.read(path / f"{rounds.name_of(kept[0])}.json")
        record.settle(path)
        told = record.damage(path)
        if told is None:
            return record
    raise UserError(f"run: {told}.")


def write_run(
    path: Path, settings: dict[str, Any], ledger: Ledger, policy: Any, outcome: dict[str, Any]
) -> Path:
    """A finished run, without its samples and checkpoint, as a new folder."""
    folder = Folder(path, settings)
    try:
        with reporting(path):
            ledger.to_csv(path / "ledger.csv")
            folder.saved(ledger.rounds)
        folder.finish(outcome, policy)
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


def read_ledger(path: Path, size: int | None = None) -> Ledger:
    """ledger.csv as columns, or its first `size` bytes."""
    rows = disk.read_csv(Path(path) / "ledger.csv", "run", size)
    if rows and list(rows[0]) != NAMES:
        raise UserError(f"run: {path}/ledger.csv is damaged: its columns are not those of a run.")
    with damaged(f"run: {path}/ledger.csv"):
        return Ledger({name: [_value(name, row[name]) for row in rows] for name in NAMES})


def _value(name: str, text: str) -> Any:
    return text if name in WORDS else int(text) if name in WHOLE else float(text)


def _rows(ledger: Ledger) -> list[dict[str, Any]]:
    columns = {name: ledger[name].tolist() for name in ledger}
    return [{name: columns[name][t] for name in columns} for t in range(ledger.rounds)]


def _longer(name: str, was: dict[str, Any], now: dict[str, Any]) -> bool:
    """Whether a run may have more rounds, or queries, now than it might then."""

    def most(settings: dict[str, Any]) -> float:
        none = ROUNDS if name == "rounds" and settings["budget"] is None else math.inf
        return none if settings[name] is None else settings[name]

    return most(now) > most(was)


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
