"""A list of plain operations on arrays, each one of ONNX's and of the NumPy reader's, and those of every
architecture of this package.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from typing import Any, NamedTuple, final

import numpy as np

from ..errors import UserError
from ..policies import MLP, Camera, Committee, Linear, NatureCNN, Tabular
from ..policies.nature_cnn import LAYERS

ACTIVATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name.capitalize(), {}) for name in ("relu", "tanh", "sigmoid", "elu", "selu")},
    "leaky_relu": ("LeakyRelu", {"alpha": 0.01}),
}
"""Activations that are one operation; gelu and silu are several."""


class Input(NamedTuple):
    """A part of the observation: its name, where it is, its type and its shape without the batch."""

    name: str
    path: tuple[str | int, ...]
    dtype: str
    shape: tuple[int, ...]


class Node(NamedTuple):
    """One operation: the names of what goes in, the name of what comes out."""

    op: str
    inputs: list[str]
    output: str
    attributes: dict[str, Any]


@final
@dataclasses.dataclass
class Graph:
    """Inputs, operations in the order in which they are taken, and the arrays that they use, by name. The
    results are called `outputs` (a mean action or logits) and `action`.
    """

    inputs: list[Input] = dataclasses.field(default_factory=list)
    nodes: list[Node] = dataclasses.field(default_factory=list)
    arrays: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)

    def given(self, path: tuple[str | int, ...], dtype: str, shape: tuple[int, ...]) -> str:
        """Adds the part of the observation at `path` to the inputs and gives its name."""
        name = ".".join(map(str, path)) or "observation"
        self.inputs.append(Input(name, path, dtype, tuple(shape)))
        return name

    def add(self, op: str, *inputs: Any, into: str = "", **attributes: Any) -> str:
        """Adds an operation and gives the name of its result; inputs are names, or numbers to be kept."""
        names = [one if isinstance(one, str) else self._kept(np.asarray(one)) for one in inputs]
        self.nodes.append(Node(op, names, into or f"value_{len(self.nodes)}", attributes))
        return self.nodes[-1].output

    def _kept(self, array: np.ndarray) -> str:
        name = f"constant_{len(self.arrays)}"
        self.arrays[name] = array
        return name

    def joined(self, parts: Iterable[str]) -> str:
        """Adds what puts parts (n, …) side by side, where there are several."""
        parts = list(parts)
        return parts[0] if len(parts) == 1 else self.add("Concat", *parts, axis=1)

    def described(self) -> dict[str, Any]:
        """Everything but the arrays, as plain data."""
        return {name: [one._asdict() for one in getattr(self, name)] for name in ("inputs", "nodes")}


def network(g: Graph, policy: Any, tree: Any, row: str, bytes_left: bool) -> str:
    """Adds the operations of a policy on rows (n, width) and gives the name of its outputs. `tree` has the
    names of its arrays; `bytes_left`: the rows are numbers from 0 to 255.
    """
    kind = type(policy)  # not isinstance: a subclass may compute something else
    if kind is Tabular:
        return g.add("Gather", tree, row, axis=0)
    if kind is Linear:
        return _linear(g, policy, tree, row, bytes_left)
    if kind is NatureCNN:
        return _dense(g, nature_features(g, policy, tree, row, bytes_left), tree["head"])
    if kind is Camera:
        return _camera(g, policy, tree, row, bytes_left)
    if kind not in (MLP, Committee):
        raise _foreign(policy)
    row = _numbers(g, row, str(g.arrays[tree[0]["weight"]].dtype), bytes_left)
    outputs = _mlp(g, policy, tree, row)
    return outputs if kind is MLP else g.add("ReduceMean", outputs, axes=[0], keepdims=0)


def _foreign(policy: Any) -> UserError:
    return UserError(
        f"policy: {policy.config()['policy']!r} cannot be written as a graph; accepted: linear, tabular, "
        "mlp, committee, nature_cnn and camera."
    )


def _numbers(g: Graph, row: str, dtype: str, bytes_left: bool) -> str:
    row = g.add("Cast", row, to=dtype)
    return g.add("Div", row, np.dtype(dtype).type(255)) if bytes_left else row


def _linear(g: Graph, policy: Linear, tree: str, row: str, bytes_left: bool) -> str:
    dtype, rows = str(g.arrays[tree].dtype), g.arrays[tree].shape[0]
    row = _numbers(g, row, dtype, bytes_left)
    if not policy.bias:
        return g.add("MatMul", row, tree)
    weight = g.add("Gather", tree, np.arange(rows - 1), axis=0)
    return g.add("Add", g.add("MatMul", row, weight), g.add("Gather", tree, np.array(rows - 1), axis=0))


def _dense(g: Graph, x: str, layer: Any) -> str:
    bias, shape = layer["bias"], g.arrays[layer["bias"]].shape
    if len(shape) == 2:  # the members of a committee are in front, as in (members, n, out)
        bias = g.add("Reshape", bias, np.array([shape[0], 1, shape[1]], np.int64))
    return g.add("Add", g.add("MatMul", x, layer["weight"]), bias)


def _mlp(g: Graph, policy: MLP, tree: Any, x: str) -> str:
    for layer in tree[:-1]:
        x = _activation(g, policy.activation, _dense(g, x, layer), g.arrays[layer["bias"]].dtype)
    return _head(g, policy, _dense(g, x, tree[-1]), g.arrays[tree[-1]["bias"]].dtype)


def _activation(g: Graph, name: str, x: str, dtype: Any) -> str:
    if name == "identity":
        return x
    if name == "silu":
        return g.add("Mul", x, g.add("Sigmoid", x))
    if name == "gelu":  # the form with tanh, as JAX has it
        half, cubic, root = (dtype.type(one) for one in (0.5, 0.044715, math.sqrt(2 / math.pi)))
        cube = g.add("Mul", g.add("Mul", g.add("Mul", x, x), x), cubic)
        inner = g.add("Tanh", g.add("Mul", g.add("Add", x, cube), root))
        return g.add("Mul", g.add("Mul", x, half), g.add("Add", inner, dtype.type(1)))
    op, attributes = ACTIVATIONS[name]
    return g.add(op, x, **attributes)


def _head(g: Graph, policy: MLP | Camera, x: str, dtype: Any) -> str:
    if policy.head == "identity":
        return x
    x = g.add("Tanh", x)
    if policy.low is None or policy.high is None:
        return x
    low, high = np.array(policy.low), np.array(policy.high)
    stretched = g.add("Mul", x, ((high - low) / 2).astype(dtype))
    return g.add("Add", stretched, ((high + low) / 2).astype(dtype))


def _convolutions(g: Graph, x: str, tree: Any, strides: Iterable[int]) -> str:
    """Images (n, c, h, w) to features: convolutions, flattened as (height, width, channels), and dense."""
    for layer, stride in zip(tree["conv"], strides, strict=True):
        weight = g.add("Transpose", layer["weight"], perm=[3, 2, 0, 1])
        x = g.add("Relu", g.add("Conv", x, weight, layer["bias"], strides=[stride, stride]))
    flat = g.add("Transpose", x, perm=[0, 2, 3, 1])
    flat = g.add("Reshape", flat, np.array([-1, len(g.arrays[tree["dense"]["weight"]])], np.int64))
    return g.add("Relu", _dense(g, flat, tree["dense"]))


def nature_features(g: Graph, policy: NatureCNN, tree: Any, row: str, bytes_left: bool) -> str:
    """The features of images in rows."""
    if type(policy) is not NatureCNN:
        raise _foreign(policy)
    row = _numbers(g, row, str(g.arrays[tree["dense"]["weight"]].dtype), bytes_left)
    image = g.add("Reshape", row, np.array([-1, policy.stack, *policy.sides], np.int64))
    return _convolutions(g, image, tree, [stride for _, stride, _ in LAYERS])


def _camera(g: Graph, policy: Camera, tree: Any, row: str, bytes_left: bool) -> str:
    dtype, size = g.arrays[tree["dense"]["bias"]].dtype, math.prod(policy.shape)
    width = size + len(g.arrays[tree["mlp"][0]["weight"]]) - policy.width
    row, end = _numbers(g, row, str(dtype), bytes_left), policy.place + size
    image = g.add("Gather", row, np.arange(policy.place, end), axis=1)
    image = g.add("Reshape", image, np.array([-1, *policy.shape], np.int64))
    image = g.add("Transpose", image, perm=[0, 3, 1, 2]) if policy.last else image
    parts = [_convolutions(g, image, tree, [stride for _, stride, _ in policy.layers])]
    if width > size:
        beside = [i for i in range(width) if not policy.place <= i < end]
        parts.append(g.add("Gather", row, np.array(beside, np.int64), axis=1))
    return _mlp(g, policy.mlp, tree["mlp"], g.joined(parts))
