"""The paper's theorems with their constants corrected, one function each, the printed value beside it.

Symbols: L smoothness, G Lipschitz constant, mu strong convexity, D a bound on ||w_t − w*||, `interpolation` =
Σ ε_t² with ε_t² = l_t(w*) − min_w l_t(w). For one run the largest distance, the largest gradient norm seen
and the L of its data are valid.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..errors import UserError


class Bound(NamedTuple):
    """A theorem's bound on the regret: the corrected value, the one printed, and the constants used."""

    theorem: str
    value: float
    paper: float
    constants: dict[str, float]


def lemma(*, gradient_norms: ArrayLike, weights: ArrayLike, distances: ArrayLike, mu: float = 0.0) -> Bound:
    """The lemma behind all of them: ``Σ_t ||g_t||²/(2(Λ_t + μ t)) + Σ_t (σ_t/2)||w* − w_t||²``.

    `weights` are Λ_1 … Λ_T, `distances` ||w* − w_t||, each loss μ-strongly convex. As printed, D²/2 Σσ_t.

    >>> lemma(gradient_norms=[1.0, 1.0], weights=[1.0, 2.0], distances=[1.0, 0.0]).value
    1.25
    """
    g, weight, away = (np.asarray(x, dtype=np.float64) for x in (gradient_norms, weights, distances))
    total = weight + mu * np.arange(1, len(g) + 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        falls = np.where(g > 0, g**2 / (2 * total), 0.0)
    steps = np.diff(weight, prepend=0.0)
    value = float(falls.sum() + 0.5 * np.sum(steps * away**2))
    paper = float(falls.sum() + 0.5 * away.max(initial=0.0) ** 2 * weight[-1])
    return Bound("lemma", value, paper, {"mu": mu, "rounds": len(g)})


def ftrl_smooth_constant(*, eta: float, L: float, D: float, interpolation: float) -> Bound:
    """FTRL, smooth convex losses, constant η < 1/L: ``(ηL/(1−ηL)) Σε² + D²/(2η(1−ηL))``."""
    _positive(eta=eta, L=L)
    if eta * L >= 1:
        raise UserError(f"eta: {eta!r} is not below 1/L = {1 / L!r}, as this theorem needs.")
    rest = 1 - eta * L
    value = eta * L / rest * interpolation + D**2 / (2 * eta * rest)
    return _bound("ftrl, smooth, constant step", value, eta=eta, L=L, D=D, interpolation=interpolation)


def ftrl_smooth(*, L: float, D: float, interpolation: float) -> Bound:
    """FTRL, smooth convex, the theorem's η = min{(Σε²)^(−1/2), 1/2L}: ``2D²L + (D² + 2L)√Σε²``."""
    _positive(L=L)
    value = 2 * D**2 * L + (D**2 + 2 * L) * math.sqrt(interpolation)
    return _bound("ftrl, smooth, the theorem's step", value, L=L, D=D, interpolation=interpolation)


def adaftrl_smooth(*, alpha: float, L: float, D: float, interpolation: float) -> Bound:
    """AdaFTRL, smooth convex: ``2Lc² + √(2L) c √Σε²`` with ``c = alpha + D²/(2 alpha)``.

    The paper has alpha/2 in c; the AdaGrad inequality Σ a_t/√(Σ_{i≤t} a_i) ≤ 2√Σa makes it alpha.
    """
    _positive(alpha=alpha, L=L)

    def value(c: float) -> float:
        return 2 * L * c**2 + math.sqrt(2 * L) * c * math.sqrt(interpolation)

    right, printed = value(alpha + D**2 / (2 * alpha)), value(alpha / 2 + D**2 / (2 * alpha))
    return _bound("adaftrl, smooth", right, printed, alpha=alpha, L=L, D=D, interpolation=interpolation)


def ftrl_lipschitz(*, alpha: float, G: float, D: float, rounds: int) -> Bound:
    """FTRL, G-Lipschitz, η_t = alpha/√t: ``√T (G² alpha + D²/(2 alpha))``.

    Printed with G² alpha/2, but Σ1/√t ≤ 2√T.
    """
    _positive(alpha=alpha)
    root = math.sqrt(rounds)
    right = root * (G**2 * alpha + D**2 / (2 * alpha))
    printed = root / 2 * (G**2 * alpha + D**2 / alpha)
    return _bound("ftrl, Lipschitz", right, printed, alpha=alpha, G=G, D=D, rounds=rounds)


def adaftrl_lipschitz(*, alpha: float, G: float, D: float, rounds: int) -> Bound:
    """AdaFTRL, G-Lipschitz: ``(alpha + D²/(2 alpha)) G √T``; printed with alpha/2."""
    _positive(alpha=alpha)
    root = G * math.sqrt(rounds)
    right = (alpha + D**2 / (2 * alpha)) * root
    printed = (alpha / 2 + D**2 / (2 * alpha)) * root
    return _bound("adaftrl, Lipschitz", right, printed, alpha=alpha, G=G, D=D, rounds=rounds)


def ftl_strongly_convex_smooth(*, L: float, mu: float, D: float, rounds: int) -> Bound:
    """FTL, smooth and μ-strongly convex: ``(L²D²/2μ)(1 + log T)``, D ≥ ||w_t − argmin l_t||.

    Printed as (DL/μ)(1 + log T).
    """
    _positive(L=L, mu=mu)
    log = 1 + math.log(rounds)
    right, printed = L**2 * D**2 / (2 * mu) * log, D * L / mu * log
    return _bound("ftl, smooth and strongly convex", right, printed, L=L, mu=mu, D=D, rounds=rounds)


def ftl_strongly_convex_lipschitz(*, G: float, mu: float, rounds: int) -> Bound:
    """FTL, G-Lipschitz and μ-strongly convex: ``(G²/2μ)(1 + log T)``."""
    _positive(mu=mu)
    value = G**2 / (2 * mu) * (1 + math.log(rounds))
    return _bound("ftl, Lipschitz and strongly convex", value, G=G, mu=mu, rounds=rounds)


def ftl_interpolation(*, C: float, gamma: float, rounds: int) -> Bound:
    """FTL on an MDP whose expert lies in the class, solved exactly: ``C (1 − γ^T)/(1 − γ)``.

    C is the largest expected per-step divergence. Printed (in the proof) with γ^{T+1}.

    >>> ftl_interpolation(C=1.0, gamma=0.5, rounds=2).value
    1.5
    """
    if not 0 <= gamma < 1:
        raise UserError(f"gamma: {gamma!r} is not in [0, 1).")
    right, printed = (C * (1 - gamma**power) / (1 - gamma) for power in (rounds, rounds + 1))
    return _bound("ftl, expert in the class", right, printed, C=C, gamma=gamma, rounds=rounds)


def _positive(**values: float) -> None:
    for name, value in values.items():
        if not (math.isfinite(value) and value > 0):
            raise UserError(f"{name}: {value!r} is not a positive finite number.")


def _bound(theorem: str, bound: float, paper: float | None = None, **constants: float) -> Bound:
    """The bound; `paper`: where another value was printed."""
    used = {name: float(value) for name, value in constants.items()}
    return Bound(theorem, bound, bound if paper is None else paper, used)
