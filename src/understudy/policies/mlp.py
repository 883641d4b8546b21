"""Fully connected networks; the architecture is data."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from ..errors import UserError, unknown
from .base import Params, Policy, numbers

ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "relu": jax.nn.relu,
    "tanh": jnp.tanh,
    "gelu": jax.nn.gelu,
    "silu": jax.nn.silu,
    "elu": jax.nn.elu,
}
HEADS: dict[str, Callable[[Array], Array]] = {"identity": lambda x: x, "tanh": jnp.tanh}


class MLP(Policy):
    """A network ``x @ W + b`` with an activation between layers and a head after the last.

    Params are a list of ``{"weight": (in, out), "bias": (out,)}``. Hidden layers start uniform with variance
    1/(3 in), the last one a hundredth of that in scale, so that a new policy does almost nothing. The tanh
    head is stretched from [−1, 1] to the bounds `low` and `high` where they are given.

    >>> policy = MLP(widths=(8, 8))
    >>> params = policy.init(jax.random.key(0), features=3, outputs=2)
    >>> [layer["weight"].shape for layer in params]
    [(3, 8), (8, 8), (8, 2)]
    """

    widths: tuple[int, ...] = eqx.field(static=True, default=(256, 256), converter=tuple)
    activation: str = eqx.field(static=True, default="relu")
    head: str = eqx.field(static=True, default="identity")
    low: tuple[float, ...] | None = eqx.field(static=True, default=None)
    high: tuple[float, ...] | None = eqx.field(static=True, default=None)
    name: ClassVar[str] = "mlp"

    def __check_init__(self):
        if any(not isinstance(width, int) or width < 1 for width in self.widths):
            raise UserError(f"widths: {self.widths!r} must be positive whole numbers, as in (256, 256).")
        if self.activation not in ACTIVATIONS:
            raise unknown("activation", self.activation, ACTIVATIONS)
        if self.head not in HEADS:
            raise unknown("head", self.head, HEADS)
        if (self.low is None) != (self.high is None) or (self.low is not None and self.head != "tanh"):
            raise UserError("low, high: bounds are given together, and to the tanh head only.")

    @property
    def stretch(self) -> tuple[Any, Any]:
        """The middle and the half-width of the bounds, or (None, None)."""
        if self.low is None or self.high is None:
            return None, None
        middle = tuple((high + low) / 2 for low, high in zip(self.low, self.high, strict=True))
        return middle, tuple((high - low) / 2 for low, high in zip(self.low, self.high, strict=True))

    def init(self, key: Array, features: int, outputs: int, dtype: Any = None) -> Params:
        dtype = dtype or jnp.result_type(float)
        sizes = (features, *self.widths, outputs)
        layers = []
        for index, (fan_in, fan_out) in enumerate(itertools.pairwise(sizes)):
            limit = fan_in**-0.5 * (0.01 if index == len(sizes) - 2 else 1.0)
            weight = jax.random.uniform(
                jax.random.fold_in(key, index), (fan_in, fan_out), dtype, minval=-limit, maxval=limit
            )
            layers.append({"weight": weight, "bias": jnp.zeros(fan_out, dtype)})
        return layers

    def apply(self, params: Params, inputs: Array) -> Array:
        x = numbers(inputs, params[0]["weight"].dtype)
        for layer in params[:-1]:
            x = ACTIVATIONS[self.activation](x @ layer["weight"] + layer["bias"])
        outputs = HEADS[self.head](x @ params[-1]["weight"] + params[-1]["bias"])
        middle, half = self.stretch
        if middle is None:
            return outputs
        return jnp.asarray(middle, outputs.dtype) + jnp.asarray(half, outputs.dtype) * outputs
