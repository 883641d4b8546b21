"""The loss on all states visited, when some of them were asked about: a bound for all rounds at once.

A round visits M states with losses l_1, …, l_M in [0, top], and some of them are asked about at random. What
is wanted is ``Σ_t (1/M_t) Σ_j l_j``. Every draw is a number x with a mean m given all draws before it, and
the means add up to the part of that sum which was left to chance. For a guess g ≥ 0 made before the draw,
and 0 ≤ x ≤ c,

    E exp(λ(m − x) − ψ(λc) (g − x)²/c²) ≤ 1,      ψ(u) = −log(1 − u) − u,  0 ≤ λc < 1

(Fan, Grama and Liu 2015; Howard, Ramdas, McAuliffe and Sekhon 2021). The product over all draws is a
supermartingale that starts at 1, and so is a mixture over several λ; by Ville's inequality it is never above
1/δ, with probability 1 − δ. Solved for Σ(m − x), that is a time-uniform empirical Bernstein bound.

*Drawn without replacement*, k of n: the i-th draw has mean ``(S − s_{i−1})/(n − i + 1)``, S the sum of all n
losses and s_{i−1} that of the draws before, so Σ_i (x_i − m_i) is linear in S and gives an estimate of it
whose draws are at most ``top/A`` with ``A = Σ_i 1/(n − i + 1)``. *Asked independently* with probability p:
state j is the draw ``l_j/p`` if asked and 0 if not.
"""

from __future__ import annotations

from typing import final

import numpy as np
from numpy.typing import ArrayLike

GRID = 24


@final
class Confidence:
    """An upper bound on the cumulative loss on all states visited, for all rounds at once.

    Args:
      top: no loss is larger.
      scale: about the largest draw, ``top / (labels of a round)``; it decides only which λ are tried.
      delta: the probability with which the bound may fail in some round.

    >>> confidence = Confidence(top=1.0, scale=0.1)
    >>> confidence.know(0.5)
    >>> confidence.bound() - 0.5 < 0.4
    True
    """

    def __init__(self, *, top: float, scale: float, delta: float = 0.05):
        self.top, self.delta = float(top), float(delta)
        self._rates = 0.9 * 2.0 ** -np.arange(GRID) / float(scale)
        shares = 1.0 / ((np.arange(GRID) + 1.0) * (np.arange(GRID) + 2.0))
        self._shares = np.log(shares / shares.sum())
        self._spent = np.zeros(GRID)
        self._drawn, self._chance = 0, False
        self._sum = self.estimate = 0.0

    @property
    def _guess(self) -> float:
        """The mean of the losses drawn before, in the rounds that have ended."""
        return self._sum / self._drawn if self._drawn else 0.0

    def know(self, loss: float) -> None:
        """Adds what is known for certain, such as the loss of a round whose states were all asked about."""
        self.estimate += float(loss)

    def without_replacement(self, losses: ArrayLike, of: int, size: float) -> None:
        """Adds k losses (k,) in the order in which they were drawn, from `of` states of a round of `size`; of
        one that weighs twice, half of that.
        """
        x = np.asarray(losses, float)
        if not len(x):
            raise ValueError("nothing was drawn")
        left = of - np.arange(len(x))  # states that the draw was made from
        each = 1.0 / (size * np.sum(1.0 / left))
        before = np.concatenate([[0.0], np.cumsum(x)[:-1]])
        self.estimate += each * (x.sum() + np.sum(before / left))
        if len(x) < of:
            # The mean of a draw moves with what was drawn before, and so does the guess at it.
            self._pay(each * (self._guess - x), each * self.top)
        self._learn(x)

    def independent(self, losses: ArrayLike, p: float, of: int, size: float) -> None:
        """Adds the losses (k,) of those of `of` states that were asked, each with probability p."""
        x = np.asarray(losses, float) / (p * size)
        self.estimate += x.sum()
        guess = self._guess / size
        self._pay(np.append(guess - x, np.full(of - len(x), guess)), self.top / (p * size))
        self._learn(np.asarray(losses, float))

    def _pay(self, away: np.ndarray, most: float) -> None:
        """Draws that are `away` (n,) below their guesses, and at most `most`."""
        u, self._chance = self._rates * most, True
        able = u < 1.0
        price = (-np.log1p(-np.where(able, u, 0.0)) - u) / most**2
        self._spent = np.where(able, self._spent + price * float(np.sum(away**2)), np.inf)

    def _learn(self, losses: np.ndarray) -> None:
        self._sum, self._drawn = self._sum + float(losses.sum()), self._drawn + len(losses)

    def bound(self) -> float:
        """With probability 1 − δ the sum is at most this, whenever it is looked at; infinite where no λ fits.

        The mixture is at least each of its parts, so every λ gives a bound, and the least of them is taken.
        """
        if not self._chance:
            return self.estimate
        return self.estimate + float(np.min((self._spent - self._shares - np.log(self.delta)) / self._rates))

    def numbers(self) -> list[str]:
        """Its state as text, to the last bit."""
        state = (*self._spent, self._sum, self._drawn, self._chance, self.estimate)
        return [float(number).hex() for number in state]

    def restore(self, numbers: list[str]) -> None:
        *spent, self._sum, drawn, chance, self.estimate = (float.fromhex(text) for text in numbers)
        self._spent, self._drawn, self._chance = np.asarray(spent), int(drawn), bool(chance)
