"""The one problem that every offline learner hands to a solver, and the samples that it is about.

A `Batch` is one round, checked and padded so that every round of a run has one shape; `Samples` add up the
rounds' losses in one buffer that a single compiled program reads whatever the round; an `Objective` is such a
sum with a penalty.
"""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownLambdaType=false
# pyright: reportUnknownVariableType=false, reportMissingTypeStubs=false
# JAX and optax say little of the types of their trees.

from __future__ import annotations

import dataclasses
import itertools
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from jax.core import Tracer
from jax.flatten_util import ravel_pytree
from jax.typing import DTypeLike
from jaxtyping import Float, Int, Shaped

from .. import threefry
from ..losses import Loss
from ..policies import Params, Policy, flat

if TYPE_CHECKING:
    from .statistics import Counts, Statistics

Tree = TypeVar("Tree")
Rows: TypeAlias = "tuple[Array, Array, Array]"
"""Inputs, targets and weights of some samples."""
Losses: TypeAlias = "Samples | Statistics | Counts"
"""The sum of the rounds' losses so far: kept as data, as streaming statistics, or as label counts."""
MANY_PARAMETERS = 1000
"""Parameters from which a Hessian is made pair by pair, in little memory; below, one product is quicker."""
ROWS_A_PIECE, BUSY = 256, 32
"""Rows of a buffer that are read at a time; on an accelerator so many minibatches, which keep it busy."""


class Batch(eqx.Module):
    """The samples of one round: inputs (m, …), targets (m, k) and weights (m,) that sum to 1, or to
    what the round weighs; of a policy with memory, sequences of them: (m, l, …), (m, l, k) and (m, l).

    Rows from `size` on are padding and weigh nothing. The round's loss is ``Σ_s weights_s D(π_w(s),
    π_e(s))``.
    """

    inputs: Shaped[Array, "m ..."]
    """(m, 0) where they are read from the reader of the losses (see `Samples`)."""
    targets: Float[Array, "m ... k"]
    weights: Float[Array, "m ..."]
    size: Int[Array, ""]


Column = Array | np.ndarray


def batch(
    inputs: Column,
    targets: Column,
    weights: Column | None = None,
    *,
    rows: int | None = None,
    dtype: DTypeLike | None = None,
) -> Batch:
    """A `Batch` of `rows` rows (default: no padding); equal weights 1/m unless given. Arrays that are on the
    device stay there.
    """
    size = len(inputs)
    rows = size if rows is None else rows
    weights = np.full(size, 1.0 / size) if weights is None else weights

    def padded(values: Column) -> Array:
        if isinstance(values, Array):
            kind = dtype if jnp.issubdtype(values.dtype, jnp.floating) else None
            more = [(0, rows - size)] + [(0, 0)] * (values.ndim - 1)
            return jnp.pad(values.astype(kind or values.dtype), more)
        values = np.asarray(values)
        kind = dtype if np.issubdtype(values.dtype, np.floating) else None
        full = np.zeros((rows, *values.shape[1:]), kind or values.dtype)
        full[:size] = values
        return jax.device_put(full)

    return Batch(padded(inputs), padded(targets), padded(weights), jax.device_put(np.int32(size)))


def zeros(shape: tuple[int, ...], like: Array) -> Array:
    """Zeros of the dtype of `like`. On a CPU they come from the host: there is no program to compile."""
    if isinstance(like, Tracer) or jax.default_backend() != "cpu":
        return jnp.zeros(shape, like.dtype)
    return jax.device_put(np.zeros(shape, like.dtype))


def epsilon(values: Array) -> float:
    """The rounding unit of the values' type: 1 and 1 + epsilon are neighbours."""
    return float(jnp.finfo(values.dtype).eps)


def tiny(values: Array) -> float:
    """The smallest normal number of the values' type; what is smaller counts as zero."""
    return float(jnp.finfo(values.dtype).tiny)


class Reader(Protocol):
    """Samples that are kept elsewhere, in files too large for memory."""

    def take(self, index: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Inputs, targets and weights of the rows asked for; weight 0 for those beyond the last."""
        ...


_readers: weakref.WeakValueDictionary[int, Reader] = weakref.WeakValueDictionary()
_numbers = itertools.count()


def _number(reader: Reader) -> Array:
    """The number of a reader, by which a program finds it on the host."""
    number = next((number for number, known in _readers.items() if known is reader), None)
    if number is None:
        _readers[number := next(_numbers)] = reader
    return jax.device_put(np.asarray(number, np.int32))


def _take(number: Array, index: Array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return _readers[int(number)].take(np.asarray(index))


class Samples(eqx.Module):
    """The sum of round losses ``F_t(w) = Σ_i l_i(w)``, evaluated on kept data.

    The buffer has a fixed capacity and is read in chunks: a loop runs over the chunks in use, so the cost
    follows the data held while shapes, and hence the compiled program, stay the same in every round.

    With a `reader` the rows are kept elsewhere, in files too large for memory: the buffer is empty, whoever
    calls `add` has written the round there before, and ``reader.take(index)`` gives inputs, targets and
    weights of the rows asked for, weight 0 for those beyond the last. Which reader that is, is a number among
    the data, so one program serves all of them; whoever made a reader keeps it while it is read.
    """

    policy: Policy
    loss: Loss
    inputs: Array
    targets: Array
    weights: Array
    filled: Array
    rounds: Array
    chunk: int = eqx.field(static=True)
    reader: Array | None = None

    @property
    def used(self) -> Array:
        """Which rows of the buffer are in use, (n,)."""
        return jnp.arange(self.weights.shape[0]) < self.filled

    def add(self, batch: Batch) -> Samples:
        """The sum with one more round: its rows go after those in use, its padding is overwritten next."""
        held = self if self.reader is not None else self.put(batch, self.filled)
        return dataclasses.replace(held, filled=self.filled + batch.size, rounds=self.rounds + 1)

    def put(self, batch: Batch, first: Array) -> Samples:
        """The buffer with the rows of a round from row `first` on."""

        def at(buffer: Array, rows: Array) -> Array:
            start = (first,) + (jnp.zeros((), first.dtype),) * (buffer.ndim - 1)
            return jax.lax.dynamic_update_slice(buffer, rows.astype(buffer.dtype), start)

        return dataclasses.replace(
            self,
            inputs=at(self.inputs, batch.inputs),
            targets=at(self.targets, batch.targets),
            weights=at(self.weights, batch.weights),
        )

    def read(self, index: Array) -> Rows:
        """Rows from the reader: a call back to the host, in any order, which always gives the same."""
        buffers = (self.inputs, self.targets, self.weights)
        shapes = tuple(jax.ShapeDtypeStruct((index.shape[0], *b.shape[1:]), b.dtype) for b in buffers)
        return jax.pure_callback(_take, shapes, self.reader, index, vmap_method="sequential")

    def _loss(self, params: Params, inputs: Array, targets: Array, weights: Array) -> Array:
        outputs = flat(self.policy.apply(params, inputs))
        return jnp.sum(weights.reshape(-1) * jax.vmap(self.loss)(outputs, flat(targets)))

    def _chunk(self, index: Array) -> Rows:
        if self.reader is not None:
            return self.read(index * self.chunk + jnp.arange(self.chunk, dtype=index.dtype))

        start = index * self.chunk

        def take(buffer: Array) -> Array:
            return jax.lax.dynamic_slice_in_dim(buffer, start, self.chunk, allow_negative_indices=False)

        return take(self.inputs), take(self.targets), take(self.weights)

    def _over_chunks(self, function: Callable[[Array, Array, Array], Tree]) -> Tree:
        """Σ over the chunks in use of ``function(inputs, targets, weights)``, a pytree."""
        compiled = jax.jit(function, inline=True)  # traced once, for its shapes and for the loop
        shapes = jax.eval_shape(compiled, *self._chunk(jnp.zeros((), self.filled.dtype)))
        zero = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)
        used = jax.lax.div(self.filled + (self.chunk - 1), jnp.full_like(self.filled, self.chunk))
        return jax.lax.fori_loop(
            jnp.zeros_like(used),
            used,
            lambda i, total: optax.tree.add(total, compiled(*self._chunk(i))),
            zero,
        )

    def value(self, params: Params) -> Array:
        return self._over_chunks(lambda *rows: self._loss(params, *rows))

    def value_and_gradient(self, params: Params) -> tuple[Array, Params]:
        return self._over_chunks(lambda *rows: jax.value_and_grad(self._loss)(params, *rows))

    def gradient(self, params: Params) -> Params:
        return self._over_chunks(lambda *rows: jax.grad(self._loss)(params, *rows))

    def hessian_vector(self, params: Params, vector: Params) -> Params:
        def product(*rows: Array) -> Params:
            return jax.jvp(lambda w: jax.grad(self._loss)(w, *rows), (params,), (vector,))[1]

        return self._over_chunks(product)

    def hessian(self, params: Params, basis: Array | None = None) -> Array:
        """The Hessian over the flattened parameters, (p, p): W or, with a `basis`, V in W = basis V."""
        if not self.policy.linear:
            flat, unravel = ravel_pytree(params)
            return self._over_chunks(lambda *rows: jax.hessian(lambda w: self._loss(unravel(w), *rows))(flat))

        if params.size > MANY_PARAMETERS:
            return self._wide_hessian(params, basis)

        def linear(inputs: Array, targets: Array, weights: Array) -> Array:
            # outputs = X W, so the Hessian is Σ_n weight_n (x_n x_nᵀ) ⊗ (the loss's own k × k Hessian).
            rows = self.policy.design(inputs)
            curvature = jax.vmap(jax.hessian(self.loss))(rows @ params, targets) * weights[:, None, None]
            rows = rows if basis is None else rows @ basis
            size = rows.shape[1] * curvature.shape[1]
            half = jnp.einsum("ni,nab->niab", rows, curvature)
            return jnp.einsum("niab,nj->iajb", half, rows).reshape(size, size)

        return self._over_chunks(linear)

    def _wide_hessian(self, params: Params, basis: Array | None = None) -> Array:
        """The same for many features: a matrix product for each pair of outputs, and each pair once."""
        d, k = params.shape
        first, second = np.triu_indices(k)

        def pairs(inputs: Array, targets: Array, weights: Array) -> Array:
            rows = self.policy.design(inputs)
            curvature = jax.vmap(jax.hessian(self.loss))(rows @ params, targets) * weights[:, None, None]
            rows = rows if basis is None else rows @ basis
            columns = rows.T
            return jax.lax.map(lambda share: (columns * share) @ rows, curvature[:, first, second].T)

        number = np.zeros((k, k), int)
        number[first, second] = number[second, first] = np.arange(len(first))
        blocks = self._over_chunks(pairs)[number]  # (k, k, d, d)
        return blocks.transpose(2, 0, 3, 1).reshape(d * k, d * k)

    def blocks(self, params: Float[Array, "d k"]) -> Float[Array, "k d d"]:
        """The Hessian's diagonal blocks of a linear policy, one an output, summed in float32."""

        def block(inputs: Array, targets: Array, weights: Array) -> Array:
            rows = self.policy.design(inputs)
            curvature = jax.vmap(lambda o, t: jnp.diagonal(jax.hessian(self.loss)(o, t)))(
                rows @ params, targets
            )
            rows = rows.astype(jnp.float32)
            scaled = (curvature * weights[:, None]).astype(jnp.float32).T[:, :, None] * rows
            return jnp.einsum("ani,nj->aij", scaled, rows)

        return self._over_chunks(block)

    def minibatch(self, key: Array, size: int) -> Rows:
        """`size` rows drawn with replacement; their weights make the sum an estimate of ``F_t``, unbiased."""
        index = threefry.below(key, size, jnp.maximum(self.filled, 1))
        scale = self.filled.astype(self.weights.dtype) / size
        if self.reader is not None:
            inputs, targets, weights = self.read(index)
            return inputs, targets, weights * scale
        return self.inputs[index], self.targets[index], self.weights[index] * scale

    def minibatch_value_and_gradient(self, params: Params, rows: Rows) -> tuple[Array, Params]:
        return jax.value_and_grad(self._loss)(params, *rows)


def empty_samples(
    policy: Policy,
    loss: Loss,
    like: Batch,
    *,
    capacity: int,
    chunk: int | None = None,
    reader: Reader | None = None,
) -> Samples:
    """A buffer for `capacity` rows shaped like those of `like`, plus room for one padded round.

    With a `reader` there is no buffer: the rows are read where they are.
    """
    rows = capacity + like.inputs.shape[0]
    if chunk is None:
        chunk = ROWS_A_PIECE if jax.default_backend() == "cpu" else BUSY * policy.minibatch
    chunk = min(chunk, rows)
    rows = 0 if reader is not None else -(-rows // chunk) * chunk

    def empty(column: Array) -> Array:
        return zeros((rows, *column.shape[1:]), column)

    none = zeros((), like.size)
    return Samples(
        policy=policy,
        loss=loss,
        inputs=empty(like.inputs),
        targets=empty(like.targets),
        weights=empty(like.weights),
        filled=none,
        rounds=none,
        chunk=chunk,
        reader=None if reader is None else _number(reader),
    )


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

    def blocks(self, params: Float[Array, "d k"]) -> Float[Array, "k d d"]:
        """The Hessian's diagonal blocks of a linear policy on kept samples."""
        assert isinstance(self.losses, Samples)
        dense = self.losses.blocks(params)
        return (dense + self.weight * jnp.eye(dense.shape[1], dtype=dense.dtype)) / self.rounds

    def minibatch_value_and_gradient(self, params: Params, rows: Rows) -> tuple[Array, Params]:
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


def triangle(factor: Float[Array, "d d"], rows: Float[Array, "n d"]) -> Float[Array, "d d"]:
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


def orthonormal(rows: Float[Array, "n d"], weight: Array) -> tuple[Float[Array, "d d"], Float[Array, "d 1"]]:
    """Right singular vectors of the rows, and their scales: 0 for what nothing reaches."""
    features = rows.shape[1]
    square = triangle(jnp.zeros((features, features), rows.dtype), rows)
    finite = jnp.all(jnp.isfinite(square))
    _, size, right = jnp.linalg.svd(jnp.where(finite, square, jnp.eye(features, dtype=rows.dtype)))
    size = jnp.where(size > size[0] * features * epsilon(size), size, 0.0)
    return right.T, jnp.sqrt(size**2 + weight)[:, None]
