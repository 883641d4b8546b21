"""What a round collects, and what is random in it."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple, final

import numpy as np

from ..envs.gymnasium import derive
from ..policies import Actions

TERMINATED, TRUNCATED, EXPERT, BREAK = 1, 2, 4, 8


class Counts(NamedTuple):
    """What a round that is on the device says of itself: see the methods of `Round`."""

    episodes: int
    by_expert: float
    handovers: int


@final
@dataclasses.dataclass(frozen=True)
class Round:
    """The samples of one round of one run, one row per interaction, in the order played (slot after slot
    within a step).

    inputs (m, width): the observation encoded, before standardising; targets (m, k): the expert's label;
    executed (m, a): the action played; rewards (m,); flags (m,): 1 terminated, 2 truncated, 4 the expert
    acted, 8 from before a break (what was played is not known); slots (m,): which environment; weights (m,):
    of the sample in the round's loss, 0 where it has no label (its target is 0 then). `queries` counts
    labels asked for, `unanswered` states that the expert gave none for. The first five may be arrays on the
    device (see `device`); `counts` comes with them.
    """

    inputs: Any
    targets: Any
    executed: Any
    rewards: Any
    flags: Any
    slots: np.ndarray
    weights: np.ndarray
    queries: int
    unanswered: int = 0
    recorded: bool = False
    counts: Counts | None = None

    @property
    def interactions(self) -> int:
        """Environment steps of the run: none for recorded demonstrations."""
        return 0 if self.recorded else len(self)

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def labelled(self) -> int:
        """How many of the samples have a label."""
        return int(np.count_nonzero(self.weights))

    def episodes(self) -> int:
        """Episodes that ended in the round."""
        if self.counts is not None:
            return self.counts.episodes
        return int((self.flags & (TERMINATED | TRUNCATED) > 0).sum())

    def by_expert(self) -> float:
        """The share of steps that the expert acted."""
        return float((self.flags & EXPERT > 0).mean()) if self.counts is None else self.counts.by_expert

    def handovers(self) -> int:
        """How often the expert took over from the policy within an episode."""
        if self.counts is not None:
            return self.counts.handovers
        found = 0
        for slot in np.unique(self.slots):
            flags = self.flags[self.slots == slot]
            acts, ended = flags & EXPERT > 0, flags & (TERMINATED | TRUNCATED) > 0
            found += int(np.sum(acts[1:] & ~acts[:-1] & ~ended[:-1]))
        return found


class Driver(NamedTuple):
    """What is random in a run's rounds: all of it follows from its seed. `noise` is the size of the noise
    on what the policy plays: Gaussian (Box) or Gumbel on the logits (choices).
    """

    seed: int
    noise: float = 0.0

    def draws(
        self, actions: Actions, number: int, size: int, beta: float
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """For round `number`: where the expert acts (size,), and the noise (size, k)."""
        by_expert = np.random.default_rng(derive(self.seed, "mixing", number)).random(size) < beta
        if not self.noise:
            return by_expert, None
        rng, shape = np.random.default_rng(derive(self.seed, "noise", number)), (size, actions.outputs)
        drawn = rng.gumbel(size=shape) if actions.categorical else rng.standard_normal(shape)
        return by_expert, (self.noise * drawn).astype(np.float32)


def not_finite_rows(rows: np.ndarray) -> np.ndarray:
    """The numbers of rows (n, width) that hold a nan or an infinity."""
    if rows.dtype.kind != "f" or np.isfinite(rows).all():
        return np.zeros(0, np.int64)
    return np.flatnonzero(~np.isfinite(rows).all(axis=1))
