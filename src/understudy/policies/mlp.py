"""Fully connected networks; the architecture is data. A committee is several of them that answer as one.

Activations go by name, each as JAX computes it for learning and as NumPy computes it for acting.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import DTypeLike

from .. import threefry
from ..errors import UserError, check_int, check_name
from .base import Params, Policy, numbers

if TYPE_CHECKING:
    from .codecs import Numeric


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
HEADS = ("identity", "tanh", "sb3-tanh")


def several(widths: int | Iterable[int]) -> tuple[int, ...]:
    """A tuple of what may be iterated over, or of the one thing; the checks of the policies come after."""
    return tuple(widths) if isinstance(widths, Iterable) else (widths,)


def edges(bounds: Sequence[float] | np.ndarray | None) -> tuple[float, ...] | None:
    """Bounds of actions as plain numbers, whatever sequence or array they are given as."""
    return None if bounds is None else tuple(np.ravel(bounds).astype(float).tolist())


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

    widths: tuple[int, ...] = eqx.field(static=True, default=(256, 256), converter=several)
    activation: str = eqx.field(static=True, default="relu")
    head: str = eqx.field(static=True, default="identity")
    low: tuple[float, ...] | None = eqx.field(static=True, default=None, converter=edges)
    high: tuple[float, ...] | None = eqx.field(static=True, default=None, converter=edges)
    name: ClassVar[str] = "mlp"

    def __check_init__(self):
        for width in self.widths:
            check_int("widths", width)
        check_name("activation", self.activation, ACTIVATIONS)
        check_name("head", self.head, HEADS)
        if (self.low is None) != (self.high is None) or (self.low is not None and self.head == "identity"):
            raise UserError("low, high: bounds are given together, and to a tanh head only.")
        ends = len(self.low or ()), len(self.high or ())
        if ends[0] != ends[1]:
            raise UserError(f"low, high: there are {ends[0]} and {ends[1]} bounds; give as many.")
        if self.head == "sb3-tanh" and self.low is None:
            raise UserError("low, high: the head 'sb3-tanh' needs bounds.")

    def head_function(self, numpy: ModuleType, dtype: DTypeLike) -> Callable[[Numeric], Numeric]:
        """The head as a function of outputs (…, k); `numpy` is NumPy or its JAX twin."""
        if self.head == "identity":
            return lambda x: x
        if self.low is None or self.high is None:
            return numpy.tanh
        ends = list(zip(self.low, self.high, strict=True))
        half = numpy.asarray([(high - low) / 2 for low, high in ends], dtype)
        if self.head == "sb3-tanh":
            low, one = numpy.asarray(self.low, dtype), np.dtype(dtype).type(1)
            return lambda x: low + (numpy.tanh(x) + one) * half
        middle = numpy.asarray([(high + low) / 2 for low, high in ends], dtype)
        return lambda x: middle + half * numpy.tanh(x)

    def init(self, key: Array, features: int, outputs: int, dtype: DTypeLike | None = None) -> Params:
        dtype = dtype or jnp.result_type(float)
        if self.low is not None and len(self.low) not in (1, outputs):
            raise UserError(f"low, high: {len(self.low)} bounds do not fit {outputs} outputs.")
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


class Committee(MLP):
    """The mean of the outputs of `members` networks, taken after the head: a member whose tanh is saturated
    counts as much as any other.

    Params are those of an `MLP` with the members in front: ``{"weight": (members, in, out), "bias": (members,
    out)}``. For a loss that is convex in the outputs it is at most the mean of the members' losses.

    >>> policy = Committee(widths=(8,), members=3)
    >>> params = policy.init(jax.random.key(0), features=2, outputs=1)
    >>> params[0]["weight"].shape, policy.apply(params, np.ones((5, 2), np.float32)).shape
    ((3, 2, 8), (5, 1))
    """

    members: int = eqx.field(static=True, default=5)
    name: ClassVar[str] = "committee"

    def __check_init__(self):
        check_int("members", self.members)

    @property
    def member(self) -> MLP:
        """The architecture of one member."""
        return MLP(**{field.name: getattr(self, field.name) for field in dataclasses.fields(MLP)})

    def init(self, key: Array, features: int, outputs: int, dtype: DTypeLike | None = None) -> Params:
        keys = jax.random.split(key, self.members)
        return jax.vmap(lambda one: self.member.init(one, features, outputs, dtype))(keys)

    def apply(self, params: Params, inputs: Array) -> Array:
        return jax.vmap(self.member.apply, in_axes=(0, None))(params, inputs).mean(axis=0)

    @classmethod
    def of(cls, policy: MLP, params: Sequence[Params]) -> tuple[Committee, Params]:
        """The committee of networks of one architecture, and its parameters."""
        fields = {field.name: getattr(policy, field.name) for field in dataclasses.fields(policy)}
        stacked = jax.tree.map(lambda *leaves: np.stack([np.asarray(leaf) for leaf in leaves]), *params)
        return cls(**fields, members=len(params)), stacked

    def last(self, params: Params) -> tuple[MLP, Params]:
        """The last member, as a network of its own."""
        return self.member, jax.tree.map(lambda leaf: np.asarray(leaf)[-1], params)
