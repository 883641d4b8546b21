"""The folder of a run.

    config.json             what was asked for, cores and versions
    ledger.csv              one row per round, appended; the same seed gives the same bytes
    experts.csv             of several experts, one row per round and expert: labels, loss, agreement
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
import os
import time
import warnings
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, final

import numpy as np

from .. import disk
from ..disk import csv_line, reporting
from ..errors import UserError, damaged
from ..machine import count_cores, versions
from ..regret import Ledger
from ..samples import records
from ..samples.records import Record, Sum, Sums, sum_of
from ..saving import listed, snapshot
from ..student import BY_EXPERT, NAMES, TIMES, Understudy
from .evaluate import Best
from .journal import Journal
from .reading import FORMAT, POLICY, read_checkpoint, read_config, read_experts, read_rows
from .resuming import over, refuse_other

if TYPE_CHECKING:
    from ..disk import Json
    from ..policies import TrainedPolicy
    from .collect import Slot
    from .reading import Config
    from .run import Run


SECONDS = ("round", *TIMES)
SPACING = 100
"""With a pace: a round is kept only after this many times the seconds that the last keeping took."""


@final
class Folder:
    """A run's folder, opened for writing by one process at a time.

    Args:
      resume: ways to go on with the run that is in it (see `RESUMES`); empty: there must be none.
      slow: the expert is slow or expensive, so its labels are kept for the whole run.
      pace: least seconds between two rounds that are kept; longer if keeping would take over 1 % of the time.
        With a pace a quick expert's labels are not journalled: after a break it is asked again.

    Attributes:
      fresh: nothing counts yet.
      finished: the run is over and all its files are as they were written.
      journal: where the labels of the round under way are.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        config: dict[str, Json],
        *,
        resume: frozenset[str] = frozenset(),
        slow: bool = False,
        pace: float = 0.0,
    ):
        self.path, self.resume, self._config, self.pace = Path(path), resume, config, pace
        self._due, self._refused = time.monotonic() + pace, False
        self._record = Record(0, {}, {})  # nothing counts yet
        self.finished, self._sums = False, Sums(self.path)
        about = {"format": FORMAT, "cores": count_cores(), "versions": versions(), "settings": config}
        self._text = disk.to_json(about, indent=2, sort=True) + "\n"  # of config.json
        with reporting(self.path):
            there = self._refuse()
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = disk.lock(self.path)
            try:
                if there:
                    self._enter()
                else:
                    disk.write_file(self.path / "config.json", self._text)
                # A slow expert is asked about a state once in the whole run, so its labels stay.
                self.journal = Journal(self.path / "labels.bin" if slow or not pace else None, keep=slow)
            except BaseException:
                self.close()
                raise

    @property
    def round(self) -> int:
        """The last round that counts."""
        return self._record.round

    @property
    def fresh(self) -> bool:
        return self.round == 0

    def _refuse(self) -> bool:
        """Whether a run is there; what must not be written to is refused."""
        if self.path.exists() and not self.path.is_dir():
            raise UserError(f"out: {str(self.path)!r} is a file; name a folder.")
        names = {entry.name for entry in self.path.iterdir()} if self.path.is_dir() else set[str]()
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
            if "rounds" in names:
                raise UserError(f"run: {str(self.path)!r} is damaged: config.json is missing.")
            raise UserError(
                f"out: the folder {str(self.path)!r} holds other things than a run; name another."
            )
        return False

    def _enter(self) -> None:
        """Finds the last round that counts and is whole, and checks that this is the same run."""
        numbers = records.numbers(self.path)
        if not numbers:
            if any((self.path / name).exists() for name in POLICY):
                raise UserError(f"run: {str(self.path)!r} is damaged: rounds/ is missing.")
            refuse_other(self.path, read_config(self.path), self._config, self.resume)
            disk.write_file(self.path / "config.json", self._text)
            return
        hurt: list[str] = []
        for number in numbers:
            try:
                record = records.read(self.path / f"{records.name_of(number)}.json")
            except UserError as error:
                hurt.append(str(error).removesuffix("."))
                continue
            record.settle(self.path)
            self._mend_config(record)
            # The policy can be written again from the checkpoint, and the outcome found again.
            if damage := record.damage(self.path, but=("config.json", "summary.json", *POLICY)):
                hurt.append(f"run: {damage}")
                continue
            self._record = record
            break
        else:
            raise UserError(f"{hurt[0]}; there is no good round to go back to.")
        if hurt:
            warnings.warn(f"{hurt[0]}; going on from round {self._record.round}.", stacklevel=2)
        config = read_config(self.path)
        refuse_other(self.path, config, self._config, self.resume)
        whole = self._record.damage(self.path) is None
        if self._record.finished and whole and not hurt:
            self.finished = over(config["settings"], self._config)
        if not self.finished:
            self._reopen(config)

    def _mend_config(self, record: Record) -> None:
        """Repairs a damaged config.json, if the settings given now produce exactly the bytes it had."""
        text = self._text.encode()
        if sum_of(self.path / "config.json") == record.whole["config.json"]:
            return
        if (len(text), zlib.crc32(text)) != record.whole["config.json"]:
            raise UserError(
                f"run: {self.path / 'config.json'} is damaged: its bytes are not those that were written; "
                "give all settings of the run, and it is written again."
            )
        disk.write_file(self.path / "config.json", text)

    def _reopen(self, config: Config) -> None:
        """The round that counts, without an outcome and with the settings of now."""
        if self._record.round and self._record.checkpoint not in self._record.whole:
            raise UserError(f"resume: {str(self.path)!r} was saved without its samples; it cannot go on.")
        records.forget(self.path, self._record.round)
        if config["settings"] == json.loads(json.dumps(self._config)) and not self._record.finished:
            return
        disk.write_file(
            self.path / "next" / "config.json",
            disk.to_json({**config, "settings": self._config}, indent=2, sort=True) + "\n",
        )
        self.count(self._record.round, "config.json", drop=("summary.json",))
        (self.path / "summary.json").unlink(missing_ok=True)

    def begin(self, student: Understudy) -> None:
        """For a run with no round done: empty files with their headers."""
        with reporting(self.path):
            student.samples.clear()
            self._sums.clear()
            files: dict[str, Iterable[str]] = {"ledger.csv": NAMES, "times.csv": SECONDS}
            files |= {"experts.csv": BY_EXPERT} if student.parts.expert.names else {}
            for name, columns in files.items():
                (self.path / name).unlink(missing_ok=True)
                self._sums.append(name, csv_line(columns))
            self._record = Record(0, {}, {})
            self.count(0, "config.json", grown=dict(self._sums))

    def count(
        self, number: int, *new: str, grown: dict[str, Sum] | None = None, drop: tuple[str, ...] = ()
    ) -> None:
        """Makes a round count: writes its record, which lists the `new` files (moved here from next/) and all
        files of the record before, but those in `drop`.
        """
        whole = dict(self._record.whole)
        if grown is None:
            grown = self._record.grown
        else:
            drop = (*drop, self._record.checkpoint)
        for name in new:
            ahead = self.path / "next" / name
            checksum = sum_of(ahead if ahead.is_file() else self.path / name)
            assert checksum is not None
            whole[name] = checksum
        for name in drop:
            whole.pop(name, None)
        self._record = Record(number, whole, grown)
        self._record.write(self.path)
        self._record.settle(self.path)
        records.forget(self.path, number)

    def keep(self, run: Run) -> None:
        """Makes the last round count, where that is due."""
        began = time.monotonic()
        if began < self._due or self._refused:
            return
        try:
            self.commit(run)
        except UserError:
            if not self.pace:
                raise
            self._refused = True  # the disk does not take it; the run goes on
        now = time.monotonic()
        self._due = now + (max(self.pace, SPACING * (now - began)) if self.pace else 0.0)

    def commit(self, run: Run) -> None:
        """Makes the last round count, and all rounds since the last commit with it."""
        student, judge, slots, calls = run.student, run.judge, run.collector.snapshot(), run.calls
        new = range(self.round, student.round)
        with reporting(self.path):
            judge.policy.save(self.path / "next" / "policy")
            arrays, plain = snapshot(student)
            rows = "".join(csv_line(student.rows[t][name] for name in NAMES) for t in new)
            self._sums.append("ledger.csv", rows)
            laps = [[t + 1, *(run.times[t][name] for name in TIMES)] for t in new]
            self._sums.append("times.csv", "".join(map(csv_line, laps)))
            if student.by_expert:
                listed_rows = [row for row in student.by_expert if int(row["round"]) > self.round]
                self._sums.append("experts.csv", "".join(csv_line(row.values()) for row in listed_rows))
            if (best := judge.best) is not None:
                arrays |= listed("best", best.members) | {"raced": best.returns}
            for i, slot in enumerate(slots):
                arrays |= {
                    f"slot.{i:03d}.{name}": np.asarray(values)
                    for name, values in slot.items()
                    if name != "episode"
                }
            plain |= {
                "format": FORMAT,
                "measuring": calls,
                "episodes": [slot["episode"] for slot in slots],
                "best": best and [best.round, best.equal],
                "compared": judge.compared,
                "proof": judge.proof and judge.proof.plain(),
            }
            file = f"{records.name_of(student.round)}.safetensors"
            disk.write_tensors(self.path / file, arrays, {"run": json.dumps(plain)})
            grown = dict(self._sums) | {f"samples/{k}": v for k, v in student.samples.sums.items()}
            self.count(student.round, file, *POLICY, grown=grown)
            self.journal.commit()

    def restore(self, run: Run) -> list[Slot]:
        """Restores `run`, and cuts its files, to the last round that counts. Returns where its environments
        were then.
        """
        grown, student = self._record.grown, run.student
        with reporting(self.path):
            arrays, plain = read_checkpoint(self.path / self._record.checkpoint)
            with damaged(f"run: {str(self.path)!r}"):
                self._sums.back({name: checksum for name, checksum in grown.items() if "/" not in name})
                ours = {k.removeprefix("samples/"): checksum for k, checksum in grown.items() if "/" in k}
                student.samples.back(plain["rows"], ours)
                student.restore(arrays, plain, read_rows(self.path))
                student.experts = read_experts(self.path)
                run.times = [
                    {k: float(v) for k, v in laps.items() if k in TIMES}
                    for laps in disk.read_csv(self.path / "times.csv", "run")
                ]
                run.calls_before += plain["measuring"]
                run.judge.compared = plain["compared"]
                if plain["best"] is not None:
                    number, equal = plain["best"]
                    run.judge.best = Best(arrays["raced"], number, student.unlisted("best", arrays), equal)
                if run.judge.proof is not None:
                    run.judge.proof.restore(plain["proof"])
                    student.ended = run.judge.proof.accepted
                slots: list[Slot] = [{"episode": n} for n in plain["episodes"]]
                for name, values in arrays.items():
                    if name.startswith("slot."):
                        number, _, what = name.removeprefix("slot.").partition(".")
                        slots[int(number)][what] = values
                return slots

    def finish(self, summary: Mapping[str, Json], policy: TrainedPolicy) -> None:
        """Says that the run is over, with its outcome."""
        with reporting(self.path):
            policy.save(self.path / "next" / "policy")
            disk.write_file(self.path / "next" / "summary.json", disk.to_json(summary, indent=2) + "\n")
            self.count(self._record.round, "summary.json", *POLICY)

    def close(self) -> None:
        if journal := getattr(self, "journal", None):
            journal.close()
        self._lock.close()


def write_run(
    path: Path,
    settings: dict[str, Json],
    ledger: Ledger,
    policy: TrainedPolicy,
    outcome: Mapping[str, Json],
    experts: Ledger | None = None,
) -> Path:
    """A finished run, without its samples and checkpoint, as a new folder."""
    folder = Folder(path, settings)
    try:
        with reporting(path):
            tables = {"ledger.csv": ledger} | ({"experts.csv": experts} if experts else {})
            for name, table in tables.items():
                table.to_csv(path / name)
            folder.count(ledger.rounds, "config.json", *tables, grown={})
        folder.finish(outcome, policy)
    finally:
        folder.close()
    return path
