"""A round to collect, what it collects, and what is random in it."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from ..envs.gymnasium import derive
from ..errors import UserError
from ..policies import Actions
from ..policies import Seen as Sees
from .labels import Answers

if TYPE_CHECKING:
    from ..asking import Gate
    from .groups import Members
    from .journal import Kept

TERMINATED, TRUNCATED, EXPERT, BREAK = 1, 2, 4, 8


class Counts(NamedTuple):
    """What a round says of itself: the share of steps that the expert acted, how often it took over from the
    policy within an episode, and episodes that ended.
    """

    by_expert: float
    handovers: int
    episodes: int


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
    device (see `device`); `counted` comes with them.
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
    counted: Counts | None = None

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

    @property
    def counts(self) -> Counts:
        """What the round says of itself."""
        if self.counted is not None:
            return self.counted
        acts, ended = self.flags & EXPERT > 0, self.flags & (TERMINATED | TRUNCATED) > 0
        handovers = 0
        for slot in np.unique(self.slots):
            mine, over = acts[self.slots == slot], ended[self.slots == slot]
            handovers += int(np.sum(mine[1:] & ~mine[:-1] & ~over[:-1]))
        return Counts(float(acts.mean()), handovers, int(ended.sum()))


@final
class Columns:
    """Arrays (n, size, …): see `Round` for those that it has too.

    labelled: whether a sample has a label; new: whether the expert was asked for it in this round (it may
    have been known); silent: whether it gave none; weights: those of a round in which every state is asked
    about, until a rule sets them.
    """

    def __init__(self, n: int, size: int, seen: Sees, actions: Actions, kind: str):
        self.size, self._actions, self._kind = size, actions, kind
        self.inputs = np.empty((n, size, seen.width), seen.dtype)
        self.targets = np.zeros((n, size, actions.outputs), np.float32)
        self.executed = np.empty((n, size, actions.size), actions.dtype)
        self.rewards, self.flags = np.empty((n, size), np.float32), np.zeros((n, size), np.uint8)
        self.labelled, self.new, self.silent = (np.zeros((n, size), bool) for _ in range(3))
        self.weights = np.full((n, size), 1.0 / size)
        self.begun = 0
        """How many of the samples are labels from before a break."""

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
        self.silent[place] = ~has.reshape(shape)

    def recover(self, found: Sequence[Kept]) -> None:
        """Enters labels from before a break as the first samples of the only run. What was played in their
        states is not known.
        """
        self.begun = count = len(found)
        if count:
            self.inputs[0, :count] = np.stack([np.asarray(one.row) for one in found])
            labels = np.stack([one.label for one in found])
            self.targets[0, :count] = self._actions.targets(labels, self._kind)
            self.executed[0, :count], self.rewards[0, :count], self.flags[0, :count] = 0, np.nan, BREAK
            self.labelled[0, :count] = self.new[0, :count] = True

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
            slots=((np.arange(self.size) - self.begun) % envs).astype(np.int32),
            weights=np.where(has, weights, 0.0),
            queries=int(self.new[i].sum()),
            unanswered=int(self.silent[i].sum()),
        )


Asking = Callable[[int, np.ndarray, np.ndarray, np.ndarray], np.ndarray]
"""From a run, its round's inputs (m, width), where the policy acted (m,) and after which states an episode
was terminated (m,) to the weights of the states in the round's loss, 0 for those that the expert is not asked
about, (m,). Where the expert acted it was asked.
"""


class Wanted(NamedTuple):
    """A round to collect.

    runs: n of them; size: interactions of each; number: of the round, from 1; betas (n): the probability that
    the expert acts; acting: from some of the runs to their policies, by architecture; asking: a query rule;
    gates: by run, when the expert takes over on the spot (None: a person, who decides that) and how many
    steps it may drive at most; most: by run, how many steps it may drive where β decides, if there is a
    limit.
    """

    runs: Sequence[int]
    size: int
    number: int
    betas: Sequence[float]
    acting: Callable[[Sequence[int]], list[Members]]
    asking: Asking | None = None
    gates: Mapping[int, tuple[Gate | None, int]] = types.MappingProxyType({})
    most: Mapping[int, int] = types.MappingProxyType({})


class Driver(NamedTuple):
    """What is random in a run's rounds: all of it follows from its seed. `noise` is the size of the noise
    on what the policy plays: Gaussian (Box) or Gumbel on the logits (choices).
    """

    seed: int
    noise: float = 0.0

    def draws(
        self, actions: Actions, number: int, size: int, beta: float, most: int | None = None, begun: int = 0
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """For round `number`: where the expert acts (size,), in the first `most` of these steps, and the
        noise (size, k). The first `begun` are labels from before a break, which count as such steps.
        """
        if beta in (0.0, 1.0):  # no number is drawn that could change it
            by_expert = np.full(size, beta == 1.0)
        else:
            by_expert = np.random.default_rng(derive(self.seed, "mixing", number)).random(size) < beta
        by_expert[:begun] = True
        if most is not None:  # the budget: where it is spent, the policy acts
            by_expert &= np.cumsum(by_expert) <= most
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
