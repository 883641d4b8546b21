"""Every frame once: stacked images kept as single frames, and rebuilt when they are asked for.

Of a stack of k frames k − 1 were in the stack before it. So a sample adds one frame of bytes and k numbers
that say which frames it is made of: 7 kB instead of 28 for Atari's four frames of 84 × 84.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any, final

import numpy as np

from ..errors import UserError
from .rounds import Sums

LIMIT = 1 << 30
"""Bytes of frames that are kept in memory; beyond, they are in a file that is mapped."""


@final
class FrameStore:
    """Append-only stacks (k, height, width) of bytes, each distinct frame stored once.

    `append(stacks, slots)` takes the next observation of each slot named: frames that the slot's last stack
    already held, moved up by one, are not stored again. Nothing is assumed about episodes: where a stack does
    not continue the last one, the frames that are new in it are stored, and an empty frame is number 0. Every
    rebuilt stack is the one given, bit for bit. The frames are in memory up to `limit` bytes, then in a file
    under `folder` (a temporary one by default).

    >>> store = FrameStore((2, 1, 1), capacity=3)
    >>> for seen in ([[[0]], [[7]]], [[[7]], [[8]]], [[[8]], [[9]]]):
    ...     _ = store.append(np.array([seen], np.uint8), [0])
    >>> store[np.array([2, 0])].ravel().tolist(), store.frames
    ([8, 9, 0, 7], 4)
    """

    def __init__(
        self,
        shape: tuple[int, int, int],
        *,
        capacity: int,
        limit: int = LIMIT,
        folder: str | os.PathLike[str] | None = None,
    ):
        self.shape, self.rows, self.frames = tuple(shape), 0, 1
        self._limit, self._folder, self._kept = limit, folder, None
        self._index = np.zeros((max(capacity, 1), shape[0]), np.int32)
        # One frame a sample and a few for beginnings; it grows where beginnings are many.
        self._frames = self._space(capacity + 64)
        self._frames[0] = 0
        self._last: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def _space(self, count: int) -> np.ndarray:
        _, height, width = self.shape
        size = count * height * width
        if size <= self._limit:
            return np.empty((count, height, width), np.uint8)
        if self._folder is None:
            self._kept = tempfile.TemporaryDirectory(prefix="understudy-frames-")
            self._folder = self._kept.name
        path = Path(self._folder) / f"frames-{count}.bin"
        try:
            return np.memmap(path, np.uint8, "w+", shape=(count, height, width))
        except OSError as error:
            raise UserError(
                f"frames: cannot map {size} bytes from {path} ({error.strerror or error})."
            ) from None

    @property
    def mapped(self) -> bool:
        """Whether the frames are in a file."""
        return isinstance(self._frames, np.memmap)

    @property
    def nbytes(self) -> int:
        """Bytes of frames and numbers, room kept free included."""
        return self._frames.nbytes + self._index.nbytes

    def __len__(self) -> int:
        return self.rows

    def append(self, stacks: np.ndarray, slots: Any) -> np.ndarray:
        """Adds the observations (n, k, height, width) of n different slots; their row numbers (n,)."""
        if stacks.shape[1:] != self.shape or stacks.dtype != np.uint8:
            raise UserError(
                f"frames: expected stacks of bytes of shape {self.shape}, "
                f"got {stacks.dtype} {stacks.shape[1:]}."
            )
        self._reserve(len(stacks))
        rows = np.arange(self.rows, self.rows + len(stacks))
        for row, stack, slot in zip(rows, stacks, slots, strict=True):
            self._index[row] = self._numbers(stack, self._last.get(int(slot)))
            self._last[int(slot)] = (self._index[row], np.array(stack, copy=True))
        self.rows += len(stacks)
        return rows

    def _numbers(self, stack: np.ndarray, last: tuple[np.ndarray, np.ndarray] | None) -> np.ndarray:
        if last is not None and np.array_equal(stack[:-1], last[1][1:]):
            return np.append(last[0][1:], self._put(stack[-1]))
        return np.array([self._put(frame) for frame in stack], np.int32)

    def _put(self, frame: np.ndarray) -> int:
        if not frame.any():
            return 0
        if self.frames == len(self._frames):
            self._grow()
        self._frames[self.frames] = frame
        self.frames += 1
        return self.frames - 1

    def _grow(self) -> None:
        larger = self._space(len(self._frames) + max(256, len(self._frames) // 8))
        larger[: self.frames] = self._frames[: self.frames]
        self._frames = larger

    def _reserve(self, more: int) -> None:
        if self.rows + more > len(self._index):
            index = np.zeros((max(2 * len(self._index), self.rows + more), self.shape[0]), np.int32)
            index[: self.rows] = self._index[: self.rows]
            self._index = index

    def __getitem__(self, rows: Any) -> np.ndarray:
        """The stacks of these rows (n, k, height, width), rebuilt."""
        return self._frames[self._index[: self.rows][rows]]

    def forget(self) -> None:
        """The next stack of every slot is taken as a beginning, whatever came before it."""
        self._last.clear()

    def index(self) -> np.ndarray:
        """Which frames make up each stack (rows, k); for gathering them elsewhere, as on a GPU."""
        return self._index[: self.rows]

    def since(self, first: int) -> np.ndarray:
        """The frames from number `first` on, not copied."""
        return self._frames[first : self.frames]


def stack_shape(observations: Any) -> tuple[int, int, int] | None:
    """The (k, height, width) of observations that are stacks of frames of bytes; None for all others."""
    leaves = getattr(observations, "leaves", ())
    if len(leaves) != 1 or leaves[0].kind != "byte" or len(leaves[0].shape) != 3:
        return None
    if int(np.prod(leaves[0].shape)) != observations.width:  # seen through a network: features, not frames
        return None
    k, height, width = (int(n) for n in leaves[0].shape)
    return (k, height, width) if 2 <= k <= 16 and min(height, width) >= 16 else None


@final
class Stacks:
    """Rows (n, k · height · width) that are rebuilt from their frames when they are asked for.

    >>> rows = Stacks(np.arange(3, dtype=np.uint8).reshape(3, 1, 1), np.array([[0, 1], [1, 2]]))
    >>> rows[1].tolist(), rows[[1, 0]].tolist(), rows.shape
    ([1, 2], [[1, 2], [0, 1]], (2, 2))
    """

    def __init__(self, frames: np.ndarray, index: np.ndarray):
        self._frames, self._index = frames, index
        self.shape = (len(index), index.shape[1] * int(np.prod(frames.shape[1:])))
        self.dtype = np.dtype(np.uint8)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> np.ndarray:
        which = np.asarray(self._index[rows])
        return np.asarray(self._frames[which]).reshape(*which.shape[:-1], self.shape[1])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self[:] if dtype is None else self[:].astype(dtype)


@final
class FrameColumn:
    """The column of a log that holds stacks: frames once, in memory or in two files under a folder.

    `frames.bin` is frame after frame, the empty one first; `index.bin` says for every row which it is made
    of. A round begins anew, so that a run that was killed and resumed writes the same bytes.
    """

    def __init__(self, shape: tuple[int, int, int], sums: Sums):
        self.shape, self.folder, self._sums = shape, sums.folder, sums
        self._store = FrameStore(shape, capacity=1024) if sums.folder is None else None

    @property
    def width(self) -> int:
        """Bytes of a row, about: a frame and its numbers."""
        return self.shape[1] * self.shape[2] + 4 * self.shape[0]

    def append(self, rows: np.ndarray, slots: np.ndarray) -> None:
        """Adds a round's rows (m, k · height · width), played in these slots (m,), in order."""
        store = FrameStore(self.shape, capacity=len(rows)) if self._store is None else self._store
        store.forget()
        for row, slot in zip(rows.reshape(-1, *self.shape), slots, strict=True):
            store.append(row[None], [slot])
        if self.folder is None:
            return
        before = _length(self.folder / "frames.bin") // (self.shape[1] * self.shape[2])
        new = store.since(1 if before else 0)
        numbers = store.index()
        numbers = np.where(numbers == 0, 0, numbers + max(before - 1, 0)).astype(np.int32)
        for name, array in (("frames", new), ("index", numbers)):
            self._sums.append(f"{name}.bin", np.ascontiguousarray(array).tobytes())

    def rows(self, count: int) -> Stacks:
        """The first `count` rows."""
        k, height, width = self.shape
        if self._store is not None:
            return Stacks(self._store.since(0), self._store.index()[:count])
        assert self.folder is not None
        if count == 0:
            return Stacks(np.zeros((1, height, width), np.uint8), np.zeros((0, k), np.int32))
        many = _length(self.folder / "frames.bin") // (height * width)
        frames = np.memmap(self.folder / "frames.bin", np.uint8, "r", shape=(many, height, width))
        return Stacks(frames, np.memmap(self.folder / "index.bin", np.int32, "r", shape=(count, k)))


def _length(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0
