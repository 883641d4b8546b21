"""The paper's description as a plain loop: Armijo descent to 1e-8 over the list of losses, in NumPy.

Nothing here is clever, and that is its purpose: one Python object per round, a sum over the list for every
value and every gradient, a backtracking search that starts at a fixed step. The gradients are written by
hand, so it is faster than the same loop through an automatic differentiation library.
"""

from __future__ import annotations

import time

import numpy as np

TOLERANCE, ITERATIONS, FIRST_STEP, SHRINK, SLOPE, TRIES = 1e-8, 1000, 1.0, 0.5, 1e-4, 60


class RoundLoss:
    """One round: a state x (features,) and the expert's answer y (outputs,)."""

    def __init__(self, kind: str, x: np.ndarray, y: np.ndarray):
        self.kind, self.x, self.y = kind, x, y

    def value_and_gradient(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        out = self.x @ w
        if self.kind == "logistic":
            shifted = out - out.max()
            log_p = shifted - np.log(np.exp(shifted).sum())
            return -float(self.y @ log_p), np.outer(self.x, np.exp(log_p) * self.y.sum() - self.y)
        error = out - self.y
        if self.kind == "squared":
            return float(error @ error), np.outer(self.x, 2.0 * error)
        if self.kind == "absolute":
            return float(np.abs(error).sum()), np.outer(self.x, np.sign(error))
        inside = np.clip(error, -1.0, 1.0)
        return float((inside * (error - 0.5 * inside)).sum()), np.outer(self.x, inside)


def objective(
    losses: list[RoundLoss], w: np.ndarray, tilt: np.ndarray, weight: float, centre: np.ndarray
) -> tuple[float, np.ndarray]:
    """``[Σ l_i(w) − <w − c, tilt> + weight/2 ||w − c||²] / t``, and its gradient."""
    away = w - centre
    value = 0.5 * weight * float((away * away).sum()) - float((away * tilt).sum())
    gradient = weight * away - tilt
    for loss in losses:
        one, slope = loss.value_and_gradient(w)
        value += one
        gradient = gradient + slope
    return value / len(losses), gradient / len(losses)


def armijo(
    losses: list[RoundLoss],
    w: np.ndarray,
    tilt: np.ndarray,
    weight: float,
    centre: np.ndarray,
    deadline: float = float("inf"),
) -> tuple[np.ndarray, int]:
    """The paper's inner solver, and how many iterations it took."""
    for iteration in range(ITERATIONS):
        if time.process_time() > deadline:
            raise TimeoutError
        value, gradient = objective(losses, w, tilt, weight, centre)
        square = float((gradient * gradient).sum())
        if square**0.5 <= TOLERANCE:
            return w, iteration
        step = FIRST_STEP
        for _ in range(TRIES):
            if (
                objective(losses, w - step * gradient, tilt, weight, centre)[0]
                <= value - SLOPE * step * square
            ):
                break
            step *= SHRINK
        else:
            return w, iteration  # no step decreases it any more: the subgradient of a kink, or rounding
        w = w - step * gradient
    return w, ITERATIONS


def update(losses: list[RoundLoss], w: np.ndarray, learner: str, step: float, deadline: float) -> np.ndarray:
    """The next iterate of FTL, or of FTRL in the paper's reformulation with η_t = step/√t."""
    zero = np.zeros_like(w)
    if learner == "ftl":
        return armijo(losses, w, zero, 0.0, w, deadline)[0]
    weight = len(losses) ** 0.5 / step
    tilt = sum((loss.value_and_gradient(w)[1] for loss in losses[:-1]), zero)
    return armijo(losses, w, tilt, weight, w, deadline)[0]


def play(
    kind: str, inputs: np.ndarray, targets: np.ndarray, learner: str, step: float, budget: float
) -> tuple[float, int]:
    """Plays a run from zero and stops it after `budget` seconds: (processor seconds, rounds completed)."""
    began = time.process_time()
    w = np.zeros((inputs.shape[1], targets.shape[1]))
    losses: list[RoundLoss] = []
    for x, y in zip(inputs, targets, strict=True):
        losses.append(RoundLoss(kind, x, y))
        try:
            w = update(losses, w, learner, step, began + budget)
        except TimeoutError:
            return time.process_time() - began, len(losses) - 1
    return time.process_time() - began, len(losses)
