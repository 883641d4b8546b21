"""Observations and numbers: the row that a learner sees of an observation."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces

from ..errors import UserError
from ..nested import at, batch_size, take

OBSERVATIONS = "Box, Discrete, MultiDiscrete, MultiBinary, and Dict or Tuple of these"


@final
@dataclasses.dataclass(frozen=True)
class Leaf:
    """One plain space inside an observation: where it is, what it is, and how many numbers it becomes."""

    path: tuple[str | int, ...]
    kind: str
    """number (as it is), byte (0 to 255), choice or choices (one-hot each), or state (its own number)."""
    shape: tuple[int, ...]
    counts: tuple[int, ...] = ()
    starts: tuple[int, ...] = ()
    picks: tuple[int, ...] = ()
    """Which of its numbers are seen; none named: all."""

    @property
    def width(self) -> int:
        if self.picks:
            return len(self.picks)
        if self.kind in ("choice", "choices"):
            return sum(self.counts)
        return math.prod(self.shape)


@final
class Observations:
    """How an observation becomes one row of numbers, always in the same way.

    Box: flattened; Discrete and MultiDiscrete: one-hot; Dict and Tuple: their parts side by side. An
    observation of bytes alone (an image) stays bytes, and the policies read a byte b as b/255.

    >>> from gymnasium.spaces import Box, Dict, Discrete
    >>> seen = Observations.of(Dict(a=Box(-1, 1, (2,)), b=Discrete(3)))
    >>> seen.row({"a": np.array([0.5, -0.5]), "b": 2}).tolist()
    [0.5, -0.5, 0.0, 0.0, 1.0]
    """

    def __init__(self, leaves: Sequence[Leaf]):
        self.leaves = tuple(leaves)
        self.width = sum((leaf.width for leaf in self.leaves), 0)
        kinds = {leaf.kind for leaf in self.leaves}
        self.dtype = np.dtype(
            np.uint8 if kinds == {"byte"} else np.int32 if kinds == {"state"} else np.float32
        )
        self._vector = self.leaves == (Leaf((), "number", (self.width,)),)

    @classmethod
    def of(cls, space: Any, *, tabular: bool = False) -> Observations:
        """From a Gymnasium space; with `tabular` a Discrete observation is its own number."""
        if tabular:
            if not isinstance(space, spaces.Discrete):
                raise UserError(f"policy: tabular needs Discrete observations, these are {space}.")
            return cls([Leaf((), "state", (), (int(space.n),), (int(space.start),))])
        made = cls(list(_leaves(space, ())))
        if not made.width:
            raise UserError(f"env: the observations {space} hold no number: there is nothing to see.")
        return made

    @property
    def measured(self) -> np.ndarray:
        """Which columns are plain numbers, to be standardised (width,)."""
        kinds = np.array([leaf.kind == "number" for leaf in self.leaves], bool)
        return np.repeat(kinds, np.array([leaf.width for leaf in self.leaves], int))

    def row(self, observation: Any) -> np.ndarray:
        """One observation as one row (width,); a number that is not finite is refused."""
        if self._vector:
            row = self.rows(np.asarray(observation)[None])[0]
        else:
            row = self._joined([np.asarray(at(observation, leaf.path))[None] for leaf in self.leaves])[0]
        if row.dtype.kind == "f" and not np.isfinite(row).all():
            raise not_finite(row)
        return row

    def rows(self, batch: Any) -> Any:
        """A batch (n in front), of NumPy or, inside programs, of JAX, as rows (n, width), to the bits of
        `row`; numbers may be not finite.
        """
        if self._vector and isinstance(batch, np.ndarray) and batch.shape[1:] == (self.width,):
            return batch.astype(np.float32, copy=False)  # the usual case, a third of the time
        return self._joined([as_array(at(batch, leaf.path)) for leaf in self.leaves])

    def _joined(self, parts: Sequence[Any]) -> Any:
        """The parts (n, …) of n observations side by side. Bytes beside other parts become numbers."""
        if len(parts) > 1:
            _count(parts)
        found = [_encoded(leaf, one, self.dtype) for leaf, one in zip(self.leaves, parts, strict=True)]
        own = jnp if on_device(found[0]) else np
        joined = found[0] if len(found) == 1 else own.concatenate(found, axis=1)
        return joined.astype(self.dtype, copy=False)

    def single(self, observation: Any) -> bool:
        """Whether this is one observation and not a batch."""
        leaf = self.leaves[0]
        return np.ndim(at(observation, leaf.path)) == len(leaf.shape)

    def split(self, batch: Any) -> list[Any]:
        """A batch (arrays, or dicts and tuples of arrays, with n in front) as n observations."""
        return [take(batch, i) for i in range(_count([at(batch, leaf.path) for leaf in self.leaves]))]

    def space(self) -> Any:
        """A Gymnasium space of such observations; bounds of numbers are not known."""
        return _space([(leaf.path, leaf) for leaf in self.leaves])

    def config(self) -> list[dict[str, Any]]:
        return [dataclasses.asdict(leaf) for leaf in self.leaves]

    @classmethod
    def from_config(cls, config: list[dict[str, Any]]) -> Observations:
        def plain(one: dict[str, Any]) -> dict[str, Any]:
            return {k: tuple(v) if isinstance(v, list) else v for k, v in one.items()}

        return cls([Leaf(**plain(one)) for one in config])


class Wrapped:
    """Observations whose rows are made of the rows of others, `inner`. The observations stay the same."""

    inner: Any

    def single(self, observation: Any) -> bool:
        return self.inner.single(observation)

    def split(self, batch: Any) -> list[Any]:
        return self.inner.split(batch)

    def space(self) -> Any:
        return self.inner.space()


def _count(parts: Sequence[Any]) -> int:
    """How many observations a batch holds; refused where its parts hold more or fewer than others."""
    first, *others = map(batch_size, parts)
    if any(one != first for one in others):
        raise UserError(f"observation: the parts of a batch hold {[first, *others]} observations.")
    return first


def _leaves(space: Any, path: tuple[str | int, ...]) -> Any:
    if isinstance(space, spaces.Dict):
        for key, inner in space.spaces.items():
            yield from _leaves(inner, (*path, key))
    elif isinstance(space, spaces.Tuple):
        for index, inner in enumerate(space.spaces):
            yield from _leaves(inner, (*path, index))
    elif isinstance(space, spaces.Box):
        yield Leaf(path, "byte" if space.dtype == np.uint8 else "number", tuple(space.shape))
    elif isinstance(space, spaces.MultiBinary):
        yield Leaf(path, "number", tuple(space.shape))
    elif isinstance(space, spaces.Discrete):
        yield Leaf(path, "choice", (), (int(space.n),), (int(space.start),))
    elif isinstance(space, spaces.MultiDiscrete):
        counts, starts = (tuple(int(x) for x in np.ravel(v)) for v in (space.nvec, space.start))
        yield Leaf(path, "choices", tuple(space.shape), counts, starts)
    else:
        raise UserError(f"env: the observations {space} are not supported; accepted: {OBSERVATIONS}.")


def _space(parts: list[tuple[tuple[str | int, ...], Leaf]]) -> Any:
    if not parts[0][0]:
        leaf = parts[0][1]
        if leaf.kind == "byte":
            return spaces.Box(0, 255, leaf.shape, np.uint8)
        if leaf.kind == "number":
            return spaces.Box(-np.inf, np.inf, leaf.shape)
        if leaf.kind == "choices":
            counts, starts = (np.reshape(numbers, leaf.shape) for numbers in (leaf.counts, leaf.starts))
            return spaces.MultiDiscrete(counts, start=starts)
        return spaces.Discrete(leaf.counts[0], start=leaf.starts[0])
    keys = list(dict.fromkeys(path[0] for path, _ in parts))
    inner = {key: _space([(path[1:], leaf) for path, leaf in parts if path[0] == key]) for key in keys}
    if isinstance(keys[0], int):
        return spaces.Tuple(inner.values())
    return spaces.Dict({str(key): part for key, part in inner.items()})


def _encoded(leaf: Leaf, part: Any, dtype: np.dtype) -> Any:
    size = math.prod(leaf.shape)
    flat = part.reshape(len(part), -1 if part.size else size)
    if flat.shape[1] != size:
        where = f" at {'.'.join(map(str, leaf.path))}" if leaf.path else ""
        raise UserError(f"observation: has {flat.shape[1]} numbers{where}, the policy was made for {size}.")
    if leaf.kind == "number":
        numbers = flat.astype(np.float32, copy=False)
        return numbers[:, np.array(leaf.picks)] if leaf.picks else numbers
    if leaf.kind == "byte":
        pixels = _exact(flat, np.uint8, "byte from 0 to 255")
        return pixels if dtype == np.uint8 else pixels.astype(np.float32) / np.float32(255)
    whole = _exact(flat, int, "whole number") - np.asarray(leaf.starts)
    if isinstance(whole, np.ndarray) and (wrong := (whole < 0) | (whole >= leaf.counts)).any():
        row, place = np.argwhere(wrong)[0]
        low, count = leaf.starts[place], leaf.counts[place]
        raise UserError(f"observation: {flat[row, place]} is none of the choices {low} to {low + count - 1}.")
    return whole if leaf.kind == "state" else one_hot(whole, leaf.counts)


def _exact(numbers: Any, dtype: Any, what: str) -> Any:
    """The numbers in a type of whole ones; refused, where they can be looked at, if they are none."""
    with np.errstate(invalid="ignore"):
        found = numbers.astype(dtype, copy=False)
    if isinstance(found, np.ndarray) and found.dtype != numbers.dtype and (wrong := found != numbers).any():
        raise UserError(f"observation: {numbers[wrong][0]} is no {what}, which the policy was made for.")
    return found


def one_hot(whole: Any, counts: Sequence[int]) -> Any:
    """Choices (n, d), of NumPy or of JAX, as rows of zeros and ones (n, Σ counts).

    >>> one_hot(np.array([[1, 0]]), (2, 3)).tolist()
    [[0.0, 1.0, 1.0, 0.0, 0.0]]
    """
    columns = list(zip(whole.T, counts, strict=True))
    if isinstance(whole, np.ndarray):
        return np.concatenate([np.eye(n, dtype=np.float32)[column] for column, n in columns], axis=1)
    return jnp.concatenate([jax.nn.one_hot(column, n, dtype=jnp.float32) for column, n in columns], axis=1)


def on_device(value: Any) -> bool:
    """Whether this is an array of JAX, in a program or not."""
    return not isinstance(value, np.ndarray) and isinstance(value, jax.Array)  # the second question is slow


def as_array(value: Any) -> Any:
    """An array: of JAX as it is, and anything else of NumPy."""
    return value if on_device(value) else np.asarray(value)


def not_finite(row: np.ndarray) -> UserError:
    """The error of a row that holds a nan or an infinity."""
    shown = np.array2string(row, threshold=12, precision=4, max_line_width=10_000)
    return UserError(f"environment: the observation {shown} is not finite.")
