"""Plays a policy that `understudy export --to numpy` wrote. It needs NumPy only; copy it where you like.

from understudy_policy import load
act = load("policy.npz")
action = act(observation)  # one observation, or a batch with n in front
"""

# pyright: basic
import json

import numpy as np


def _conv(x, weight, bias, strides):
    seen = np.lib.stride_tricks.sliding_window_view(x, weight.shape[2:], (2, 3))
    seen = seen[:, :, :: strides[0], :: strides[1]]
    return np.moveaxis(np.tensordot(seen, weight, ((1, 4, 5), (1, 2, 3))), 3, 1) + bias[:, None, None]


def _elu(x, alpha=1.0):
    return np.where(x > 0, x, x.dtype.type(alpha) * np.expm1(np.minimum(x, 0)))


OPS = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": np.divide,
    "MatMul": np.matmul,
    "Min": np.minimum,
    "Max": np.maximum,
    "Tanh": np.tanh,
    "Identity": np.asarray,
    "Conv": _conv,
    "Cast": lambda x, to: x.astype(to),
    "Relu": lambda x: np.maximum(x, 0),
    "Sigmoid": lambda x: 1 / (1 + np.exp(-np.maximum(x, -80))),
    "Elu": _elu,
    "Selu": lambda x: x.dtype.type(1.0507009873554805) * _elu(x, 1.6732632423543772),
    "LeakyRelu": lambda x, alpha: np.where(x > 0, x, x.dtype.type(alpha) * x),
    "Reshape": lambda x, shape: x.reshape(shape),
    "Transpose": lambda x, perm: x.transpose(perm),
    "Gather": lambda x, index, axis: np.take(x, index, axis),
    "OneHot": lambda x, depth, ends, axis: np.where(x[:, None] == np.arange(depth), ends[1], ends[0]),
    "Concat": lambda *parts, axis: np.concatenate(parts, axis),
    "ReduceMean": lambda x, axes, keepdims: x.mean(tuple(axes)),
    "ArgMax": lambda x, axis, keepdims: x.argmax(axis, keepdims=bool(keepdims)),
}


def load(path):
    """The function from an observation to an action; `act(observation, "outputs")` gives the raw outputs."""
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    graph = json.loads(str(arrays.pop("graph")))

    def act(observation, result="action"):
        values = dict(arrays)
        for wanted in graph["inputs"]:
            part = observation
            for key in wanted["path"]:
                part = part[key]
            part = np.asarray(part, wanted["dtype"])
            alone = part.ndim == len(wanted["shape"])
            values[wanted["name"]] = part[None] if alone else part
        for node in graph["nodes"]:
            inputs = [values[name] for name in node["inputs"]]
            values[node["output"]] = OPS[node["op"]](*inputs, **node["attributes"])
        return values[result][0] if alone else values[result]

    return act
