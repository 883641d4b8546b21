"""A trained policy as a list of plain operations on arrays: what it sees, its network, and the action.

Each operation is one of ONNX's and of the NumPy reader's: `to_onnx` writes them with ONNX's own types,
`arrays` as JSON that the reader beside the archive plays.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple, final

import numpy as np
from numpy.typing import DTypeLike

from ..errors import UserError
from ..policies import (
    MLP,
    Actions,
    Camera,
    Committee,
    Encoded,
    Linear,
    NatureCNN,
    Normaliser,
    Policy,
    Recalled,
    Tabular,
    TrainedPolicy,
)
from ..policies.codecs import Leaf
from ..policies.nature_cnn import LAYERS

Attribute = str | int | float | list[int]
Value = str | np.ndarray | np.generic
"""What goes into an operation: the name of an array, or a constant."""
Place = tuple[str | int, ...]
"""Where a part of an observation is: keys of dicts and numbers in tuples."""
NETWORK, ENCODER = "params['network']", "params['encoder']"
"""How the names of a policy's arrays begin."""
ACTIVATIONS: dict[str, tuple[str, dict[str, Attribute]]] = {
    **{name: (name.capitalize(), {}) for name in ("relu", "tanh", "sigmoid", "elu", "selu")},
    "leaky_relu": ("LeakyRelu", {"alpha": 0.01}),
}
"""Activations that are one operation; gelu and silu are several."""


class Input(NamedTuple):
    """A part of the observation: its name, where it is, its type and its shape without the batch."""

    name: str
    path: Place
    dtype: str
    shape: tuple[int, ...]


class Node(NamedTuple):
    """One operation: the names of its inputs, the name of its output."""

    op: str
    inputs: list[str]
    output: str
    attributes: dict[str, Attribute]


@final
@dataclasses.dataclass
class Graph:
    """Inputs, operations in their order, and the arrays that they use, by name. The results are called
    `outputs` (a mean action or logits) and `action`.
    """

    arrays: dict[str, np.ndarray]
    inputs: list[Input] = dataclasses.field(default_factory=list[Input])
    nodes: list[Node] = dataclasses.field(default_factory=list[Node])

    def add_input(self, path: Place, dtype: str, shape: Sequence[int]) -> str:
        """Adds the part of the observation at `path` to the inputs, and returns its name."""
        name = ".".join(map(str, path)) or "observation"
        self.inputs.append(Input(name, path, dtype, tuple(shape)))
        return name

    def add(self, op: str, *inputs: Value, into: str = "", **attributes: Attribute) -> str:
        """Adds an operation and returns the name of its output; inputs are names, or constants."""
        names = [value if isinstance(value, str) else self._add_constant(value) for value in inputs]
        self.nodes.append(Node(op, names, into or f"value_{len(self.nodes)}", attributes))
        return self.nodes[-1].output

    def _add_constant(self, value: np.ndarray | np.generic) -> str:
        name = f"constant_{len(self.arrays)}"
        self.arrays[name] = np.asarray(value)
        return name

    def concatenate(self, parts: Iterable[str]) -> str:
        """Adds what puts parts (n, …) side by side, where there are several."""
        first, *others = parts
        return self.add("Concat", first, *others, axis=1) if others else first

    def describe(self) -> dict[str, list[dict[str, object]]]:
        """Everything but the arrays, as plain data."""
        lists = {"inputs": self.inputs, "nodes": self.nodes}
        return {name: [item._asdict() for item in items] for name, items in lists.items()}


def graph(trained: TrainedPolicy) -> Graph:
    """The operations from observations, with n in front, to outputs (n, k) and actions (n, …).

    The arrays have the names under which a policy's file has them, and constants of the graph beside them.

    >>> from gymnasium.spaces import Box, Discrete
    >>> from understudy.policies import Observations
    >>> seen, acts = Observations.of(Box(-1, 1, (2,))), Actions.of(Discrete(3))
    >>> g = graph(TrainedPolicy(Linear(), np.ones((2, 3)), seen, acts, Normaliser.identity(2)))
    >>> [node.op for node in g.nodes]
    ['Reshape', 'Cast', 'MatMul', 'Identity', 'ArgMax', 'Add']
    """
    seen, policy = trained.observations, trained.policy
    if isinstance(seen, Recalled):
        raise UserError(
            "policy: one that remembers (gru, frame_stack) is no function of an observation alone, as "
            "exports are; understudy.load runs it, with the memory as the state of predict."
        )
    g = Graph(trained.packed()[0])
    if isinstance(seen, Encoded):  # the features of the image, and the other parts beside them
        image = _add_leaf(g, seen.image.leaves[0], keep_bytes=True)
        features = _add_nature_features(g, seen.encoder.network, ENCODER, image, as_bytes=True)
        row = g.concatenate([features, *(_add_leaf(g, leaf) for leaf in seen.beside.leaves)])
    elif isinstance(policy, Tabular):
        leaf = seen.leaves[0]
        row = g.add("Sub", g.add_input(leaf.path, "int64", ()), np.array(leaf.starts[0], np.int64))
    else:
        row = g.concatenate([_add_leaf(g, leaf, keep_bytes=seen.dtype == np.uint8) for leaf in seen.leaves])
    as_bytes = seen.dtype == np.uint8 and trained.normaliser.nothing
    if not trained.normaliser.nothing:
        row = _add_normaliser(g, trained.normaliser, row)
    outputs = _add_network(g, policy, row, as_bytes=as_bytes)
    dtype = next(array.dtype for name, array in g.arrays.items() if name.startswith(NETWORK))
    _add_action(g, trained.actions, g.add("Identity", outputs, into="outputs"), dtype)
    return g


def _at(name: str, *keys: str | int) -> str:
    """The name of an array, or the beginning of it, inside of another."""
    return name + "".join(f"[{key!r}]" for key in keys)


# What the policy sees.


def _add_leaf(g: Graph, leaf: Leaf, *, keep_bytes: bool = False) -> str:
    """A part of the observation as rows (n, width); `keep_bytes`: bytes stay numbers from 0 to 255."""
    choice = leaf.kind in ("choice", "choices")
    dtype = "int64" if choice else "uint8" if leaf.kind == "byte" else "float32"
    flat = g.add("Reshape", g.add_input(leaf.path, dtype, leaf.shape), np.array([-1, math.prod(leaf.shape)]))
    if choice:
        places = g.add("Sub", flat, np.array(leaf.starts, np.int64))
        ends = np.array([0, 1], np.float32)
        parts: list[str] = []
        for i, count in enumerate(leaf.counts):
            column = g.add("Gather", places, np.array(i, np.int64), axis=1)
            parts.append(g.add("OneHot", column, np.array(count, np.int64), ends, axis=-1))
        return g.concatenate(parts)
    if leaf.kind == "byte":
        flat = g.add("Cast", flat, to="float32")
        return flat if keep_bytes else g.add("Div", flat, np.float32(255))
    return g.add("Gather", flat, np.array(leaf.picks, np.int64), axis=1) if leaf.picks else flat


def _add_normaliser(g: Graph, normaliser: Normaliser, row: str) -> str:
    row = g.add("Cast", row, to=str(normaliser.mean.dtype))
    row = g.add("Div", g.add("Sub", row, "params['mean']"), "params['scale']")
    if normaliser.limit < math.inf:
        limit = np.asarray(normaliser.limit, normaliser.mean.dtype)
        row = g.add("Min", g.add("Max", row, -limit), limit)
    return g.add("Cast", row, to="float32")


# Its network.


def _add_network(g: Graph, policy: Policy, row: str, *, as_bytes: bool) -> str:
    """Adds a policy on rows (n, width), `as_bytes` from 0 to 255; returns the name of its outputs."""
    # The very class, as a subclass may compute something else.
    if type(policy) is Tabular:
        return g.add("Gather", NETWORK, row, axis=0)
    if type(policy) is Linear:
        return _add_linear(g, policy, row, as_bytes)
    if type(policy) is NatureCNN:
        features = _add_nature_features(g, policy, NETWORK, row, as_bytes=as_bytes)
        return _add_dense(g, features, _at(NETWORK, "head"))
    if type(policy) is Camera:
        return _add_camera(g, policy, row, as_bytes)
    if type(policy) is not MLP and type(policy) is not Committee:
        raise _foreign(policy)
    row = _add_numbers(g, row, g.arrays[_at(NETWORK, 0, "weight")].dtype, as_bytes)
    outputs = _add_mlp(g, policy, NETWORK, row)
    return outputs if type(policy) is MLP else g.add("ReduceMean", outputs, axes=[0], keepdims=0)


def _foreign(policy: Policy) -> UserError:
    return UserError(
        f"policy: {policy.config()['policy']!r} cannot be written as a graph; accepted: linear, tabular, "
        "mlp, committee, nature_cnn and camera."
    )


def _add_numbers(g: Graph, row: str, dtype: np.dtype, as_bytes: bool) -> str:
    row = g.add("Cast", row, to=str(dtype))
    return g.add("Div", row, np.asarray(255, dtype)) if as_bytes else row


def _add_linear(g: Graph, policy: Linear, row: str, as_bytes: bool) -> str:
    params = g.arrays[NETWORK]
    row, last = _add_numbers(g, row, params.dtype, as_bytes), len(params) - 1
    if not policy.bias:
        return g.add("MatMul", row, NETWORK)
    weight = g.add("Gather", NETWORK, np.arange(last), axis=0)
    return g.add("Add", g.add("MatMul", row, weight), g.add("Gather", NETWORK, np.array(last), axis=0))


def _add_dense(g: Graph, x: str, layer: str) -> str:
    bias = _at(layer, "bias")
    if len(shape := g.arrays[bias].shape) == 2:  # the networks of a committee in front: (members, n, out)
        bias = g.add("Reshape", bias, np.array([shape[0], 1, shape[1]], np.int64))
    return g.add("Add", g.add("MatMul", x, _at(layer, "weight")), bias)


def _add_mlp(g: Graph, policy: MLP, params: str, x: str) -> str:
    last, dtype = len(policy.widths), g.arrays[_at(params, 0, "bias")].dtype
    for layer in range(last):
        x = _add_activation(g, policy.activation, _add_dense(g, x, _at(params, layer)), dtype)
    x = _add_dense(g, x, _at(params, last))
    if policy.head == "identity":
        return x
    x = g.add("Tanh", x)
    if policy.low is None or policy.high is None:
        return x
    low, high = np.array(policy.low), np.array(policy.high)
    stretched = g.add("Mul", x, ((high - low) / 2).astype(dtype))
    return g.add("Add", stretched, ((high + low) / 2).astype(dtype))


def _add_activation(g: Graph, name: str, x: str, dtype: np.dtype) -> str:
    if name == "identity":
        return x
    if name == "silu":
        return g.add("Mul", x, g.add("Sigmoid", x))
    if name == "gelu":  # the form with tanh, as JAX has it
        half, cubic, root, one = (np.asarray(n, dtype) for n in (0.5, 0.044715, math.sqrt(2 / math.pi), 1))
        cube = g.add("Mul", g.add("Mul", g.add("Mul", x, x), x), cubic)
        inner = g.add("Tanh", g.add("Mul", g.add("Add", x, cube), root))
        return g.add("Mul", g.add("Mul", x, half), g.add("Add", inner, one))
    op, attributes = ACTIVATIONS[name]
    return g.add(op, x, into="", **attributes)


def _add_convolutions(g: Graph, x: str, params: str, strides: Iterable[int]) -> str:
    """Images (n, c, h, w) to features: convolutions, flattened as (height, width, channels), and dense."""
    for i, stride in enumerate(strides):
        layer = _at(params, "conv", i)
        weight = g.add("Transpose", _at(layer, "weight"), perm=[3, 2, 0, 1])
        x = g.add("Relu", g.add("Conv", x, weight, _at(layer, "bias"), strides=[stride, stride]))
    flat, dense = g.add("Transpose", x, perm=[0, 2, 3, 1]), _at(params, "dense")
    flat = g.add("Reshape", flat, np.array([-1, len(g.arrays[_at(dense, "weight")])], np.int64))
    return g.add("Relu", _add_dense(g, flat, dense))


def _add_nature_features(g: Graph, policy: NatureCNN, params: str, row: str, *, as_bytes: bool) -> str:
    if type(policy) is not NatureCNN:
        raise _foreign(policy)
    row = _add_numbers(g, row, g.arrays[_at(params, "dense", "weight")].dtype, as_bytes)
    image = g.add("Reshape", row, np.array([-1, policy.stack, *policy.sides], np.int64))
    return _add_convolutions(g, image, params, [stride for _, stride, _ in LAYERS])


def _add_camera(g: Graph, policy: Camera, row: str, as_bytes: bool) -> str:
    mlp, size = _at(NETWORK, "mlp"), math.prod(policy.shape)
    width = size + len(g.arrays[_at(mlp, 0, "weight")]) - policy.width
    row = _add_numbers(g, row, g.arrays[_at(NETWORK, "dense", "bias")].dtype, as_bytes)
    end = policy.place + size
    image = g.add("Gather", row, np.arange(policy.place, end), axis=1)
    image = g.add("Reshape", image, np.array([-1, *policy.shape], np.int64))
    image = g.add("Transpose", image, perm=[0, 3, 1, 2]) if policy.last else image
    parts = [_add_convolutions(g, image, NETWORK, [stride for _, stride, _ in policy.layers])]
    if width > size:
        beside = [i for i in range(width) if not policy.place <= i < end]
        parts.append(g.add("Gather", row, np.array(beside, np.int64), axis=1))
    return _add_mlp(g, policy.mlp, mlp, g.concatenate(parts))


# The action.


def _add_action(g: Graph, actions: Actions, outputs: str, dtype: DTypeLike) -> None:
    if actions.kind == "box":
        low, high = (np.asarray(edge, dtype) for edge in (actions.low, actions.high))
        clipped = g.add("Min", g.add("Max", outputs, low), high)
        shaped = g.add("Reshape", clipped, np.array([-1, *actions.shape], np.int64))
        g.add("Cast", shaped, into="action", to=actions.dtype)
    elif actions.kind == "discrete":
        best = g.add("ArgMax", outputs, axis=1, keepdims=0)
        g.add("Add", best, np.array(actions.starts[0], np.int64), into="action")
    else:
        edges = [0, *itertools.accumulate(actions.counts)]
        spans = [np.arange(low, high) for low, high in itertools.pairwise(edges)]
        groups = [g.add("Gather", outputs, span, axis=1) for span in spans]
        best = g.concatenate([g.add("ArgMax", group, axis=1, keepdims=1) for group in groups])
        moved = g.add("Add", best, np.array(actions.starts, np.int64))
        shaped = g.add("Reshape", moved, np.array([-1, *actions.shape], np.int64))
        g.add("Cast", shaped, into="action", to=actions.dtype)
