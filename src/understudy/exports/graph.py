"""A trained policy as a list of plain operations: what it sees, its network, and the action.

`to_onnx` writes them with ONNX's own types, `arrays` as JSON that the reader beside the archive plays.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import jax
import numpy as np

from ..errors import UserError
from ..policies import Actions, Encoded, Recalled, Tabular, TrainedPolicy
from ..policies.codecs import Leaf
from .architectures import Graph, nature_features, network


def graph(trained: TrainedPolicy) -> Graph:
    """The operations from observations, with n in front, to outputs (n, k) and actions (n, …).

    The arrays have the names under which a policy's file keeps them, and constants of the graph beside them.

    >>> from gymnasium.spaces import Box, Discrete
    >>> from understudy.policies import Linear, Normaliser, Observations
    >>> seen, acts = Observations.of(Box(-1, 1, (2,))), Actions.of(Discrete(3))
    >>> made = graph(TrainedPolicy(Linear(), np.ones((2, 3)), seen, acts, Normaliser.identity(2)))
    >>> [node.op for node in made.nodes]
    ['Reshape', 'Cast', 'MatMul', 'Identity', 'ArgMax', 'Add']
    """
    seen = trained.observations
    if isinstance(seen, Recalled):
        raise UserError(
            "policy: one that remembers (gru, frame_stack) is no function of an observation alone, as exports are; "
            "understudy.load runs it, with the memory as the state of predict."
        )
    made = Graph()
    made.arrays, card = trained.packed()
    tree, policy = card["params"], trained.policy
    if isinstance(seen, Encoded):
        row = _encoded(made, seen, tree["encoder"])
    elif isinstance(policy, Tabular):
        leaf = seen.leaves[0]
        row = made.add("Sub", made.given(leaf.path, "int64", ()), np.array(leaf.starts[0], np.int64))
    else:
        row = made.joined([_leaf(made, leaf, whole=seen.dtype == np.uint8) for leaf in seen.leaves])
    bytes_left = seen.dtype == np.uint8 and trained.normaliser.nothing
    if not trained.normaliser.nothing:
        row = _standardised(made, trained, tree, row)
    outputs = network(made, policy, tree["network"], row, bytes_left)
    dtype = jax.tree.leaves(trained.params)[0].dtype
    _act(made, trained.actions, made.add("Identity", outputs, into="outputs"), dtype)
    return made


def _leaf(g: Graph, leaf: Leaf, *, whole: bool) -> str:
    """A part of the observation as rows (n, width); `whole`: bytes stay numbers from 0 to 255."""
    choice = leaf.kind in ("choice", "choices")
    dtype = "int64" if choice else "uint8" if leaf.kind == "byte" else "float32"
    flat = g.add("Reshape", g.given(leaf.path, dtype, leaf.shape), np.array([-1, math.prod(leaf.shape)]))
    if choice:
        places = g.add("Sub", flat, np.array(leaf.starts, np.int64))
        ends = np.array([0, 1], np.float32)
        parts = []
        for i, count in enumerate(leaf.counts):
            column = g.add("Gather", places, np.array(i, np.int64), axis=1)
            parts.append(g.add("OneHot", column, np.array(count, np.int64), ends, axis=-1))
        return g.joined(parts)
    if leaf.kind == "byte":
        flat = g.add("Cast", flat, to="float32")
        return flat if whole else g.add("Div", flat, np.float32(255))
    return g.add("Gather", flat, np.array(leaf.picks, np.int64), axis=1) if leaf.picks else flat


def _encoded(g: Graph, seen: Encoded, tree: Any) -> str:
    """The features of the image, and the other parts beside them, in the order of `Encoded`."""
    image = _leaf(g, seen.image.leaves[0], whole=True)
    features = nature_features(g, seen.encoder.network, tree, image, bytes_left=True)
    return g.joined([features, *(_leaf(g, leaf, whole=False) for leaf in seen.beside.leaves)])


def _standardised(g: Graph, trained: TrainedPolicy, tree: Any, row: str) -> str:
    made = trained.normaliser
    row = g.add("Cast", row, to=str(made.mean.dtype))
    row = g.add("Div", g.add("Sub", row, tree["mean"]), tree["scale"])
    if made.limit < math.inf:
        limit = made.mean.dtype.type(made.limit)
        row = g.add("Min", g.add("Max", row, -limit), limit)
    return g.add("Cast", row, to="float32")


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
    best = g.joined([g.add("ArgMax", one, axis=1, keepdims=1) for one in groups])
    moved = g.add("Add", best, np.array(actions.starts, np.int64))
    shaped = g.add("Reshape", moved, np.array([-1, *actions.shape], np.int64))
    return g.add("Cast", shaped, into="action", to=actions.dtype)
