"""Linear policy, squared loss: the sum of all rounds is one small triangular matrix."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array

from ..data import Batch
from ..losses import Squared
from ..policies import Params, Policy


class Statistics(eqx.Module):
    """``F_t(W) = ||R W − Z||² + rest`` for the linear policy and squared loss; no data is kept.

    `factor` is the triangular factor of all weighted rows [X Y] so far, of shape (d + k, d + k):

        [R Z]    R (d, d), Z (d, k), and rest = ||E||², the part of Y that no W explains.
        [0 E]

    A round is added by one QR factorisation of the factor with the round's rows below it. The Gram matrix
    XᵀX, whose condition number is the square of this one's, is never formed.
    """

    policy: Policy
    loss: Squared
    factor: Array
    rounds: Array
    features: int = eqx.field(static=True)

    def add(self, batch: Batch) -> Statistics:
        rows = jnp.concatenate([self.policy.design(batch.inputs), batch.targets], axis=1)
        scaled = rows * jnp.sqrt(self.loss.scale * batch.weights)[:, None]
        factor = triangle(self.factor, scaled.astype(self.factor.dtype))
        return Statistics(self.policy, self.loss, factor, self.rounds + 1, self.features)

    @property
    def triangle(self) -> Array:
        return self.factor[: self.features, : self.features]

    @property
    def image(self) -> Array:
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
        """SVD of R and which singular values count, (U, s, Vᵀ, kept): those above d·eps times the largest."""
        left, size, right = jnp.linalg.svd(self.triangle)
        cutoff = size[0] * self.features * jnp.finfo(size.dtype).eps
        return left, size, right, size > cutoff

    def minimiser(self, centre: Params, tilt: Params, weight: Array) -> tuple[Params, Array]:
        """The W nearest to C with least ``F(W) − <W − C, tilt> + weight/2 ||W − C||²``; whether it exists.

        In the singular basis of R each coordinate of W − C is ``(2 s (Uᵀ(Z − R C)) + Vᵀ tilt) / (2 s² + λ)``
        with λ the weight; directions without curvature stay where the centre is.
        """
        left, size, right, kept = self.spectrum()
        error = left.T @ (self.image - self.triangle @ centre)
        push = right @ tilt
        s = jnp.where(kept, size, 0.0)[:, None]
        curvature = 2.0 * s**2 + weight
        flat = curvature <= 0
        safe = jnp.where(flat, 1.0, curvature)
        # Without weight the quotient is error/s: dividing by s² would square the condition number.
        plain = jnp.where(s > 0, error / jnp.where(s > 0, s, 1.0), 0.0) + push / safe
        damped = (2.0 * s * error + push) / safe
        step = jnp.where(flat, 0.0, jnp.where(weight > 0, damped, plain))
        limit = 1e3 * jnp.finfo(size.dtype).eps * (1.0 + jnp.max(jnp.abs(tilt)))
        exists = ~jnp.any(flat & (jnp.abs(push) > limit))
        return centre + right.T @ step, exists

    def decrease(self, gradient: Params, weight: Array) -> Array:
        """How far F + weight/2||·||² can fall below a point with this gradient: exactly ``½ gᵀ H⁺ g``."""
        _, size, right, kept = self.spectrum()
        push = right @ gradient
        curvature = 2.0 * jnp.where(kept, size, 0.0)[:, None] ** 2 + weight
        limit = 1e3 * jnp.finfo(size.dtype).eps * (1.0 + size[0])
        blocked = jnp.any((curvature <= 0) & (jnp.abs(push) > limit))
        terms = jnp.where(curvature > 0, push**2 / jnp.where(curvature > 0, curvature, 1.0), 0.0)
        return jnp.where(blocked, jnp.inf, 0.5 * jnp.sum(terms))


def triangle(factor: Array, rows: Array) -> Array:
    """The triangular factor of `factor` with `rows` below it: QR of blocks of rows, then of their factors.

    As stable as one QR, and its blocks are too small for LAPACK to share among threads: for a thousand rows
    of 15 numbers those spent 37 ms on two busy cores where the work itself is 0.2 ms.
    """
    count, width = rows.shape
    block = max(2 * width, 4096 // width)
    if count > block:
        blocks = -(-count // block)
        padded = jnp.pad(rows, ((0, blocks * block - count), (0, 0)))
        factors = jnp.linalg.qr(padded.reshape(blocks, block, width), mode="r")
        rows = factors.reshape(blocks * width, width)
    return jnp.linalg.qr(jnp.concatenate([factor, rows]), mode="r")


def empty_statistics(policy: Policy, loss: Squared, params: Params) -> Statistics:
    """Statistics of no rounds, for parameters (d, k)."""
    features, outputs = np.shape(params)
    size = features + outputs
    none = jnp.zeros((), jnp.int32)
    return Statistics(policy, loss, jnp.zeros((size, size), params.dtype), none, features)
