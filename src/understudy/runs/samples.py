"""Every sample of a run, appended round by round: in memory while it is small, in flat files otherwise."""

from __future__ import annotations

import dataclasses
import os
import tempfile
from pathlib import Path
from typing import Any, final

import numpy as np

from .. import disk
from ..errors import UserError
from ..policies import Actions, Encoded, Normaliser, Observations
from .collect import Round
from .frames import FrameColumn, stack_shape

COLUMNS = ("inputs", "targets", "executed", "rewards", "flags", "slots")


@final
class Book:
    """Append-only columns of samples (see `Round`), one file a column under `folder`, or in memory without
    one.

    A file is rows after rows of one type and width, so reading it is mapping it into memory, and forgetting
    the rows that a killed process had begun to write is cutting it to a length. Stacks of frames are kept
    frame by frame, each once (see `frames`).
    """

    def __init__(self, observations: Observations | Encoded, actions: Actions, *, folder: Path | None = None):
        self.folder, self.rows = folder, 0
        self._kinds: dict[str, tuple[Any, tuple[int, ...]]] = {
            "inputs": (observations.dtype, (observations.width,)),
            "targets": (np.dtype(np.float32), (actions.outputs,)),
            "executed": (np.dtype(actions.dtype), (actions.size,)),
            "rewards": (np.dtype(np.float32), ()),
            "flags": (np.dtype(np.uint8), ()),
            "slots": (np.dtype(np.int32), ()),
        }
        shape = stack_shape(observations)
        self.frames = None if shape is None else FrameColumn(shape, folder)
        if self.frames is not None:
            del self._kinds["inputs"]
        self._rounds: list[Round] = []
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)

    def width(self) -> int:
        """Bytes of one sample."""
        plain = sum(
            dtype.itemsize * int(np.prod(shape, dtype=np.int64)) for dtype, shape in self._kinds.values()
        )
        return plain + (0 if self.frames is None else self.frames.width)

    def append(self, round: Round) -> None:
        """Adds a round; in files it is on the disk when this returns."""
        if self.frames is not None:
            self.frames.append(round.inputs, round.slots)
            round = dataclasses.replace(round, inputs=round.inputs[:, :0])
        if self.folder is None:
            self._rounds.append(round)
        else:
            for name in self._kinds:
                dtype, _ = self._kinds[name]
                data = np.ascontiguousarray(getattr(round, name), dtype).tobytes()
                disk.append(self.folder / f"{name}.bin", data)
        self.rows += len(round)

    def cut(self, rows: int) -> None:
        """Forgets everything after the first `rows` samples on disk."""
        assert self.folder is not None
        if self.frames is not None:
            self.frames.cut(rows)
        for name in self._kinds:
            dtype, shape = self._kinds[name]
            size = rows * dtype.itemsize * int(np.prod(shape, dtype=np.int64))
            file = self.folder / f"{name}.bin"
            if not file.exists() and rows == 0:
                continue
            if not file.exists() or file.stat().st_size < size:
                raise UserError(f"run: {file} is damaged: it holds fewer than the {rows} samples it should.")
            os.truncate(file, size)
        self.rows = rows

    def column(self, name: str) -> Any:
        """All rows of one column; those in files are mapped, not read, and stacks rebuilt when asked for."""
        if name == "inputs" and self.frames is not None:
            return self.frames.rows(self.rows)
        dtype, shape = self._kinds[name]
        if self.folder is None:
            parts = [getattr(one, name) for one in self._rounds]
            return np.concatenate(parts) if parts else np.empty((0, *shape), dtype)
        if self.rows == 0:
            return np.empty((0, *shape), dtype)
        return np.memmap(self.folder / f"{name}.bin", dtype, "r", shape=(self.rows, *shape))


@final
class Reader:
    """Rows of a book on disk as a learner sees them: standardised inputs, targets and weights (1/M in a
    round of M).

    Asked for by number, in any order, from memory-mapped files; what the machine's memory can hold of them
    stays there.
    """

    def __init__(self, book: Book, sizes: tuple[int, ...], dtype: Any):
        self._book, self._dtype, self.normaliser = book, np.dtype(dtype), Normaliser.identity(1)
        self._ends = np.cumsum(sizes)
        self._weights = 1.0 / np.asarray(sizes, np.float64)
        self._mapped: tuple[int, Any, Any] = (-1, None, None)

    def take(self, index: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Inputs, targets and weights of the rows `index`; rows that are not there weigh nothing."""
        rows = self._book.rows
        if self._mapped[0] != rows:
            self._mapped = (rows, self._book.column("inputs"), self._book.column("targets"))
        index = np.asarray(index)
        there = np.minimum(index, rows - 1)
        inputs, targets = self.normaliser(self._mapped[1][there]), self._mapped[2][there]
        weights = np.where(index < rows, self._weights[np.searchsorted(self._ends, there, side="right")], 0.0)
        kind = self._dtype if inputs.dtype.kind == "f" else inputs.dtype
        return inputs.astype(kind), targets.astype(self._dtype), weights.astype(self._dtype)


def temporary_folder() -> tuple[Path, Any]:
    """A folder that vanishes with the object beside it, for a run too large for memory that has no folder
    of its own.
    """
    kept = tempfile.TemporaryDirectory(prefix="understudy-")
    return Path(kept.name), kept
