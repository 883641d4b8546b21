"""A round's samples as sequences, for policies with memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import numpy as np


@final
class Sequences:
    """Cuts the samples of each slot into sequences of `burn` + `length` rows, in the order played.

    Every sample is once among the last `length` rows of a sequence; before them are the `burn` samples that
    came before in the slot, from the round before where need be, with weight 0: they warm the memory. What is
    missing is rows of zeros. The last column of a row is its mark (see `Recalled`): 1 in the first sample of
    a sequence, where the memory is empty.

    >>> cut = Sequences(length=2, burn=1)
    >>> rows = np.array([[5.0, 1.0], [6.0, 0.0], [7.0, 0.0]], np.float32)
    >>> inputs, _, weights = cut.of(rows, np.ones((3, 1)), np.full(3, 1 / 3), np.zeros(3, int))
    >>> inputs[..., 0].tolist(), inputs[..., 1].tolist()
    ([[0.0, 5.0, 6.0], [6.0, 7.0, 0.0]], [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]])
    >>> (weights > 0).tolist(), cut.count(3, envs=1)
    ([[False, True, True], [False, True, False]], 2)
    """

    def __init__(self, length: int, burn: int):
        self.length, self.burn = length, burn
        self._last: dict[int, np.ndarray] = {}

    def count(self, size: int, envs: int) -> int:
        """How many sequences a round of `size` samples in so many slots makes."""
        each = [size // envs + (slot < size % envs) for slot in range(min(envs, size))]
        return sum(-(-one // self.length) for one in each)

    def of(
        self, inputs: np.ndarray, targets: np.ndarray, weights: np.ndarray, slots: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The next round's samples, with the sequences in front: (n, l, width), (n, l, k) and (n, l)."""
        found = []
        for slot in np.unique(slots).tolist():
            mine = np.flatnonzero(slots == slot)
            before = self._last.get(slot, inputs[:0])
            rows = np.concatenate([before, inputs[mine]])
            self._last[slot] = rows[max(len(rows) - self.burn, 0) :].copy()
            for first in range(0, len(mine), self.length):
                found.append(self._one(rows, len(before) + first, targets[mine], weights[mine], first))
        return tuple(np.stack(parts) for parts in zip(*found, strict=True))  # type: ignore[return-value]

    def _one(
        self, rows: np.ndarray, at: int, targets: np.ndarray, weights: np.ndarray, first: int
    ) -> Sequence[np.ndarray]:
        begin, end = max(at - self.burn, 0), min(at + self.length, len(rows))
        own, size = slice(self.burn, self.burn + end - at), self.burn + self.length
        inputs, labels = (np.zeros((size, one.shape[1]), one.dtype) for one in (rows, targets))
        shares = np.zeros(size, weights.dtype)
        inputs[self.burn - (at - begin) : own.stop] = rows[begin:end]
        inputs[self.burn - (at - begin), -1] = 1
        labels[own], shares[own] = (one[first : first + end - at] for one in (targets, weights))
        return inputs, labels, shares
