"""The fixed shift and scale that a policy applies to its inputs."""

from __future__ import annotations

import math
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np


@final
class Normaliser:
    """``(x − mean) / scale`` per column, clipped to ±`limit`; fixed once, and float32 when it returns. Rows
    are of NumPy or, inside programs, of JAX.

    Means and scales in float64 (statistics of `VecNormalize`) are applied in float64.

    >>> seen = Normaliser.fit(np.array([[0.0, 5.0], [2.0, 5.0]], np.float32), np.array([True, True]))
    >>> seen(np.array([[2.0, 5.0]], np.float32)).tolist()
    [[1.0, 0.0]]
    """

    def __init__(
        self, mean: np.ndarray, scale: np.ndarray, limit: float = math.inf, *, dtype: Any = np.float32
    ):
        self.mean, self.scale, self.limit = np.asarray(mean, dtype), np.asarray(scale, dtype), float(limit)
        plain = not self.mean.any() and bool((self.scale == 1).all())
        self.nothing = plain and self.limit == math.inf

    @classmethod
    def identity(cls, width: int) -> Normaliser:
        return cls(np.zeros(width), np.ones(width))

    @classmethod
    def fit(cls, rows: Any, which: np.ndarray) -> Normaliser:
        """Mean and deviation of `rows` (n, width) where `which`. A column that is nearly constant keeps its
        scale, and one that is not a plain number stays as it is.
        """
        if not which.any():  # images, say: many columns, and none of them a plain number
            return cls.identity(rows.shape[1])
        mean, spread = _moments(rows)
        moves = spread > 1e-4 * np.maximum(1.0, np.abs(mean))
        return cls(np.where(which, mean, 0.0), np.where(which & moves, spread, 1.0))

    def __call__(self, rows: Any) -> Any:
        if self.nothing:
            return rows
        rows = (rows - self.mean) / self.scale
        if self.limit < math.inf:
            own = np if isinstance(rows, np.ndarray) else jnp
            rows = own.minimum(own.maximum(rows, -self.limit), self.limit)
        return rows if rows.dtype == np.float32 else rows.astype(np.float32)


def _moments(rows: Any) -> tuple[np.ndarray, np.ndarray]:
    """Mean and deviation of columns in float64, computed where the rows are."""
    if isinstance(rows, np.ndarray):
        rows = rows.astype(np.float64)
        return rows.mean(axis=0), rows.std(axis=0)
    with jax.enable_x64(True):
        rows = rows.astype(np.float64)
        return np.asarray(rows.mean(axis=0)), np.asarray(rows.std(axis=0))
