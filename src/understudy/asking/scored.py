"""Rules that give every state a score: the highest of a round are asked about, or those above a quantile. The
score of one is here: how much networks disagree that were trained on the same labels.
"""
# optax has no types, nor have functions of JAX that take trees.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import abc
import dataclasses
import functools
import math
from collections.abc import Callable
from typing import final

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from ..errors import UserError
from ..losses import Loss
from ..policies import MLP, Params, Policy
from .base import Asked, Gate, Informed, View, beside, share, whole

Score = Callable[[np.ndarray], np.ndarray]
"""From rows (n, width) to their scores (n,): the higher, the more there is to learn."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scored(Informed, abc.ABC):
    """Shared by the rules with a score.

    `number` ≥ 1 is how many states of a round are asked about: those with the highest scores. Below 1 it is
    a share α, and the threshold is the (1 − α) quantile of `calibration`; how many states lie above it
    differs from round to round. `random_share` of the labels is asked at random among the other
    states, so that every state has a probability above 0; without it the losses are means over the asked.
    `mix` is such a share too, but its labels weigh as much as the others: the losses are means over the asked
    still, and the policy learns more of where it usually is. Where `number` ≥ 1, states shortly before a
    terminal state are passed over if there are enough others, unless `falls`; `random_share` draws them.

    On the spot (``moment="spot"``, α only) the expert takes over where the score is above that threshold, set
    from the round before, and drives until it has fallen to `release` times it: SafeDAgger with `release` 1,
    LazyDAgger below.
    """

    number: float
    random_share: float = 0.0
    mix: float = 0.0
    release: float = 0.5
    falls: bool = False

    def __post_init__(self):
        if not (isinstance(self.number, float) and 0 < self.number < 1):
            object.__setattr__(self, "number", whole("the number", self.number))
        for name in ("random_share", "mix"):
            object.__setattr__(self, name, share(name, getattr(self, name), zero=True))
        if self.random_share and self.mix:
            raise UserError(
                f"ask: mix {self.mix!r} does not go with a random_share of {self.random_share!r}; "
                "give one of them."
            )
        object.__setattr__(self, "release", share("release", self.release))

    @property
    def count(self) -> int | None:
        return int(self.number) if self.number >= 1 else None

    @abc.abstractmethod
    def score(self, view: View) -> Score:
        """The score, made once a round from what is known."""

    def calibration(self, view: View, score: Score) -> np.ndarray:
        """Scores whose quantile is the threshold: by default those of the round's own states, as
        ThriftyDAgger sets its thresholds.
        """
        return score(view.rows)

    def threshold(self, view: View, score: Score) -> float:
        """The (1 − α) quantile of the calibration's scores: a score above it is asked about."""
        found = self.calibration(view, score)
        return float(np.quantile(found, 1.0 - self.number)) if len(found) else -math.inf

    def gate(self, view: View) -> Gate:
        """When the expert takes over in a round; the view's rows are the states of the round before."""
        score = self.score(view)
        high = self.threshold(view, score)
        return Gate(score, high, self.release * high)

    def highest(self, view: View, count: int) -> np.ndarray:
        """The numbers of the `count` states that are asked about."""
        scores = self.score(view)(view.rows)
        return np.argsort(-scores, kind="stable")[:count]

    def choose(self, view: View) -> Asked:
        n = len(view.rows)
        if self.count is not None:
            count = min(self.count, view.most, n)
            random = min(math.ceil((self.random_share or self.mix) * count), count)
            spared = np.zeros(n, bool) if view.lost is None or self.falls else view.lost
            if np.count_nonzero(~spared) < (count if self.mix else count - random):
                spared = np.zeros(n, bool)  # the others are not enough
            rows = np.flatnonzero(~spared)
            found = self.highest(dataclasses.replace(view, rows=view.rows[rows], lost=None), count - random)
            return beside(np.sort(rows[found]), random, n, view.rng, never=spared if self.mix else None)
        score = self.score(view)
        above = np.flatnonzero(score(view.rows) > self.threshold(view, score))
        return self.above(above, view)


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
