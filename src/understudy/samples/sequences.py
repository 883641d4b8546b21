"""A round's samples as sequences, for policies with memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

import jax
import numpy as np
from jax import Array

from ..policies.codecs import JAX, NUMPY

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..policies.codecs import Numeric


def count(size: int, envs: int, length: int) -> int:
    """How many sequences of so many rows the samples of a round in so many slots make."""
    each = [size // envs + (slot < size % envs) for slot in range(min(envs, size))]
    return sum(-(-one // length) for one in each)


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
    >>> (weights > 0).tolist(), count(3, envs=1, length=2)
    ([[False, True, True], [False, True, False]], 2)
    """

    def __init__(self, length: int, burn: int):
        self.length, self.burn = length, burn
        self._last: Any = None  # (slots, burn, width): the rows before the next, the last at the end
        self._have = np.zeros(0, np.int64)  # how many of them there are

    def of(
        self, inputs: Numeric, targets: Numeric, weights: np.ndarray, slots: np.ndarray
    ) -> tuple[Numeric, Numeric, np.ndarray]:
        """The next round's samples, with the sequences in front: (n, l, width), (n, l, k) and (n, l). Inputs
        and targets that are on the device stay there.
        """
        owners, counts = np.unique(slots, return_counts=True)
        order, starts = np.argsort(slots, kind="stable"), np.cumsum(counts) - counts
        self._grow(int(owners[-1]) + 1, inputs)
        each = -(-counts // self.length)
        mine = np.repeat(np.arange(len(owners)), each)  # of a sequence: its slot, and its first sample there
        first = (np.arange(len(mine)) - np.repeat(np.cumsum(each) - each, each)) * self.length
        size = len(self._have) * self.burn  # the rows from before are in front of the round's

        def places(of: np.ndarray, at: np.ndarray) -> np.ndarray:
            """Where the rows `at` (n, …) of slots `of` (n,) are; those below 0 are old ones. −1: nowhere."""
            of = of[:, None]
            old = (at < 0) & (at >= -self._have[owners[of]])
            new = (at >= 0) & (at < counts[of])
            here = size + order[np.clip(starts[of] + at, 0, len(order) - 1)]
            return np.where(new, here, np.where(old, (owners[of] + 1) * self.burn + at, -1))

        steps = np.arange(-self.burn, self.length)
        where = places(mine, first[:, None] + steps)
        begins = np.argmax(where >= 0, axis=1)[:, None] == np.arange(len(steps))
        after = np.arange(size).reshape(len(self._have), self.burn)
        after[owners] = places(np.arange(len(owners)), counts[:, None] - np.arange(self.burn, 0, -1))
        self._have[owners] = np.minimum(self._have[owners] + counts, self.burn)
        own = np.where((steps >= 0) & (where >= 0), where - size, -1)
        taken: Callable[..., tuple[Numeric, Numeric, Numeric]] = (
            taken_here if isinstance(inputs, np.ndarray) else taken_there
        )
        rows, labels, self._last = taken(self._last, inputs, targets, where, begins, own, after)
        return rows, labels, np.where(own >= 0, weights[own], 0)

    def arrays(self) -> dict[str, np.ndarray]:
        """What the next round's sequences begin with, for a snapshot."""
        if self._last is None:
            return {}
        return {"before.rows": np.asarray(self._last), "before.have": self._have}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Goes on from what `arrays` gave."""
        if "before.rows" in arrays:
            self._last, self._have = arrays["before.rows"], np.array(arrays["before.have"])

    def _grow(self, slots: int, inputs: np.ndarray | Array) -> None:
        missing = slots - len(self._have)
        if self._last is None or missing > 0:
            own = NUMPY if isinstance(inputs, np.ndarray) else JAX
            more = own.zeros((missing, self.burn, inputs.shape[1]), inputs.dtype)
            self._last = more if self._last is None else own.concatenate([self._last, more])
            self._have = np.concatenate([self._have, np.zeros(missing, np.int64)])


def taken_here(
    last: Numeric,
    inputs: Numeric,
    targets: Numeric,
    where: Numeric,
    begins: Numeric,
    own: Numeric,
    after: Numeric,
) -> tuple[Numeric, Numeric, Numeric]:
    """The inputs and targets of sequences, and the rows that stay: see `Sequences.of`."""
    xp = NUMPY if isinstance(inputs, np.ndarray) else JAX
    every = xp.concatenate([last.reshape(-1, inputs.shape[1]), inputs])

    def at(rows: Numeric, places: Numeric) -> Numeric:
        return xp.where((places >= 0)[..., None], rows[places], xp.zeros((), rows.dtype))

    rows = at(every, where)
    marks = xp.where(begins, xp.ones((), rows.dtype), rows[..., -1])
    rows = xp.concatenate([rows[..., :-1], marks[..., None]], axis=-1)
    return rows, at(targets, own), at(every, after)


taken_there = jax.jit(taken_here)
