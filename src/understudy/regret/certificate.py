"""The live certificate: an upper bound on the regret from running sums alone.

For losses convex in w, any schedule and any comparator u, exact or inexact solves:

    R_T(u) ≤ Σ_t δ_t + Σ_t (σ_t/2) ||u − w_t||²,    δ_t = most that F_t + ψ_t can fall below its value at w_t.

Proof. Let G_t = Σ_{i≤t} l_i + ψ_t with ψ_t = Σ_{i≤t} (σ_i/2)||· − w_i||², m_t = min G_t, m_0 = 0. The new
terms of round t give G_t(w_t) = G_{t−1}(w_t) + l_t(w_t) ≥ m_{t−1} + l_t(w_t), so l_t(w_t) ≤ (m_t − m_{t−1}) +
(G_t(w_t) − m_t). Summing, Σ l_t(w_t) ≤ m_T + Σ δ_t ≤ G_T(u) + Σ δ_t, which is the claim. The gradient of G_t
at w_t is g_t + r_t, with r_t the gradient of G_{t−1} at w_t (the penalty's new term is flat there), so δ_t ≤
||g_t + r_t||² / 2Λ_t; for quadratic losses δ_t is known exactly. No term for the last residual is needed.

On a ball the minima are over the ball, and r_t may be any ∇G_{t−1}(w_t) + ν w_t with ν ≥ 0: for u in the
ball −ν<w_t, u − w_t> ≥ −ν ||w_t|| (radius − ||w_t||), which is zero on the sphere and charged elsewhere.
Where a solver offers slopes of a loss with kinks, their sum is the gradient of a minorant of F that is
below F at w_t by the `gap`, which is charged.

Linearised learners play G with <g_i, ·> in place of l_i, whose regret is an upper bound by convexity; there
δ_t = Σ g_t²/2Λ_t, and curvature of the true losses must not be used.

With C = Σ l_t(w_t) and any w, C ≤ F(w) + ψ_T(w) + Σ δ_t. So where ``low ≤ min F`` (see `interval`), the
regret against *every* u with ||u|| ≤ B is at most ``Σ δ_t + ψ_T(w) + F(w) − low`` for every w of the domain.
The smaller of two is printed: w the best in hindsight, and w = w_{T+1}, which makes ψ_T(w) + F(w) least (data
that are nearly separable have a best in hindsight far away, and ψ_T is large there).

Residuals and gaps are measured here, not taken from the solver, so a solver that errs makes the
bound large and not false. What rounding can have done is added: to the losses, to the gradients
(at most `reach` times the roundings of a sum), to the steps of linearised learners, to the mean c_t.
"""

# pyright: reportUnknownMemberType=false, reportMissingTypeStubs=false
# JAX and optax say little of the types of their trees.

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from jax.core import Tracer
from jaxtyping import Float

from ..learners import AnyLearner, Learner, LearnerState, Schedule, broadcast
from ..losses import Loss, overridden
from ..objectives import Losses, Samples, Statistics, epsilon, tiny, zeros
from ..policies import Guest, Linear, Params, Policy, Tabular
from ..policies import norm as norm_of
from ..solvers import AnySolver, Unsolved
from .interval import Measured, slopes_at, vanished

if TYPE_CHECKING:
    from ..disk import Json

FACTOR = 10.0
"""Without a domain, intervals and bounds are against comparators up to this many times as long as the longest
parameters seen: a learner's iterates or the best in hindsight."""


def why_not(policy: Policy, loss: Loss, learner: AnyLearner, comparator_solver: AnySolver | None) -> str:
    """Why regret and bound of a game of these parts prove nothing, in one sentence; empty where they do.

    The proof is about the steps, weights and outputs that the shipped classes compute: a learner, a schedule
    or a policy that overrides a part of its class has others. A solver may be anybody's, since what it left
    is measured, and so may a loss, of which the proof needs a few statements (`convex`, `dual`, `least`,
    `steepness`, `curvature`): they are its author's to prove, and `interval` tries them on the data.

    >>> import understudy
    >>> why_not(Linear(), understudy.losses.Squared(), understudy.ftl(), None)
    ''
    >>> why_not(understudy.policies.MLP(), understudy.losses.Squared(), understudy.ftl(), None)
    "the policy 'mlp' is not linear in its parameters: the losses are not convex."
    """
    if policy.memory:
        return (
            f"the policy {policy.name!r} is not linear in its parameters, and its losses are taken "
            "along sequences that begin with an empty memory."
        )
    if isinstance(policy, Guest):
        return f"the student {policy.host.name!r} is computed elsewhere, and nothing is proved about it."
    name = policy.config()["policy"]  # a subclass is not called what it was made from
    if not policy.linear:
        return f"the policy {name!r} is not linear in its parameters: the losses are not convex."
    if not isinstance(policy, Linear | Tabular):
        return f"the policy {name!r} is not one that the proof knows: linear and tabular are."
    if not (loss.convex and loss.own("dual")):
        return f"the loss {type(loss).__name__} gives no conjugate, which a proof needs."
    if not isinstance(learner, Learner):
        return "the learner is not one of the family that the proof is about."
    if isinstance(comparator_solver, Unsolved):
        return "the best policy in hindsight is looked for elsewhere."
    shipped = Linear if isinstance(policy, Linear) else Tabular
    parts = (
        ("policy", policy, shipped),
        ("learner", learner, Learner),
        ("schedule", learner.schedule, Schedule),
    )
    for role, part, kind in parts:
        if other := overridden(type(part), kind):
            return (
                f"the {role} {type(part).__name__} has its own {other!r}, and the proof is about that of "
                f"{kind.__name__}."
            )
    return ""


class Running(NamedTuple):
    """The sums of a run. With the learner's c_t and Λ_t the first two give the bound; the others widen it."""

    stability: Array
    """Σ δ_t, in exact arithmetic."""
    spread: Array
    """Σ σ_t ||w_t − c_t||² about the mean c_t."""
    gap: Array
    """What the slopes behind the residual r_{t+1} miss of F_t(w_{t+1})."""
    norm: Array
    """The largest ||w_t|| so far, w_{t+1} included."""
    wrong: Array
    """How far the computed Σ l_t(w_t) may be from the true one."""
    rounding: Array
    """What rounding can have added to Σ δ_t, …"""
    slope: Array
    """… and what it can add for each unit of the comparator's norm."""
    reach: Array
    """Σ_t Σ_s weight_s ||x_s||."""
    squares: Array
    """Σ_t Σ_s weight_s ||x_s||²."""
    samples: Array
    """Samples so far, padding counted in: the terms of every sum."""


def start(params: Params) -> Running:
    zero = zeros((), jax.tree.leaves(params)[0])
    return Running(**dict.fromkeys(Running._fields, zero) | {"norm": _first_norm(params)})


def _first_norm(params: Params) -> Array:
    """||w_1||: by NumPy, where it is known, since a program takes a third of a second to compile."""
    leaves = jax.tree.leaves(params)
    if any(isinstance(leaf, Tracer) for leaf in leaves):
        return optax.tree.norm(params)
    squares = sum(np.sum(np.square(np.asarray(leaf))) for leaf in leaves)
    return jax.device_put(np.sqrt(squares).astype(leaves[0].dtype))


def residual(
    learner: Learner, state: LearnerState, losses: Losses, dual: Float[Array, "n k"] | None
) -> tuple[LearnerState, Array]:
    """The state with r_{t+1} = ∇G_t(w_{t+1}), measured on all losses; and the gap of its slopes.

    `dual` are slopes that the solver offers for a loss with kinks, each times its sample's weight.
    """
    w, gap = state.params, jnp.zeros((), jnp.result_type(state.params))
    if dual is None or not isinstance(losses, Samples):
        left = losses.gradient(w)
    else:
        left, gap = _minorant(losses, w, dual)
    left = left + state.weight * (w - state.centre)
    if learner.radius is not None:
        square = jnp.vdot(w, w)
        nu = jnp.where(
            square > 0, jnp.maximum(-jnp.vdot(left, w), 0.0) / jnp.where(square > 0, square, 1.0), 0.0
        )
        size = jnp.sqrt(square)
        left, gap = left + nu * w, gap + nu * size * jnp.maximum(learner.radius - size, 0.0)
    return state._replace(residual=left), gap


def _minorant(losses: Samples, w: Array, dual: Array) -> tuple[Array, Array]:
    """Gradient of ``u ↦ Σ_i a_i (<s_i, x_iᵀu> + dual(s_i))`` ≤ F, and how far it is below F at w."""
    loss, weights = losses.loss, jnp.where(losses.used, losses.weights, 0.0)
    slopes = jnp.where(weights[:, None] > 0, dual / jnp.where(weights > 0, weights, 1.0)[:, None], 0.0)
    slopes = jax.vmap(loss.inside)(slopes, losses.targets)
    rows = losses.policy.design(losses.inputs)
    outputs = rows @ w
    below, size = jax.vmap(loss.dual)(slopes, losses.targets)
    values = jax.vmap(loss)(outputs, losses.targets)
    gap = jnp.sum(weights * jnp.maximum(values - jnp.sum(slopes * outputs, axis=1) - below, 0.0))
    lost = (losses.filled + 16) * epsilon(gap) * jnp.sum(weights * (jnp.abs(values) + size))
    lost += vanished(losses.filled + 16, weights, outputs)
    return (rows * weights[:, None]).T @ slopes, gap + lost


def advance(
    running: Running,
    learner: Learner,
    old: LearnerState,
    new: LearnerState,
    losses: Losses,
    gradient: Params,
    gap: Array,
    seen: Measured | None,
    cumulative: Array,
) -> Running:
    """The sums after a round: `old` and `new` are the learner's states around it, `losses` hold the round.

    `gap` belongs to the residual of `new`; without `seen` (networks) nothing is proved, and rounding is not
    counted. `cumulative` is the computed Σ l_t(w_t): adding the round to it was one more rounding.
    """
    proved, none = seen is not None, jnp.zeros_like(running.norm)
    seen = Measured(*[none] * 5) if seen is None else seen
    eps = epsilon(running.norm)
    small = math.sqrt(tiny(running.norm)) if proved else 0.0  # a square below `tiny` counts as zero
    less = small * math.sqrt(optax.tree.size(old.params))  # which a norm may be too small by
    here, there = none, norm_of(new.params)
    if proved or learner.linear:
        here = norm_of(old.params) + less
    reach, squares, samples = (
        getattr(running, n) + getattr(seen, n) for n in ("reach", "squares", "samples")
    )
    slope = none
    if learner.linear:
        fall = _fall(gradient, new.weight, small)
        heaviest = jnp.max(jnp.stack([jnp.max(leaf) for leaf in jax.tree.leaves(new.weight)]))
        # Steps w_t − g_t/Λ_t and projections are rounded too: 32 roundings of w, seen in the norm of the
        # weights.
        step = 32 * eps * heaviest * (here + (there + less))
        rounding = 2 * seen.loss + seen.gradient * here + step * (there + less)
        slope = seen.gradient + step
    elif isinstance(losses, Statistics) and learner.radius is None:
        fall, slope = losses.fall(old.params, new.centre, new.weight)
        rounding = slope * here
    elif isinstance(losses, Statistics):
        total, radius = optax.tree.add(gradient, old.residual), jnp.asarray(learner.radius)
        fall = losses.fall_in_ball(total, new.weight, old.params, radius)
        rounding = none
    else:
        total = norm_of(optax.tree.add(gradient, old.residual))
        off, rounding = _off(losses, old, new, reach, squares, samples) if proved else (none, none)
        heavy = new.weight > 0
        fall = jnp.where(heavy, (total + off) ** 2 / jnp.where(heavy, 2 * new.weight, 1.0), jnp.inf)
        still = (total == 0) & ~heavy  # no gradient yet, and none but rounding
        fall = jnp.where(still, off * here, fall)
        slope = jnp.where(still, off, 0.0)
    before, after = broadcast(old.weight, old.params), broadcast(new.weight, old.params)

    def moved(w: Array, c: Array, a: Array, b: Array) -> Array:
        # Welford: Σσ||w − c||² grows by σ Λ_{t−1}/Λ_t ||w_t − c_{t−1}||².
        safe, product = jnp.where(b > 0, b, 1.0), (b - a) * a
        share = jnp.where(product > 0, product / safe, (b - a) * (a / safe))  # the product may underflow
        return jnp.sum(share * (jnp.abs(w - c) + small) ** 2)

    spread: Array | int = none
    if not learner.schedule.zero:
        spread = sum(jax.tree.leaves(jax.tree.map(moved, old.params, old.centre, before, after)))
    return Running(
        stability=running.stability + fall + running.gap,
        spread=running.spread + spread,
        gap=gap,
        norm=jnp.maximum(running.norm, there),
        wrong=running.wrong + seen.loss + eps * jnp.abs(cumulative),
        rounding=running.rounding + rounding,
        slope=running.slope + slope,
        reach=reach,
        squares=squares,
        samples=samples,
    )


def _off(
    losses: Losses, old: LearnerState, new: LearnerState, reach: Array, squares: Array, samples: Array
) -> tuple[Array, Array]:
    """How far the computed g_t + r_t may be from the gradient of G_t at w_t, and from belonging to w_t."""
    loss, eps, outputs = losses.loss, epsilon(reach), old.params.shape[-1]
    terms, small = samples + old.params.shape[0] + 16, math.sqrt(tiny(reach))
    here = optax.tree.norm(old.params) + small * math.sqrt(old.params.size)
    if math.isfinite(loss.steepness):
        slopes = loss.steepness * math.sqrt(outputs) * reach
    elif loss.floor:  # Σ a |x| |slope| ≤ √(Σ a |x|² · Σ a slope²)
        slopes = jnp.sqrt(squares * _steep(losses, old.params))
    else:  # …, and with curvature L a loss that is not negative has slope² ≤ 2 L loss
        slopes = jnp.sqrt(squares * 2.0 * loss.curvature * losses.value(old.params))
    steps = 4 * new.weight * (here + optax.tree.norm(new.centre)) + 4 * optax.tree.norm(old.residual)
    bent = loss.curvature if math.isfinite(loss.curvature) else 0.0
    each = (old.params.shape[0] + 2) * here  # an output's roundings, for each unit of its features
    # Near a kink the computed slope is that of a point nearby.
    kinks = jnp.zeros_like(reach)
    if not math.isfinite(loss.curvature):
        kinks = 2 * loss.steepness * math.sqrt(outputs) * each * reach
    off = eps * (terms * slopes + bent * each * squares + steps)
    return off + (terms + outputs) * small, eps * kinks


def _steep(losses: Losses, params: Params) -> Array:
    """``Σ a slope²``; infinite for samples in files."""
    if not isinstance(losses, Samples) or losses.reader is not None:
        return jnp.full((), jnp.inf, params.dtype)
    outputs = losses.policy.design(losses.inputs) @ params
    slopes = slopes_at(losses.loss, outputs, losses.targets)
    return jnp.sum(jnp.where(losses.used, losses.weights, 0.0) * jnp.sum(slopes**2, axis=1))


def norm(running: Running, radius: Array | np.ndarray | float | None, comparator: Params) -> Array:
    """B: the interval and the bound are against every comparator of at most this norm.

    The radius of the domain, or `FACTOR` times the largest norm seen; 1 where all parameters are zero.
    """
    if radius is not None:
        return jnp.asarray(radius, running.norm.dtype)
    longest = FACTOR * jnp.maximum(running.norm, optax.tree.norm(comparator))
    return jnp.where(longest > 0, longest, 1.0)


def bound(running: Running, state: LearnerState, comparator: Params, excess: Array, norm: Array) -> Array:
    """The certified bound on the regret against every u with ||u|| ≤ `norm`, rounding included.

    `comparator` is any point of the domain, F there at most `excess` above the least; `state` is that of the
    learner after the round.
    """
    weight, eps, small = broadcast(state.weight, comparator), epsilon(excess), tiny(excess)

    def far(u: Array, c: Array, a: Array) -> Array:
        return jnp.sum(a * (jnp.abs(u - c) + math.sqrt(small)) ** 2)

    away = jax.tree.map(far, comparator, state.centre, weight)
    value = running.stability + 0.5 * (sum(jax.tree.leaves(away)) + running.spread)
    heaviest = jnp.max(jnp.stack([jnp.max(leaf) for leaf in jax.tree.leaves(state.weight)]))
    terms = state.round + optax.tree.size(comparator) + 16
    centre = 4 * heaviest * running.norm * (running.norm + optax.tree.norm(comparator))
    rounding = running.rounding + running.slope * norm + 2 * running.wrong + terms * eps * (value + centre)
    return value + excess + rounding + terms * small


def _fall(gradient: Params, weight: Params, small: float) -> Array:
    """``Σ_j g_j² / 2Λ_j``, infinite where there is a gradient and no weight; g_j may be `small` too small."""

    def fall(g: Array, each: Array) -> Array:
        square = (jnp.abs(g) + small) ** 2
        light = jnp.where(g == 0, 0.0, jnp.inf)
        return jnp.sum(jnp.where(each > 0, square / jnp.where(each > 0, 2 * each, 1.0), light))

    falls: list[Array] = jax.tree.leaves(jax.tree.map(fall, gradient, broadcast(weight, gradient)))
    return functools.reduce(jnp.add, falls)


class Certificate(NamedTuple):
    """Measured regret, an interval that holds the true one, a bound on it, and the constants of the bound.

    `kind` is "certificate" where the assumptions hold (see `why_not`), else "estimate": the numbers are then
    those of the best policy found, and prove nothing.
    Certified are ``low ≤ regret ≤ high`` and ``regret ≤ bound`` for the regret against the best comparator
    of norm at most `norm`.
    """

    regret: float
    bound: float
    constants: dict[str, float]
    kind: str
    low: float = math.nan
    high: float = math.nan
    norm: float = math.nan
    reason: str = ""
    """Why there is no finite certified bound, in one sentence; empty where there is one."""

    def __str__(self) -> str:
        if self.kind != "certificate":
            lines = [f"Estimate of the regret: {self.regret:.6g}; nothing is proved"]
        else:
            lines = [f"Certificate: measured regret {self.regret:.6g}"]
            if math.isfinite(self.high):
                against = f", against policies of norm at most {self.norm:.4g}"
                lines.append(f"  proved  the regret is from {self.low:.6g} to {self.high:.6g}{against}")
            if math.isfinite(self.bound):
                lines.append(f"  bound   {self.bound:.6g}, certified for every round so far")
        return "\n".join([*lines, *([f"  reason  {self.reason}"] if self.reason else [])])

    @property
    def holds(self) -> bool:
        """Whether all of the interval (of an estimate: the measured regret) is within the bound. Numbers that
        contradict each other hold nothing.
        """
        within = (self.regret if math.isnan(self.high) else self.high) <= self.bound
        return bool(within and not self.contradictory)

    @property
    def contradictory(self) -> bool:
        """Whether `low` is above `high` or above `bound`: then what a part states of itself is false.

        >>> Certificate(1.0, 3.0, {}, "certificate", low=2.0, high=1.0).contradictory
        True
        """
        return bool(self.low > self.high or self.low > self.bound)

    def described(self) -> dict[str, Json]:
        """The certificate as plain data for JSON, numbers that are not finite as words; `read` is the way
        back."""

        def spelled(value: str | float) -> str | float:
            return str(value) if isinstance(value, float) and not math.isfinite(value) else value

        plain: dict[str, Json] = {
            name: spelled(value) for name, value in self._asdict().items() if name != "constants"
        }
        return plain | {"constants": {name: spelled(value) for name, value in self.constants.items()}}

    @classmethod
    def read(cls, described: Mapping[str, Any]) -> Certificate:
        """The certificate that `described` came from."""
        words = ("kind", "reason", "constants")
        numbers = {name: float(value) for name, value in described.items() if name not in words}
        constants = {name: float(value) for name, value in described["constants"].items()}
        return cls(**numbers, constants=constants, kind=described["kind"], reason=described["reason"])
