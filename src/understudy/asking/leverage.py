"""For linear policies: ask about the states that the labels so far say little about."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any, ClassVar, final

import numpy as np

from ..errors import UserError
from .base import Asked, View, at_random, beside, fitted, number, share

if TYPE_CHECKING:
    from ..policies import Policy


@final
@dataclasses.dataclass(frozen=True, kw_only=True)
class Leverage:
    """Asks where ``xᵀ A⁻¹ x > number`` with ``A = ridge·I + Σ x xᵀ`` over the states asked so far, one state
    after the other.

    Such a state multiplies det A by more than 1 + number, and det A is at most ``(ridge + N L²/d)^d`` after N
    states of norm ≤ L in d dimensions. Hence at most N labels are ever asked for, with

        N ≤ d log(1 + N L² / (d ridge)) / log(1 + number).

    A is kept as its triangular factor, which one QR of all labelled rows gives; ``x`` is a row of the linear
    policy's design.

    >>> Leverage(number=0.1).cap(dimensions=4, norm=2.0) < 400
    True
    """

    number: float
    ridge: float = 1.0
    random_share: float = 0.0
    count: ClassVar[None] = None
    reads: ClassVar[bool] = True

    def __post_init__(self):
        for field in ("number", "ridge"):
            value = number(f"leverage's {field}", getattr(self, field), lambda x: x > 0, "a positive number")
            object.__setattr__(self, field, value)
        object.__setattr__(self, "random_share", share("random_share", self.random_share, zero=True))

    @property
    def honest(self) -> bool:
        return self.random_share > 0

    def cap(self, *, dimensions: int, norm: float) -> float:
        """The most states of norm ≤ `norm` that the rule ever asks about: the largest N of the formula.

        The right side grows like log N, so going back and forth from above ends at the largest solution.
        """
        most = 1e18
        while True:
            inside = 1.0 + most * norm**2 / (dimensions * self.ridge)
            new = dimensions * math.log(inside) / math.log1p(self.number)
            if new >= most * (1.0 - 1e-12):
                return new
            most = new

    def fits(self, policy: Policy) -> None:
        """Refuses a policy whose states have no leverage."""
        if not policy.linear:
            raise UserError(
                "ask: leverage is for policies that are linear in their parameters, and "
                f"{policy.name!r} is not; policy='linear' is."
            )

    def choose(self, view: View) -> Asked:
        self.fits(view.policy)
        chosen = self.states(design(view.policy, view.rows), design(view.policy, view.known))
        asked = beside(chosen, at_random(self, len(chosen)), len(view.rows), view.rng)
        return fitted(asked, view.most, view.rng)

    def states(self, rows: np.ndarray, known: np.ndarray) -> np.ndarray:
        """The numbers of the rows (n, d) that are asked about, in order; `known` (m, d) were before."""
        d = rows.shape[1]
        factor = np.linalg.qr(np.concatenate([math.sqrt(self.ridge) * np.eye(d), known]), mode="r")
        inverse = np.linalg.inv(factor)
        away = rows @ inverse @ inverse.T  # A⁻¹ x for every row
        found: list[int] = []
        for i, x in enumerate(rows):
            size = float(x @ away[i])
            if size > self.number:
                found.append(i)
                # Sherman and Morrison: A gains x xᵀ.
                away[i + 1 :] -= np.outer(rows[i + 1 :] @ away[i], away[i]) / (1.0 + size)
        return np.asarray(found, int)


def design(policy: Policy, rows: np.ndarray) -> np.ndarray:
    """The rows that a linear policy multiplies its parameters with, (n, d), in float64."""
    import jax

    with jax.enable_x64(True):
        given: Any = np.asarray(rows)  # NumPy's arrays do where JAX's are named
        return np.asarray(policy.design(given), np.float64)
