"""Every frame once: stacked images kept as single frames, and rebuilt when they are asked for.

Of a stack of k frames k − 1 were in the stack before it. So a sample adds one frame of bytes and k numbers
that say which frames it is made of: 7 kB instead of 28 for Atari's four frames of 84 × 84.
"""

from __future__ import annotations

from typing import Any, final

import numpy as np

from .rounds import Sums


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
    """The column of a log that holds stacks: frames once, in memory or in two files under a folder.

    `frames.bin` is frame after frame, the empty one first; `index.bin` says for every row which it is made
    of. A round begins anew, so that a run that was killed and resumed writes the same bytes.
    """

    def __init__(self, shape: tuple[int, int, int], sums: Sums):
        self.shape, self.folder, self._sums = shape, sums.folder, sums
        self._parts: dict[str, list[np.ndarray]] = {"frames": [], "index": []}  # without a folder

    @property
    def width(self) -> int:
        """Bytes of a row, about: a frame and its numbers."""
        return self.shape[1] * self.shape[2] + 4 * self.shape[0]

    def append(self, rows: np.ndarray, slots: np.ndarray) -> None:
        """Adds a round's rows (m, k · height · width), played in these slots (m,), in order."""
        frames, index = distinct(rows.reshape(-1, *self.shape), slots)
        if before := self._count():
            frames, index = frames[1:], np.where(index == 0, 0, index + before - 1).astype(np.int32)
        for name, array in (("frames", frames), ("index", index)):
            if self.folder is None:
                self._parts[name].append(array)
            else:
                self._sums.append(f"{name}.bin", np.ascontiguousarray(array).tobytes())

    def _count(self) -> int:
        """How many frames there are."""
        if self.folder is None:
            return sum(map(len, self._parts["frames"]))
        file = self.folder / "frames.bin"
        return (file.stat().st_size if file.exists() else 0) // (self.shape[1] * self.shape[2])

    def rows(self, count: int) -> Stacks:
        """The first `count` rows."""
        k, height, width = self.shape
        if count == 0:
            return Stacks(np.zeros((1, height, width), np.uint8), np.zeros((0, k), np.int32))
        if self.folder is None:
            for name, parts in self._parts.items():
                self._parts[name] = [np.concatenate(parts)]
            return Stacks(self._parts["frames"][0], self._parts["index"][0][:count])
        frames = np.memmap(self.folder / "frames.bin", np.uint8, "r", shape=(self._count(), height, width))
        return Stacks(frames, np.memmap(self.folder / "index.bin", np.int32, "r", shape=(count, k)))
