"""Actions and numbers: the action that a policy's outputs stand for, and the targets that labels become."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, final

import jax.numpy as jnp
import numpy as np
from gymnasium import spaces

from ..errors import UserError, among
from .observations import one_hot

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

    @classmethod
    def of(cls, space: Any) -> Actions:
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

    def space(self) -> Any:
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
    def outputs(self) -> int:
        return sum(self.counts) if self.counts else self.size

    @property
    def categorical(self) -> bool:
        return bool(self.counts)

    @property
    def bounded(self) -> bool:
        return self.low is not None and bool(np.isfinite(self.low).all() and np.isfinite(self.high).all())  # type: ignore[arg-type]

    def play(self, outputs: np.ndarray) -> Any:
        """The deterministic action for one row of outputs, as the environment takes it."""
        if self.kind == "discrete":
            return np.int64(self.starts[0] + int(outputs.argmax()))
        return self.plays(outputs[None]).reshape(self.shape)

    def plays(self, outputs: Any) -> Any:
        """`play` for many rows of outputs, of NumPy or, inside programs, of JAX: actions with n in front."""
        own, dtype = np, self.dtype
        if not isinstance(outputs, np.ndarray):  # numbers on the device have 32 bits
            own, dtype = jnp, "int32" if self.counts else "float32"
        if self.kind == "box":
            played = own.minimum(own.maximum(outputs, self.low), self.high)  # type: ignore[arg-type]
        elif self.kind == "discrete":
            played = outputs.argmax(axis=1) + self.starts[0]
        else:
            groups = own.split(outputs, np.cumsum(self.counts)[:-1], axis=1)
            played = own.stack([group.argmax(axis=1) for group in groups], axis=1) + np.array(self.starts)
        return played.astype(dtype, copy=False).reshape(len(outputs), *self.shape)

    def targets(self, labels: Any, kind: str = "action") -> Any:
        """Answers (n, …), of NumPy or, inside programs, of JAX, as target rows (n, outputs): actions, one-hot
        choices, or a distribution.
        """
        flat, host = labels.reshape(len(labels), -1), isinstance(labels, np.ndarray)
        if self.kind == "box" or kind == "distribution":
            return flat if host else flat.astype(jnp.float32)
        return one_hot((flat if host else flat.astype(int)) - np.asarray(self.starts), self.counts)

    def from_numbers(self, row: np.ndarray) -> Any:
        """The action of a flat row of the record, bit for bit."""
        action = np.asarray(row, self.dtype).reshape(self.shape)
        return np.int64(action) if self.kind == "discrete" else action

    @property
    def size(self) -> int:
        """How many numbers a played action is."""
        return math.prod(self.shape)

    def config(self) -> dict[str, Any]:
        plain = dataclasses.asdict(self)
        return {
            k: v.astype(np.float64).tolist() if isinstance(v, np.ndarray) else v for k, v in plain.items()
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Actions:
        among("actions", config["kind"], ("box", "discrete", "multi"))
        fields: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in config.items()}
        for name, endless in (("low", -np.inf), ("high", np.inf)):
            if fields[name] is not None:  # JSON has no infinity, and null in its place
                edges = [endless if edge is None else edge for edge in fields[name]]
                fields[name] = np.asarray(edges, np.float32)
        return cls(**fields)


def single_bounds(space: Any) -> tuple[np.ndarray, np.ndarray]:
    """The bounds of a Box in single precision, rounded inwards: what is clipped to them is in the space.

    >>> from gymnasium.spaces import Box
    >>> low, high = single_bounds(Box(-0.1, 0.1, dtype=np.float64))
    >>> bool(float(high[0]) <= 0.1 < float(np.float32(0.1)))
    True
    """
    with np.errstate(over="ignore"):  # beyond what single precision has there is no bound
        low, high = (np.asarray(edge, np.float32) for edge in (space.low, space.high))
    low = np.where(np.isfinite(low) & (low < space.low), np.nextafter(low, np.float32(np.inf)), low)
    return low, np.where(
        np.isfinite(high) & (high > space.high), np.nextafter(high, np.float32(-np.inf)), high
    )
