"""Ask about the states on which networks that were trained on the same labels disagree."""
# optax has no types, nor have functions of JAX that take trees.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import dataclasses
import functools
from typing import final

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from ..losses import Loss
from ..policies import MLP, Params, Policy
from .base import View, whole
from .scored import Score, Scored


@final
@dataclasses.dataclass(frozen=True, kw_only=True)
class Disagreement(Scored):
    """The variance of `members` small networks at a state, summed over outputs (over probabilities where
    actions are choices).

    Every round they are trained anew on the labels so far, each from its own start and on its own bootstrap
    sample, all in one vmapped program of `steps` steps of Adam. The minibatches are gathered on the host, so
    that one program serves all rounds however many labels there are.
    """

    members: int = 5
    steps: int = 300
    batch: int = 64
    width: int = 64

    def __post_init__(self):
        super().__post_init__()
        for field in ("members", "steps", "batch", "width"):
            object.__setattr__(self, field, whole(field, getattr(self, field)))

    def score(self, view: View) -> Score:
        if not len(view.known):
            return lambda rows: np.ones(len(rows))
        policy = _member(view.policy, self.width)
        own = view.rng.integers(len(view.known), size=(self.members, len(view.known)))
        drawn = view.rng.integers(len(view.known), size=(self.steps, self.members, self.batch))
        index = own[np.arange(self.members)[:, None], drawn]
        params = _train(
            policy,
            view.loss,
            jax.random.split(jax.random.key(int(view.rng.integers(1 << 31))), self.members),
            view.known[index].astype(np.float32),
            view.targets[index].astype(np.float32),
        )

        def score(rows: np.ndarray) -> np.ndarray:
            padded = np.zeros((-(-len(rows) // 64) * 64, rows.shape[1]), np.float32)  # few shapes to compile
            padded[: len(rows)] = rows
            outputs = np.asarray(_outputs(policy, params, padded), np.float64)[:, : len(rows)]
            if view.loss.categorical:
                outputs = np.exp(outputs - outputs.max(axis=2, keepdims=True))
                outputs /= outputs.sum(axis=2, keepdims=True)
            return outputs.var(axis=0).sum(axis=1)

        return score


def _member(policy: Policy, width: int) -> MLP:
    """A small network with the head of the policy."""
    if isinstance(policy, MLP):
        return dataclasses.replace(policy, widths=(width, width))
    return MLP(widths=(width, width))


@functools.partial(jax.jit, static_argnums=(0, 1))
def _train(policy: MLP, loss: Loss, keys: Array, inputs: Array, targets: Array) -> Params:
    """Parameters of all members; inputs (steps, members, batch, width), targets likewise."""
    steps, rule = inputs.shape[0], optax.scale_by_adam()

    def mean(params: Params, x: Array, y: Array) -> Array:
        return jnp.mean(jax.vmap(loss)(policy.apply(params, x), y))

    def member(key: Array, inputs: Array, targets: Array) -> Params:
        start = policy.init(key, inputs.shape[-1], targets.shape[-1], jnp.float32)

        def step(
            carry: tuple[Params, optax.OptState, Array], rows: tuple[Array, Array]
        ) -> tuple[tuple[Params, optax.OptState, Array], None]:
            params, memory, k = carry
            gradient = jax.grad(mean)(params, *rows)
            scaled, memory = rule.update(gradient, memory)
            rate = 3e-3 * 0.5 * (1.0 + jnp.cos(jnp.pi * k / steps))
            return (optax.tree.add_scale(params, -rate, scaled), memory, k + 1.0), None

        last, _ = jax.lax.scan(step, (start, rule.init(start), jnp.zeros(())), (inputs, targets))
        return last[0]

    return jax.vmap(member, in_axes=(0, 1, 1))(keys, inputs, targets)


@functools.partial(jax.jit, static_argnums=0)
def _outputs(policy: MLP, params: Params, rows: Array) -> Array:
    return jax.vmap(policy.apply, in_axes=(0, None))(params, rows)
