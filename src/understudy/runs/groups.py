"""What runs share: a forward pass where they have one architecture, a vmapped solve where they have one
program.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, final

import jax
import numpy as np

from ..errors import UserError
from ..policies.acting import forward_rows, forward_stack, forward_step
from ..programs import compiled, compiled_together, program
from .ledger import Clock
from .state import RunState, precision
from .trees import architecture, kind, one_of, over_devices, stacked, to_one_device


@final
class Policies:
    """The policies of runs. Those of one architecture act through one stack of parameters.

    On a CPU every row has the bits it would have alone; on a GPU one compiled call serves several runs.
    """

    def __init__(self, runs: Sequence[RunState]):
        self._runs = runs
        self._alike = Counter(_kind(run.game.policy, run.params) for run in runs)
        self._applied: dict[Any, Any] = {}  # one compiled program for all rounds and evaluations

    def load(self, chosen: Sequence[int], *, shown: bool = False) -> list[Members]:
        """Those of these runs that act, or those that are `shown` in evaluations, by architecture."""
        found: dict[Any, list[tuple[int, Any, Any]]] = {}
        for number in chosen:
            made = self._runs[number].shown() if shown else self._runs[number].acting()
            found.setdefault(_kind(*made), []).append((number, *made))
        groups = []
        for same, members in found.items():
            numbers, (policy, *_), params = zip(*members, strict=True)
            runs = [self._runs[i] for i in numbers]
            alone = self._alike[_kind(runs[0].game.policy, runs[0].params)] == 1
            if not alone and jax.default_backend() != "cpu" and same not in self._applied:
                self._applied[same] = jax.jit(jax.vmap(policy.step if policy.memory else policy.apply))
            groups.append(Members(policy, list(numbers), runs, list(params), self._applied.get(same)))
        return groups


def _kind(policy: Any, params: Any) -> Any:
    return architecture(policy), kind(params)


class Members:
    """The policies of some runs, ready to act.

    Attributes:
      runs: which these are, by number.
      memory: numbers that each policy carries from step to step; 0: none.
      burn: states that warm its memory.
      states: what the policies remember in e slots each, (runs, e, memory); None: nothing yet.
    """

    def __init__(self, policy: Any, numbers: list[int], runs: list[RunState], params: list[Any], apply: Any):
        self.runs, self._game, self._apply = numbers, runs[0].game, apply
        self.memory, self.burn = policy.memory, getattr(policy, "burn", 0)
        self.states: Any = None
        means, scales = ([getattr(one.normaliser, name) for one in runs] for name in ("mean", "scale"))
        self._mean, self._scale = np.stack(means)[:, None], np.stack(scales)[:, None]
        self._plain = all(one.normaliser.nothing for one in runs)
        if apply is None and policy.memory:
            self._steps = [forward_step(policy, one) for one in params]
        elif apply is None:
            self._stack = forward_stack(policy, params)
            self._rows = [forward_rows(policy, one) for one in params]
        else:
            with precision(self._game):
                stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *params)
                self._params = jax.device_put(stacked)

    def outputs(self, rows: np.ndarray, active: np.ndarray) -> np.ndarray:
        """Raw outputs (runs, e, k) for the rows of the first e slots, (runs, e, width). Only `active` ones
        (runs, e) mean something. The `states` of policies with memory become the next ones, for all rows.
        """
        rows = rows if self._plain else (rows - self._mean) / self._scale
        if self.memory:
            if self.states is None:
                self.states = np.zeros((*rows.shape[:2], self.memory), np.float32)
            states = self.states[:, : rows.shape[1]]
            if self._apply is not None:
                with precision(self._game):
                    new, found = self._apply(self._params, states, rows)
            else:
                each = [step(*pair) for step, *pair in zip(self._steps, states, rows, strict=True)]
                new, found = zip(*each, strict=True)
            states[...] = new
            return np.array(found)
        if self._apply is not None:
            with precision(self._game):
                return np.array(self._apply(self._params, rows))
        if len(self.runs) == 1 and active.all():
            return self._rows[0](rows[0])[None]
        # A stack computes all rows in one call; where a network needs some only, each run computes its own.
        if self._stack is not None and (self._game.policy.linear or active.all()):
            return self._stack(rows)
        found: Any = None
        for i in np.flatnonzero(active.any(axis=1)):
            one = self._rows[i](rows[i, active[i]])
            if found is None:
                found = np.zeros((*rows.shape[:2], one.shape[1]), one.dtype)
            found[i, active[i]] = one
        return found


Solved = tuple[Any, dict[str, Any], Callable[[], Any]]
"""What `RunState.answer` takes of a solve: the new parameters, the record, and the losses so far, on call."""


def by_program(runs: Sequence[RunState], *, together: bool) -> list[OneProgram]:
    """The runs by program, in the order in which each program first appears. Those judged after other
    rounds are apart: the best in hindsight is found for all runs of a call or for none.
    """
    found: dict[Any, list[int]] = {}
    for number, run in enumerate(runs):
        judged = run.plan.judged if run.game.policy.linear else None
        same = program(run.game), kind(run.state), judged, id(run.reader)  # one reads for all, or none does
        found.setdefault(same, []).append(number)
    return [OneProgram(numbers, [runs[i] for i in numbers], together) for numbers in found.values()]


@final
class OneProgram:
    """Runs that one compiled program solves.

    Apart, every solve is one call, and a run ends with the bits it would have alone. Together, the states
    are stacked for good and one vmapped call plays a round of all runs, which is the fast way on a GPU.
    """

    def __init__(self, numbers: list[int], runs: list[RunState], together: bool):
        self.numbers, self.runs, self.together = numbers, runs, together and len(runs) > 1
        self._state: Any = None
        if self.together:
            with precision(runs[0].game):
                self._state = over_devices(stacked([one.state for one in runs]))
            for run in runs:
                run.state = None

    def learn(self, rounds: dict[int, Any], clock: Clock) -> dict[int, UserError]:
        """Ends a round of every run that has one; the errors of those whose solve failed."""
        here = [(i, number) for i, number in enumerate(self.numbers) if number in rounds]
        errors: dict[int, UserError] = {}
        clock, solved = clock.copy(), None
        if self.together and here:
            solved, errors = self._all(rounds, here)
            here = [(i, number) for i, number in here if i in solved]
            clock.lap("solve", max(1, len(here)))
        for i, number in here:
            run, own = self.runs[i], clock.copy()
            try:
                answer = self._one(run, rounds[number]) if solved is None else solved[i]
                run.answer(rounds[number], *answer, own)
            except UserError as error:
                errors[number] = error
        return errors

    def lend(self, number: int, *, back: bool = False) -> None:
        """Gives a run of the stack its own state, for a snapshot, or takes it `back`."""
        if self.together and number in self.numbers:
            i = self.numbers.index(number)
            with precision(self.runs[i].game):
                self.runs[i].state = None if back else one_of(self._state, i)

    def _one(self, run: RunState, round: Any) -> Solved:
        with precision(run.game):
            game, batch, key, judge = run.question(round)
            run.state, record = compiled(game)(to_one_device(run.state), batch, key, judge)
            record, params = jax.device_get(record), jax.tree.map(np.array, run.state.learner.params)
        return params, record, lambda: run.state.losses

    def _all(
        self, rounds: dict[int, Any], here: list[tuple[int, int]]
    ) -> tuple[dict[int, Solved], dict[int, UserError]]:
        """What was solved, by place in the stack, and the errors of runs that have no question, by number."""
        found: dict[int, Any] = {}
        errors: dict[int, UserError] = {}
        with precision(self.runs[0].game):
            for i, number in here:
                try:
                    found[i] = self.runs[i].question(rounds[number])
                except UserError as error:
                    errors[number] = error
            if not found:
                return {}, errors
            # A run that has failed keeps its place in the stack, and plays the round of another.
            spare = next(iter(found.values()))
            asked = [found.get(i, spare) for i in range(len(self.runs))]
            play = compiled_together([one.game for one in asked])
            batches, keys = over_devices(stacked([(one.batch, one.key) for one in asked]))
            state, records = play(self._state, batches, keys, spare.judge)
            self._state = over_devices(state)  # where the first was, so that the program is compiled once
            records, params = jax.device_get((records, self._state.learner.params))
        solved: dict[int, Solved] = {
            i: (
                jax.tree.map(lambda leaf, i=i: np.array(leaf[i]), params),
                {name: values[i] for name, values in records.items()},
                lambda i=i: one_of(self._state.losses, i),
            )
            for i in found
        }
        return solved, errors
