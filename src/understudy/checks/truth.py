"""The best in hindsight without the library's solvers: NumPy for many streams at once, SciPy for one.

Every number here is the loss of parameters that exist, so a regret computed from it can be too small and
never too large: what exceeds a bound by it exceeds the bound.
"""

from __future__ import annotations

import numpy as np
from scipy import optimize

STEPS = 40


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


def total(loss: str, X: np.ndarray, y: np.ndarray, weights: np.ndarray, w: np.ndarray) -> np.ndarray:
    """``Σ_i weights_i loss(x_iᵀw, y_i)``: X (…, n, d), y and weights (…, n), w (…, d)."""
    return np.sum(weights * sample_losses(loss, np.einsum("...nd,...d->...n", X, w), y), axis=-1)


def into(radius: np.ndarray, w: np.ndarray) -> np.ndarray:
    """w, or the nearest point of the ball, a last digit inside."""
    size = np.linalg.norm(w, axis=-1, keepdims=True)
    limit = np.asarray(radius)[..., None] * (1 - 1e-15)
    outside = size > limit
    return w * np.where(outside, limit / np.where(outside, size, 1.0), 1.0)


def least(
    loss: str, X: np.ndarray, y: np.ndarray, weights: np.ndarray, radius: np.ndarray, start: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The least `total` found over ``||w|| ≤ radius`` for many streams, (p,), and where, (p, d).

    Majorise and minimise: each loss lies below a parabola that touches it, with curvature h and vertex c, so
    a weighted least squares problem on the ball (a singular value decomposition and a root search) is one
    step down. It starts at least squares and ends no worse than at `start`.
    """
    w = np.zeros_like(start)
    best, where = total(loss, X, y, weights, into(radius, start)), into(radius, start)
    with np.errstate(all="ignore"):
        size = np.mean(np.abs(y), axis=-1, keepdims=True) + 1e-300
        for step in range(STEPS):
            z = np.einsum("pnd,pd->pn", X, w)
            h, vertex = _parabola(loss, z, y, size * 10.0 ** (-step / 3), step)
            w = into(radius, _ridge(X, vertex, weights * h, radius))
            value = total(loss, X, y, weights, w)
            better = value < best
            best = np.where(better, value, best)
            where = np.where(better[:, None], w, where)
            w = np.where(np.isfinite(w), w, 0.0)
            if loss == "squared":
                break
    return best, where


def _parabola(
    loss: str, z: np.ndarray, y: np.ndarray, near: np.ndarray, step: int
) -> tuple[np.ndarray, np.ndarray]:
    if loss == "cross-entropy":
        h = np.where(np.abs(z) < 1e-6, 0.25, np.tanh(0.5 * z) / (2.0 * np.where(z == 0, 1.0, z)))
        return h, (y - 0.5) / h
    if step == 0 or loss == "squared":
        return np.ones_like(z), y
    error = np.abs(z - y)
    return 1.0 / np.maximum(error, near if loss == "absolute" else 1.0), y


def _ridge(X: np.ndarray, target: np.ndarray, h: np.ndarray, radius: np.ndarray) -> np.ndarray:
    """argmin Σ h (xᵀw − target)² over the ball, (p, d)."""
    root = np.sqrt(h)
    scaled = np.nan_to_num(X * root[..., None])
    left, size, right = np.linalg.svd(scaled, full_matrices=False)
    image = np.einsum("pnr,pn->pr", left, np.nan_to_num(root * target))
    size = np.where(size > 1e-15 * size[:, :1], size, 0.0)

    free = np.where(size > 0, image / np.where(size > 0, size, 1.0), 0.0)
    length = np.linalg.norm(free, axis=1)
    outside = (length > radius)[:, None]
    if outside.any():
        nu, there = np.zeros_like(length), free
        for _ in range(10):  # Newton's method on 1/||w(ν)|| = 1/radius, which is nearly straight in ν
            below = size**2 + nu[:, None]
            slope = np.sum(there**2 / np.where(size > 0, below, 1.0), axis=1) / length**3
            nu = np.maximum(nu + (1.0 / radius - 1.0 / length) / np.maximum(slope, 1e-300), 0.0)
            there = np.where(size > 0, size * image / np.where(size > 0, size**2 + nu[:, None], 1.0), 0.0)
            length = np.maximum(np.linalg.norm(there, axis=1), 1e-300)
        free = np.where(outside, there, free)
    return np.einsum("pr,prd->pd", free, right)


def least_by_scipy(
    loss: str, X: np.ndarray, y: np.ndarray, weights: np.ndarray, radius: float, start: np.ndarray
) -> tuple[float, np.ndarray]:
    """The same for one stream, X (n, d), by SciPy: a linear program, BFGS, or SLSQP on the ball.

    All but the ball are solved in an orthonormal basis of the features, so that their scales do not matter.
    """
    kept = weights > 0
    X, y, weights = X[kept], y[kept], weights[kept]
    left, size, right = np.linalg.svd(X, full_matrices=False)
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
        tried.append(_on_ball(loss, X, y, weights, radius, into(np.asarray(radius), start)))
    inside = [into(np.asarray(radius), w) for w in tried if np.isfinite(w).all()]
    values = [float(total(loss, X, y, weights, w)) for w in inside]
    best = int(np.argmin(values))
    return values[best], inside[best]


def _linear_program(X: np.ndarray, y: np.ndarray, weights: np.ndarray) -> np.ndarray:
    n, d = X.shape
    cost = np.concatenate([np.zeros(d), weights, weights])
    equal = np.hstack([X, np.eye(n), -np.eye(n)])
    bounds = [(None, None)] * d + [(0, None)] * (2 * n)
    found = optimize.linprog(cost, A_eq=equal, b_eq=y, bounds=bounds, method="highs")
    return found.x[:d] if found.x is not None else np.full(d, np.nan)


def _on_ball(
    loss: str, X: np.ndarray, y: np.ndarray, weights: np.ndarray, radius: float, start: np.ndarray
) -> np.ndarray:
    """SLSQP; the absolute loss in its smooth form, slacks s ≥ |Xw − y|."""
    n, d = X.shape

    def room(v: np.ndarray) -> float:
        return float(radius**2 - v[:d] @ v[:d])

    ball = {"type": "ineq", "fun": room, "jac": lambda v: np.concatenate([-2 * v[:d], np.zeros(len(v) - d)])}
    if loss != "absolute":
        found = optimize.minimize(
            lambda w: float(weights @ sample_losses(loss, X @ w, y)),
            start,
            jac=lambda w: X.T @ (weights * slopes(loss, X @ w, y)),
            constraints=[ball],
            method="SLSQP",
            options={"ftol": 1e-15, "maxiter": 200},
        )
        return found.x
    above = np.hstack([-X, np.eye(n)])
    below = np.hstack([X, np.eye(n)])
    both, right = np.vstack([above, below]), np.concatenate([-y, y])
    cost = np.concatenate([np.zeros(d), weights])
    found = optimize.minimize(
        lambda v: float(cost @ v),
        np.concatenate([start, np.abs(X @ start - y)]),
        jac=lambda v: cost,
        constraints=[ball, {"type": "ineq", "fun": lambda v: both @ v - right, "jac": lambda v: both}],
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 300},
    )
    return found.x[:d]
