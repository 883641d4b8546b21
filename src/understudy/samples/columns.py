"""Columns of samples that grow, in memory or in files; stacked images as single frames, each once.

Of a stack of k frames k − 1 were in the stack before it. So a sample adds one frame of bytes and k numbers
that say which frames it is made of: 7 kB instead of 28 for Atari's four frames of 84 × 84.
"""

from __future__ import annotations

from typing import Any, final

import numpy as np

from .records import Sums


@final
class Column:
    """Rows of one type and shape: in memory, or one after the other in NAME.bin in the folder of `sums`."""

    def __init__(self, name: str, dtype: Any, shape: tuple[int, ...], sums: Sums):
        self._file, self._dtype, self._shape, self._sums = f"{name}.bin", np.dtype(dtype), shape, sums
        self.width = self._dtype.itemsize * int(np.prod(shape, dtype=np.int64))
        """Bytes of a row."""
        self._parts: list[Any] = []  # without a folder

    def append(self, rows: Any, slots: Any = None) -> None:
        """Adds rows, played in whichever slots; in a file they are on the disk when this returns."""
        if self._sums.folder is None:
            self._parts.append(rows)
        else:
            self._sums.append(self._file, np.ascontiguousarray(rows, self._dtype).tobytes())

    def __len__(self) -> int:
        """How many rows there are; the last ones may be those of a round that never counted."""
        if self._sums.folder is None:
            return sum(map(len, self._parts))
        file = self._sums.folder / self._file
        return (file.stat().st_size if file.exists() else 0) // self.width

    def rows(self, count: int) -> np.ndarray:
        """The first `count` rows; those in a file are mapped, not read."""
        if count == 0:
            return np.empty((0, *self._shape), self._dtype)
        if self._sums.folder is not None:
            file = self._sums.folder / self._file
            return np.memmap(file, self._dtype, "r", shape=(count, *self._shape))
        self._parts = [np.concatenate(self._parts)]
        return self._parts[0][:count]


def distinct(stacks: np.ndarray, slots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct frames (f, height, width) of stacks (m, k, height, width) of bytes, the empty one first,
    and which of them each stack is made of, (m, k): ``frames[index]`` are the stacks, bit for bit.

    Row i is the next observation of slot ``slots[i]``. Frames that the slot's last stack already held, moved
    up by one, are not taken again. Nothing is assumed about episodes: where a stack does not continue the
    last one, all its frames are taken.

    >>> seen = np.array([[0, 7], [7, 8], [8, 9]], np.uint8)[:, :, None, None]
    >>> frames, index = distinct(seen, np.zeros(3, int))
    >>> frames.ravel().tolist(), index.tolist()
    ([0, 7, 8, 9], [[0, 1], [1, 2], [2, 3]])
    """
    frames = [np.zeros(stacks.shape[2:], np.uint8)]
    index = np.zeros(stacks.shape[:2], np.int32)
    last: dict[int, int] = {}

    def number(frame: np.ndarray) -> int:
        if not frame.any():
            return 0
        frames.append(frame)
        return len(frames) - 1

    for row, slot in enumerate(np.asarray(slots).tolist()):
        before, now = last.get(slot), stacks[row]
        if before is not None and np.array_equal(now[:-1], stacks[before, 1:]):
            index[row, :-1], index[row, -1] = index[before, 1:], number(now[-1])
        else:
            index[row] = [number(frame) for frame in now]
        last[slot] = row
    return np.stack(frames), index


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
    """The column of a log that holds stacks: `frames` are frame after frame, the empty one first; `index`
    says for every row which it is made of. A round begins anew, so that a run that was killed and resumed
    writes the same bytes.
    """

    def __init__(self, shape: tuple[int, int, int], sums: Sums):
        self._shape = shape
        self._frames = Column("frames", np.uint8, shape[1:], sums)
        self._index = Column("index", np.int32, shape[:1], sums)
        self.width = self._frames.width + self._index.width
        """Bytes of a row, about: a frame and its numbers."""

    def append(self, rows: Any, slots: np.ndarray) -> None:
        """Adds a round's rows (m, k · height · width), played in these slots (m,), in order."""
        frames, index = distinct(np.asarray(rows).reshape(-1, *self._shape), slots)
        if before := len(self._frames):
            frames, index = frames[1:], np.where(index == 0, 0, index + before - 1).astype(np.int32)
        self._frames.append(frames)
        self._index.append(index)

    def rows(self, count: int) -> Stacks:
        """The first `count` rows."""
        return Stacks(self._frames.rows(len(self._frames)), self._index.rows(count))
