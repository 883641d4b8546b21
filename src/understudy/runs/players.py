"""The policies of the runs of a round while it is collected: their actions, noise and memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

import numpy as np

from .collected import Wanted

if TYPE_CHECKING:
    from .episodes import Episodes
    from .groups import Members


@final
class Players:
    """What the policies play. `noise` (n, size, k) is added to the outputs of runs that are `noisy` (n,).

    A policy with memory begins a round in the midst of an episode with what its new parameters remember of
    the last `burn` states; within the round its memory goes on, whoever acts.
    """

    def __init__(self, slots: Episodes, wanted: Wanted, noise: np.ndarray, noisy: np.ndarray):
        self._slots, self._wanted, self._noise, self._noisy = slots, wanted, noise, noisy
        self._groups: list[tuple[Members, np.ndarray]] | None = None  # with their places among the live runs
        self._carried: dict[int, np.ndarray] = {}  # the states of policies with memory, by run

    def change(self) -> None:
        """Other runs go on than before, or other steps are the expert's."""
        for group, _ in self._groups or ():
            if group.memory:
                self._carried |= zip(group.runs, group.states, strict=True)
        self._groups = None

    def act(
        self, live: np.ndarray, rows: np.ndarray, by_expert: np.ndarray, actions: np.ndarray, part: slice
    ) -> np.ndarray:
        """`actions` (live · e), with those of the policies in the steps `part` that are not the expert's,
        ``by_expert`` (n, size). `live` are the places of the runs that go on, rows (live, e, width) what
        their slots show.
        """
        acts, mine = self._slots.actions, ~by_expert[live, part]
        if self._groups is None:
            self._groups = self._load(live.tolist(), by_expert)
        for group, at in self._groups:
            here, loud = mine[at], self._noisy[live[at]]
            if not here.any() and not group.memory:
                continue
            outputs = group.outputs(rows[at], here)
            if not here.any():
                continue
            if loud.any():
                outputs[loud] = outputs[loud] + self._noise[live[at[loud]], part]
            if len(at) == len(live) and here.all():
                return acts.plays(outputs.reshape(len(actions), -1))
            theirs = np.zeros(mine.shape, bool)
            theirs[at] = here
            actions[theirs.reshape(-1)] = acts.plays(outputs[here])
        return actions

    def _load(self, live: list[int], by_expert: np.ndarray) -> list[tuple[Members, np.ndarray]]:
        """The policies of the runs in which not all steps are the expert's."""
        runs = self._wanted.runs
        where = {runs[i]: at for at, i in enumerate(live)}
        groups = self._wanted.acting([runs[i] for i in live if not by_expert[i].all()])
        for group in groups:
            self._warm(group)
        return [(group, np.array([where[run] for run in group.runs])) for group in groups]

    def _warm(self, group: Members) -> None:
        """Sets the states of policies with memory: those of runs that have none yet from the last rows of
        their slots.
        """
        if not group.memory:
            return
        e, history = self._slots.envs, self._slots.history
        group.states = np.zeros((len(group.runs), e, group.memory), np.float32)
        if any(run not in self._carried for run in group.runs):
            kept = np.stack([history.kept[run * e : (run + 1) * e] for run in group.runs])
            for j in range(kept.shape[2] - group.burn, kept.shape[2]):
                group.outputs(kept[:, :, j], np.ones(kept.shape[:2], bool))
        for i, run in enumerate(group.runs):
            group.states[i] = self._carried.get(run, group.states[i])
