"""Runs whose policies have one architecture: whatever their learners, they act through one stack."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import jax
import numpy as np

from ..policies.acting import forward_rows, forward_stack
from .loop import Loop, precision


def troupes(loops: Sequence[Loop]) -> list[Troupe]:
    """The loops by architecture, in the order in which each first appears."""
    found: dict[Any, list[int]] = {}
    for place, loop in enumerate(loops):
        leaves, structure = jax.tree.flatten(loop.game.policy)
        shapes = tuple((leaf.shape, str(leaf.dtype)) for leaf in jax.tree.leaves(loop.state.learner.params))
        found.setdefault((structure, tuple(map(id, leaves)), shapes), []).append(place)
    return [Troupe(places, [loops[place] for place in places]) for places in found.values()]


@final
class Troupe:
    """Loops of one architecture, `places` being their numbers in the convoy.

    On a CPU every row has the bits it would have alone; on a GPU one compiled call serves all.
    """

    def __init__(self, places: Sequence[int], loops: Sequence[Loop]):
        self._loops, self._game = dict(zip(places, loops, strict=True)), loops[0].game
        self._policy = self._game.policy
        self._apply = None if jax.default_backend() == "cpu" else jax.jit(jax.vmap(self._policy.apply))

    def ready(self, chosen: Sequence[int]) -> list[int]:
        """Reads the parameters of the `chosen` runs of this group and returns their places. Called before
        every round and evaluation.
        """
        members = [place for place in chosen if place in self._loops]
        if not members:
            return members
        loops = [self._loops[place] for place in members]
        means, scales = ([getattr(one.normaliser, name) for one in loops] for name in ("mean", "scale"))
        self._mean, self._scale = np.stack(means)[:, None], np.stack(scales)[:, None]
        self._plain = all(one.normaliser.nothing for one in loops)
        params = [jax.tree.map(np.asarray, loop.state.learner.params) for loop in loops]
        if self._apply is None:
            self._stack = forward_stack(self._policy, params)
            self._rows = [forward_rows(self._policy, one) for one in params]
        else:
            with precision(self._game):
                self._params = jax.device_put(jax.tree.map(lambda *leaves: np.stack(leaves), *params))
        return members

    def outputs(self, rows: np.ndarray, active: np.ndarray) -> np.ndarray:
        """Raw outputs (members, e, k) for e rows each, (members, e, width); those not `active` may be
        anything.
        """
        rows = rows if self._plain else (rows - self._mean) / self._scale
        if self._apply is not None:
            with precision(self._game):
                return np.array(self._apply(self._params, rows))
        # Where some are not needed, only those that are; a stack has them all in one call.
        if self._stack is not None and (self._policy.linear or active.all()):
            return self._stack(rows)
        found: Any = None
        for run in np.flatnonzero(active.any(axis=1)):
            one = self._rows[run](rows[run, active[run]])
            if found is None:
                found = np.zeros((*rows.shape[:2], one.shape[1]), one.dtype)
            found[run, active[run]] = one
        return found
