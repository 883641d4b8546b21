"""Several runs in a few numbers: interquartile means, bootstrap intervals, and curves with their bands."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

RESAMPLES = 2000
POINTS = 160
"""Most points of a curve."""


class Interval(NamedTuple):
    """A number and its 95 % bootstrap interval; nan where there are too few numbers for one."""

    middle: float
    low: float = math.nan
    high: float = math.nan


def iqm(values: Any, axis: int = -1) -> Any:
    """The interquartile mean: that of the values left when a quarter is cut from each end; of fewer than four
    values the mean.

    >>> float(iqm([0.0, 1.0, 2.0, 99.0]))
    1.5
    """
    ordered = np.sort(np.asarray(values, float), axis=axis)
    cut = ordered.shape[axis] // 4
    kept = np.take(ordered, range(cut, ordered.shape[axis] - cut), axis=axis)
    return kept.mean(axis=axis)


def interval(values: Any, statistic: Callable[..., Any] = iqm, *, resamples: int = RESAMPLES) -> Interval:
    """`statistic` of the values, and the 2.5 % and 97.5 % quantiles of what it is on resamples of them, drawn
    with replacement. Values that are not finite are left out; the same values give the same interval.

    >>> interval([1.0, 1.0, 1.0])
    Interval(middle=1.0, low=1.0, high=1.0)
    """
    numbers = np.asarray(values, float)
    numbers = numbers[np.isfinite(numbers)]
    if not len(numbers):
        return Interval(math.nan)
    middle = float(statistic(numbers))
    if len(numbers) < 2:
        return Interval(middle)
    return Interval(middle, *_spread(statistic(numbers[_draws(len(numbers), resamples)], axis=-1)))


def ratio(mine: Any, theirs: Any) -> Interval:
    """The mean of `mine` over the mean of `theirs`, with its interval; episodes of equal seeds, of which both
    have as many, are drawn in pairs.

    >>> ratio([2.0, 2.0], [4.0, 4.0])
    Interval(middle=0.5, low=0.5, high=0.5)
    """
    mine, theirs = np.asarray(mine, float), np.asarray(theirs, float)
    middle = float(mine.mean() / theirs.mean())
    if min(len(mine), len(theirs)) < 2:
        return Interval(middle)
    first = _draws(len(mine))
    second = first if len(mine) == len(theirs) else _draws(len(theirs), stream=1)
    with np.errstate(all="ignore"):
        return Interval(middle, *_spread(mine[first].mean(axis=-1) / theirs[second].mean(axis=-1)))


def _draws(size: int, resamples: int = RESAMPLES, *, stream: int = 0) -> np.ndarray:
    return np.random.default_rng([size, stream]).integers(0, size, (resamples, size))


def _spread(values: np.ndarray) -> tuple[float, float]:
    low, high = np.quantile(values, [0.025, 0.975])
    return float(low), float(high)


def curve(xs: Sequence[Any], ys: Sequence[Any]) -> dict[str, Any] | None:
    """The mean of several curves and the band between their 5 % and 95 % quantiles, at most at `POINTS`.

    Where the curves have the same places, those are taken, else places where all of them are, between which
    each curve is a straight line. Numbers that are not finite are left out. None where nothing is left.

    >>> curve([[1, 2], [1, 2]], [[0.0, 1.0], [2.0, 3.0]])["middle"]
    [1.0, 2.0]
    """
    pairs = []
    for x, y in zip(xs, ys, strict=True):
        x, y = np.asarray(x, float), np.asarray(y, float)
        size = min(len(x), len(y))
        there = np.isfinite(x[:size]) & np.isfinite(y[:size])
        if there.any():
            pairs.append((x[:size][there], y[:size][there]))
    if not pairs:
        return None
    places = pairs[0][0]
    if any(len(x) != len(places) or (x != places).any() for x, _ in pairs[1:]):
        low, high = max(x[0] for x, _ in pairs), min(x[-1] for x, _ in pairs)
        every = np.unique(np.concatenate([x for x, _ in pairs]))
        places = every[(every >= low) & (every <= high)]
        if not len(places):  # they have no place in common, so the first stands alone
            places, pairs = pairs[0][0], pairs[:1]
    places = places[thinned(len(places))]
    rows = np.stack([np.interp(places, x, y) for x, y in pairs])
    made: dict[str, Any] = {"x": short(places), "middle": short(rows.mean(axis=0)), "runs": len(rows)}
    if len(rows) > 1:
        low, high = np.quantile(rows, [0.05, 0.95], axis=0)
        made |= {"low": short(low), "high": short(high)}
    return made


def short(values: Any) -> list[Any]:
    """Numbers for a plot, with seven digits.

    >>> short([1 / 3, 2])
    [0.3333333, 2.0]
    """
    return [float(f"{one:.7g}") for one in np.asarray(values, float).tolist()]


def thinned(size: int, most: int = POINTS) -> np.ndarray:
    """Numbers of at most `most` rows of `size`, evenly spread, the first and the last among them.

    >>> thinned(5, 3).tolist()
    [0, 2, 4]
    """
    return np.unique(np.linspace(0, size - 1, min(size, most)).round().astype(int))
