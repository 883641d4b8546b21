"""A network with memory: a gated recurrent unit and an MLP on its state."""

from __future__ import annotations

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import DTypeLike

from .. import threefry
from ..errors import check_int
from .base import Params, Policy
from .mlp import MLP, edges, several


class GRU(Policy):
    """``outputs = mlp([h', x])`` with the state of a gated recurrent unit (Cho et al. 2014),

        [r z n] = x A + a,   [r' z' n'] = h B + b,   r, z = σ(r + r'), σ(z + z'),
        h' = (1 − z) tanh(n + r n') + z h

    as in PyTorch and cuDNN. The last column of a row is 1 where an episode begins: h is 0 there.

    Params are ``{"inputs": {"weight": A (d, 3 width), "bias": a}, "state": {"weight": B (width, 3 width),
    "bias": b}, "mlp": […]}`` for rows of d numbers and the mark. Learning sees sequences of `burn` + `length`
    rows: the first `burn` only warm the state, and gradients flow through all of them (truncated
    back-propagation through time). widths, activation, head, low and high are the MLP's.

    >>> policy = GRU(width=8, widths=(4,))
    >>> params = policy.init(jax.random.key(0), features=3, outputs=2)
    >>> policy.apply(params, jnp.zeros((5, 7, 3))).shape
    (5, 7, 2)
    >>> state, outputs = policy.step(params, jnp.zeros((5, 8)), jnp.zeros((5, 3)))
    >>> state.shape, outputs.shape
    ((5, 8), (5, 2))
    """

    width: int = eqx.field(static=True, default=64)
    widths: tuple[int, ...] = eqx.field(static=True, default=(128,), converter=several)
    length: int = eqx.field(static=True, default=32)
    burn: int = eqx.field(static=True, default=16)
    activation: str = eqx.field(static=True, default="relu")
    head: str = eqx.field(static=True, default="identity")
    low: tuple[float, ...] | None = eqx.field(static=True, default=None, converter=edges)
    high: tuple[float, ...] | None = eqx.field(static=True, default=None, converter=edges)
    name: ClassVar[str] = "gru"
    minibatch: ClassVar[int] = 16

    def __check_init__(self):
        for field, least in (("width", 1), ("length", 1), ("burn", 0)):
            check_int(field, getattr(self, field), least)
        _ = self.mlp

    @property
    def memory(self) -> int:
        return self.width

    @property
    def mlp(self) -> MLP:
        """What sees the state and the row."""
        return MLP(self.widths, self.activation, self.head, self.low, self.high)

    def init(self, key: Array, features: int, outputs: int, dtype: DTypeLike | None = None) -> Params:
        dtype, limit = dtype or jnp.result_type(float), self.width**-0.5
        keys = threefry.split(key, 3)

        def part(key: Array, rows: int) -> dict[str, Array]:
            shape = rows, 3 * self.width
            weight = threefry.uniform(key, shape, dtype, limit)
            return {"weight": weight, "bias": jax.device_put(np.zeros(shape[1], dtype))}

        return {
            "inputs": part(keys[0], features - 1),
            "state": part(keys[1], self.width),
            "mlp": self.mlp.init(keys[2], self.width + features - 1, outputs, dtype),
        }

    def step(self, params: Params, state: Array, rows: Array) -> tuple[Array, Array]:
        x = rows[..., :-1]
        state = self._next(params, state, x @ params["inputs"]["weight"], rows[..., -1:])
        return state, self.mlp.apply(params["mlp"], jnp.concatenate([state, x], axis=-1))

    def _next(self, params: Params, state: Array, seen: Array, fresh: Array) -> Array:
        state = state * (1 - fresh)
        r, z, n = jnp.split(seen + params["inputs"]["bias"], 3, axis=-1)
        own = state @ params["state"]["weight"] + params["state"]["bias"]
        own_r, own_z, own_n = jnp.split(own, 3, axis=-1)
        kept = jax.nn.sigmoid(z + own_z)
        return (1 - kept) * jnp.tanh(n + jax.nn.sigmoid(r + own_r) * own_n) + kept * state

    def apply(self, params: Params, inputs: Array) -> Array:
        """Outputs (n, l, k) along sequences of rows (n, l, features), each from a state of 0."""
        rows = jnp.swapaxes(inputs, 0, 1).astype(params["inputs"]["bias"].dtype)
        x = rows[..., :-1]

        def turn(state: Array, one: tuple[Array, Array]) -> tuple[Array, Array]:
            state = self._next(params, state, *one)
            return state, state

        start = jnp.zeros((rows.shape[1], self.width), rows.dtype)
        # What the rows give is one product for all steps; only the state's is taken step by step.
        _, states = jax.lax.scan(turn, start, (x @ params["inputs"]["weight"], rows[..., -1:]))
        known = jnp.concatenate([states, x], axis=-1)
        outputs = self.mlp.apply(params["mlp"], known.reshape(-1, known.shape[-1]))
        return jnp.swapaxes(outputs.reshape(*rows.shape[:2], -1), 0, 1)
