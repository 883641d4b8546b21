"""A network for an image with numbers beside it: convolutions for the image, an MLP on both."""

from __future__ import annotations

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import DTypeLike

from .. import threefry
from ..errors import UserError, check_int
from .base import Params, Policy, numbers
from .mlp import MLP, edges, several
from .nature_cnn import LAYERS, by_matmul, layer

SMALL = ((4, 2, 16), (3, 1, 32))
"""Kernel, stride and channels for images that are too small for NatureCNN's."""
LEAST_SIDE = 8
"""Pixels of the shorter side, at least."""


class Camera(Policy):
    """``outputs = mlp([relu(dense(convolutions(image))), numbers])``, with NatureCNN's convolutions, or two
    small ones for images under 36 pixels.

    Inputs are rows (n, features). The columns from `place` on are an image of this `shape`, (channels,
    height, width) or (height, width, channels), as fractions of 255, or bytes where there is nothing else;
    all others are numbers. `width`: features of the image; widths, activation, head, low and high are the
    MLP's.

    >>> import jax
    >>> policy = Camera(shape=(8, 8, 3), place=2)
    >>> params = policy.init(jax.random.key(0), features=2 + 8 * 8 * 3 + 1, outputs=4)
    >>> policy.apply(params, jnp.zeros((5, 195))).shape
    (5, 4)
    """

    shape: tuple[int, ...] = eqx.field(static=True, converter=several)
    place: int = eqx.field(static=True, default=0)
    width: int = eqx.field(static=True, default=128)
    widths: tuple[int, ...] = eqx.field(static=True, default=(256, 256), converter=several)
    activation: str = eqx.field(static=True, default="relu")
    head: str = eqx.field(static=True, default="identity")
    low: tuple[float, ...] | None = eqx.field(static=True, default=None, converter=edges)
    high: tuple[float, ...] | None = eqx.field(static=True, default=None, converter=edges)
    name: ClassVar[str] = "camera"

    def __check_init__(self):
        if len(self.shape) != 3 or min(self.sides) < LEAST_SIDE:
            raise UserError(
                f"shape: {self.shape!r} is no image (channels, height, width) with sides of {LEAST_SIDE} or "
                "more."
            )
        check_int("place", self.place, 0)
        check_int("width", self.width)
        _ = self.mlp

    @property
    def mlp(self) -> MLP:
        """What sees the image's features and the numbers."""
        return MLP(self.widths, self.activation, self.head, self.low, self.high)

    @property
    def last(self) -> bool:
        """Whether the channels come last: they are fewer than pixels."""
        return self.shape[2] < self.shape[0]

    @property
    def sides(self) -> tuple[int, int]:
        """Height and width."""
        height, width = self.shape[:2] if self.last else self.shape[1:]
        return height, width

    @property
    def layers(self) -> tuple[tuple[int, int, int], ...]:
        return LAYERS if min(self.sides) >= 36 else SMALL

    def init(self, key: Array, features: int, outputs: int, dtype: DTypeLike | None = None) -> Params:
        dtype, size = dtype or np.float32, int(np.prod(self.shape))
        if self.place + size > features:
            raise UserError(f"policy: camera has an image of {size} numbers; the rows have {features}.")
        keys = threefry.split(key, len(self.layers) + 2)
        conv, channels, sides = [], self.shape[2 if self.last else 0], self.sides
        for one, (kernel, stride, wide) in zip(keys, self.layers):
            conv.append(layer(one, (kernel, kernel, channels, wide), dtype))
            channels, sides = wide, tuple((side - kernel) // stride + 1 for side in sides)
        dense = layer(keys[-2], (int(np.prod(sides)) * channels, self.width), dtype)
        rest = self.mlp.init(keys[-1], self.width + features - size, outputs, dtype)
        return {"conv": conv, "dense": dense, "mlp": rest}

    def apply(self, params: Params, inputs: Array) -> Array:
        end = self.place + int(np.prod(self.shape))
        rows = numbers(inputs, params["dense"]["bias"].dtype)
        x = rows[:, self.place : end].reshape(-1, *self.shape).astype(params["dense"]["bias"].dtype)
        x = x if self.last else jnp.transpose(x, (0, 2, 3, 1))
        for one, (_, stride, _) in zip(params["conv"], self.layers):
            x = jnp.maximum(by_matmul(x, one["weight"], stride) + one["bias"], 0)
        seen = x.reshape(len(x), -1) @ params["dense"]["weight"] + params["dense"]["bias"]
        known = [jnp.maximum(seen, 0), rows[:, : self.place], rows[:, end:]]
        return self.mlp.apply(params["mlp"], jnp.concatenate(known, axis=1))
