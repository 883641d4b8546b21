"""What a few measured numbers can tell: Student's intervals of means, paired differences and ratios.

The numbers are one a seed, or one an episode. A bootstrap of n numbers is too short when n is small (with
three its 95 % are 77 %); Student's t is exact for normal numbers, and its width says how little two can tell.
Two policies are compared on the *same* episodes, so what counts is the spread of their differences:

    mean(d) ± t_{n−1} s(d)/√n,        d_i = mine_i − theirs_i

A ratio of means q = mean(mine)/mean(theirs) has Fieller's interval: all q at which mine_i − q theirs_i may
have the mean zero. It is not bounded where `theirs` may itself have the mean zero; then nothing is claimed.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import scipy  # `special` takes a tenth of a second, and is imported when it is first used
from numpy.typing import ArrayLike

LEVEL = 0.95


class Interval(NamedTuple):
    """An estimate and its interval: infinite ends where the numbers are too few to bound it.

    middle: the estimate; low, high: the interval's ends; count: how many numbers, or pairs, it rests on.
    """

    middle: float
    low: float = -math.inf
    high: float = math.inf
    count: int = 0


def mean(values: ArrayLike, level: float = LEVEL) -> Interval:
    """Student's interval of the mean of values (n,). Where one is not finite the mean is what NumPy says, and
    nothing bounds it.

    >>> [round(x, 3) for x in mean([1.0, 2.0, 3.0])[:3]]
    [2.0, -0.484, 4.484]
    >>> mean([2.0])
    Interval(middle=2.0, low=-inf, high=inf, count=1)
    """
    numbers = np.asarray(values, float)
    if not len(numbers):
        return Interval(math.nan)
    middle = float(numbers.mean())
    if len(numbers) < 2 or not np.isfinite(numbers).all():
        return Interval(middle, count=len(numbers))
    half = _quantile(len(numbers), level) * float(numbers.std(ddof=1)) / math.sqrt(len(numbers))
    return Interval(middle, middle - half, middle + half, len(numbers))


def of_moments(middle: float, deviation: float, count: int, level: float = LEVEL) -> Interval:
    """Student's interval of the mean of numbers of which only mean, standard deviation (``np.std``) and count
    are known.

    >>> [round(x, 3) for x in of_moments(2.0, float(np.std([1.0, 2.0, 3.0])), 3)[:3]]
    [2.0, -0.484, 4.484]
    """
    if count < 2:
        return Interval(middle, count=count)
    half = _quantile(count, level) * deviation / math.sqrt(count - 1)
    return Interval(middle, middle - half, middle + half, count)


def difference(mine: ArrayLike, theirs: ArrayLike, level: float = LEVEL) -> Interval:
    """Student's interval of the mean of mine − theirs, both (n,) and paired: of the same episodes or seeds.

    >>> difference([1.0, 5.0, 9.0], [0.0, 4.0, 8.0])
    Interval(middle=1.0, low=1.0, high=1.0, count=3)
    """
    return mean(_paired(mine, theirs), level)


def ratio(mine: ArrayLike, theirs: ArrayLike, level: float = LEVEL) -> Interval:
    """Fieller's interval of mean(mine)/mean(theirs), both (n,) and paired. Where the mean of `theirs` cannot
    be told from zero, or a number is not finite, nothing bounds the ratio.

    >>> [round(x, 3) for x in ratio([2.0, 2.5, 3.0], [4.0, 4.0, 4.5])[:3]]
    [0.6, 0.353, 0.792]
    """
    _paired(mine, theirs)
    a, b = np.asarray(mine, float), np.asarray(theirs, float)
    if not len(a):
        return Interval(math.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        middle = float(a.mean() / b.mean())
    unbounded = Interval(middle, count=len(a))
    if len(a) < 2 or not (np.isfinite(a).all() and np.isfinite(b).all()):
        return unbounded
    scale = _quantile(len(a), level) ** 2 / len(a)
    square = b.mean() ** 2 - scale * b.var(ddof=1)
    if not square > 0:
        return unbounded
    # (ā − q b̄)² ≤ t²/n · var(a − q b) is a quadratic inequality in q. It is solved for q − ā/b̄: the mean of
    # d = a − (ā/b̄) b is zero, so where all pairs have one ratio no difference of large numbers is left.
    (dd, db), _ = np.cov(a - middle * b, b) * scale
    root = math.sqrt(db**2 + square * dd)
    low, high = middle - float((db + root) / square), middle + float((root - db) / square)
    return Interval(middle, low, high, len(a))


def median(values: ArrayLike, level: float = LEVEL) -> Interval:
    """The median of values (n,) between two of them: the order statistics that hold the true median with at
    least `level`, whatever the distribution. Fewer than six values bound nothing at 95 %. Infinite values
    (what was never reached) are greater than all others.

    >>> median([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    Interval(middle=3.5, low=1.0, high=6.0, count=6)
    """
    ordered = np.sort(np.asarray(values, float))
    count = len(ordered)
    if not count or np.isnan(ordered).any():
        return Interval(math.nan, count=count)
    middle = float(ordered[(count - 1) // 2 : count // 2 + 1].mean())
    # P(fewer than k of n values lie below the median), for a fair coin; both tails may hold 1 − level.
    below = [float(scipy.special.bdtr(k - 1, count, 0.5)) for k in range(1, count // 2 + 1)]
    inner = sum(2 * tail <= 1 - level for tail in below)
    if not inner:
        return Interval(middle, count=count)
    return Interval(middle, float(ordered[inner - 1]), float(ordered[count - inner]), count)


def _paired(mine: ArrayLike, theirs: ArrayLike) -> np.ndarray:
    a, b = np.asarray(mine, float), np.asarray(theirs, float)
    if a.shape != b.shape or a.ndim != 1:
        raise ValueError(f"pairs are two vectors of one length, not of shapes {a.shape} and {b.shape}")
    return a - b


def _quantile(count: int, level: float) -> float:
    return float(scipy.special.stdtrit(count - 1, 0.5 + level / 2))
