"""Parameters of brax's PPO as experts: from memory, or from files that hold numbers and nothing else.

They are a tuple: the statistics of observations, the policy's parameters, (the value function's). Its layers
are hidden_0, hidden_1, …; the last gives the mean and the deviation, and the action is tanh of the mean. In a
file they are read from flax's msgpack (``flax.serialization.to_bytes(params)``) or from an .npz with names
such as 0/mean, 0/std, 1/params/hidden_0/kernel. brax's own save_params writes a pickle, which is never read.
"""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
# What a stranger's file holds is unknown until it is looked at.

from __future__ import annotations

import math
import os
import re
import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, final

import numpy as np
from gymnasium import spaces

from .. import disk
from ..errors import UserError, damaged
from ..nested import nest
from ..policies import Normaliser
from . import Expert
from .networks import existing, from_layers

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from . import Space

KEYS = ("state", "proprio", "obs")
"""Which of several groups of observations the policy sees, where brax keeps statistics of all."""


def load(path: str | os.PathLike[str], *, name: str | None = None, **options: Any) -> Expert:
    """The expert in a file with brax's parameters; see `from_params` for the options."""
    path, what = existing(path, "file")
    with damaged(what):
        if path.suffix == ".npz":  # arrays, nested by their names
            named = disk.read_npz(path, what).items()
            tree = nest([(tuple(re.split(r"[/.]", key)), array) for key, array in named]) if named else {}
        else:
            tree = unpack(path.read_bytes(), what)
    return from_params(tree, what=what, name=name or path.stem, **options)


def from_params(
    params: Any,
    *,
    observation_space: Space | None = None,
    action_space: Space | None = None,
    activation: str | None = None,
    name: str | None = None,
    what: str = "brax parameters",
) -> Expert:
    """The expert that plays brax's PPO parameters: (statistics, policy, …), or the dict of them that a file
    holds. `activation` is "silu" (brax's default, swish) unless it is given.

    >>> layers = {"hidden_0": {"kernel": np.ones((2, 2)), "bias": np.zeros(2)}}
    >>> expert = from_params(({"mean": np.zeros(2), "std": np.ones(2)}, {"params": layers}))
    >>> expert.label(np.array([[0.25, 0.25]])).shape  # a mean and a deviation are one action
    (1, 1)
    """
    with damaged(what):
        statistics, policy = (_part(params, number, what) for number in (0, 1))
        inner = policy.get("params", policy)
        if not isinstance(inner, Mapping) or "hidden_0" not in inner:
            raise UserError(f"{what}: the policy has no layers hidden_0, hidden_1, …, as brax's have.")
        layers: list[dict[str, np.ndarray]] = []
        while f"hidden_{len(layers)}" in inner:
            layer = inner[f"hidden_{len(layers)}"]
            layers.append({"weight": _numbers(layer["kernel"], what), "bias": _numbers(layer["bias"], what)})
        if odd := [key for key in inner if key not in {f"hidden_{i}" for i in range(len(layers))}]:
            raise UserError(f"{what}: {odd[0]!r} is not part of a plain network of dense layers.")
        if action_space is None:
            action_space = spaces.Box(-1.0, 1.0, (layers[-1]["bias"].size // 2,))
        return from_layers(
            layers,
            what,
            observation_space=observation_space,
            action_space=action_space,
            activation=activation or "silu",
            head="tanh",
            normaliser=_normaliser(statistics, what),
            card={"name": name or "brax", "algorithm": "PPO (brax)", "made": f"read from {what}"},
        )


def _part(params: Any, number: int, what: str) -> Any:
    """A part of the tuple, as a mapping: a dataclass by its fields, a msgpack tuple by its numbers."""
    if isinstance(params, Mapping):
        params = [params[key] for key in sorted(params, key=str)] if "0" in params else params
    if not isinstance(params, list | tuple) or len(params) < 2:
        raise UserError(f"{what}: is not brax's (statistics, policy, …).")
    part = params[number]
    return part if part is None or isinstance(part, Mapping) else vars(part)


def _normaliser(statistics: Mapping[str, Any] | None, what: str) -> Normaliser | None:
    if not statistics:
        return None
    mean, deviation = statistics["mean"], statistics["std"]
    if isinstance(mean, Mapping):
        key = next((key for key in KEYS if key in mean), next(iter(mean)))
        mean, deviation = mean[key], deviation[key]
    return Normaliser(_numbers(mean, what).reshape(-1), _numbers(deviation, what).reshape(-1))


def _numbers(value: ArrayLike, what: str) -> np.ndarray:
    numbers = np.asarray(value)
    if numbers.dtype.kind not in "fiu" or not np.isfinite(numbers).all():
        raise UserError(f"{what}: holds an array that is not of finite numbers.")
    return np.ascontiguousarray(numbers, np.float32)


Value: TypeAlias = "bool | int | float | str | bytes | np.ndarray | list[Value] | dict[str, Value] | None"
"""What flax's msgpack may hold."""
# flax's msgpack. The package `msgpack` would be one more dependency for these lines, and does not limit what
# many small values become in memory.

DEEP = 64
"""Levels of nesting, at most."""
MANY = 1_000_000
"""Values, at most: an empty list is one byte in a file, and sixty in memory."""
INTEGERS = {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
KINDS = {"bool", "float16", "float32", "float64", *INTEGERS}
CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}
NUMBERS = dict(zip(range(0xCA, 0xD4), "fdBHIQbhiq", strict=True))
SIZED: dict[int, tuple[str, int | str]] = {
    **{0x80 + size: ("dict", size) for size in range(16)},
    **{0x90 + size: ("list", size) for size in range(16)},
    **{0xA0 + size: ("text", size) for size in range(32)},
    **{0xC4 + i: ("bytes", form) for i, form in enumerate("BHI")},
    **{0xC7 + i: ("extension", form) for i, form in enumerate("BHI")},
    **{0xD4 + i: ("extension", 1 << i) for i in range(5)},
    **{0xD9 + i: ("text", form) for i, form in enumerate("BHI")},
    **{0xDC + i: ("list", form) for i, form in enumerate("HI")},
    **{0xDE + i: ("dict", form) for i, form in enumerate("HI")},
}
"""What has a size: the size itself, or the form of the number before it that says it."""


def unpack(data: bytes, what: str) -> Value:
    """The one value in `data`, MessagePack as flax writes it: dicts, lists, numbers, texts, arrays. No other
    type is accepted, and lengths are not trusted: nothing is made before its bytes are there.

    >>> unpack(bytes([0x81, 0xA1, 0x61, 0x93, 0x01, 0xC3, 0xC0]), "file")
    {'a': [1, True, None]}
    """
    reader = _Reader(data, what)
    value = reader.value(0)
    if reader.at != len(data):
        raise UserError(f"{what}: has {len(data) - reader.at} bytes after its end; it is no msgpack of flax.")
    return value


@final
class _Reader:
    def __init__(self, data: bytes, what: str):
        self.data, self.what, self.at, self.count = data, what, 0, 0

    def take(self, size: int) -> bytes:
        if size > len(self.data) - self.at:
            raise UserError(f"{self.what}: is damaged or no msgpack: it ends too early.")
        self.at += size
        return self.data[self.at - size : self.at]

    def number(self, form: str) -> int:
        return struct.unpack(f">{form}", self.take(struct.calcsize(form)))[0]

    def value(self, depth: int) -> Value:
        if depth > DEEP:
            raise UserError(f"{self.what}: is nested deeper than {DEEP} levels.")
        self.count += 1
        if self.count > MANY:
            raise UserError(f"{self.what}: holds more than {MANY:,} values, which no parameters do.")
        kind = self.number("B")
        if kind <= 0x7F or kind >= 0xE0:
            return kind if kind <= 0x7F else kind - 0x100
        if kind in CONSTANTS:
            return CONSTANTS[kind]
        if kind in NUMBERS:
            return self.number(NUMBERS[kind])
        if kind not in SIZED:
            raise UserError(f"{self.what}: is damaged or no msgpack (byte {kind:#x}).")
        what, size = SIZED[kind]
        size = self.number(size) if isinstance(size, str) else size
        if what == "list":
            return [self.value(depth + 1) for _ in range(size)]
        if what == "dict":
            return dict(self.pair(depth) for _ in range(size))
        if what == "extension":
            return self.extension(size, depth)
        data = self.take(size)
        return data if what == "bytes" else data.decode("utf-8", "replace")

    def pair(self, depth: int) -> tuple[str, Value]:
        key = self.value(depth + 1)
        if not isinstance(key, str):
            raise UserError(f"{self.what}: a key in it is {type(key).__name__}; texts are expected.")
        return key, self.value(depth + 1)

    def extension(self, size: int, depth: int) -> np.ndarray:
        """flax's arrays (1), and numbers of NumPy (3): shape, type and bytes."""
        code, inside = self.number("b"), _Reader(self.take(size), self.what)
        if code not in (1, 3):
            raise UserError(f"{self.what}: holds an extension {code}, which is not accepted.")
        parts: Any = inside.value(max(depth + 1, DEEP - 2))  # lists in a list, and no extension again
        shape, kind, data = parts if isinstance(parts, list) and len(parts) == 3 else (None, None, None)
        whole = isinstance(shape, list) and all(type(n) is int and n >= 0 for n in shape)
        if kind not in KINDS or shape is None or not whole or not isinstance(data, bytes):
            raise UserError(f"{self.what}: holds an array of {kind!r}; numbers are expected.")
        dtype = np.dtype(kind)
        if math.prod(shape) * dtype.itemsize != len(data):
            raise UserError(f"{self.what}: holds an array {shape} whose {len(data)} bytes do not fit.")
        return np.frombuffer(data, dtype.newbyteorder("<")).reshape(shape).astype(dtype)
