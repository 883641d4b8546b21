"""Losses of actions that are numbers: squared, absolute and Huber."""

from __future__ import annotations

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ..errors import UserError
from .base import Loss


class Squared(Loss):
    """Squared loss, ``scale * ||outputs - target||²`` with scale 1 (½ when `half`).

    >>> float(Squared()(jnp.array([1.0, 2.0]), jnp.array([0.0, 0.0])))
    5.0
    """

    half: bool = eqx.field(static=True, default=False)
    convex: ClassVar[bool] = True
    least: ClassVar[float] = 0.0

    @property
    def scale(self) -> float:
        return 0.5 if self.half else 1.0

    def __call__(self, outputs: Array, target: Array) -> Array:
        return self.scale * jnp.sum((outputs - target) ** 2)

    @property
    def curvature(self) -> float:
        return 2.0 * self.scale

    def dual(self, slope: Array, target: Array) -> tuple[Array, Array]:
        linear, square = slope * target, slope**2 / (4.0 * self.scale)
        return -jnp.sum(linear + square), jnp.sum(jnp.abs(linear) + square)

    def inside(self, slope: Array, target: Array) -> Array:
        return slope

    def room(self, slope: Array, target: Array) -> Array:
        return jnp.eye(slope.shape[0], dtype=slope.dtype)


class Absolute(Loss):
    """Absolute loss, ``Σ_j |outputs_j - target_j|``; the subgradient at a kink is 0.

    An answer within ``rounding · (1 + |target_j|)`` of the target is on the kink. With the default 0 only an
    exact one is; where targets can be met exactly, the sign of a rounding error would be a gradient of ±1.

    >>> loss = Absolute(rounding=1e-6)
    >>> jax.grad(loss)(jnp.array([1.0 + 1e-7, 3.0]), jnp.array([1.0, 1.0])).tolist()
    [0.0, 1.0]
    """

    rounding: float = eqx.field(static=True, default=0.0)
    steepness: ClassVar[float] = 1.0
    least: ClassVar[float] = 0.0

    def __call__(self, outputs: Array, target: Array) -> Array:
        error = outputs - target
        # Not jnp.abs, whose derivative at the kink is 1: an exact answer must leave no gradient.
        size = error * jnp.sign(error)
        if self.rounding:
            met = size <= self.rounding * (1 + jnp.abs(target))
            size = jnp.where(met, jax.lax.stop_gradient(size), size)
        return jnp.sum(size)

    @property
    def convex(self) -> bool:
        return not self.rounding  # a slope of 0 beside the kink is none of |·|

    def dual(self, slope: Array, target: Array) -> tuple[Array, Array]:
        linear = slope * target
        return -jnp.sum(linear), jnp.sum(jnp.abs(linear))

    def inside(self, slope: Array, target: Array) -> Array:
        return jnp.clip(slope, -1.0, 1.0)

    def room(self, slope: Array, target: Array) -> Array:
        return jnp.diag((1.0 - slope) * (1.0 + slope))


class Huber(Loss):
    """Huber loss, per dimension ``½e²`` where |e| ≤ delta, else ``delta (|e| − ½ delta)``.

    >>> float(Huber()(jnp.array([0.5, 3.0]), jnp.array([0.0, 0.0])))
    2.625
    """

    delta: float = eqx.field(static=True, default=1.0)
    convex: ClassVar[bool] = True
    least: ClassVar[float] = 0.0
    curvature: ClassVar[float] = 1.0

    def __check_init__(self):
        if not isinstance(self.delta, (int, float)) or not 0 < self.delta < np.inf:
            raise UserError(f"delta: {self.delta!r} is not a positive number, as the Huber loss needs.")

    def __call__(self, outputs: Array, target: Array) -> Array:
        error = outputs - target
        inside = jnp.clip(error, -self.delta, self.delta)
        return jnp.sum(inside * (error - 0.5 * inside))

    @property
    def steepness(self) -> float:
        return self.delta

    def dual(self, slope: Array, target: Array) -> tuple[Array, Array]:
        linear, square = slope * target, 0.5 * slope**2
        return -jnp.sum(linear + square), jnp.sum(jnp.abs(linear) + square)

    def inside(self, slope: Array, target: Array) -> Array:
        return jnp.clip(slope, -self.delta, self.delta)

    def room(self, slope: Array, target: Array) -> Array:
        return jnp.diag((self.delta - slope) * (self.delta + slope))
