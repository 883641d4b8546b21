"""The journal of labels: each is in a file as soon as the expert has given it.

A round counts when it is committed, as a whole. What the expert had said before a process ended in the middle
of a round is here: the run that resumes finds the answers by their states and does not ask again.
"""

from __future__ import annotations

import hashlib
import io
import os
import struct
import threading
import time
import warnings
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, TypeAlias, final

import numpy as np

from .. import disk
from ..errors import UserError

MAGIC = "understudy labels 1"
KEY = 16
LARGEST = 4096
"""Bytes of an input that is kept beside its label; a larger one is not."""
EVERY = 0.1
"""Least seconds between two syncs. A kill loses no label. A power cut may lose those since the last sync:
none, if the expert takes longer than this for each."""

Leaf: TypeAlias = np.ndarray | np.generic | bool | float | str | bytes | None
State: TypeAlias = "Mapping[str, State] | tuple[State, ...] | list[State] | Leaf"
"""What a state may be made of: arrays, numbers and words, in dicts, tuples and lists."""


def key_of(state: State, salt: bytes = b"") -> bytes:
    """A digest of a state: of an observation with its info, whatever they are made of.

    >>> key_of(np.zeros(2)) == key_of(np.zeros(2)), key_of(np.zeros(2)) == key_of(np.zeros(2, np.float32))
    (True, False)
    """
    digest = hashlib.blake2b(salt, digest_size=KEY)
    _feed(digest, state)
    return digest.digest()


def _feed(digest: hashlib.blake2b, value: State) -> None:
    if isinstance(value, Mapping):
        for name, part in value.items():
            digest.update(f"{name}:".encode())
            _feed(digest, part)
    elif isinstance(value, tuple | list):
        digest.update(f"[{len(value)}]".encode())
        for part in value:
            _feed(digest, part)
    elif isinstance(value, np.ndarray | np.generic) and value.dtype != object:
        digest.update(f"{value.dtype.str}{value.shape}".encode())
        digest.update(np.ascontiguousarray(value).tobytes())
    else:
        digest.update(repr(value).encode())


class Kept(NamedTuple):
    """A label in the journal: the round it was given in, and the encoded input, where that is small."""

    round: int
    label: np.ndarray
    row: np.ndarray | None


@final
class Journal:
    """Labels by key, in a file or, without one, in memory.

    Every record has a checksum; those that do not match theirs, and a last one that is not whole, are left
    out with a warning, so they are asked again. With `keep`, labels are found in all later rounds;
    without, the file holds the round under way, and that of the round before, in case it is damaged, lies
    beside it.
    """

    def __init__(self, path: Path | None = None, *, keep: bool = False):
        self.path, self.keep, self.round = path, keep, 0
        self.kept: dict[bytes, Kept] = {}
        self.count = 0
        """Labels of the round under way that are kept."""
        self._kinds: tuple[str, tuple[int, ...], str, tuple[int, ...]] | None = None
        self._file: io.FileIO | None = None
        self._lock, self._synced = threading.Lock(), 0.0
        self._before = None if path is None else path.with_suffix(".before.bin")
        for file in (self._before, path):
            if file is not None and file.is_file():
                self._read(file)

    def expect(self, shape: tuple[int, ...]) -> None:
        """Refuses labels from before that have another shape than those of now."""
        if self._kinds is not None and self._kinds[1] != shape:
            raise UserError(
                f"resume: the labels in {self.path} have shape {self._kinds[1]}, and those that the expert "
                f"gives have {shape} now; give the expert that the run was begun with."
            )

    def begin(self, number: int) -> None:
        """Round `number` begins."""
        self.round = number
        self.count = sum(entry.round == number for entry in self.kept.values())

    def add(self, key: bytes, label: np.ndarray, row: np.ndarray) -> None:
        """Keeps a label; it is in the file when this returns. Threads may call it."""
        label = np.array(label, order="C")  # a choice stays without dimensions
        row = row if row.nbytes <= LARGEST else row[:0]
        with self._lock:
            self.count += 1
            if self.keep:
                self.kept[key] = Kept(self.round, label, None)
            if self.path is None:
                return
            with disk.reporting(self.path.parent):
                self._write(key, label, np.ascontiguousarray(row))

    def remove(self, key: bytes) -> None:
        """Takes a label of the round under way back: a record of round 0 says so."""
        with self._lock:
            taken = self.kept.pop(key)
            self.count -= 1
            if self.path is not None and self._kinds is not None:
                nothing = np.zeros(self._kinds[3], self._kinds[2])
                with disk.reporting(self.path.parent):
                    self._write(key, taken.label, nothing, number=0)

    def _write(self, key: bytes, label: np.ndarray, row: np.ndarray, number: int | None = None) -> None:
        assert self.path is not None
        kinds = label.dtype.str, label.shape, row.dtype.str, row.shape
        if self._file is None:
            self._file = open(self.path, "ab", buffering=0)  # noqa: SIM115
        if self._kinds != kinds:
            assert self._kinds is None, "labels of a run have one shape"
            head = f"{MAGIC} {kinds[0]} {_shape(kinds[1])} {kinds[2]} {_shape(kinds[3])}"
            self._file.write(f"{head} {zlib.crc32(head.encode()):08x}\n".encode())
            self._kinds = kinds
        given = struct.pack("<I", self.round if number is None else number)
        record = given + key + label.tobytes() + row.tobytes()
        self._file.write(record + struct.pack("<I", zlib.crc32(record)))
        now = time.monotonic()
        if now - self._synced > EVERY:
            os.fsync(self._file.fileno())
            self._synced = time.monotonic()

    def _read(self, file: Path) -> None:
        data = file.read_bytes()
        head, _, body = data.partition(b"\n")
        text, _, crc = head.decode(errors="replace").rpartition(" ")
        if f"{zlib.crc32(text.encode()):08x}" != crc or not text.startswith(MAGIC):
            if data:
                warnings.warn(f"resume: {file} is damaged; its labels are asked again.", stacklevel=2)
            file.unlink()
            return
        label, shape, row, width = text.removeprefix(MAGIC).split()
        kinds = label, _of(shape), row, _of(width)
        first = int(np.dtype(label).itemsize * np.prod(kinds[1], dtype=np.int64))
        second = int(np.dtype(row).itemsize * np.prod(kinds[3], dtype=np.int64))
        size, lost, good = 4 + KEY + first + second + 4, 0, len(head) + 1
        for at in range(0, len(body) - size + 1, size):
            record, (crc32,) = body[at : at + size - 4], struct.unpack_from("<I", body, at + size - 4)
            if zlib.crc32(record) != crc32:
                lost += 1
                continue
            (number,), key, rest = struct.unpack_from("<I", record), record[4 : 4 + KEY], record[4 + KEY :]
            if not number:
                self.kept.pop(key, None)
                continue
            given = np.frombuffer(rest[:first], label).reshape(kinds[1])
            seen = np.frombuffer(rest[first:], row).reshape(kinds[3]) if second else None
            self.kept[key] = Kept(number, given, seen)
        whole = good + len(body) // size * size
        self._kinds = kinds if file == self.path else None
        if lost:
            warnings.warn(f"resume: {lost} labels in {file} are damaged and are asked again.", stacklevel=2)
        if whole < len(data):
            os.truncate(file, whole)  # the record that a kill cut short

    def orphans(self, number: int) -> list[Kept]:
        """The labels of round `number` whose inputs are known, taken out: for a run whose environment does
        not come back to their states.
        """
        orphans = {k: kept for k, kept in self.kept.items() if kept.round == number and kept.row is not None}
        for key in orphans:
            del self.kept[key]
        return list(orphans.values())

    def commit(self) -> None:
        """The round counts: its labels are among the samples now."""
        self.count = 0
        if self.keep:
            return
        # After a damaged round the run replays the one before it, and the journal also has later labels.
        self.kept = {key: entry for key, entry in self.kept.items() if entry.round > self.round}
        self.close()
        self._kinds = None
        if self.path is not None and self._before is not None and self.path.is_file():
            os.replace(self.path, self._before)

    def close(self) -> None:
        if self._file is not None:
            os.fsync(self._file.fileno())
            self._file.close()
            self._file = None


def _shape(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "-"


def _of(text: str) -> tuple[int, ...]:
    return () if text == "-" else tuple(int(one) for one in text.split("x"))
