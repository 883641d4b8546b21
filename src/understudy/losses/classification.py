"""Losses of actions that are choices: cross-entropy by softmax, and by one logit for each answer."""

from __future__ import annotations

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ..errors import UserError
from .base import Loss, columns, numbers

MOST_CLASSES = 100_000


class CrossEntropy(Loss):
    """Cross-entropy ``-Σ_a target_a log softmax(outputs)_a`` to a label or to the expert's distribution.

    Labels (whole numbers) become one-hot rows; rows of probabilities are taken as they are.
    With `groups` the outputs are choices of these sizes side by side, and their cross-entropies add up.

    >>> round(float(CrossEntropy()(jnp.zeros(4), jnp.array([0.0, 1.0, 0.0, 0.0]))), 6)
    1.386294
    """

    groups: tuple[int, ...] | None = eqx.field(static=True, default=None)
    categorical: ClassVar[bool] = True
    convex: ClassVar[bool] = True
    least: ClassVar[float] = 0.0
    curvature: ClassVar[float] = 0.5
    steepness: ClassVar[float] = 1.0

    def __call__(self, outputs: Array, target: Array) -> Array:
        if self.groups is None:
            return _choice(outputs, target)
        edges = list(np.cumsum(self.groups)[:-1])
        pairs = zip(jnp.split(outputs, edges), jnp.split(target, edges), strict=True)
        return jnp.sum(jnp.stack([_choice(*one) for one in pairs]))

    def _together(self, size: int) -> np.ndarray:
        """(k, k), 1 where two outputs belong to one choice."""
        groups = (size,) if self.groups is None else self.groups
        owner = np.repeat(np.arange(len(groups)), groups)
        return (owner[:, None] == owner[None, :]).astype(float)

    def dual(self, slope: Array, target: Array) -> tuple[Array, Array]:
        # loss = c·logsumexp(z) − <target, z> with c = Σ target, so that p = slope + target sums to c, and the
        # conjugate is Σ p log(p/c). Near p = 0 an error e in p costs e·log(1/e): 40 roundings, not one.
        p, c = jnp.maximum(slope + target, 0.0), self._together(slope.shape[0]) @ target
        safe = jnp.where(p > 0, p / jnp.where(c > 0, c, 1.0), 1.0)
        value = -jnp.sum(p * jnp.log(safe))
        return value, jnp.abs(value) + 40.0 * jnp.sum(target)

    def inside(self, slope: Array, target: Array) -> Array:
        p, together = jnp.maximum(slope + target, 0.0), self._together(slope.shape[0])
        total = together @ p
        share = jnp.where(total > 0, (together @ target) / jnp.where(total > 0, total, 1.0), 1.0)
        return jnp.where(total > 0, p * share - target, 0.0)

    def room(self, slope: Array, target: Array) -> Array:
        p, together = jnp.maximum(slope + target, 0.0), self._together(slope.shape[0])
        c = together @ target
        return jnp.diag(p) - together * jnp.outer(p, p) / jnp.where(c > 0, c, 1.0)[:, None]

    def targets(self, answers: Any, outputs: int | None = None) -> np.ndarray:
        rows = np.asarray(answers)
        if rows.ndim == 2 and rows.shape[1] == 1 and outputs != 1:
            rows = rows[:, 0]
        if rows.ndim == 1:
            return one_hot(rows, outputs)
        rows = numbers(rows)
        if rows.min(initial=0.0) < 0 or np.abs(rows.sum(axis=1) - 1.0).max(initial=0.0) > 1e-5:
            raise UserError(
                "Y: rows for the cross-entropy loss must be probabilities (not negative, summing to 1) "
                "or whole-number labels."
            )
        return rows


class BinaryCrossEntropy(Loss):
    """One logit a yes-or-no answer, ``Σ_j log(1 + e^{z_j}) − target_j z_j`` with z the outputs.

    Targets are labels 0 and 1, or probabilities of 1. With one output this is logistic regression, and equals
    softmax cross-entropy on the two logits (0, z). Several outputs are questions apart, which need not sum to
    1: on the one-hot rows of n actions they are n classifiers of one action against the rest.

    >>> round(float(BinaryCrossEntropy()(jnp.array([0.0]), jnp.array([1.0]))), 6)
    0.693147
    """

    logits: ClassVar[bool] = True
    convex: ClassVar[bool] = True
    least: ClassVar[float] = 0.0
    curvature: ClassVar[float] = 0.25
    steepness: ClassVar[float] = 1.0

    def __call__(self, outputs: Array, target: Array) -> Array:
        sure, unsure = jax.nn.softplus(-outputs), jax.nn.softplus(outputs)  # for the two see `_choice`
        return jnp.sum(jnp.where(outputs > 0, sure + (1.0 - target) * outputs, unsure - target * outputs))

    def dual(self, slope: Array, target: Array) -> tuple[Array, Array]:
        p = jnp.clip(slope + target, 0.0, 1.0)
        value = -jnp.sum(_entropic(p) + _entropic(1.0 - p))
        return value, jnp.abs(value) + 80.0 * slope.shape[0]  # for the 40s see `CrossEntropy.dual`

    def inside(self, slope: Array, target: Array) -> Array:
        return jnp.clip(slope, -target, 1.0 - target)

    def room(self, slope: Array, target: Array) -> Array:
        p = jnp.clip(slope + target, 0.0, 1.0)
        return jnp.diag(p * (1.0 - p))

    def targets(self, answers: Any, outputs: int | None = None) -> np.ndarray:
        rows = columns(answers)
        if rows.size and not (rows.min() >= 0 and rows.max() <= 1):
            bad = rows[~((rows >= 0) & (rows <= 1))][0]
            raise UserError(
                f"Y: {bad:g} is neither a label (0 or 1) nor a probability; for more than two classes the "
                "loss is 'cross-entropy'."
            )
        return rows


def _choice(outputs: Array, target: Array) -> Array:
    """``-Σ_a target_a log softmax(outputs)_a``, relative to the largest output.

    Neither this nor its derivatives contain 1 − p of the largest p. Where an answer is nearly sure, that
    difference would leave few digits of the gradient and the Hessian: at p = 1 − 1e-8 half of them.
    """
    others = jnp.arange(outputs.shape[0]) != jnp.argmax(outputs)
    below = jnp.where(others, outputs - jnp.sum(jnp.where(others, 0.0, outputs)), 0.0)
    rest = jnp.sum(jnp.where(others, jnp.exp(below), 0.0))
    return jnp.sum(target) * jnp.log1p(rest) - jnp.sum(jnp.where(others, target, 0.0) * below)


def _entropic(p: Array) -> Array:
    """``p log p``, 0 at 0."""
    return p * jnp.log(jnp.where(p > 0, p, 1.0))


def one_hot(labels: np.ndarray, classes: int | None) -> np.ndarray:
    """Rows (n, classes) with a 1 at each label; refuses labels that are not whole numbers in range."""
    values = np.asarray(labels)
    if not np.issubdtype(values.dtype, np.number) or not np.array_equal(values, np.round(values)):
        raise UserError("Y: labels for the cross-entropy loss must be whole numbers 0, 1, 2, …")
    whole = values.astype(np.int64)
    count = int(whole.max(initial=0)) + 1 if classes is None else classes
    if whole.size and (whole.min() < 0 or whole.max() >= count):
        bad = int(whole.min() if whole.min() < 0 else whole.max())
        raise UserError(f"Y: label {bad} is outside 0 … {count - 1}.")
    if count > MOST_CLASSES:
        raise UserError(f"Y: label {count - 1} would make {count} classes; {MOST_CLASSES} are the most.")
    rows = np.zeros((len(whole), count))
    rows[np.arange(len(whole)), whole] = 1.0
    return rows
