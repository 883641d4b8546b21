"""Rows of observations that hold an image, of bytes until they are asked for.

A learner's rows are numbers of single precision where there are numbers beside the image, four bytes a pixel.
Kept as the bytes they were they take a quarter of it, and are the same rows, bit for bit, when they are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias, final

import numpy as np
from numpy.typing import DTypeLike

Index: TypeAlias = "int | slice | Sequence[int] | np.ndarray"
"""Which rows are asked for."""
TOGETHER = 256
"""Rows that are read or converted at once."""


def split_rows(rows: np.ndarray, columns: slice) -> tuple[np.ndarray, np.ndarray]:
    """The image in `columns` of rows (n, width) as bytes, and the numbers beside it."""
    pixels = rows[:, columns]
    if rows.dtype != np.uint8:
        pixels = np.rint(pixels * np.float32(255)).astype(np.uint8)
    return pixels, np.concatenate([rows[:, : columns.start], rows[:, columns.stop :]], axis=1)


def in_pieces(rows: Rows) -> Iterator[np.ndarray]:
    """Rows as arrays of at most `TOGETHER` of them."""
    for first in range(0, len(rows), TOGETHER):
        yield np.asarray(rows[first : first + TOGETHER])


class _Made:
    """Rows (n, width) that are made when they are asked for by number; else as an array has them."""

    shape: tuple[int, int]
    dtype: np.dtype

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Index) -> np.ndarray:
        raise NotImplementedError

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self[:], dtype)


@final
class ImageRows(_Made):
    """Rows (n, width) that are made of bytes and numbers, in several parts, when they are asked for.

    pixels: parts (n_i, size) of bytes; numbers: parts (n_i, width − size) beside them, none where the image
    is alone; count: how many of the rows there are.

    >>> rows = ImageRows([np.array([[0, 255]], np.uint8)], [np.array([[7]], np.float32)], slice(1, 3))
    >>> rows[0].tolist(), rows[[0, 0]].shape, rows.dtype.name
    ([7.0, 0.0, 1.0], (2, 3), 'float32')
    """

    def __init__(
        self,
        pixels: Sequence[np.ndarray],
        numbers: Sequence[np.ndarray],
        columns: slice,
        count: int | None = None,
    ):
        self.pixels, self.numbers, self.columns = list(pixels), list(numbers), columns
        count = sum(map(len, pixels)) if count is None else count
        beside = numbers[0].shape[1] if numbers else 0
        self.shape = count, columns.stop - columns.start + beside
        self.dtype = np.dtype(np.float32 if numbers else np.uint8)

    def __getitem__(self, index: Index) -> np.ndarray:
        chosen = np.arange(len(self))[index]
        flat = chosen.reshape(-1)
        pixels, first, last = _gather(self.pixels, flat), self.columns.start, self.columns.stop
        if self.numbers:
            rows, numbers = np.empty((len(flat), self.shape[1]), np.float32), _gather(self.numbers, flat)
            np.divide(pixels, np.float32(255), out=rows[:, first:last], dtype=np.float32)
            rows[:, :first], rows[:, last:] = numbers[:, :first], numbers[:, first:]
            pixels = rows
        return pixels.reshape(*chosen.shape, self.shape[1])


def _gather(parts: Sequence[np.ndarray], index: np.ndarray) -> np.ndarray:
    """The rows `index` (m,) of several arrays, as if they were one."""
    if len(parts) == 1:
        return np.asarray(parts[0][index])
    sizes = [len(part) for part in parts]
    ends = np.cumsum(sizes)
    owner = np.searchsorted(ends, index, side="right")
    rows = np.empty((len(index), parts[0].shape[1]), parts[0].dtype)
    for number in np.unique(owner).tolist():
        mine = owner == number
        rows[mine] = parts[number][index[mine] - (ends[number] - sizes[number])]
    return rows


@final
class Stacks(_Made):
    """Rows (n, k · height · width) that are rebuilt from their frames when they are asked for.

    >>> rows = Stacks(np.arange(3, dtype=np.uint8).reshape(3, 1, 1), np.array([[0, 1], [1, 2]]))
    >>> rows[1].tolist(), rows[[1, 0]].tolist(), rows.shape
    ([1, 2], [[1, 2], [0, 1]], (2, 2))
    """

    def __init__(self, frames: np.ndarray, index: np.ndarray):
        self._frames, self._index = frames, index
        self.shape = (len(index), index.shape[1] * int(np.prod(frames.shape[1:])))
        self.dtype = np.dtype(np.uint8)

    def __getitem__(self, rows: Index) -> np.ndarray:
        which = np.asarray(self._index[rows])
        return np.asarray(self._frames[which]).reshape(*which.shape[:-1], self.shape[1])


Rows: TypeAlias = np.ndarray | ImageRows | Stacks
"""Rows (n, width), read by number: an array, or what makes them when they are asked for."""
