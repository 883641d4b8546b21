"""Sums of rounds that keep no data: a small triangular matrix (linear policy, squared loss), or a table of
label counts (tabular policy, cross-entropy).
"""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportMissingTypeStubs=false
# JAX and optax say little of the types of their trees.

from __future__ import annotations

import dataclasses
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from jaxtyping import Float

from ..losses import CrossEntropy, Squared
from ..policies import Params, Policy
from .objective import Batch, epsilon, tiny, triangle, zeros


class Statistics(eqx.Module):
    """``F_t(W) = ||R W − Z||² + rest`` for the linear policy and squared loss; no data is kept.

    `factor` is the triangular factor of all weighted rows [X Y] so far, of shape (d + k, d + k):

        [R Z]    R (d, d), Z (d, k), and rest = ||E||², the part of Y that no W explains.
        [0 E]

    A round is added by one QR factorisation of the factor with the round's rows below it. The Gram matrix
    XᵀX, whose condition number is the square of this one's, is never formed.

    A computed factor is the exact one of rows [X + ΔX, Y + ΔY] with ||ΔX|| and ||ΔY|| at most `rounding` (2,)
    (Higham 2002, theorem 19.4: in a Householder QR of m rows every column is off by m·n roundings of its own
    size), so that the computed √F(W) is within ``||ΔX|| ||W|| + ||ΔY||`` of the true one for all W.
    """

    policy: Policy
    loss: Squared
    factor: Float[Array, "d+k d+k"]
    rounds: Array
    rounding: Float[Array, " 2"]
    features: int = eqx.field(static=True)

    def add(self, batch: Batch) -> Statistics:
        rows = jnp.concatenate([self.policy.design(batch.inputs), batch.targets], axis=1)
        scaled = rows * jnp.sqrt(self.loss.scale * batch.weights)[:, None]
        factor = triangle(self.factor, scaled.astype(self.factor.dtype))
        lost = 2.0 * (rows.shape[0] + factor.shape[0]) * factor.shape[0] * epsilon(factor)
        rounding = self.rounding + lost * _sizes(factor, self.features)
        return dataclasses.replace(self, factor=factor, rounds=self.rounds + 1, rounding=rounding)

    @property
    def triangle(self) -> Float[Array, "d d"]:
        return self.factor[: self.features, : self.features]

    @property
    def image(self) -> Float[Array, "d k"]:
        return self.factor[: self.features, self.features :]

    @property
    def rest(self) -> Array:
        return jnp.sum(self.factor[self.features :, self.features :] ** 2)

    def value(self, params: Params) -> Array:
        return jnp.sum((self.triangle @ params - self.image) ** 2) + self.rest

    def gradient(self, params: Params) -> Params:
        return 2.0 * self.triangle.T @ (self.triangle @ params - self.image)

    def value_and_gradient(self, params: Params) -> tuple[Array, Params]:
        error = self.triangle @ params - self.image
        return jnp.sum(error**2) + self.rest, 2.0 * self.triangle.T @ error

    def hessian_vector(self, params: Params, vector: Params) -> Params:
        return 2.0 * self.triangle.T @ (self.triangle @ vector)

    def hessian(self, params: Params) -> Array:
        return jnp.kron(2.0 * self.triangle.T @ self.triangle, jnp.eye(params.shape[1], dtype=params.dtype))

    def spectrum(self) -> tuple[Array, Array, Array, Array]:
        """SVD of R and which singular values count, (U, s, Vᵀ, counts): those above d·eps times the
        largest.
        """
        left, size, right = jnp.linalg.svd(self.triangle)
        cutoff = size[0] * self.features * epsilon(size)
        return left, size, right, size > cutoff

    def minimiser(self, centre: Params, tilt: Params, weight: Array) -> tuple[Params, Array]:
        """The W nearest to C with least ``F(W) − <W − C, tilt> + weight/2 ||W − C||²``; whether it exists.

        In the singular basis of R each coordinate of W − C is ``(2 s (Uᵀ(Z − R C)) + Vᵀ tilt) / (2 s² + λ)``
        with λ the weight; directions without curvature stay where the centre is.
        """
        left, size, right, counts = self.spectrum()
        error = left.T @ (self.image - self.triangle @ centre)
        push = right @ tilt
        s = jnp.where(counts, size, 0.0)[:, None]
        curvature = 2.0 * s**2 + weight
        flat = curvature <= 0
        safe = jnp.where(flat, 1.0, curvature)
        # Without weight the quotient is error/s: dividing by s² would square the condition number.
        plain = jnp.where(s > 0, error / jnp.where(s > 0, s, 1.0), 0.0) + push / safe
        damped = (2.0 * s * error + push) / safe
        step = jnp.where(flat, 0.0, jnp.where(weight > 0, damped, plain))
        limit = 1e3 * epsilon(size) * jnp.max(jnp.abs(tilt))
        exists = ~jnp.any(flat & (jnp.abs(push) > limit))
        return centre + right.T @ step, exists

    def fall(self, params: Params, centre: Params, weight: Array) -> tuple[Array, Array]:
        """How far ``F + weight/2 ||· − C||²`` can fall from `params`: at most the first number, and the
        second times the distance gone. Rounding is included.

        In the singular basis of R it is ``Σ (2 s ρ + λ v)² / (2 (2 s² + λ))`` with ρ = Uᵀ(R W − Z) and v =
        Vᵀ(W − C): no gradient is divided by a small singular value. Without weight, a direction whose
        singular value is rounding falls by ``2 |ρ| s`` a unit of distance, which is next to nothing.
        """
        left, size, right, counts = self.spectrum()
        error = left.T @ (self.triangle @ params - self.image)
        away = right @ (params - centre)
        s, counts = size[:, None], counts[:, None]
        curvature = 2.0 * s**2 + weight
        # Without weight the quotient is ρ²: dividing by s² would square the condition number.
        push = jnp.abs(2.0 * s * error + weight * away) + math.sqrt(tiny(size))
        damped = push**2 / jnp.where(curvature > 0, 2.0 * curvature, 1.0)
        terms = jnp.where(weight > 0, damped, jnp.where(counts, error**2, 0.0))
        flat = jnp.where((weight > 0) | counts, 0.0, 2.0 * s * error)
        return (jnp.sqrt(jnp.sum(terms)) + self.error(optax.tree.norm(params))) ** 2, jnp.linalg.norm(flat)

    def fall_in_ball(self, gradient: Params, weight: Array, params: Params, radius: Array) -> Array:
        """How far ``F + weight/2 ||· − C||²`` with this gradient at `params` can fall within the ball, at
        most.

        In each direction of the singular basis ``g²/2H``, or ``|g|`` times the diameter where that is less,
        with g as much larger as rounding may have made it smaller.
        """
        _, size, right = jnp.linalg.svd(self.triangle)
        whole = jnp.linalg.norm(self.factor)
        off = (
            2.0 * whole * self.error(optax.tree.norm(params))
            + 32 * epsilon(size) * weight * radius
            + math.sqrt(gradient.size * tiny(size))
        )
        push = jnp.linalg.norm(right @ gradient, axis=1) + off
        curvature = 2.0 * size**2 + weight
        curved = jnp.where(curvature > 0, push**2 / jnp.where(curvature > 0, 2.0 * curvature, 1.0), jnp.inf)
        return jnp.sum(jnp.minimum(curved, 2.0 * radius * push))

    def error(self, norm: Array) -> Array:
        """How far the computed √F(W) may be from the true one where ||W|| = `norm`."""
        size = 4.0 * self.factor.shape[0]
        features, answers = self.rounding + size * epsilon(self.factor) * _sizes(self.factor, self.features)
        # A square below `tiny` counts as zero.
        return features * norm + answers + size * math.sqrt(tiny(self.factor))

    def above(self, params: Params) -> Array:
        """F at `params`, from above."""
        return (jnp.sqrt(self.value(params)) + self.error(optax.tree.norm(params))) ** 2

    def below(self, params: Params, norm: Array) -> Array:
        """A bound below on the least F(W) over ||W|| ≤ norm.

        For every ν ≥ 0 it is ``min_W F(W) + ν/2 (||W||² − norm²)``, a formula in the singular basis. The best
        of three is taken: 0, the square of a singular value that is rounding (so that a direction without
        data explains nothing), and the multiplier of `params` on the sphere.
        """
        left, size, _, _ = self.spectrum()
        answer = jnp.sum((left.T @ self.image) ** 2, axis=1)
        eps = epsilon(size)
        rounding = 2.0 * (2.0 * self.features * eps * size[0]) ** 2
        pulls = jnp.stack([jnp.zeros_like(rounding), rounding, jnp.linalg.norm(self.gradient(params)) / norm])

        def dual(nu: Array) -> Array:
            half = 0.5 * nu
            left_over = jnp.where(half > 0, half / (size**2 + jnp.where(half > 0, half, 1.0)), 0.0)
            whole = self.rest + jnp.sum(answer * left_over)
            least = jnp.maximum(jnp.sqrt(whole) - self.error(norm), 0.0) ** 2
            return least - half * norm**2 * (1.0 + 16 * eps) - tiny(size)

        return jnp.maximum(jnp.max(jax.vmap(dual)(pulls)), 0.0)


def _sizes(factor: Array, features: int) -> Array:
    """||X|| and ||Y||, (2,), from above where squares underflow."""
    least = math.sqrt(factor.size * tiny(factor))
    sizes = jnp.linalg.norm(factor[:, :features]), jnp.linalg.norm(factor[:, features:])
    return jnp.stack(sizes) + least


def empty_statistics(policy: Policy, loss: Squared, params: Params) -> Statistics:
    """Statistics of no rounds, for parameters (d, k)."""
    features, outputs = np.shape(params)
    size = features + outputs
    none = jax.device_put(np.int32(0))
    return Statistics(policy, loss, zeros((size, size), params), none, zeros((2,), params), features)


class Counts(eqx.Module):
    """``F_t(W) = −Σ_s Σ_a n_sa log softmax(W_s)_a`` for a row of logits per state; no data is kept.

    `table` (states, actions) holds n_sa, the weight of all samples so far that label state s with action a.
    Nothing is lost, and neither memory nor cost grows with the rounds.
    """

    policy: Policy
    loss: CrossEntropy
    table: Float[Array, "states actions"]
    rounds: Array

    def add(self, batch: Batch) -> Counts:
        """The counts with one more round: inputs are state numbers, targets rows of probabilities."""
        states = batch.inputs.reshape(batch.inputs.shape[0]).astype(jnp.int32)
        rows = batch.weights[:, None] * batch.targets.astype(self.table.dtype)
        new = jnp.zeros_like(self.table).at[states].add(rows)
        return dataclasses.replace(self, table=self.table + new, rounds=self.rounds + 1)

    @property
    def totals(self) -> Float[Array, "states 1"]:
        """n_s (states, 1): how much every state weighs."""
        return jnp.sum(self.table, axis=1, keepdims=True)

    def value(self, params: Params) -> Array:
        return self.value_and_gradient(params)[0]

    def gradient(self, params: Params) -> Params:
        return self.value_and_gradient(params)[1]

    def value_and_gradient(self, params: Params) -> tuple[Array, Params]:
        logs = jax.nn.log_softmax(params, axis=1)
        return -jnp.sum(self.table * logs), self.totals * jnp.exp(logs) - self.table

    def hessian_vector(self, params: Params, vector: Params) -> Params:
        chance = jax.nn.softmax(params, axis=1)
        return self.totals * chance * (vector - jnp.sum(chance * vector, axis=1, keepdims=True))

    def hessian(self, params: Params) -> Array:
        """The Hessian over the flattened parameters: a block n_s (diag p − p pᵀ) for every state."""
        chance = jax.nn.softmax(params, axis=1)
        curved = jax.vmap(jnp.diag)(chance) - chance[:, :, None] * chance[:, None, :]
        return jax.scipy.linalg.block_diag(*(self.totals[:, :, None] * curved))

    def frequencies(self) -> tuple[Params, Array, Array]:
        """Logits of the label frequencies, ``inf_W F_t(W) = Σ_s Σ_a n_sa log(n_s / n_sa)``, and whether it is
        attained: a label that a state never had would need the logit −∞, and gets the least that counts.

        >>> table = jnp.asarray([[1.0, 1.0], [0.0, 3.0]])
        >>> _, least, attained = Counts(None, CrossEntropy(), table, jnp.asarray(1)).frequencies()
        >>> round(float(least), 6), bool(attained)
        (1.386294, False)
        """
        seen = self.table > 0
        ratio = jnp.where(seen, self.totals, 1.0) / jnp.where(seen, self.table, 1.0)
        floor = jnp.log(tiny(self.table))
        logits = jnp.where(seen, -jnp.log(ratio), jnp.where(self.totals > 0, floor, 0.0))
        least = jnp.sum(jnp.where(seen, self.table * jnp.log(ratio), 0.0))
        return logits, least, jnp.all(seen | (self.totals <= 0))

    def above(self, params: Params) -> Array:
        """F at `params`, from above."""
        return self.value(params) + self._lost(jnp.linalg.norm(params))

    def below(self, params: Params, norm: Array) -> Array:
        """A bound below on the least F(W) over ||W|| ≤ norm: the larger of the entropy of the labels and
        ``F(V) + <∇F(V), W − V>``, V being `params`.
        """
        value, gradient = self.value_and_gradient(params)
        _, least, _ = self.frequencies()
        straight = value - jnp.vdot(gradient, params) - norm * jnp.linalg.norm(gradient)
        lost = self._lost(jnp.linalg.norm(params) + norm)
        return jnp.maximum(jnp.maximum(least, straight) - lost, 0.0)

    def _lost(self, size: Array) -> Array:
        """What rounding can have changed in F where the parameters have this size: as many roundings as there
        were additions to the table and numbers in it.
        """
        mass = jnp.sum(self.table)
        return 64.0 * (self.rounds + self.table.size) * epsilon(mass) * mass * (40.0 + size)


class Unkept(eqx.Module):
    """No losses at all, only the number of rounds: for a linearised learner that is judged elsewhere."""

    rounds: Array = eqx.field(default_factory=lambda: jnp.zeros((), jnp.int32))

    def add(self, batch: Batch) -> Unkept:
        return Unkept(self.rounds + 1)


def empty_counts(policy: Policy, loss: CrossEntropy, params: Params) -> Counts:
    """Counts of no rounds, for parameters (states, actions)."""
    return Counts(policy, loss, jnp.zeros_like(params), jnp.zeros((), jnp.int32))
