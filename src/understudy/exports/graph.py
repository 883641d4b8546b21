"""A trained policy as a list of plain operations on arrays, each one of ONNX's and of the NumPy reader's.

`to_onnx` writes them with ONNX's own types, `arrays` as JSON that the reader beside the archive plays.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable
from typing import Any, NamedTuple, final

import jax
import numpy as np

from ..errors import UserError
from ..policies import MLP, Actions, Camera, Committee, Encoded, Linear, NatureCNN, Tabular, TrainedPolicy
from ..policies.nature_cnn import LAYERS
from ..policies.observations import Leaf

ACTIVATIONS = {
    "relu": ("Relu", {}),
    "tanh": ("Tanh", {}),
    "sigmoid": ("Sigmoid", {}),
    "elu": ("Elu", {}),
    "selu": ("Selu", {}),
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

    def add(self, op: str, *inputs: Any, into: str = "", **attributes: Any) -> str:
        """Adds an operation and gives the name of its result; inputs are names, or numbers to be kept."""
        names = [one if isinstance(one, str) else self._kept(np.asarray(one)) for one in inputs]
        self.nodes.append(Node(op, names, into or f"value_{len(self.nodes)}", attributes))
        return self.nodes[-1].output

    def _kept(self, array: np.ndarray) -> str:
        name = f"constant_{len(self.arrays)}"
        self.arrays[name] = array
        return name

    def described(self) -> dict[str, Any]:
        """Everything but the arrays, as plain data."""
        return {name: [one._asdict() for one in getattr(self, name)] for name in ("inputs", "nodes")}


def graph(trained: TrainedPolicy) -> Graph:
    """The operations from observations, with n in front, to outputs (n, k) and actions (n, …).

    The arrays have the names under which a policy's file keeps them, and constants of the graph beside them.

    >>> from gymnasium.spaces import Box, Discrete
    >>> from understudy.policies import Normaliser, Observations
    >>> seen, acts = Observations.of(Box(-1, 1, (2,))), Actions.of(Discrete(3))
    >>> made = graph(TrainedPolicy(Linear(), np.ones((2, 3)), seen, acts, Normaliser.identity(2)))
    >>> [node.op for node in made.nodes]
    ['Reshape', 'Cast', 'MatMul', 'Identity', 'ArgMax', 'Add']
    """
    if trained.remembers:
        raise UserError(
            "policy: one that remembers (gru, stack) is no function of an observation alone, as exports are; "
            "understudy.load runs it, with the memory as the state of predict."
        )
    made = Graph()
    made.arrays, card = trained.packed()
    tree, seen, policy = card["params"], trained.observations, trained.policy
    if isinstance(seen, Encoded):
        row = _encoded(made, seen, tree["encoder"])
    elif isinstance(policy, Tabular):
        row = _state(made, seen.leaves[0])
    else:
        row = _joined(made, [_leaf(made, leaf, whole=seen.dtype == np.uint8) for leaf in seen.leaves])
    bytes_left = seen.dtype == np.uint8 and trained.normaliser.nothing
    if not trained.normaliser.nothing:
        row = _standardised(made, trained, tree, row)
    outputs = _policy(made, policy, tree["network"], row, bytes_left)
    dtype = jax.tree.leaves(trained.params)[0].dtype
    _act(made, trained.actions, made.add("Identity", outputs, into="outputs"), dtype)
    return made


# Observations.


def _leaf(g: Graph, leaf: Leaf, *, whole: bool) -> str:
    """A part of the observation as rows (n, width); `whole`: bytes stay numbers from 0 to 255."""
    choice = leaf.kind in ("choice", "choices")
    dtype = "int64" if choice else "uint8" if leaf.kind == "byte" else "float32"
    name = ".".join(map(str, leaf.path)) or "observation"
    g.inputs.append(Input(name, leaf.path, dtype, tuple(leaf.shape)))
    flat = g.add("Reshape", name, np.array([-1, math.prod(leaf.shape)], np.int64))
    if choice:
        places = g.add("Sub", flat, np.array(leaf.starts, np.int64))
        ends = np.array([0, 1], np.float32)
        parts = [
            g.add("OneHot", _column(g, places, i), np.array(count, np.int64), ends, axis=-1)
            for i, count in enumerate(leaf.counts)
        ]
        return _joined(g, parts)
    if leaf.kind == "byte":
        flat = g.add("Cast", flat, to="float32")
        return flat if whole else g.add("Div", flat, np.float32(255))
    return g.add("Gather", flat, np.array(leaf.picks, np.int64), axis=1) if leaf.picks else flat


def _column(g: Graph, rows: str, index: int) -> str:
    return g.add("Gather", rows, np.array(index, np.int64), axis=1)


def _state(g: Graph, leaf: Leaf) -> str:
    name = ".".join(map(str, leaf.path)) or "observation"
    g.inputs.append(Input(name, leaf.path, "int64", ()))
    return g.add("Sub", name, np.array(leaf.starts[0], np.int64))


def _encoded(g: Graph, seen: Encoded, tree: Any) -> str:
    """The features of the image, and the other parts beside them, in the order of `Encoded`."""
    made = seen.encoder.network
    image = next(one for one in seen.leaves if one.kind == "byte" and one.shape == (made.stack, *made.sides))
    features = _nature_features(g, made, tree, _leaf(g, image, whole=True), bytes_left=True)
    rest = [leaf for leaf in seen.leaves if leaf is not image]
    whole = bool(rest) and all(leaf.kind == "byte" for leaf in rest)
    return _joined(g, [features, *(_leaf(g, leaf, whole=whole) for leaf in rest)])


def _joined(g: Graph, parts: Iterable[str]) -> str:
    parts = list(parts)
    return parts[0] if len(parts) == 1 else g.add("Concat", *parts, axis=1)


def _standardised(g: Graph, trained: TrainedPolicy, tree: Any, row: str) -> str:
    made = trained.normaliser
    row = g.add("Cast", row, to=str(made.mean.dtype))
    row = g.add("Div", g.add("Sub", row, tree["mean"]), tree["scale"])
    if made.limit < math.inf:
        limit = made.mean.dtype.type(made.limit)
        row = g.add("Min", g.add("Max", row, -limit), limit)
    return g.add("Cast", row, to="float32")


# Architectures.


def _policy(g: Graph, policy: Any, tree: Any, row: str, bytes_left: bool) -> str:
    kind = type(policy)  # not isinstance: a class of somebody's own may compute something else
    if kind is Tabular:
        return g.add("Gather", tree, row, axis=0)
    if kind is Linear:
        return _linear(g, policy, tree, row, bytes_left)
    if kind is NatureCNN:
        return _dense(g, _nature_features(g, policy, tree, row, bytes_left), tree["head"])
    if kind is Camera:
        return _camera(g, policy, tree, row)
    if kind not in (MLP, Committee):
        raise UserError(
            f"policy: {policy.name!r} cannot be written as a graph; accepted: linear, tabular, mlp, "
            "committee, nature_cnn and camera."
        )
    row = _numbers(g, row, str(g.arrays[tree[0]["weight"]].dtype), bytes_left)
    return (_mlp if kind is MLP else _committee)(g, policy, tree, row)


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
    return g.add("Add", g.add("MatMul", x, layer["weight"]), layer["bias"])


def _mlp(g: Graph, policy: MLP, tree: Any, x: str) -> str:
    for layer in tree[:-1]:
        x = _activation(g, policy.activation, _dense(g, x, layer), g.arrays[layer["bias"]].dtype)
    return _head(g, policy, _dense(g, x, tree[-1]), g.arrays[tree[-1]["bias"]].dtype)


def _committee(g: Graph, policy: Committee, tree: Any, x: str) -> str:
    """All members at once: (members, n, out) after every layer, and their mean after the head."""
    for index, layer in enumerate(tree):
        bias = g.arrays[layer["bias"]]
        row = g.add("Reshape", layer["bias"], np.array([len(bias), 1, bias.shape[1]], np.int64))
        x = g.add("Add", g.add("MatMul", x, layer["weight"]), row)
        if index < len(tree) - 1:
            x = _activation(g, policy.activation, x, bias.dtype)
    return g.add("ReduceMean", _head(g, policy, x, g.arrays[tree[-1]["bias"]].dtype), axes=[0], keepdims=0)


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


def _nature_features(g: Graph, policy: NatureCNN, tree: Any, row: str, bytes_left: bool) -> str:
    row = _numbers(g, row, str(g.arrays[tree["dense"]["weight"]].dtype), bytes_left)
    image = g.add("Reshape", row, np.array([-1, policy.stack, *policy.sides], np.int64))
    return _convolutions(g, image, tree, [stride for _, stride, _ in LAYERS])


def _camera(g: Graph, policy: Camera, tree: Any, row: str) -> str:
    dtype, size = g.arrays[tree["dense"]["bias"]].dtype, math.prod(policy.shape)
    width = size + len(g.arrays[tree["mlp"][0]["weight"]]) - policy.width
    row, end = g.add("Cast", row, to=str(dtype)), policy.place + size
    image = g.add("Gather", row, np.arange(policy.place, end), axis=1)
    image = g.add("Reshape", image, np.array([-1, *policy.shape], np.int64))
    image = g.add("Transpose", image, perm=[0, 3, 1, 2]) if policy.last else image
    parts = [_convolutions(g, image, tree, [stride for _, stride, _ in policy.layers])]
    if width > size:
        beside = [i for i in range(width) if not policy.place <= i < end]
        parts.append(g.add("Gather", row, np.array(beside, np.int64), axis=1))
    return _mlp(g, policy.mlp, tree["mlp"], _joined(g, parts))


# Actions.


def _act(g: Graph, actions: Actions, outputs: str, dtype: Any) -> str:
    if actions.kind == "box":
        low, high = (np.asarray(edge, dtype) for edge in (actions.low, actions.high))
        clipped = g.add("Min", g.add("Max", outputs, low), high)
        shaped = g.add("Reshape", clipped, np.array([-1, *actions.shape], np.int64))
        return g.add("Cast", shaped, into="action", to=actions.dtype)
    if actions.kind == "discrete":
        best = g.add("ArgMax", outputs, axis=1, keepdims=0)
        return g.add("Add", best, np.array(actions.starts[0], np.int64), into="action")
    edges = np.cumsum([0, *actions.counts])
    spans = [np.arange(low, high) for low, high in itertools.pairwise(edges)]
    groups = [g.add("Gather", outputs, span, axis=1) for span in spans]
    best = _joined(g, [g.add("ArgMax", one, axis=1, keepdims=1) for one in groups])
    moved = g.add("Add", best, np.array(actions.starts, np.int64))
    shaped = g.add("Reshape", moved, np.array([-1, *actions.shape], np.int64))
    return g.add("Cast", shaped, into="action", to=actions.dtype)
