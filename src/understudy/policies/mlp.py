"""Fully connected networks; the architecture is data."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import DTypeLike

from .. import threefry
from ..errors import UserError, among
from .activations import ACTIVATIONS
from .base import Params, Policy, numbers

HEADS = ("identity", "tanh", "sb3-tanh")


def _tuple(widths: Any) -> Any:
    """A tuple of what may be iterated over; anything else is left for the check below to refuse."""
    return tuple(widths) if isinstance(widths, Iterable) else (widths,)


class MLP(Policy):
    """A network ``x @ W + b`` with an activation between layers and a head after the last.

    Params are a list of ``{"weight": (in, out), "bias": (out,)}``. Hidden layers start uniform with variance
    1/(3 in), the last one a hundredth of that in scale, so that a new policy does almost nothing. The tanh
    head is stretched from [−1, 1] to the bounds `low` and `high` where they are given; "sb3-tanh" is the same
    function with Stable-Baselines3's rounding, ``low + (tanh + 1) * half``.

    >>> policy = MLP(widths=(8, 8))
    >>> params = policy.init(jax.random.key(0), features=3, outputs=2)
    >>> [layer["weight"].shape for layer in params]
    [(3, 8), (8, 8), (8, 2)]
    """

    widths: tuple[int, ...] = eqx.field(static=True, default=(256, 256), converter=_tuple)
    activation: str = eqx.field(static=True, default="relu")
    head: str = eqx.field(static=True, default="identity")
    low: tuple[float, ...] | None = eqx.field(static=True, default=None)
    high: tuple[float, ...] | None = eqx.field(static=True, default=None)
    name: ClassVar[str] = "mlp"

    def __check_init__(self):
        if any(not isinstance(width, int) or width < 1 for width in self.widths):
            raise UserError(f"widths: {self.widths!r} must be positive whole numbers, as in (256, 256).")
        among("activation", self.activation, ACTIVATIONS)
        among("head", self.head, HEADS)
        if (self.low is None) != (self.high is None) or (self.low is not None and self.head == "identity"):
            raise UserError("low, high: bounds are given together, and to a tanh head only.")
        if self.head == "sb3-tanh" and self.low is None:
            raise UserError("low, high: the head 'sb3-tanh' needs bounds.")

    def head_function(self, numpy: Any, dtype: Any) -> Callable[[Any], Any]:
        """The head as a function of outputs (…, k); `numpy` is NumPy or its JAX twin."""
        if self.head == "identity":
            return lambda x: x
        if self.low is None or self.high is None:
            return numpy.tanh
        edges = list(zip(self.low, self.high, strict=True))
        half = numpy.asarray([(high - low) / 2 for low, high in edges], dtype)
        if self.head == "sb3-tanh":
            low, one = numpy.asarray(self.low, dtype), np.dtype(dtype).type(1)
            return lambda x: low + (numpy.tanh(x) + one) * half
        middle = numpy.asarray([(high + low) / 2 for low, high in edges], dtype)
        return lambda x: middle + half * numpy.tanh(x)

    def init(self, key: Array, features: int, outputs: int, dtype: DTypeLike | None = None) -> Params:
        dtype = dtype or jnp.result_type(float)
        sizes = (features, *self.widths, outputs)
        layers = []
        for index, (fan_in, fan_out) in enumerate(itertools.pairwise(sizes)):
            limit = fan_in**-0.5 * (0.01 if index == len(sizes) - 2 else 1.0)
            weight = threefry.uniform(threefry.fold_in(key, index), (fan_in, fan_out), dtype, limit)
            layers.append({"weight": weight, "bias": jax.device_put(np.zeros(fan_out, dtype))})
        return layers

    def apply(self, params: Params, inputs: Array) -> Array:
        x = numbers(inputs, params[0]["weight"].dtype)
        for layer in params[:-1]:
            x = ACTIVATIONS[self.activation].jax(x @ layer["weight"] + layer["bias"])
        outputs = x @ params[-1]["weight"] + params[-1]["bias"]
        return self.head_function(jnp, outputs.dtype)(outputs)

    def lessen_inputs(self, params: Params, by: Array) -> Params:
        weight = params[0]["weight"]
        length = jnp.linalg.norm(weight, axis=1, keepdims=True)
        least = by * weight.shape[1] ** 0.5
        left = jnp.where(length > least, 1.0 - least / jnp.where(length > least, length, 1.0), 0.0)
        return [params[0] | {"weight": weight * left}, *params[1:]]
