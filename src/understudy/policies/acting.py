"""One observation in, one row of outputs out, always by the same calls.

A product of n rows differs in its last bits from n products of one row, and 1e-7 in an action is 0.2 in
Hopper's state 300 steps later. So every row is computed alone. For small networks that is also the fast
way: on two busy cores a 256-256 network took 10 µs a row in NumPy and 88 µs in a compiled call, nearly all
of it dispatch; a linear policy 1.5 and 9.5 (benchmarks/bench_acting.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .base import Params, Policy
from .linear import Linear, Tabular
from .mlp import MLP

Forward = Callable[[np.ndarray], np.ndarray]


def _gelu(x: np.ndarray) -> np.ndarray:
    inner = x.dtype.type(math.sqrt(2 / math.pi)) * (x + x.dtype.type(0.044715) * x**3)
    return x.dtype.type(0.5) * x * (1 + np.tanh(inner))


def _silu(x: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):  # exp overflows to infinity, and x / inf is the right 0
        return x / (1 + np.exp(-x))


ACTIVATIONS: dict[str, Forward] = {
    "relu": lambda x: np.maximum(x, 0, out=x),
    "tanh": lambda x: np.tanh(x, out=x),
    "gelu": _gelu,
    "silu": _silu,
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
}


def forward(policy: Policy, params: Params) -> Forward:
    """A function from one row of inputs to one row of outputs, with these parameters (copied to the host).

    >>> forward(Linear(), np.eye(2))(np.array([1.0, 2.0]))
    array([1., 2.])
    """
    if isinstance(policy, Tabular):
        table = np.asarray(params)
        return lambda x: table[int(x[0])]
    if isinstance(policy, Linear):
        return _linear(np.asarray(params), policy.bias)
    if isinstance(policy, MLP):
        return _mlp(policy, params)
    return _compiled(policy, params)


def forward_rows(policy: Policy, params: Params) -> Forward:
    """A function from rows (m, width) to outputs (m, k), each row to the bits of `forward`.

    >>> forward_rows(Linear(), 2 * np.eye(2))(np.ones((1, 2)))
    array([[2., 2.]])
    """
    single = forward(policy, params)
    if type(policy) is Linear or isinstance(policy, MLP):
        # A stack of products of one row, not one product: NumPy makes the same call for each.
        return lambda x: single(x[:, None])[:, 0]
    return lambda x: np.stack([single(row) for row in x])


def forward_stack(policy: Policy, params: Sequence[Params]) -> Forward | None:
    """n policies of one architecture at once: (n, e, width) in, e rows for each, and (n, e, k) out, every
    row to the bits of `forward`. None for architectures this file does not know.

    >>> forward_stack(Linear(), [np.eye(2), 2 * np.eye(2)])(np.ones((2, 1, 2)))[:, 0]
    array([[1., 1.],
           [2., 2.]])
    """
    if not (type(policy) is Linear or isinstance(policy, MLP)):
        return None
    stacked = [np.stack(leaves)[:, None] for leaves in zip(*map(_leaves, params), strict=True)]
    if isinstance(policy, MLP):
        layers = [
            {"weight": weight, "bias": bias[:, :, None]}
            for bias, weight in zip(stacked[::2], stacked[1::2], strict=True)
        ]
        single = _mlp(policy, layers)
    else:
        single = _linear(stacked[0], policy.bias)

    return lambda x: single(x[:, :, None])[:, :, 0]


def _leaves(params: Params) -> list[np.ndarray]:
    if isinstance(params, list):
        return [np.asarray(layer[name]) for layer in params for name in ("bias", "weight")]
    return [np.asarray(params)]


def _numbers(x: np.ndarray, dtype: Any) -> np.ndarray:
    """Inputs as the policies read them: bytes as fractions of 255."""
    return x.astype(dtype) / dtype.type(255) if x.dtype == np.uint8 else x.astype(dtype, copy=False)


def _linear(weight: np.ndarray, bias: bool) -> Forward:
    if not bias:
        return lambda x: _numbers(x, weight.dtype) @ weight
    matrix, shift = np.ascontiguousarray(weight[..., :-1, :]), weight[..., -1, :]
    shift = shift if weight.ndim == 2 else shift[..., None, :]
    return lambda x: _numbers(x, weight.dtype) @ matrix + shift


def _mlp(policy: MLP, params: Params) -> Forward:
    layers = [(np.asarray(layer["weight"]), np.asarray(layer["bias"])) for layer in params]
    activate, (last, shift), dtype = ACTIVATIONS[policy.activation], layers[-1], layers[-1][0].dtype
    middle, half = (None if edge is None else np.asarray(edge, dtype) for edge in policy.stretch)

    def run(x: np.ndarray) -> np.ndarray:
        x = _numbers(x, dtype)
        for weight, bias in layers[:-1]:
            x = x @ weight
            x += bias
            x = activate(x)
        x = x @ last
        x += shift
        if policy.head == "tanh":
            x = np.tanh(x)
            if middle is not None:
                x = middle + half * x
        return x

    return run


def _compiled(policy: Policy, params: Params) -> Forward:
    """For policies this file does not know: one compiled program for a batch of one."""
    import jax

    program = jax.jit(policy.apply)
    return lambda x: np.asarray(program(params, x[None]))[0]
