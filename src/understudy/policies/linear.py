"""Policies that are linear in their parameters: linear on features, and tabular on states."""

from __future__ import annotations

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import DTypeLike

from ..errors import whole
from .base import Params, Policy, given_by, numbers


class Linear(Policy):
    """Linear policy, ``outputs = x @ params`` with params (features, outputs), starting at zero.

    With `bias` a constant 1 is appended to every input, so params are (features + 1, outputs) and the last
    row is the bias: everything that is exact for linear policies stays so.

    >>> policy = Linear()
    >>> params = policy.init(jax.random.key(0), features=3, outputs=2)
    >>> params.shape, policy.apply(params, jnp.ones((5, 3))).shape
    ((3, 2), (5, 2))
    """

    bias: bool = eqx.field(static=True, default=False)
    name: ClassVar[str] = "linear"

    @property
    def linear(self) -> bool:
        return given_by(self, "design") <= given_by(self, "apply")  # `apply` multiplies what `design` gives

    def init(self, key: Array, features: int, outputs: int, dtype: DTypeLike | None = None) -> Params:
        return jnp.zeros((features + self.bias, outputs), dtype)

    def design(self, inputs: Array) -> Array:
        rows = numbers(inputs)
        if not self.bias:
            return rows
        return jnp.concatenate([rows, jnp.ones_like(rows[:, :1])], axis=1)

    def apply(self, params: Params, inputs: Array) -> Array:
        return self.design(inputs) @ params


class Tabular(Policy):
    """One row of outputs per state, ``outputs = params[s]`` with params (states, outputs), starting at zero.

    Inputs are state numbers (n,) or (n, 1). It is the linear policy on one-hot features, and treated as such.

    >>> policy = Tabular(states=4)
    >>> params = policy.init(jax.random.key(0), features=1, outputs=2)
    >>> params.shape, policy.apply(params, jnp.array([0, 3])).shape
    ((4, 2), (2, 2))
    """

    states: int = eqx.field(static=True)
    name: ClassVar[str] = "tabular"

    @property
    def linear(self) -> bool:
        return given_by(self, "design") == given_by(self, "apply")  # each says the same in its own way

    def __check_init__(self):
        whole("states", self.states)

    def init(self, key: Array, features: int, outputs: int, dtype: DTypeLike | None = None) -> Params:
        return jnp.zeros((self.states, outputs), dtype)

    def _numbers(self, inputs: Array) -> Array:
        return inputs.reshape(inputs.shape[0]).astype(jnp.int32)

    def design(self, inputs: Array) -> Array:
        dtype = jnp.result_type(float)
        return jax.nn.one_hot(self._numbers(inputs), self.states, dtype=dtype)

    def apply(self, params: Params, inputs: Array) -> Array:
        return params[self._numbers(inputs)]
