"""Runs that share a program: they solve apart or together."""

from __future__ import annotations

import types
from collections.abc import Sequence
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import UserError
from ..online import GameState, compiled_together, program
from .collect import Round
from .loop import Clock, Loop, precision


def cohorts(loops: Sequence[Loop], *, together: bool) -> list[Cohort]:
    """The loops by program, in the order in which each program first appears."""
    found: dict[Any, list[int]] = {}
    for place, loop in enumerate(loops):
        shapes = tuple((leaf.shape, str(leaf.dtype)) for leaf in jax.tree.leaves(loop.state))
        found.setdefault((program(loop.game), shapes), []).append(place)
    return [Cohort(places, [loops[place] for place in places], together) for places in found.values()]


@final
class Cohort:
    """Loops of one program, `places` being their numbers in the convoy.

    Apart, every solve is a call of the compiled round, and a loop ends with the bits it would have alone.
    Together, the states are stacked for good and one vmapped program plays a round of all: what a GPU
    wants.
    """

    def __init__(self, places: list[int], loops: list[Loop], together: bool):
        self.places, self.loops, self.together = np.asarray(places), loops, together
        self._state: Any = None
        if together:
            if any(loop.plan.judged for loop in loops) and not loops[0].game.policy.linear:
                raise UserError(
                    "comparator: networks trained together have none; give comparator='none', or "
                    "together=False."
                )
            with precision(loops[0].game):
                self._state = jax.tree.map(lambda *leaves: jnp.stack(leaves), *[one.state for one in loops])
            for loop in loops:
                loop.state = _seen(loop.state.learner.params)

    def learn(self, rounds: Sequence[Round | None], clock: Clock) -> list[str | None]:
        """Ends a round of every loop that has one; what went wrong with each, or None."""
        if not self.together:
            return [
                None if round is None else _told(loop.learn, round, clock.copy())
                for loop, round in zip(self.loops, rounds, strict=True)
            ]
        # A run that has failed keeps its place in the stack, fed with a neighbour's round.
        spare = next((one for one in rounds if one is not None), None)
        if spare is None:
            return [None] * len(rounds)
        with precision(self.loops[0].game):
            asked = [
                loop.question(spare if round is None else round)
                for loop, round in zip(self.loops, rounds, strict=True)
            ]
            play = compiled_together([one.game for one in asked])
            self._state, records = play(
                self._state,
                jax.tree.map(
                    lambda *leaves: np.stack([np.asarray(leaf) for leaf in leaves]),
                    *[one.batch for one in asked],
                ),
                jnp.stack([one.key for one in asked]),
                asked[0].judge,
            )
            records, params = jax.device_get((records, self._state.learner.params))
        told: list[str | None] = []
        for i, (loop, round) in enumerate(zip(self.loops, rounds, strict=True)):
            mine = _seen(jax.tree.map(lambda leaf, i=i: leaf[i], params))
            record = {name: values[i] for name, values in records.items()}
            told.append(None if round is None else _told(loop.answer, round, mine, record, clock.copy()))
        return told

    def finish(self) -> None:
        """Hands every loop what its certificate reads."""
        if self._state is not None:
            stability = np.asarray(self._state.running.stability)
            for i, loop in enumerate(self.loops):
                loop.state = loop.state._replace(running=types.SimpleNamespace(stability=stability[i]))  # type: ignore[arg-type]


def _told(work: Any, *arguments: Any) -> str | None:
    try:
        work(*arguments)
    except UserError as error:
        return str(error)
    return None


def _seen(params: Any) -> GameState:
    """What a loop needs to know of a state that is kept in a stack: the parameters."""
    learner: Any = types.SimpleNamespace(params=params)
    nothing: Any = None
    return GameState(learner, nothing, nothing, nothing, nothing)
