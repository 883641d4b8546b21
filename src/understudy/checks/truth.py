"""The truth that certificates are judged against: losses counted by NumPy, and the least that SciPy finds."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
# SciPy says nothing of its results.

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import optimize


def sample_losses(loss: str, z: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The loss of the answer z to y, elementwise; for cross-entropy z = o₁ − o₀ and y is the share of 1.

    >>> sample_losses("huber", np.array([0.5, 3.0]), np.zeros(2)).tolist()
    [0.125, 2.5]
    """
    if loss == "cross-entropy":
        # Not log(1 + e^z) − y z, which cancels for large z.
        return y * np.logaddexp(0.0, -z) + (1.0 - y) * np.logaddexp(0.0, z)
    error = np.abs(z - y)
    if loss == "squared":
        return error**2
    return error if loss == "absolute" else np.where(error <= 1, 0.5 * error**2, error - 0.5)


def slopes(loss: str, z: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The derivative of `sample_losses` by z."""
    if loss == "cross-entropy":
        return 0.5 * (1.0 + np.tanh(0.5 * z)) - y
    if loss == "squared":
        return 2.0 * (z - y)
    return np.sign(z - y) if loss == "absolute" else np.clip(z - y, -1.0, 1.0)


def total(loss: str, rows: np.ndarray, y: np.ndarray, weights: np.ndarray, w: np.ndarray) -> np.ndarray:
    """``Σ_i weights_i loss(x_iᵀw, y_i)``: rows (…, n, d), y and weights (…, n), w (…, d)."""
    return np.sum(weights * sample_losses(loss, np.einsum("...nd,...d->...n", rows, w), y), axis=-1)


def into(radius: np.ndarray, w: np.ndarray) -> np.ndarray:
    """w, or the nearest point of the ball, a last digit inside."""
    size = np.linalg.norm(w, axis=-1, keepdims=True)
    limit = np.asarray(radius)[..., None] * (1 - 1e-15)
    outside = size > limit
    return w * np.where(outside, limit / np.where(outside, size, 1.0), 1.0)


def least_by_scipy(
    loss: str, X: np.ndarray, y: np.ndarray, weights: np.ndarray, radius: float, start: np.ndarray
) -> tuple[float, np.ndarray]:
    """The least `total` over ``||w|| ≤ radius`` that SciPy finds for X (n, d), and where, (d,): by a linear
    program, BFGS, or SLSQP on the ball; no more than at `start`.

    All but the ball are solved in an orthonormal basis of the features, so that their scales do not matter.
    """
    used = weights > 0
    rows, y, weights = X[used], y[used], weights[used]
    left, size, right = np.linalg.svd(rows, full_matrices=False)
    rank = size > 1e-15 * size[0] if size[0] > 0 else np.zeros(len(size), bool)
    basis, back = left[:, rank], right[rank].T / size[rank]
    tried = [start]
    if loss == "absolute":
        tried.append(back @ _linear_program(basis, y, weights))
    elif loss != "squared" and rank.any():

        def value_and_slope(v: np.ndarray) -> tuple[float, np.ndarray]:
            z = basis @ v
            return float(weights @ sample_losses(loss, z, y)), basis.T @ (weights * slopes(loss, z, y))

        first = (right[rank] @ start) * size[rank]
        tried.append(back @ optimize.minimize(value_and_slope, first, jac=True, method="BFGS", tol=1e-12).x)
    else:
        tried.append(back @ (np.linalg.lstsq(basis * np.sqrt(weights)[:, None], y * np.sqrt(weights))[0]))
    if np.isfinite(radius):
        tried.append(_on_ball(loss, rows, y, weights, radius, into(np.asarray(radius), start)))
    inside = [into(np.asarray(radius), w) for w in tried if np.isfinite(w).all()]
    values = [float(total(loss, rows, y, weights, w)) for w in inside]
    best = int(np.argmin(values))
    return values[best], inside[best]


def _linear_program(rows: np.ndarray, y: np.ndarray, weights: np.ndarray) -> np.ndarray:
    n, d = rows.shape
    cost = np.concatenate([np.zeros(d), weights, weights])
    equal = np.hstack([rows, np.eye(n), -np.eye(n)])
    bounds = [(None, None)] * d + [(0, None)] * (2 * n)
    least = optimize.linprog(cost, A_eq=equal, b_eq=y, bounds=bounds, method="highs").x
    return np.full(d, np.nan) if least is None else least[:d]


def _on_ball(
    loss: str, rows: np.ndarray, y: np.ndarray, weights: np.ndarray, radius: float, start: np.ndarray
) -> np.ndarray:
    """SLSQP; the absolute loss in its smooth form, with slacks s ≥ |Xw − y| behind the parameters."""
    n, d = rows.shape

    def room(v: np.ndarray) -> float:
        return float(radius**2 - v[:d] @ v[:d])

    def value(v: np.ndarray) -> float:
        return float(weights @ (v[d:] if loss == "absolute" else sample_losses(loss, rows @ v, y)))

    def gradient(v: np.ndarray) -> np.ndarray:
        if loss == "absolute":
            return np.concatenate([np.zeros(d), weights])
        return rows.T @ (weights * slopes(loss, rows @ v, y))

    inside: list[dict[str, str | Callable[[np.ndarray], np.ndarray | float]]] = [
        {"type": "ineq", "fun": room, "jac": lambda v: np.concatenate([-2 * v[:d], np.zeros(len(v) - d)])}
    ]
    if loss == "absolute":
        sides = np.block([[-rows, np.eye(n)], [rows, np.eye(n)]])
        right = np.concatenate([-y, y])
        inside.append({"type": "ineq", "fun": lambda v: sides @ v - right, "jac": lambda v: sides})
        start = np.concatenate([start, np.abs(rows @ start - y)])
    options = {"ftol": 1e-15, "maxiter": 300 if loss == "absolute" else 200}
    least = optimize.minimize(value, start, jac=gradient, constraints=inside, method="SLSQP", options=options)
    return least.x[:d]
