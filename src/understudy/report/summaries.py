"""Curves of several runs with their bands, for a plot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

POINTS = 160
"""Most points of a curve."""


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
