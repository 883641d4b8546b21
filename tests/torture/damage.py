"""Every file of a run with a byte flipped, or cut: found when the run is loaded."""

from __future__ import annotations

import os
import random
import warnings
from pathlib import Path

import numpy as np

from torture.worst import SMALL, Outcome
from understudy import Record, UserError, imitate

FREE = ("lock", "labels.bin", "labels.before.bin")
"""The lock is empty, and labels have checksums of their own: those that do not match are asked again."""


def _small(folder: Path) -> Path:
    out = folder / "run"
    if not out.is_dir():
        imitate("CartPole-v1", out=out, **SMALL)
    return out


def _files(out: Path) -> list[Path]:
    record = max((out / "rounds").glob("*.json"))
    old = [one for one in (out / "rounds").iterdir() if one.stem != record.stem]
    found = [one for one in sorted(out.rglob("*")) if one.is_file() and one.name not in FREE]
    return [one for one in found if one not in old]


def flips(folder: Path, cases: int, rng: random.Random) -> Outcome:
    """One byte of one file is another one: every file in turn, bytes at random, or all of them in order."""
    out, lost, tried = _small(folder), [], 0
    files = _files(out)
    each = max(1, cases // len(files))
    for file in files:
        data = file.read_bytes()
        places = range(len(data)) if len(data) <= each else sorted(rng.sample(range(len(data)), each))
        for at in places:
            tried += 1
            with open(file, "r+b") as stream:
                stream.seek(at)
                stream.write(bytes([data[at] ^ (1 << rng.randrange(8))]))
            if _loads(out):
                lost.append(f"{file.relative_to(out)}, byte {at}: not found")
            with open(file, "r+b") as stream:
                stream.seek(at)
                stream.write(data[at : at + 1])
    if not _loads(out):
        lost.append("the run that was put right again does not load")
    return Outcome(tried, lost, f"{len(files)} files")


def cuts(folder: Path, cases: int, rng: random.Random) -> Outcome:
    """A file is shorter than it was, or gone."""
    out, lost, tried = _small(folder), [], 0
    files = _files(out)
    for file in files:
        data = file.read_bytes()
        for _ in range(max(1, cases // len(files))):
            tried += 1
            size = rng.randrange(-1, len(data))
            if size < 0:
                file.unlink()
            else:
                os.truncate(file, size)
            if _loads(out):
                lost.append(f"{file.relative_to(out)} of {size} bytes: not found")
            file.write_bytes(data)
    return Outcome(tried, lost, f"{len(files)} files")


def _loads(out: Path) -> bool:
    try:
        Record.load(out)
    except UserError as error:
        assert "\n" not in str(error), "more than one line"
        return False
    return True


def labels(folder: Path, cases: int, rng: random.Random) -> Outcome:
    """A journal with a byte flipped, or cut: what it still gives is what was put in."""
    from understudy.runs.journal import Journal

    lost = []
    for case in range(cases):
        file, count = folder / f"labels{case}.bin", rng.randrange(1, 20)
        one = Journal(file)
        one.begin(1)
        for i in range(count):
            one.add(bytes([i]) * 16, np.full(2, i, np.float32), np.full(3, i, np.float32))
        one.close()
        data = bytearray(file.read_bytes())
        at = rng.randrange(len(data))
        if rng.random() < 0.5:
            data[at] ^= 1 << rng.randrange(8)
        else:
            del data[at:]
        file.write_bytes(data)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            kept = Journal(file).kept
        for key, found in kept.items():
            if set(key) != {key[0]} or (found.label != key[0]).any() or (found.row != key[0]).any():
                lost.append(f"case {case}: a label that nobody gave")
        file.unlink(missing_ok=True)
    return Outcome(cases, lost)
