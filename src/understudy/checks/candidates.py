"""Streams of losses with the numbers of a learner, as points of a search: drawn, and changed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Candidate(NamedTuple):
    """One point of the search: T rounds of at most m samples with d features and one answer each."""

    X: np.ndarray  # (T, m, d)
    y: np.ndarray  # (T, m), for cross-entropy the probability of the second label
    sizes: np.ndarray  # (T,), samples in use
    numbers: np.ndarray  # (3,), log10 of the step, log10 of the radius, the schedule's first round
    learner: np.ndarray  # (), which learner of the family

    def rounds(self, labels: bool) -> list[tuple[np.ndarray, np.ndarray]]:
        """The rounds [(X, Y), …] as `replay` takes them."""
        pairs = [(X[:n], y[:n, None]) for X, y, n in zip(self.X, self.y, self.sizes, strict=True)]
        return [(X, np.hstack([1 - Y, Y]) if labels else Y) for X, Y in pairs]

    @property
    def step(self) -> float:
        return float(10.0 ** self.numbers[0])

    @property
    def radius(self) -> float:
        return float(10.0 ** self.numbers[1])

    @property
    def start(self) -> int:
        return int(self.numbers[2])


def draw(rng: np.random.Generator, shape: tuple[int, int, int], labels: bool, learners: int) -> Candidate:
    """A stream of one of several kinds: features all alike, one at a time, repeated or of low rank, at scales
    that differ; answers from a teacher, from one that changes its sign, or far away.
    """
    T, m, d = shape
    X = rng.normal(size=(T, m, d))
    kind = rng.integers(5)
    if kind == 0:
        X = X * (rng.integers(d, size=(T, m, 1)) == np.arange(d))
    elif kind == 1:
        X = X[:1] + 0.1 * rng.normal() * X
    elif kind == 2:
        X = X[rng.integers(max(T // 3, 1), size=T)]
    elif kind == 3:
        X = X[..., :1] * rng.normal(size=d) + 10.0 ** rng.uniform(-12, 0) * X
    if rng.random() < 0.6:
        X = X * 10.0 ** rng.uniform(-3, 3, size=d)
    teacher = rng.normal(size=d) / np.maximum(np.abs(X).mean(axis=(0, 1)), 1e-6)
    sides = np.where(rng.random(T) < rng.choice([0.0, 0.3, 0.5]), -1.0, 1.0)[:, None]
    y = (X @ teacher) * sides + rng.choice([0.0, 0.1, 1.0]) * rng.normal(size=(T, m))
    y = y * 10.0 ** rng.uniform(-2, 2) + rng.choice([0.0, 0.0, 1.0]) * 10.0 ** rng.uniform(0, 3)
    sizes = np.full(T, m) if rng.random() < 0.5 else rng.integers(1, m + 1, size=T)
    numbers = np.array([rng.uniform(-2, 2), rng.uniform(-1.5, 1.5), rng.choice([1, 1, 1, 2, 3])])
    found = Candidate(X, y, sizes, numbers, np.asarray(rng.integers(learners)))
    return _legal(found, labels)


def change(
    one: Candidate, other: Candidate, rng: np.random.Generator, labels: bool, learners: int
) -> Candidate:
    """`one` after one to three small or large moves of a pattern search; `other` may lend it rounds."""
    X, y, sizes, numbers, learner = (np.array(part) for part in one)
    T, m, d = X.shape
    for _ in range(rng.integers(1, 4)):
        move, size = rng.integers(9), rng.choice([0.03, 0.3, 1.0])
        t, i, j = rng.integers(T), rng.integers(m), rng.integers(d)
        span = slice(t, rng.integers(t, T) + 1)
        factor = rng.choice([-1.0, 1.0], p=[0.2, 0.8]) * 10.0 ** (size * rng.normal())
        if move == 0:
            X[t, i, j] *= factor
        elif move == 1:
            X[span, :, j] *= factor
        elif move == 2:
            X[..., j] *= factor
        elif move == 3:
            y[t, i] = y[t, i] * factor if rng.random() < 0.7 else y[t, i] + size * rng.normal()
        elif move == 4:
            y[span] *= factor
        elif move == 5:
            source = one if rng.random() < 0.7 else other
            u = rng.integers(T)
            X[t], y[t], sizes[t] = source.X[u], source.y[u], source.sizes[u]
        elif move == 6:
            X[t, i, j] = rng.choice([0.0, X[t, i, j] + size * rng.normal()])
        elif move == 7:
            numbers[:2] += size * rng.normal(size=2) * rng.integers(2, size=2)
        elif rng.random() < 0.5:
            sizes[t], numbers[2] = rng.integers(1, m + 1), rng.choice([1, 1, 1, 2, 3])
        else:
            learner = np.asarray(rng.integers(learners))
    return _legal(Candidate(X, y, sizes, numbers, learner), labels)


def _legal(one: Candidate, labels: bool) -> Candidate:
    """Numbers kept where double precision separates a false bound from rounding; shares within [0, 1]."""
    X, y = np.clip(one.X, -1e4, 1e4), np.clip(one.y, -1e6, 1e6)
    if labels:
        outside = (y < 0) | (y > 1)
        y = np.where(outside, (y > 0).astype(float), y)
    numbers = np.clip(one.numbers, [-4, -3, 1], [4, 3, 3])
    return one._replace(X=X, y=y, numbers=numbers)
