"""Ask about the states that are farthest from those labelled so far."""

from __future__ import annotations

import dataclasses
from typing import final

import numpy as np

from ..errors import check_name
from ..policies import MLP, Params, Policy
from ..policies.mlp import ACTIVATIONS
from .base import View, whole
from .scored import Score, Scored

BLOCK = 4096
"""Labelled states that distances are taken to at once: bounds the memory."""


@final
@dataclasses.dataclass(frozen=True, kw_only=True)
class Distance(Scored):
    """Distance to the nearest labelled state, in the policy's own last features or in its observations.

    k states of a round are chosen as centres, greedily: the farthest first, then the farthest from the
    labelled states and that one, and so on (k-centre, within twice the best radius; Gonzalez 1985). With a
    quantile α the score is the distance to the `neighbour`-th nearest labelled state, and the threshold the
    (1 − α) quantile of those distances among the labelled states themselves, as CRSAIL sets it.

    >>> from understudy.losses import Squared
    >>> from understudy.policies import Linear
    >>> rows, known = np.array([[0.4], [5.0], [4.9]]), np.array([[0.0], [1.0]])
    >>> view = View(rows, known, known, Linear(), np.zeros((1, 1)), Squared(), 2, np.random.default_rng(0))
    >>> Distance(number=2, on="observations").choose(view).index.tolist()
    [0, 1]
    """

    on: str = "features"
    neighbour: int = 1

    def __post_init__(self):
        super().__post_init__()
        check_name("ask: on", self.on, ("features", "observations"))
        object.__setattr__(self, "neighbour", whole("neighbour", self.neighbour))

    def _places(self, view: View, rows: np.ndarray) -> np.ndarray:
        return features(view.policy, view.params, rows) if self.on == "features" else plain(rows)

    def score(self, view: View) -> Score:
        known = self._places(view, view.known)
        return lambda rows: nearest(self._places(view, rows), known, self.neighbour)

    def calibration(self, view: View, score: Score) -> np.ndarray:
        known = self._places(view, view.known)
        if len(known) <= self.neighbour:
            return np.zeros(0)  # too few labels to say what is far: every state is
        return nearest(known, known, self.neighbour + 1)  # the nearest is the state itself

    def highest(self, view: View, count: int) -> np.ndarray:
        rows = self._places(view, view.rows)
        squares = np.sum(rows * rows, axis=1)
        away = nearest(rows, self._places(view, view.known), 1) ** 2
        chosen = np.empty(count, int)
        for i in range(count):
            chosen[i] = np.argmax(away)
            away = np.minimum(away, squares - 2.0 * (rows @ rows[chosen[i]]) + squares[chosen[i]])
            away[chosen[: i + 1]] = -np.inf  # once each, also where all are the same
        return chosen


def plain(rows: np.ndarray) -> np.ndarray:
    """Rows of floats; bytes, as in images, become fractions of 255."""
    return rows.astype(np.float32) / np.float32(255) if rows.dtype == np.uint8 else rows


def features(policy: Policy, params: Params, rows: np.ndarray) -> np.ndarray:
    """What the last layer of a network sees of rows (n, width); the rows themselves of other policies."""
    x = plain(rows)
    if isinstance(policy, MLP):
        activate = ACTIVATIONS[policy.activation].numpy
        for layer in params[:-1]:
            x = activate(x @ np.asarray(layer["weight"]) + np.asarray(layer["bias"]))
    return x


def nearest(rows: np.ndarray, known: np.ndarray, which: int) -> np.ndarray:
    """The distance of each row (n, d) to its `which`-th nearest of the known ones; infinite where there are
    fewer.
    """
    found = np.full((len(rows), which), np.inf)
    squares = np.sum(rows * rows, axis=1)
    for first in range(0, len(known), BLOCK):
        part = known[first : first + BLOCK]
        apart = squares[:, None] - 2.0 * (rows @ part.T) + np.sum(part * part, axis=1)
        if which == 1:
            found = np.minimum(found, apart.min(axis=1, keepdims=True))
        else:
            found = np.partition(np.concatenate([found, apart], axis=1), which - 1, axis=1)[:, :which]
    return np.sqrt(np.maximum(found[:, which - 1], 0.0))
