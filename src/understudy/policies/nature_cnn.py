"""NatureCNN from pixels: three convolutions, one dense layer, one row of outputs per action.

A convolution whose kernel is twice its stride is a 2 × 2 convolution of stride 1 on blocks of stride × stride
pixels; and one of stride 1 is a sum of matrix products, one for each place of the kernel, on shifted views.
Written so (`matmul`) there is nothing but matrix products: they keep their speed inside compiled loops, and
under `vmap` over parameters they are batched products where convolutions would be grouped ones. `conv` is
XLA's own, some images at a time: on a CPU that keeps the cores busy side by side and the scratch small (a
step on 64 images: 47 ms at once, 28 in eight parts; 340 inside a compiled loop, where the products take 36 to
38). benchmarks/bench_cnn.py measures it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import DTypeLike

from .. import threefry
from ..errors import UserError, check_int, check_name
from .base import Params, Policy

LAYERS = ((8, 4, 32), (4, 2, 64), (3, 1, 64))
"""Kernel, stride and channels of the three convolutions."""
METHODS = ("auto", "conv", "matmul", "single")
PART = 8
"""Images that go through XLA's convolutions together on a CPU; more than eight parts are not made."""
TURN = 100
"""Images whose products are taken at a time inside one program: they unfold to a megabyte an image."""


def _out(size: int) -> int:
    for kernel, stride, _ in LAYERS:
        size = (size - kernel) // stride + 1
    return size


def _blocks(x: Array, stride: int, tall: int, wide: int) -> Array:
    """(n, h, w, c) as blocks (n, tall, wide, stride·stride·c) of stride × stride pixels."""
    n, _, _, c = x.shape
    x = x[:, : stride * tall, : stride * wide].reshape(n, tall, stride, wide, stride, c)
    return x.transpose(0, 1, 3, 2, 4, 5).reshape(n, tall, wide, stride * stride * c)


def by_matmul(x: Array, weight: Array, stride: int, half: bool = False) -> Array:
    """VALID convolution (n, h, w, c) * (k, k, c, o) of stride 1 or k/2, as a sum of products over places."""
    kernel, _, c, o = weight.shape
    tall, out = ((side - kernel) // stride + 1 for side in x.shape[1:3])
    if kernel == 2 * stride:
        x = _blocks(x, stride, tall + 1, out + 1)
        weight = weight.reshape(2, stride, 2, stride, c, o).transpose(0, 2, 1, 3, 4, 5)
        kernel, c = 2, stride * stride * c
    weight = weight.reshape(kernel, kernel * c, o)
    # Side by side along a row, summed along a column: fewer products, and copies of `kernel` times the input.
    wide = jnp.concatenate([x[:, :, j : j + out] for j in range(kernel)], axis=-1)
    parts = [_product(wide[:, i : i + tall].reshape(-1, kernel * c), weight[i], half) for i in range(kernel)]
    return sum(parts[1:], parts[0]).reshape(-1, tall, out, o)


def _product(x: Array, weight: Array, half: bool) -> Array:
    """x @ weight; with `half` in bfloat16, summed in float32."""
    if not half:
        return x @ weight
    low = jnp.bfloat16
    return jnp.matmul(x.astype(low), weight.astype(low), preferred_element_type=jnp.float32)


def _by_conv(x: Array, weight: Array, stride: int) -> Array:
    form = ("NHWC", "HWIO", "NHWC")
    return jax.lax.conv_general_dilated(x, weight, (stride, stride), "VALID", dimension_numbers=form)


def _in_turn(function: Callable[[Params, Array], Array], params: Params, x: Array) -> Array:
    """``function(params, x)``, `TURN` images after `TURN`, forgetting what a gradient can compute again."""
    if len(x) <= TURN:
        return function(params, x)
    whole = len(x) // TURN
    turns = x[: whole * TURN].reshape(whole, TURN, *x.shape[1:])
    done = jax.lax.map(jax.checkpoint(lambda one: function(params, one)), turns)
    done = done.reshape(whole * TURN, -1)
    rest = x[whole * TURN :]
    return done if not len(rest) else jnp.concatenate([done, function(params, rest)])


class NatureCNN(Policy):
    """NatureCNN, ``outputs = head(relu(dense(convolutions(image / 255))))`` on stacks of frames.

    Inputs are bytes (n, stack, size, size), or the same flattened. Params: ``conv`` (a list of three),
    ``dense`` and ``head``, each ``{"weight", "bias"}``; kernels are (height, width, in, out) and the last
    convolution is flattened as (height, width, channels). Bytes are read as fractions of 255, other numbers
    as they are. `size` is the side of a frame, or (height, width). `method`: "auto", "conv" or "matmul" (on a
    GPU products are taken in bfloat16), or "single" for experts, which see one image at a time: the dense
    layer is summed within a place and then over places, since one sum over all inputs loses two bits more.

    >>> policy = NatureCNN(size=36)
    >>> params = policy.init(jax.random.key(0), features=4 * 36 * 36, outputs=6)
    >>> policy.apply(params, jnp.zeros((2, 4, 36, 36), jnp.uint8)).shape
    (2, 6)
    """

    stack: int = eqx.field(static=True, default=4)
    size: int | tuple[int, int] = eqx.field(static=True, default=84)
    width: int = eqx.field(static=True, default=512)
    method: str = eqx.field(static=True, default="auto")
    name: ClassVar[str] = "nature_cnn"
    minibatch: ClassVar[int] = 64

    def __check_init__(self):
        check_name("method", self.method, METHODS)
        for field, numbers in {"stack": [self.stack], "size": self.sides, "width": [self.width]}.items():
            for number in numbers:
                check_int(field, number)
        if min(self.places) < 1:
            raise UserError(f"size: {self.size!r} pixels are too few for NatureCNN; 36 are the least.")
        if self.method == "matmul" and self.sides[0] != self.sides[1]:
            raise UserError(f"size: the method 'matmul' is for square frames, these are {self.size!r}.")

    @property
    def sides(self) -> tuple[int, int]:
        """Height and width of a frame."""
        return self.size if isinstance(self.size, tuple) else (self.size, self.size)

    @property
    def places(self) -> tuple[int, int]:
        """Height and width of what the last convolution gives."""
        return _out(self.sides[0]), _out(self.sides[1])

    def init(self, key: Array, features: int, outputs: int, dtype: DTypeLike | None = None) -> Params:
        height, width = self.sides
        if features != self.stack * height * width:
            raise UserError(
                f"policy: nature_cnn is made for stacks of {self.stack} frames of {height} × {width}, "
                f"which are {self.stack * height * width} bytes; the observations have {features}."
            )
        dtype = dtype or np.float32
        keys = threefry.split(key, 5)
        conv, channels = [], self.stack
        for one, (kernel, _, wide) in zip(keys, LAYERS):
            conv.append(layer(one, (kernel, kernel, channels, wide), dtype))
            channels = wide
        dense = layer(keys[3], (int(np.prod(self.places)) * channels, self.width), dtype)
        # A new policy is almost indifferent between actions.
        head = layer(keys[4], (self.width, outputs), dtype, scale=0.01)
        return {"conv": conv, "dense": dense, "head": head}

    def features(self, params: Params, inputs: Array) -> Array:
        """What the head sees, (n, width): the encoder of a linear policy on frozen features."""
        x = inputs.reshape(-1, self.stack, *self.sides)
        gpu = jax.default_backend() == "gpu"
        square = self.sides[0] == self.sides[1]
        matmul = self.method == "matmul" or (self.method == "auto" and gpu and square)
        seen = functools.partial(self._convolutions, matmul=matmul, gpu=gpu)
        if gpu or self.method == "single":
            x = seen(params, x)
        elif matmul:
            x = _in_turn(seen, params, x)
        else:
            parts = jnp.array_split(x, max(1, min(8, len(x) // PART)))
            x = jnp.concatenate([seen(params, part) for part in parts])
        if self.method == "single":
            dense = functools.partial(_by_place, weight=params["dense"]["weight"])
            x = dense(x[0])[None] if len(x) == 1 else jax.vmap(dense)(x)
        else:
            x = _product(x, params["dense"]["weight"], gpu and matmul)
        return jnp.maximum(x + params["dense"]["bias"], 0)

    def _convolutions(self, params: Params, x: Array, *, matmul: bool, gpu: bool) -> Array:
        dtype = params["dense"]["weight"].dtype
        scale = jnp.asarray(1 / 255 if x.dtype == jnp.uint8 else 1, dtype)
        x = jnp.transpose(x, (0, 2, 3, 1)).astype(dtype) * scale
        for one, (_, stride, _) in zip(params["conv"], LAYERS):
            weight = one["weight"]
            x = by_matmul(x, weight, stride, gpu) if matmul else _by_conv(x, weight, stride)
            x = jnp.maximum(x + one["bias"], 0)
        return x.reshape(len(x), -1)

    def apply(self, params: Params, inputs: Array) -> Array:
        return self.features(params, inputs) @ params["head"]["weight"] + params["head"]["bias"]


def _by_place(x: Array, weight: Array) -> Array:
    """x @ weight for one image, summed within each place and then over places."""
    channels = LAYERS[-1][2]
    weight = weight.reshape(-1, channels, weight.shape[1])
    return jnp.einsum("pc,pco->po", x.reshape(-1, channels), weight).sum(axis=0)


def layer(key: Array, shape: tuple[int, ...], dtype: DTypeLike, scale: float = 1.0) -> dict[str, Array]:
    """A new layer, its weights uniform and its biases zero."""
    fan_in = int(np.prod(shape[:-1]))
    limit = scale * np.sqrt(3.0 / fan_in) * (np.sqrt(2.0) if scale == 1.0 else 1.0)
    weight = threefry.uniform(key, shape, dtype, limit)
    return {"weight": weight, "bias": jax.device_put(np.zeros(shape[-1:], dtype))}
