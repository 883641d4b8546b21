"""The live certificate: an upper bound on the regret from running sums alone.

For losses convex in w, any schedule and any comparator u, exact or inexact solves:

    R_T(u) ≤ Σ_t δ_t + Σ_t (σ_t/2) ||u − w_t||²,    δ_t = most that F_t + ψ_t can fall below its value at w_t.

Proof. Let G_t = Σ_{i≤t} l_i + ψ_t with ψ_t = Σ_{i≤t} (σ_i/2)||· − w_i||², m_t = min G_t, m_0 = 0. The new
terms of round t give G_t(w_t) = G_{t−1}(w_t) + l_t(w_t) ≥ m_{t−1} + l_t(w_t), so l_t(w_t) ≤ (m_t − m_{t−1}) +
(G_t(w_t) − m_t). Summing, Σ l_t(w_t) ≤ m_T + Σ δ_t ≤ G_T(u) + Σ δ_t, which is the claim. The gradient of G_t
at w_t is g_t + r_t, with r_t the gradient of G_{t−1} that the last solve left (the penalty's new term is flat
at w_t), so δ_t ≤ ||g_t + r_t||² / 2Λ_t, and for quadratic losses δ_t = ½ (g_t + r_t)ᵀ H_t⁺ (g_t + r_t)
exactly. No term for the last residual is needed. On a ball the same holds with r_t the residual of the
Lagrangian. Linearised learners play G with <g_i, ·> in place of l_i, whose regret is an upper bound by
convexity; there δ_t = Σ g_t²/2Λ_t, and curvature of the true losses must not be used.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

from ..learners import Learner, LearnerState
from ..learners.base import broadcast
from ..objectives import Losses, Statistics
from ..policies import Params


class Running(NamedTuple):
    """Σ δ_t, and Σ σ_t ||w_t − c_t||² about the mean c_t; with the learner's c_t and Λ_t, every distance."""

    stability: Array
    spread: Array
    gap: Array
    """What the last solve may have missed of its minimum, for the whole objective (non-smooth losses)."""


def start(params: Params) -> Running:
    zero = jnp.zeros((), jax.tree.leaves(params)[0].dtype)
    return Running(zero, zero, zero)


def advance(
    running: Running,
    learner: Learner,
    old: LearnerState,
    new: LearnerState,
    losses: Losses,
    gradient: Params,
    gap: Array,
) -> Running:
    """The sums after a round: `old` and `new` are the learner's states around it, `losses` hold the round."""
    total = optax.tree.add(gradient, old.residual)
    if learner.linear:
        fall = _fall(gradient, new.weight)
    elif isinstance(losses, Statistics):
        fall = losses.decrease(total, new.weight)
    else:
        fall = _fall(total, new.weight)
    before, after = broadcast(old.weight, old.params), broadcast(new.weight, old.params)

    def moved(w: Array, c: Array, a: Array, b: Array) -> Array:
        # Welford: Σσ||w − c||² grows by σ Λ_{t−1}/Λ_t ||w_t − c_{t−1}||².
        return jnp.sum(jnp.where(b > 0, (b - a) * a / jnp.where(b > 0, b, 1.0), 0.0) * (w - c) ** 2)

    spread = sum(jax.tree.leaves(jax.tree.map(moved, old.params, old.centre, before, after)))
    return Running(running.stability + fall + running.gap, running.spread + spread, gap)


def bound(running: Running, state: LearnerState, comparator: Params) -> Array:
    """The certified bound on the regret against `comparator`; `state` is the learner's after the round."""
    weight = broadcast(state.weight, comparator)
    away = jax.tree.map(lambda u, c, a: jnp.sum(a * (u - c) ** 2), comparator, state.centre, weight)
    return running.stability + 0.5 * (sum(jax.tree.leaves(away)) + running.spread)


def _fall(gradient: Params, weight: Params) -> Array:
    """``Σ_j g_j² / 2Λ_j``, infinite where there is a gradient and no weight."""

    def one(g: Array, each: Array) -> Array:
        safe = jnp.where(each > 0, g**2 / jnp.where(each > 0, 2 * each, 1.0), jnp.where(g == 0, 0.0, jnp.inf))
        return jnp.sum(safe)

    return sum(jax.tree.leaves(jax.tree.map(one, gradient, broadcast(weight, gradient))))  # type: ignore[return-value]


class Certificate(NamedTuple):
    """Measured regret, a bound on it, and the constants the bound was made of.

    `kind` is "certificate" where the assumptions hold (convex in the parameters, gradients measured), else
    "estimate": the numbers are then those of the best policy found, and prove nothing.
    """

    regret: float
    bound: float
    constants: dict[str, float]
    kind: str

    @property
    def holds(self) -> bool:
        """Whether the measured regret is within the bound, to rounding."""
        return bool(self.regret <= self.bound + 1e-9 * (1.0 + abs(self.bound)))
