"""Plain NumPy, float64, written from the definitions: what the core is compared with."""

from __future__ import annotations

import numpy as np

FEATURES, OUTPUTS, ROUNDS, SAMPLES = 3, 2, 50, 4
"""One shape for all streams, so that tests share compiled programs."""

FEW = 12
"""Rounds of a short stream, of which there is one length too."""


def stream(loss: str, seed: int = 0, *, rounds: int = ROUNDS, samples: int = SAMPLES, noise: float = 0.5):
    """Rounds [(X, Y), …] of a noisy linear expert; sampled labels for cross-entropy."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(FEATURES, OUTPUTS))
    listed = []
    for _ in range(rounds):
        X = rng.normal(size=(samples, FEATURES))
        if loss == "cross-entropy":
            Y = np.array([rng.choice(OUTPUTS, p=p) for p in softmax(X @ truth)])
        else:
            Y = X @ truth + noise * rng.normal(size=(samples, OUTPUTS))
        listed.append((X, Y))
    return listed


def softmax(logits: np.ndarray) -> np.ndarray:
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    return shifted / shifted.sum(axis=1, keepdims=True)


def rows(Y: np.ndarray) -> np.ndarray:
    return np.eye(OUTPUTS)[Y] if np.ndim(Y) == 1 else Y


def value(loss: str, W: np.ndarray, X: np.ndarray, Y: np.ndarray) -> float:
    """The mean over samples of the divergence."""
    Y, out = rows(Y), X @ W
    error = out - Y
    if loss == "squared":
        each = (error**2).sum(axis=1)
    elif loss == "absolute":
        each = np.abs(error).sum(axis=1)
    elif loss == "huber":
        each = np.where(np.abs(error) <= 1, error**2 / 2, np.abs(error) - 0.5).sum(axis=1)
    else:
        each = -(Y * np.log(softmax(out))).sum(axis=1)
    return float(each.mean())


def gradient(loss: str, W: np.ndarray, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    Y, out = rows(Y), X @ W
    error = out - Y
    slope = {
        "squared": lambda: 2 * error,
        "absolute": lambda: np.sign(error),
        "huber": lambda: np.clip(error, -1, 1),
        "cross-entropy": lambda: softmax(out) - Y,
    }[loss]()
    return X.T @ slope / len(X)


def hessian(loss: str, W: np.ndarray, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """Over the flattened W, row by row."""
    out, eye = X @ W, np.eye(W.shape[1])
    if loss == "squared":
        bend = np.tile(2 * eye, (len(X), 1, 1))
    elif loss == "huber":
        bend = (np.abs(out - rows(Y)) <= 1)[:, :, None] * eye
    else:
        p = softmax(out)
        bend = p[:, :, None] * eye - p[:, :, None] * p[:, None, :]
    return np.einsum("ni,nab,nj->iajb", X, bend, X).reshape(W.size, W.size) / len(X)


class NaiveFTRL:
    """``w_{t+1} = argmin Σ_{i≤t} l_i(w) + Σ_{i≤t} (σ_i/2) ||w − w_i||²`` with every iterate kept.

    `weight(t, squares)` is Λ_t, where squares = Σ_{i≤t} ||∇l_i(w_i)||².
    """

    def __init__(self, loss: str, weight, listed):
        self.loss, self.listed = loss, listed
        self.iterates, self.steps, squares, before = [np.zeros((FEATURES, OUTPUTS))], [], 0.0, 0.0
        for t, (X, Y) in enumerate(listed, 1):
            squares += np.sum(gradient(loss, self.iterates[-1], X, Y) ** 2)
            self.steps.append(weight(t, squares) - before)
            before = weight(t, squares)
            self.iterates.append(self._solve(t))

    def gradient(self, t: int, W: np.ndarray) -> np.ndarray:
        """Of the objective of round t, at W."""
        total = sum(gradient(self.loss, W, X, Y) for X, Y in self.listed[:t])
        return total + sum(s * (W - w) for s, w in zip(self.steps[:t], self.iterates[:t], strict=True))

    def _solve(self, t: int) -> np.ndarray:
        if self.loss == "squared":
            left = sum(2 * X.T @ X / len(X) for X, _ in self.listed[:t]) + sum(self.steps) * np.eye(FEATURES)
            right = sum(2 * X.T @ Y / len(X) for X, Y in self.listed[:t])
            pull = sum(s * w for s, w in zip(self.steps, self.iterates, strict=True))
            return np.linalg.solve(left, right + pull)
        W = self.iterates[-1]
        for _ in range(200):
            g = self.gradient(t, W)
            if np.linalg.norm(g) < 1e-13:
                break
            H = sum(hessian(self.loss, W, X, Y) for X, Y in self.listed[:t]) + sum(self.steps) * np.eye(
                W.size
            )
            move, size = np.linalg.solve(H, g.ravel()).reshape(W.shape), 1.0
            # Far away the full step may overshoot; halving until the gradient shrinks is enough here.
            while size > 1e-3 and np.linalg.norm(self.gradient(t, W - size * move)) > np.linalg.norm(g):
                size /= 2
            W = W - size * move
        assert np.linalg.norm(self.gradient(t, W)) < 1e-11
        return W
