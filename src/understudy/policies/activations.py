"""Activations by name, each as JAX computes it for learning and as NumPy computes it for acting."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array


class Activation(NamedTuple):
    """One function twice. The NumPy form may write into its argument."""

    jax: Callable[[Array], Array]
    numpy: Callable[[np.ndarray], np.ndarray]


def _gelu(x: np.ndarray) -> np.ndarray:
    inner = x.dtype.type(math.sqrt(2 / math.pi)) * (x + x.dtype.type(0.044715) * x**3)
    return x.dtype.type(0.5) * x * (1 + np.tanh(inner))


def sigmoid(x: np.ndarray) -> np.ndarray:
    """1 / (1 + e^−x), for NumPy."""
    with np.errstate(over="ignore"):  # exp of a large number is infinite and 1 / inf is the right answer, 0
        return 1 / (1 + np.exp(-x))


def _silu(x: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):  # exp overflows to infinity, and x / inf is the right 0
        return x / (1 + np.exp(-x))


def _elu(x: np.ndarray) -> np.ndarray:
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0)))


def _selu(x: np.ndarray) -> np.ndarray:
    inner = np.where(x > 0, x, x.dtype.type(1.6732632423543772) * np.expm1(np.minimum(x, 0)))
    return x.dtype.type(1.0507009873554805) * inner


ACTIVATIONS: dict[str, Activation] = {
    "relu": Activation(jax.nn.relu, lambda x: np.maximum(x, 0, out=x)),
    "tanh": Activation(jnp.tanh, lambda x: np.tanh(x, out=x)),
    "gelu": Activation(jax.nn.gelu, _gelu),
    "silu": Activation(jax.nn.silu, _silu),
    "elu": Activation(jax.nn.elu, _elu),
    "selu": Activation(jax.nn.selu, _selu),
    "sigmoid": Activation(jax.nn.sigmoid, sigmoid),
    "leaky_relu": Activation(jax.nn.leaky_relu, lambda x: np.where(x > 0, x, x.dtype.type(0.01) * x)),
    "identity": Activation(lambda x: x, lambda x: x),
}
