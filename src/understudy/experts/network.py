"""Forward passes of expert networks, one observation at a time, or a stack of such passes.

One observation takes one fixed path: the same matrix-vector calls of NumPy, or the same compiled program for
a batch of one. Its answer is therefore the same, bit for bit, alone and in any batch; a product of n rows is
not (BLAS and XLA both choose other kernels for other shapes). That is also the fast choice where it matters.
Measured on one core: a 256-256 network costs 9 µs a row in NumPy (3 in a stack of 99), against 33 µs for
one call of a compiled program with its dispatch; NatureCNN costs 0.35 ms an image
compiled for one image, 0.27 ms in batches of 16, 0.6 ms in NumPy. So MLPs run in NumPy, and convolutions in
JAX, which is imported only for them.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, final

import numpy as np

from ..errors import UserError, unknown
from .base import batch_size, take

Row = Callable[[np.ndarray], np.ndarray]


def _relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0, out=x)


def _tanh(x: np.ndarray) -> np.ndarray:
    return np.tanh(x, out=x)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):  # exp of a large number is infinite and 1 / inf is the right answer, 0
        return 1 / (1 + np.exp(-x))


def _elu(x: np.ndarray) -> np.ndarray:
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0)))


def _selu(x: np.ndarray) -> np.ndarray:
    return np.float32(1.0507009873554805) * np.where(
        x > 0, x, np.float32(1.6732632423543772) * np.expm1(np.minimum(x, 0))
    )


ACTIVATIONS: dict[str, Row] = {
    "relu": _relu,
    "tanh": _tanh,
    "sigmoid": _sigmoid,
    "elu": _elu,
    "selu": _selu,
    "leaky_relu": lambda x: np.where(x > 0, x, np.float32(0.01) * x),
    "silu": lambda x: x * _sigmoid(x),
    "identity": lambda x: x,
}


@final
@dataclasses.dataclass(frozen=True, eq=False)
class Mlp:
    """A multilayer perceptron on one observation: x ← activation(x @ weight + bias), linear at the end.

    weights: (in, out) each; biases: (out,). Called with (in,) and returns (out,), float32.

    >>> half = Mlp([np.full((2, 1), 0.5)], [np.zeros(1)], activation="relu")
    >>> half(np.array([1.0, 3.0]))
    array([2.], dtype=float32)
    """

    weights: Any
    biases: Any
    activation: str

    def __post_init__(self):
        if self.activation not in ACTIVATIONS:
            raise unknown("activation", self.activation, ACTIVATIONS)
        if not self.weights or len(self.weights) != len(self.biases):
            raise UserError("network: every layer needs a weight and a bias.")
        width = None
        for number, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            if weight.ndim != 2 or bias.shape != weight.shape[1:] or width not in (None, weight.shape[0]):
                raise UserError(
                    f"network: layer {number} has a weight of shape {weight.shape} and a bias of shape "
                    f"{bias.shape}, which do not fit together."
                )
            width = weight.shape[1]
        object.__setattr__(self, "weights", tuple(np.ascontiguousarray(w, np.float32) for w in self.weights))
        object.__setattr__(self, "biases", tuple(np.ascontiguousarray(b, np.float32) for b in self.biases))

    @property
    def widths(self) -> tuple[int, ...]:
        """Inputs, hidden units of every layer, outputs."""
        return (self.weights[0].shape[0], *(weight.shape[1] for weight in self.weights))

    def __call__(self, x: np.ndarray) -> np.ndarray:
        activate = ACTIVATIONS[self.activation]
        x = np.asarray(x, np.float32).reshape(-1)
        for weight, bias in zip(self.weights[:-1], self.biases[:-1]):
            x = x @ weight
            x += bias
            x = activate(x)
        return x @ self.weights[-1] + self.biases[-1]

    def rows(self, x: np.ndarray) -> np.ndarray:
        """n observations (n, in) at once: a stack of n products of one row, each to the bits of one alone."""
        activate = ACTIVATIONS[self.activation]
        x = np.ascontiguousarray(x, np.float32).reshape(len(x), 1, -1)
        for weight, bias in zip(self.weights[:-1], self.biases[:-1]):
            x = np.matmul(x, weight)
            x += bias
            x = activate(x)
        return (np.matmul(x, self.weights[-1]) + self.biases[-1])[:, 0]


STRIDES = (4, 2, 1)  # of the three convolutions of "Human-level control through deep reinforcement learning"


@final
@dataclasses.dataclass(frozen=True, eq=False)
class NatureCnn:
    """NatureCNN's features of one image: three convolutions and one dense layer, all ReLU.

    kernels: HWIO; the dense weight takes the last convolution flattened as (height, width, channels). Called
    with one image, channels first (C, H, W) or last (H, W, C), which is multiplied by `scale` (1/255 for
    bytes).
    """

    kernels: Any
    conv_biases: Any
    dense_weight: np.ndarray
    dense_bias: np.ndarray
    scale: float = 1 / 255
    channels_first: bool = True

    def __post_init__(self):
        if len(self.kernels) != 3 or len(self.conv_biases) != 3:
            raise UserError(f"network: NatureCNN has 3 convolutions, this one has {len(self.kernels)}.")
        for kernel, bias in zip(self.kernels, self.conv_biases, strict=True):
            if kernel.ndim != 4 or bias.shape != kernel.shape[3:]:
                raise UserError(
                    f"network: a convolution of shape {kernel.shape} does not fit a bias {bias.shape}."
                )

    @property
    def features(self) -> int:
        return self.dense_weight.shape[1]

    @functools.cached_property
    def _program(self) -> Callable[[np.ndarray], Any]:
        import jax
        import jax.numpy as jnp

        kernels = [jnp.asarray(kernel, jnp.float32) for kernel in self.kernels]
        biases = [jnp.asarray(bias, jnp.float32) for bias in self.conv_biases]
        channels = self.kernels[-1].shape[-1]
        dense_weight = jnp.asarray(self.dense_weight, jnp.float32).reshape(-1, channels, self.features)
        dense_bias = jnp.asarray(self.dense_bias, jnp.float32)
        parameters = (kernels, biases, dense_weight, dense_bias)

        @jax.jit
        def forward(parameters: Any, image: Any) -> Any:
            kernels, biases, dense_weight, dense_bias = parameters
            axes = (1, 2, 0) if self.channels_first else (0, 1, 2)
            x = jnp.transpose(image, axes).astype(jnp.float32)[None] * jnp.float32(self.scale)
            for kernel, bias, stride in zip(kernels, biases, STRIDES, strict=True):
                x = jax.lax.conv_general_dilated(
                    x, kernel, (stride, stride), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
                )
                x = jnp.maximum(x + bias, 0)
            # Summed within a place and then over places: one sum over all inputs loses two bits more in XLA.
            x = jnp.einsum("pc,pco->po", x.reshape(-1, x.shape[-1]), dense_weight).sum(axis=0)
            return jnp.maximum(x + dense_bias, 0)

        return lambda image: forward(parameters, image)

    def __call__(self, image: np.ndarray) -> np.ndarray:
        return np.asarray(self._program(np.asarray(image)))


def squash(low: np.ndarray, high: np.ndarray) -> Row:
    """tanh of the output, stretched from [-1, 1] to the bounds: low + (tanh(x) + 1)(high - low)/2."""
    low, half = np.asarray(low, np.float32), np.asarray((np.float64(high) - np.float64(low)) / 2, np.float32)

    def head(x: np.ndarray) -> np.ndarray:
        return low + (np.tanh(x) + np.float32(1)) * half

    return _elementwise(head)


def clip(low: np.ndarray, high: np.ndarray) -> Row:
    """The output, clipped to the bounds."""
    low, high = np.asarray(low, np.float32), np.asarray(high, np.float32)
    return _elementwise(lambda x: np.minimum(np.maximum(x, low), high))


def _elementwise(head: Any) -> Row:
    """Marks a head that may be given many rows at once."""
    head.elementwise = True
    return head


def softmax(x: np.ndarray) -> np.ndarray:
    """Probabilities of one row of logits."""
    e = np.exp(x - x.max())
    return e / e.sum()


def argmax(first: int = 0) -> Row:
    """The number of the largest output, counted from `first`."""
    return lambda x: np.asarray(first + x.argmax())


def argmax_groups(counts: np.ndarray, firsts: np.ndarray) -> Row:
    """For MultiDiscrete actions: the number of the largest output in every group of logits."""
    edges = np.cumsum(counts)[:-1]

    def head(x: np.ndarray) -> np.ndarray:
        return np.array([group.argmax() for group in np.split(x, edges)], np.int64) + firsts

    return head


@final
@dataclasses.dataclass(frozen=True, eq=False)
class Network:
    """What an expert network does with one observation: prepare it, see (images), think, answer.

    `features` stops after the convolutions and the dense layer: what a linear policy on frozen features
    learns from.
    """

    mlp: Mlp
    head: Row
    prepare: Row | None = None
    cnn: NatureCnn | None = None

    def features(self, observation: Any) -> np.ndarray:
        x = observation if self.prepare is None else self.prepare(observation)
        return x if self.cnn is None else self.cnn(x)

    def __call__(self, observation: Any) -> np.ndarray:
        return self.head(self.mlp(self.features(observation)))

    def rows(self, observations: Any) -> np.ndarray:
        """The answers to a batch, with n in front: what n calls would give, to the bit, in fewer of them."""
        if self.cnn is None and self.prepare is None:
            seen = np.asarray(observations)
        else:
            seen = np.stack([self.features(take(observations, i)) for i in range(batch_size(observations))])
        outputs = self.mlp.rows(seen)
        if getattr(self.head, "elementwise", False):
            return self.head(outputs)
        return np.stack([self.head(row) for row in outputs])
