"""The one problem that every offline learner hands to a solver."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import Array

from ..policies import Params
from .counts import Counts
from .samples import Samples
from .statistics import Statistics

Losses = Samples | Statistics | Counts
"""The sum of the rounds' losses so far: kept as data, as streaming statistics, or as label counts."""


class Objective(eqx.Module):
    """The mean objective ``J(w) = [F_t(w) − <w − c, tilt> + (weight/2) ||w − c||²] / t``.

    Written around a centre c the penalty stays well scaled however large the weight; with ``tilt + weight·c``
    for the tilt it is the uncentred form ``F_t(w) − <w, tilt> + (weight/2)||w||²`` up to a constant. Dividing
    by the number of rounds gives tolerances and step sizes one meaning in every round. FTL: weight 0, tilt 0.
    """

    losses: Losses
    centre: Params
    tilt: Params
    weight: Array
    penalised: bool = eqx.field(static=True, default=True)
    """False: tilt and weight are known to be zero, and nothing is compiled for them."""

    @property
    def rounds(self) -> Array:
        return jnp.maximum(self.losses.rounds, 1).astype(jnp.result_type(self.weight))

    def penalty(self, params: Params) -> Array:
        """``−<w − c, tilt> + (weight/2) ||w − c||²``, not divided by the rounds."""
        if not self.penalised:
            return jnp.zeros_like(self.weight)
        away = optax.tree.sub(params, self.centre)
        return 0.5 * self.weight * optax.tree.vdot(away, away) - optax.tree.vdot(away, self.tilt)

    def penalty_gradient(self, params: Params) -> Params:
        if not self.penalised:
            return optax.tree.zeros_like(params)
        return jax.tree.map(lambda w, c, b: self.weight * (w - c) - b, params, self.centre, self.tilt)

    def value(self, params: Params) -> Array:
        return (self.losses.value(params) + self.penalty(params)) / self.rounds

    def value_and_gradient(self, params: Params) -> tuple[Array, Params]:
        value, gradient = self.losses.value_and_gradient(params)
        return self._whole(params, value, gradient)

    def gradient(self, params: Params) -> Params:
        return self.value_and_gradient(params)[1]

    def hessian_vector(self, params: Params, vector: Params) -> Params:
        product = self.losses.hessian_vector(params, vector)
        return jax.tree.map(lambda h, v: (h + self.weight * v) / self.rounds, product, vector)

    def hessian(self, params: Params, basis: Array | None = None) -> Array:
        """Over the flattened parameters, (p, p); with a `basis`, on kept samples, over V in W = basis V."""
        if basis is not None:
            assert isinstance(self.losses, Samples)
            outputs = jnp.eye(jax.tree.leaves(params)[0].shape[1], dtype=basis.dtype)
            weight = self.weight * jnp.kron(basis.T @ basis, outputs)
            return (self.losses.hessian(params, basis) + weight) / self.rounds
        dense = self.losses.hessian(params)
        return (dense + self.weight * jnp.eye(dense.shape[0], dtype=dense.dtype)) / self.rounds

    def blocks(self, params: Params) -> Array:
        """The Hessian's diagonal blocks (k, d, d) of a linear policy on kept samples."""
        assert isinstance(self.losses, Samples)
        dense = self.losses.blocks(params)
        return (dense + self.weight * jnp.eye(dense.shape[1], dtype=dense.dtype)) / self.rounds

    def minibatch_value_and_gradient(
        self, params: Params, rows: tuple[Array, Array, Array]
    ) -> tuple[Array, Params]:
        """An unbiased estimate from `rows`; tilt and weight belong to the sum, so they are divided by t."""
        assert isinstance(self.losses, Samples)
        value, gradient = self.losses.minibatch_value_and_gradient(params, rows)
        return self._whole(params, value, gradient)

    def _whole(self, params: Params, value: Array, gradient: Params) -> tuple[Array, Params]:
        pull = self.penalty_gradient(params)
        total = jax.tree.map(lambda g, p: (g + p) / self.rounds, gradient, pull)
        return (value + self.penalty(params)) / self.rounds, total

    def within(self, multiplier: Array) -> Objective:
        """``J + (multiplier/2t) ||w||²``: again of this form, with more weight and a nearer centre."""
        heavier = self.weight + multiplier
        share = jnp.where(heavier > 0, self.weight / jnp.where(heavier > 0, heavier, 1.0), 1.0)
        return Objective(self.losses, optax.tree.scale(share, self.centre), self.tilt, heavier)


def plain(losses: Losses, params: Params) -> Objective:
    """``F_t / t`` alone: FTL's problem, and the one that defines the best policy in hindsight."""
    weight = jnp.zeros((), jax.tree.leaves(params)[0].dtype)
    return Objective(losses, params, optax.tree.zeros_like(params), weight, penalised=False)
