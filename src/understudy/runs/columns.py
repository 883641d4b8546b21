"""The samples of a round of n runs while they are collected, as arrays of all runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np

from ..errors import UserError
from ..policies import Actions
from ..policies import Seen as Sees
from .collected import BREAK, Round
from .journal import Kept
from .labels import Answers


@final
class Columns:
    """Arrays (n, size, …): see `Round` for those that it has too.

    labelled: whether a sample has a label; new: whether the expert was asked for it in this round (it may
    have been known); weights: those of a round in which every state is asked about, until a rule sets them.
    """

    def __init__(self, n: int, size: int, seen: Sees, actions: Actions, kind: str):
        self.size, self._actions, self._kind = size, actions, kind
        self.inputs = np.empty((n, size, seen.width), seen.dtype)
        self.targets = np.zeros((n, size, actions.outputs), np.float32)
        self.executed = np.empty((n, size, actions.size), actions.dtype)
        self.rewards, self.flags = np.empty((n, size), np.float32), np.zeros((n, size), np.uint8)
        self.labelled, self.new = np.zeros((n, size), bool), np.zeros((n, size), bool)
        self.weights = np.full((n, size), 1.0 / size)

    def note(self, place: Any, shape: tuple[int, ...], answers: Answers) -> None:
        """Enters the expert's answers at `place`, which has this shape."""
        has, k = answers.answered, self._actions.outputs
        if answers.whole:
            self.targets[place] = self._actions.targets(answers.labels, self._kind).reshape(*shape, k)
            self.labelled[place] = self.new[place] = True
            return
        if has.any():
            found = np.zeros((len(has), k), np.float32)
            found[has] = self._actions.targets(answers.labels[has], self._kind)
            self.targets[place] = found.reshape(*shape, k)
        self.labelled[place], self.new[place] = has.reshape(shape), answers.new.reshape(shape)

    def recover(self, found: Sequence[Kept]) -> int:
        """Enters labels from before a break as the first samples of the only run; how many. What was played
        in their states is not known.
        """
        count = len(found)
        if count:
            self.inputs[0, :count] = np.stack([np.asarray(one.row) for one in found])
            labels = np.stack([one.label for one in found])
            self.targets[0, :count] = self._actions.targets(labels, self._kind)
            self.executed[0, :count], self.rewards[0, :count], self.flags[0, :count] = 0, np.nan, BREAK
            self.labelled[0, :count] = self.new[0, :count] = True
        return count

    def round(self, i: int, number: int, envs: int) -> Round | UserError:
        """The round of run i, of so many environments; an error where the expert was silent all along."""
        has, asked = self.labelled[i], self.weights[i] > 0
        if asked.any() and not has.any():
            many = int(asked.sum())
            return UserError(f"round {number}: the expert gave no answer in any of {many} states.")
        weights = self.weights[i]
        if not has[asked].all():  # those with an answer stand for the others
            weights = weights * (weights.sum() / weights[has].sum())
        return Round(
            self.inputs[i],
            self.targets[i],
            self.executed[i],
            self.rewards[i],
            self.flags[i],
            slots=(np.arange(self.size) % envs).astype(np.int32),
            weights=np.where(has, weights, 0.0),
            queries=int(self.new[i].sum()),
            unanswered=int(asked.sum() - has.sum()),
        )
