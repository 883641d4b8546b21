"""What every policy provides, and how its parameters are kept on disk."""

from __future__ import annotations

import abc
import dataclasses
import math
from typing import TYPE_CHECKING, Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from jax.core import Tracer
from jax.flatten_util import ravel_pytree
from jax.typing import DTypeLike

from ..errors import ContractError, UserError, calling, check_int, is_own, kind_of, name_of

if TYPE_CHECKING:
    from ..disk import Json

Params = Any
"""A pytree of arrays. For a linear policy it is one array of shape (features, outputs)."""


class Policy(eqx.Module):
    """A map from parameters and inputs to outputs: a mean action, or the logits of a distribution.

    A policy is its architecture and nothing else: it is static, hashable data; the parameters are passed in.
    """

    name: ClassVar[str]
    minibatch: ClassVar[int] = 256
    """Samples (sequences, of a policy with memory) in a step of a solver that draws minibatches."""

    def __init_subclass__(cls, **options: bool) -> None:
        super().__init_subclass__(**options)
        if not hasattr(cls, "name"):
            cls.name = cls.__name__

    @abc.abstractmethod
    def init(self, key: Array, features: int, outputs: int, dtype: DTypeLike | None = None) -> Params:
        """The first parameters, for inputs of `features` numbers and `outputs` action dimensions."""

    @abc.abstractmethod
    def apply(self, params: Params, inputs: Array) -> Array:
        """Outputs (n, k) for inputs (n, …)."""

    @property
    def memory(self) -> int:
        """How many numbers it carries from one step of an episode to the next. With any, `apply` takes
        sequences of rows (n, l, features), and `step` one row of each of n episodes; the last feature is 1
        where an episode begins. Its fields `length` and `burn` say how long the sequences are.
        """
        return 0

    def step(self, params: Params, state: Array, rows: Array) -> tuple[Array, Array]:
        """The next states (n, memory) and outputs (n, k), from the last states and rows (n, features)."""
        return state, self.apply(params, rows)

    @property
    def linear(self) -> bool:
        """Whether outputs are `design(inputs) @ params`, so that convex losses stay convex.

        A class made from a linear one that overrides `apply` alone is not: `design` knows nothing of it.
        """
        return False

    def design(self, inputs: Array) -> Array:
        """The feature rows (n, d) of a linear policy."""
        raise TypeError(f"the {self.name} policy is not linear in its parameters")

    def lessen_inputs(self, params: Params, by: Array) -> Params:
        """The parameters with the weights of every input, as one vector, shortened by `by` times the square
        root of their number, to zero where they are shorter: the proximal step of a group lasso.
        """
        raise UserError(f"lasso: the policy {self.name!r} has no weights of single inputs; mlp has.")

    def config(self) -> dict[str, Json]:
        """The architecture as plain data; `policies.from_config` reads it back.

        A class goes by the name under which it is registered, else by its own. One that only inherits a name
        goes by that of the class: it may compute something else than the policy it was made from.
        """
        from . import POLICIES

        kind = type(self)
        own = self.name if "name" in vars(kind) else kind.__name__
        name = next((name for name, maker in POLICIES.makers.items() if maker is kind), own)
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        for field, value in fields.items():
            if callable(value):
                raise UserError(
                    f"policy {name!r}: its field {field} holds {name_of(value)!r}, which the policy's file "
                    "cannot keep; give a text or a number, and choose by it in apply."
                )
        return {"policy": name, **{k: list(v) if isinstance(v, tuple) else v for k, v in fields.items()}}


def first_params(
    policy: Policy,
    key: Array,
    features: int,
    outputs: int,
    dtype: DTypeLike | None = None,
    *,
    rows: DTypeLike = float,
) -> Params:
    """What `init` returns. A user's own policy whose parts do not go together is refused in one sentence;
    `rows` is the type of its inputs.
    """
    if not is_own(policy):
        return policy.init(key, features, outputs, dtype)
    kind, more = type(policy), () if dtype is None else (dtype,)
    who = f"policy {kind.__name__!r}:"
    for field in dataclasses.fields(policy):
        leaves = jax.tree.leaves(getattr(policy, field.name))
        if not field.metadata.get("static") and not all(map(eqx.is_array_like, leaves)):
            raise ContractError(
                f"{who} its field {field.name} holds {kind_of(leaves[0])}; declare what is no array with "
                f"{field.name}: … = eqx.field(static=True)."
            )
    with calling("policy", kind, "init with (key, features, outputs)"):
        params = policy.init(key, features, outputs, *more)
    strange = [leaf for leaf in jax.tree.leaves(params) if not eqx.is_array_like(leaf)]
    if strange or not jax.tree.leaves(params):
        what = f"hold {name_of(strange[0])!r}, which is no array" if strange else "hold no array"
        raise ContractError(
            f"{who} the parameters that its init returned {what}; a tree of arrays is expected, such as a "
            "dict, a list, or eqx.filter(module, eqx.is_array)."
        )
    if not policy.memory:  # else its rows come in sequences
        with calling("policy", kind, f"apply to inputs of shape (2, {features})"):
            found = eqx.filter_eval_shape(policy.apply, params, jax.ShapeDtypeStruct((2, features), rows))
        shape = getattr(found, "shape", kind_of(found))
        if shape != (2, outputs):
            raise ContractError(
                f"{who} its apply returned {shape} for inputs of shape (2, {features}); outputs of shape "
                f"(2, {outputs}) are expected."
            )
    return params


def given_by(policy: Policy, method: str) -> int:
    """Which class the policy has a method from: 0 its own, 1 the one that this was made from, …"""
    return next(i for i, kind in enumerate(type(policy).__mro__) if method in vars(kind))


def norm(params: Params) -> Array:
    """||params||, over all layers at once: a sum for every layer would be one more to compile.

    >>> float(norm([jnp.array([3.0]), jnp.array([[0.0, 4.0]])]))
    5.0
    """
    leaves = jax.tree.leaves(params)
    return optax.tree.norm(leaves[0] if len(leaves) == 1 else ravel_pytree(params)[0])


def flat(values: Array) -> Array:
    """Rows (…, k) as (n, k): those of sequences one after another."""
    return values.reshape(-1, values.shape[-1])


def numbers(inputs: Array, dtype: DTypeLike | None = None) -> Array:
    """Inputs (n, …) as rows (n, features) of floats; bytes, as in images, become fractions of 255."""
    rows = inputs.reshape(inputs.shape[0], math.prod(inputs.shape[1:]))  # there may be no row at all
    if rows.dtype != jnp.uint8:
        return rows
    dtype = dtype or jnp.result_type(float)
    return rows.astype(dtype) / jnp.asarray(255, dtype)


def _zeros(key: Array, shape: tuple[int, ...], dtype: DTypeLike | None) -> Array:
    """``jnp.zeros(shape, dtype)``; from the host, without a program to compile, unless the key is traced."""
    if isinstance(key, Tracer):
        return jnp.zeros(shape, dtype)
    return jax.device_put(np.zeros(shape, jnp.result_type(float) if dtype is None else dtype))


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
        return _zeros(key, (features + self.bias, outputs), dtype)

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
        check_int("states", self.states)

    def init(self, key: Array, features: int, outputs: int, dtype: DTypeLike | None = None) -> Params:
        return _zeros(key, (self.states, outputs), dtype)

    def _numbers(self, inputs: Array) -> Array:
        return inputs.reshape(inputs.shape[0]).astype(jnp.int32)

    def design(self, inputs: Array) -> Array:
        dtype = jnp.result_type(float)
        return jax.nn.one_hot(self._numbers(inputs), self.states, dtype=dtype)

    def apply(self, params: Params, inputs: Array) -> Array:
        return params[self._numbers(inputs)]
