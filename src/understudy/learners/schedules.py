"""How the weight Λ_t = 1/η_t of the penalty moves."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ..errors import UserError, among, whole
from ..solvers.base import check_number

Number = Array | np.ndarray | float


def _weight(value: Any) -> Any:
    """A part of Λ_t as an array: numbers would select a program of their own."""
    if isinstance(value, Array):
        return value
    check_number("schedule", value, zero=True)
    return np.asarray(value, np.float64)


def first_round(value: Any) -> Any:
    """A round's number as an array, None where it was not given, or one sentence."""
    if value is None or isinstance(value, (Array, np.ndarray)):
        return value
    whole("start", value)
    return np.asarray(min(value, 2**31 - 1), np.int32)


class Schedule(eqx.Module):
    """``Λ_t = constant + root·√n + adaptive·√(Σ ||g_i||²)``; n and the sum count rounds from `start` on.

    A `start` of None is one that was not given: round 1, or what a run decides for its policy.

    One of the three is positive, or none (FTL). All are numbers, so that learners and step sizes can share
    one compiled program. The first gradients may be zero: nothing here divides by Λ.
    """

    constant: Number = eqx.field(converter=_weight, default=0.0)
    root: Number = eqx.field(converter=_weight, default=0.0)
    adaptive: Number = eqx.field(converter=_weight, default=0.0)
    start: Number | None = eqx.field(converter=first_round, default=None)

    @property
    def zero(self) -> bool:
        """Whether Λ_t = 0 in every round, as for FTL, and that is known: arguments of a program are not."""
        numbers = (self.constant, self.root, self.adaptive)
        return not any(isinstance(one, Array) or np.any(one) for one in numbers)

    @property
    def first(self) -> Number:
        """The first round that counts."""
        return 1 if self.start is None else self.start

    def weight(self, t: Array, squares: Any) -> Any:
        """Λ_t after t rounds, shaped as `squares` (a number, or a pytree of squared gradients)."""

        def one(square: Array) -> Array:
            rounds = jnp.maximum(t - self.first + 1, 0).astype(square.dtype)
            total = self.root * jnp.sqrt(rounds) + self.adaptive * jnp.sqrt(square)
            return jnp.where(t >= self.first, self.constant + total, jnp.zeros_like(square))

        return jax.tree.map(one, squares)


def positive(field: str, value: Any) -> np.ndarray:
    """`value` as a float64 number greater than zero, or one sentence."""
    try:
        number = np.asarray(value, dtype=np.float64)
        # One that is smaller counts as zero, and has no inverse.
        good = number.ndim == 0 and np.isfinite(number) and number >= np.finfo(np.float64).tiny
    except (TypeError, ValueError):
        good = False
    if not good:
        raise UserError(f"{field}: {value!r} is not a positive finite number.")
    return number


SCHEDULES = {"constant": "constant", "sqrt": "root", "adaptive": "adaptive"}


def schedule(kind: str | Schedule, step: Number, *, field: str = "eta", start: int | None = None) -> Schedule:
    """A schedule by name: `constant` η_t = η, `sqrt` η_t = η/√t, `adaptive` η_t = η/√(Σ_{i≤t} ||g_i||²).

    >>> float(schedule("sqrt", 0.5).weight(jnp.asarray(4), jnp.asarray(0.0)))
    4.0
    """
    if isinstance(kind, Schedule):
        if start is not None:
            raise UserError(f"start: {start!r} does not go with a Schedule, which has a start of its own.")
        return kind
    among("schedule", kind, SCHEDULES)
    return Schedule(**{SCHEDULES[kind]: 1.0 / positive(field, step)}, start=start)


def theorem(*, smoothness: float, interpolation: float) -> Schedule:
    """The schedule of the paper's FTRL theorem: constant ``η = min{(Σε_t²)^(−1/2), 1/(2L)}``.

    `smoothness` is L and `interpolation` is Σ ε_t², which is known in hindsight only: for replays.

    >>> float(theorem(smoothness=2.0, interpolation=25.0).constant)
    5.0
    """
    if not isinstance(interpolation, (int, float, np.number)) or not 0 <= interpolation < np.inf:
        raise UserError(f"interpolation: {interpolation!r} is not a finite number ≥ 0.")
    weight = max(float(np.sqrt(interpolation)), 2.0 * float(positive("smoothness", smoothness)))
    return Schedule(weight, start=1)
