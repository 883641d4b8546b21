"""Environments and numbers: the row that a learner sees of an observation, standardised and with what came
before it in the episode, and the action that a policy's outputs stand for.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar, final, overload

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from jax import Array

from ..errors import UserError, unknown
from ..nested import batch_size, part_at, take

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from ..disk import Json
    from ..nested import Nested, Space
    from .acting import Encoded
    from .base import Params

    Slots = Sequence[int] | np.ndarray
    """Numbers of slots."""

Numeric = TypeVar("Numeric", np.ndarray, Array)
"""An array of NumPy or of JAX; a function of one returns one of the same kind."""
NUMPY: ModuleType = np
JAX: ModuleType = jnp
"""The functions that both have: which of them a function calls is known when it runs."""
NOTHING = np.zeros(0, np.int64)
FEW = 40
"""Numbers that Python adds more quickly than NumPy."""
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
        kind = np.uint8 if kinds == {"byte"} else np.int32 if kinds == {"state"} else np.float32
        self.dtype = np.dtype(kind)
        self._vector = self.leaves == (Leaf((), "number", (self.width,)),)

    @classmethod
    def of(cls, space: Space, *, tabular: bool = False) -> Observations:
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

    def row(self, observation: Nested) -> np.ndarray:
        """One observation as one row (width,); a number that is not finite is refused."""
        if self._vector:
            row = self.rows(np.asarray(observation)[None])[0]
        else:
            row = self._joined([np.asarray(part_at(observation, leaf.path))[None] for leaf in self.leaves])[0]
        require_finite(row[None])
        return row

    @overload
    def rows(self, batch: Array) -> Array: ...
    @overload
    def rows(self, batch: Nested) -> np.ndarray: ...
    def rows(self, batch: Nested) -> np.ndarray | Array:
        """A batch (n in front), of NumPy or, inside programs, of JAX, as rows (n, width), to the bits of
        `row`; numbers may be not finite.
        """
        if self._vector and isinstance(batch, np.ndarray) and batch.shape[1:] == (self.width,):
            return batch.astype(np.float32, copy=False)  # the usual case, a third of the time
        return self._joined([as_array(part_at(batch, leaf.path)) for leaf in self.leaves])

    def _joined(self, parts: Sequence[Numeric]) -> Numeric:
        """The parts (n, …) of n observations side by side. Bytes beside other parts become numbers."""
        if len(parts) > 1:
            _count(parts)
        rows = [_encoded(leaf, part, self.dtype) for leaf, part in zip(self.leaves, parts, strict=True)]
        own = JAX if on_device(rows[0]) else NUMPY
        joined: Any = rows[0] if len(rows) == 1 else own.concatenate(rows, axis=1)
        return joined.astype(self.dtype, copy=False)

    def single(self, observation: Nested) -> bool:
        """Whether this is one observation and not a batch."""
        leaf = self.leaves[0]
        return np.ndim(part_at(observation, leaf.path)) == len(leaf.shape)

    def split(self, batch: Nested) -> list[Nested]:
        """A batch (arrays, or dicts and tuples of arrays, with n in front) as n observations."""
        return [take(batch, i) for i in range(_count([part_at(batch, leaf.path) for leaf in self.leaves]))]

    def space(self) -> Space:
        """A Gymnasium space of such observations; bounds of numbers are not known."""
        return _space([(leaf.path, leaf) for leaf in self.leaves])

    def config(self) -> list[dict[str, Json]]:
        return [dataclasses.asdict(leaf) for leaf in self.leaves]

    @classmethod
    def from_config(cls, config: Sequence[Mapping[str, Json]]) -> Observations:
        def read(leaf: Mapping[str, Json]) -> Leaf:
            fields: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in leaf.items()}
            return Leaf(**fields)

        return cls([read(leaf) for leaf in config])


class Wrapped:
    """Observations whose rows are made of the rows of others, `inner`. The observations stay the same."""

    inner: Observations | Encoded

    def single(self, observation: Nested) -> bool:
        return self.inner.single(observation)

    def split(self, batch: Nested) -> list[Nested]:
        return self.inner.split(batch)

    def space(self) -> Space:
        return self.inner.space()


def _count(parts: Sequence[Nested]) -> int:
    """How many observations a batch holds; refused where its parts hold more or fewer than others."""
    first, *others = map(batch_size, parts)
    if any(one != first for one in others):
        raise UserError(f"observation: the parts of a batch hold {[first, *others]} observations.")
    return first


def _leaves(space: Space, path: tuple[str | int, ...]) -> Iterator[Leaf]:
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


def _space(parts: list[tuple[tuple[str | int, ...], Leaf]]) -> Space:
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


def _encoded(leaf: Leaf, part: Numeric, dtype: np.dtype) -> Numeric:
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


def _exact(numbers: Numeric, dtype: type[np.uint8 | int], what: str) -> Numeric:
    """The numbers in a type of whole ones; refused, where they can be looked at, if they are none."""
    with np.errstate(invalid="ignore"):
        exact = numbers.astype(dtype, copy=False)
    if isinstance(exact, np.ndarray) and exact.dtype != numbers.dtype and (wrong := exact != numbers).any():
        raise UserError(f"observation: {numbers[wrong][0]} is no {what}, which the policy was made for.")
    return exact


def one_hot(whole: Numeric, counts: Sequence[int]) -> Numeric:
    """Choices (n, d), of NumPy or of JAX, as rows of zeros and ones (n, Σ counts).

    >>> one_hot(np.array([[1, 0]]), (2, 3)).tolist()
    [[0.0, 1.0, 1.0, 0.0, 0.0]]
    """
    columns = list(zip(whole.T, counts, strict=True))
    if isinstance(whole, np.ndarray):
        return np.concatenate([np.eye(n, dtype=np.float32)[column] for column, n in columns], axis=1)
    return jnp.concatenate([jax.nn.one_hot(column, n, dtype=jnp.float32) for column, n in columns], axis=1)


def on_device(value: Nested) -> bool:
    """Whether this is an array of JAX, in a program or not."""
    return not isinstance(value, np.ndarray) and isinstance(value, jax.Array)  # the second question is slow


@overload
def as_array(value: Array) -> Array: ...
@overload
def as_array(value: Nested) -> np.ndarray: ...
def as_array(value: Nested) -> Nested:
    """An array: of JAX as it is, and anything else of NumPy."""
    return value if on_device(value) else np.asarray(value)


def not_finite_rows(rows: np.ndarray) -> np.ndarray:
    """The numbers of rows (n, width) that hold a nan or an infinity."""
    if rows.dtype.kind != "f":
        return NOTHING
    # The sum of finite numbers is finite, or too large; then one looks closer.
    total = np.add.reduce(rows, axis=None) if rows.size > FEW else sum(rows.ravel().tolist())
    if math.isfinite(total) or np.isfinite(rows).all():
        return NOTHING
    return np.flatnonzero(~np.isfinite(rows).all(axis=1))


def require_finite(rows: np.ndarray) -> None:
    """Refuses rows (n, width) that hold a nan or an infinity."""
    for row in rows[not_finite_rows(rows)]:
        shown = np.array2string(row, threshold=12, precision=4, max_line_width=10_000)
        raise UserError(f"environment: the observation {shown} is not finite.")


KINDS = ("box", "discrete", "multi")
DOUBLE = np.dtype(np.float64)
ACTIONS = "Box of floats, Discrete, MultiDiscrete and MultiBinary"


@final
@dataclasses.dataclass(frozen=True, eq=False)
class Actions:
    """How outputs become an action and labels become targets.

    Box: the outputs are the action, clipped to the bounds where it is played. Discrete: the largest of n
    outputs. MultiDiscrete: the largest in every group; MultiBinary: the larger of every two.

    >>> from gymnasium.spaces import Discrete
    >>> Actions.of(Discrete(3)).play(np.array([0.1, 0.7, 0.2]))
    np.int64(1)
    """

    kind: str
    shape: tuple[int, ...]
    low: np.ndarray | None = None
    high: np.ndarray | None = None
    counts: tuple[int, ...] = ()
    starts: tuple[int, ...] = ()
    dtype: str = "float32"
    size: int = dataclasses.field(init=False, repr=False)
    """How many numbers a played action is."""
    outputs: int = dataclasses.field(init=False, repr=False)
    categorical: bool = dataclasses.field(init=False, repr=False)

    def __post_init__(self) -> None:
        size = math.prod(self.shape)
        object.__setattr__(self, "size", size)
        object.__setattr__(self, "outputs", sum(self.counts) if self.counts else size)
        object.__setattr__(self, "categorical", bool(self.counts))

    @classmethod
    def of(cls, space: Space) -> Actions:
        if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating):
            low, high = (edge.reshape(-1) for edge in single_bounds(space))
            made = cls("box", tuple(space.shape), low, high, dtype=str(space.dtype))
            if not made.outputs:
                raise UserError(f"env: the actions {space} are no numbers: there is nothing to learn.")
            return made
        if isinstance(space, spaces.Discrete):
            return cls("discrete", (), counts=(int(space.n),), starts=(int(space.start),), dtype="int64")
        if isinstance(space, spaces.MultiDiscrete):
            counts, starts = (tuple(int(x) for x in np.ravel(v)) for v in (space.nvec, space.start))
            return cls("multi", tuple(space.shape), counts=counts, starts=starts, dtype="int64")
        if isinstance(space, spaces.MultiBinary):
            size = math.prod(space.shape)
            return cls("multi", tuple(space.shape), counts=(2,) * size, starts=(0,) * size, dtype="int8")
        raise UserError(f"env: the actions {space} are not supported; accepted: {ACTIONS}.")

    def space(self) -> Space:
        """The Gymnasium space of these actions."""
        if self.kind == "box":
            assert self.low is not None and self.high is not None
            low, high = (edge.reshape(self.shape).astype(self.dtype) for edge in (self.low, self.high))
            return spaces.Box(low, high, dtype=np.dtype(self.dtype).type)
        if self.kind == "discrete":
            return spaces.Discrete(self.counts[0], start=self.starts[0])
        if self.dtype == "int8":
            return spaces.MultiBinary(self.shape[0] if len(self.shape) == 1 else self.shape)
        counts, starts = (np.reshape(numbers, self.shape) for numbers in (self.counts, self.starts))
        return spaces.MultiDiscrete(counts, start=starts)

    @property
    def bounded(self) -> bool:
        return self.low is not None and bool(np.isfinite(self.low).all() and np.isfinite(self.high).all())  # type: ignore[arg-type]

    def play(self, outputs: np.ndarray) -> np.ndarray | np.int64:
        """The deterministic action for one row of outputs, as the environment takes it."""
        if self.kind == "discrete":
            return np.int64(self.starts[0] + int(outputs.argmax()))
        return self.plays(outputs[None]).reshape(self.shape)

    def plays(self, outputs: Numeric) -> Numeric:
        """`play` for many rows of outputs, of NumPy or, inside programs, of JAX: actions with n in front."""
        own, dtype = NUMPY, self._kind
        if not isinstance(outputs, np.ndarray):  # numbers on the device have 32 bits
            own, dtype = JAX, "int32" if self.counts else "float32"
        if self.kind == "box":
            wide = own is NUMPY and outputs.dtype == DOUBLE
            low, high = self._bounds if wide else (self.low, self.high)
            played: Any = own.minimum(own.maximum(outputs, low), high)
        elif self.kind == "discrete":
            played = outputs.argmax(axis=1) + self.starts[0]
        else:
            groups = own.split(outputs, np.cumsum(self.counts)[:-1], axis=1)
            played = own.stack([group.argmax(axis=1) for group in groups], axis=1) + np.array(self.starts)
        played = played.astype(dtype, copy=False)
        return played if played.shape[1:] == self.shape else played.reshape(len(outputs), *self.shape)

    @functools.cached_property
    def _kind(self) -> np.dtype:
        """The type of NumPy's numbers, whose name takes a while to look up."""
        return np.dtype(self.dtype)

    @functools.cached_property
    def _bounds(self) -> tuple[Any, Any]:
        """The bounds as float64 rows (1, outputs): linear policies need no conversion and no broadcast."""
        edges = (self.low, self.high)
        return tuple(None if edge is None else edge.astype(np.float64)[None] for edge in edges)  # type: ignore[return-value]

    def spread(self, drawn: Numeric) -> Numeric:
        """Outputs (n, outputs) that `plays` makes random actions of, from uniform numbers from 0 to 1."""
        return drawn if self.categorical else self.low + (self.high - self.low) * drawn  # type: ignore[operator,return-value]

    def targets(self, labels: Numeric, kind: str = "action") -> Numeric:
        """Answers (n, …), of NumPy or, inside programs, of JAX, as target rows (n, outputs): actions, one-hot
        choices, or a distribution.
        """
        flat, host = labels.reshape(len(labels), -1), isinstance(labels, np.ndarray)
        if self.kind == "box" or kind == "distribution":
            return flat if host else flat.astype(jnp.float32)
        return one_hot((flat if host else flat.astype(int)) - np.asarray(self.starts), self.counts)

    def from_numbers(self, row: np.ndarray) -> np.ndarray | np.int64:
        """The action of a flat row of the record, bit for bit."""
        action = np.asarray(row, self.dtype).reshape(self.shape)
        return np.int64(action) if self.kind == "discrete" else action

    def config(self) -> dict[str, Json]:
        plain = {field.name: getattr(self, field.name) for field in dataclasses.fields(self) if field.init}
        wide = {k: v.astype(np.float64).tolist() for k, v in plain.items() if isinstance(v, np.ndarray)}
        return plain | wide

    @classmethod
    def from_config(cls, config: Mapping[str, Json]) -> Actions:
        if config["kind"] not in KINDS:
            raise unknown("actions", config["kind"], KINDS)
        fields: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in config.items()}
        for name, endless in (("low", -np.inf), ("high", np.inf)):
            if fields[name] is not None:  # JSON has no infinity, and null in its place
                edges = [endless if edge is None else edge for edge in fields[name]]
                fields[name] = np.asarray(edges, np.float32)
        return cls(**fields)


def single_bounds(space: Space) -> tuple[np.ndarray, np.ndarray]:
    """The bounds of a Box in single precision, rounded inwards: what is clipped to them is in the space.

    >>> from gymnasium.spaces import Box
    >>> low, high = single_bounds(Box(-0.1, 0.1, dtype=np.float64))
    >>> bool(float(high[0]) <= 0.1 < float(np.float32(0.1)))
    True
    """
    assert isinstance(space, spaces.Box)
    with np.errstate(over="ignore"):  # beyond what single precision has there is no bound
        low, high = (np.asarray(edge, np.float32) for edge in (space.low, space.high))
    low = np.where(np.isfinite(low) & (low < space.low), np.nextafter(low, np.float32(np.inf)), low)
    less = np.nextafter(high, np.float32(-np.inf))
    return low, np.where(np.isfinite(high) & (high > space.high), less, high)


@final
class Normaliser:
    """``(x − mean) / scale`` per column, clipped to ±`limit`; fixed once, and float32 when it returns. Rows
    are of NumPy or, inside programs, of JAX.

    Means and scales in float64 (statistics of `VecNormalize`) are applied in float64.

    >>> seen = Normaliser.fit(np.array([[0.0, 5.0], [2.0, 5.0]], np.float32), np.array([True, True]))
    >>> seen(np.array([[2.0, 5.0]], np.float32)).tolist()
    [[1.0, 0.0]]
    """

    def __init__(
        self, mean: np.ndarray, scale: np.ndarray, limit: float = math.inf, *, dtype: DTypeLike = np.float32
    ):
        self.mean, self.scale, self.limit = np.asarray(mean, dtype), np.asarray(scale, dtype), float(limit)
        plain = not self.mean.any() and bool((self.scale == 1).all())
        self.nothing = plain and self.limit == math.inf

    @classmethod
    def identity(cls, width: int) -> Normaliser:
        return cls(np.zeros(width), np.ones(width))

    @classmethod
    def fit(cls, rows: np.ndarray | Array, which: np.ndarray) -> Normaliser:
        """Mean and deviation of `rows` (n, width) where `which`. A column that is nearly constant keeps its
        scale, and one that is not a plain number stays as it is.
        """
        if not which.any():  # images, say: many columns, and none of them a plain number
            return cls.identity(rows.shape[1])
        columns = np.flatnonzero(which)
        if isinstance(rows, jax.Array) or len(columns) == len(which):
            columns = np.arange(len(which))
        else:  # of images with numbers beside them the numbers alone, some rows at a time
            # The sum of a single column rounds otherwise.
            pairs = columns if len(columns) > 1 else columns.repeat(2)
            pieces = range(0, len(rows), PIECE)
            rows = np.concatenate([np.asarray(rows[first : first + PIECE])[:, pairs] for first in pieces])
        mean, scale = np.zeros(len(which)), np.ones(len(which))
        means, spreads = (moment[: len(columns)] for moment in _moments(rows))
        moves = spreads > 1e-4 * np.maximum(1.0, np.abs(means))
        mean[columns], scale[columns] = means, np.where(moves, spreads, 1.0)
        return cls(np.where(which, mean, 0.0), np.where(which, scale, 1.0))

    def __call__(self, rows: Numeric) -> Numeric:
        if self.nothing:
            return rows
        rows = (rows - self.mean) / self.scale
        if self.limit < math.inf:
            own = NUMPY if isinstance(rows, np.ndarray) else JAX
            rows = own.minimum(own.maximum(rows, -self.limit), self.limit)
        return rows if rows.dtype == np.float32 else rows.astype(np.float32)


PIECE = 256
"""Rows of images that are read at once."""


def _moments(rows: np.ndarray | Array) -> tuple[np.ndarray, np.ndarray]:
    """Mean and deviation of columns in float64, computed where the rows are."""
    if isinstance(rows, np.ndarray):
        rows = rows.astype(np.float64)
        return rows.mean(axis=0), rows.std(axis=0)
    with jax.enable_x64(True):
        rows = rows.astype(np.float64)
        return np.asarray(rows.mean(axis=0)), np.asarray(rows.std(axis=0))


MOST_FRAMES = 10_000
"""Rows that are seen together, at most."""


@final
class Recalled(Wrapped):
    """Observations with their past: `Observations`' interface, where a row also depends on what was seen
    before in the episode.

    depth: how many rows of the episode are seen. What is there is the last row and the changes that led to
    it, x_{t−k+2} − x_{t−k+1}, …, x_t − x_{t−1}, x_t, 0 where the episode has no so many rows yet. The rows
    themselves say the same, but hardly differ: a network would have to learn weights that take their small
    differences apart, where these are columns that are standardised. mark: one more column, 1 where an
    episode begins, by which a policy with a state of its own starts anew.

    >>> from gymnasium.spaces import Box
    >>> seen = Recalled(Observations.of(Box(-1, 1, (1,))), 2, mark=True)
    >>> history = History(seen, slots=1)
    >>> for number in (0.25, 0.5):
    ...     rows = history.see([0], np.array([[number]]))
    ...     history.advance([0], rows)
    ...     print(rows.tolist())
    [[0.0, 0.25, 1.0]]
    [[0.25, 0.5, 0.0]]
    """

    def __init__(self, inner: Observations | Encoded, depth: int = 1, *, mark: bool = False):
        if inner.dtype != np.float32:
            raise UserError(
                "frame_stack: bytes and numbers of states have no stack and no gru here; numbers have, and "
                "the features of images (policy linear)."
            )
        if not 1 <= depth <= MOST_FRAMES:
            raise UserError(f"frame_stack: {depth!r} is not a whole number from 1 to {MOST_FRAMES:,}.")
        self.inner, self.depth, self.mark = inner, depth, mark
        self.width, self.dtype = depth * inner.width + mark, inner.dtype

    @property
    def measured(self) -> np.ndarray:
        """Which columns are plain numbers; the mark is none."""
        return np.concatenate([np.tile(self.inner.measured, self.depth), np.zeros(int(self.mark), bool)])

    def join(self, now: Numeric, past: Numeric, fresh: Numeric) -> Numeric:
        """Rows (n, width) of the inner rows seen `now` (n, inner), what `past` gave of the rows before them
        (n, depth − 1, inner), and whether an episode begins (n,): then what came before does not count.
        Arrays of NumPy or of JAX.
        """
        own = NUMPY if isinstance(now, np.ndarray) else JAX
        parts = [now]
        if self.depth > 1:
            changes = own.concatenate([past[:, :-1], now[:, None] - past[:, -1:]], axis=1)
            changes = own.where(fresh[:, None, None], own.zeros_like(changes), changes)
            parts = [changes.reshape(len(now), -1), now]
        return own.concatenate([*parts, fresh[:, None].astype(now.dtype)] if self.mark else parts, axis=1)

    def past(self, rows: Numeric) -> Numeric:
        """What the next `join` needs, (n, depth − 1, inner): all changes but the oldest, and the last row."""
        each = self.inner.width
        return rows[:, each : self.depth * each].reshape(len(rows), self.depth - 1, each)

    def row(self, observation: Nested) -> np.ndarray:
        """The row of an observation that begins an episode."""
        return self._first(self.inner.row(observation)[None])[0]

    def rows(self, batch: Nested) -> np.ndarray:
        """The rows of observations each of which begins an episode."""
        return self._first(self.inner.rows(batch))

    def _first(self, now: np.ndarray) -> np.ndarray:
        past = np.zeros((len(now), self.depth - 1, now.shape[1]), now.dtype)
        return self.join(now, past, np.ones(len(now), bool))

    def along(self, batch: Nested, begins: np.ndarray) -> np.ndarray:
        """The rows of observations in the order in which they were seen; `begins` (n,): of an episode."""
        now, found = self.inner.rows(batch), list[np.ndarray]()
        past = np.zeros((1, self.depth - 1, now.shape[1]), now.dtype)
        for row, begin in zip(now, begins, strict=True):
            found.append(self.join(row[None], past, np.array([begin or not found])))
            past = self.past(found[-1])
        return np.concatenate(found)

    def config(self) -> dict[str, Json]:
        return {"recalled": self.inner.config(), "changes": self.depth - 1, "mark": self.mark}

    @property
    def tensors(self) -> Params | None:
        """Those of a frozen network, where one is looked through."""
        return getattr(self.inner, "tensors", None)


@final
class History:
    """What was seen in the episodes under way in some slots, and the rows made of it.

    `see` gives the rows of what the slots show now, as often as it is asked; `advance` goes on to the next
    step. The last `keep` rows of every slot stay in `kept`, (slots, keep, width).
    """

    def __init__(self, observations: Recalled, slots: int, *, keep: int = 0):
        self.observations, self._fresh = observations, np.ones(slots, bool)
        self.kept = np.zeros((slots, keep, observations.width), observations.dtype)
        shape = slots, observations.depth - 1, observations.inner.width
        self._past = np.zeros(shape, observations.dtype)

    def begin(self, slots: Slots) -> None:
        """The next rows of these slots begin episodes."""
        self._fresh[slots] = True

    def see(self, slots: Slots, batch: Nested) -> np.ndarray:
        """The rows (n, width) of a batch of observations, one of each slot."""
        now = self.observations.inner.rows(batch)
        return self.observations.join(now, self._past[slots], self._fresh[slots])

    def advance(self, slots: Slots, rows: np.ndarray) -> None:
        """These rows of these slots were acted on."""
        self._past[slots], self._fresh[slots] = self.observations.past(rows), False
        if self.kept.shape[1]:
            self.kept[slots] = np.concatenate([self.kept[slots][:, 1:], rows[:, None]], axis=1)
