"""A round: the states that were visited in it, who acted in them, and what the expert said of them; and its
samples as sequences, for policies with memory.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, final

import jax
import numpy as np
from jax import Array

from ..errors import UserError
from ..policies import Actions, Seen
from ..policies.codecs import JAX, NUMPY

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from ..envs.gymnasium import Observed
    from ..policies.codecs import Numeric
    from ..runs.journal import Kept

    Numbers = np.ndarray | Array
    """An array of NumPy, or on the device."""

TERMINATED, TRUNCATED, EXPERT, BREAK = 1, 2, 4, 8
STEPS = 64
"""Steps of a round that are written into its columns at once."""


class Counts(NamedTuple):
    """Statistics of a round: the share of steps in which the expert acted, how often it took over from the
    policy within an episode, and how many episodes ended.
    """

    by_expert: float
    handovers: int
    episodes: int


@final
@dataclasses.dataclass(frozen=True, kw_only=True)
class Round:
    """The samples of one round, one row per interaction, in the order played (slot after slot within a step).

    inputs (m, width): the observation encoded, before standardising; targets (m, k): the expert's label;
    executed (m, a): the action played; rewards (m,); flags (m,): 1 terminated, 2 truncated, 4 the expert
    acted, 8 from before a break (what was played is not known); slots (m,): which environment; weights (m,):
    of the sample in the round's loss, 0 where it has no label (its target is 0 then). `labels` counts
    labels asked for, `unanswered` states that the expert gave none for. The first five may be arrays on the
    device (see `runs.device`); `counted` comes with them. With several experts: by (m,), the number of the
    expert that labels a state, −1 where that is not known; new (m,), which states were asked about now.
    """

    inputs: Any
    targets: Numbers
    executed: Numbers
    rewards: Numbers
    flags: Numbers
    slots: np.ndarray
    weights: np.ndarray
    labels: int
    unanswered: int = 0
    recorded: bool = False
    counted: Counts | None = None
    by: np.ndarray | None = None
    new: np.ndarray | None = None

    @property
    def steps(self) -> int:
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


class Labels(NamedTuple):
    """Answers to k states. values (k, …): the expert's, zeros where there is none; answered (k,): where there
    is one; new (k,): which of them were asked for now, and not known from before; by (k,): of several
    experts, the number of the one whose each state is.
    """

    values: np.ndarray
    answered: np.ndarray
    new: np.ndarray
    by: np.ndarray | None = None

    @classmethod
    def of(cls, values: np.ndarray) -> Labels:
        """All answered, and all new."""
        return cls(values, np.ones(len(values), bool), np.ones(len(values), bool))


@final
class Path:
    """A round while it is played: the columns of `Round`, filled row by row, and the states that wait for a
    label.

    by_expert (m,): where the expert acts, as far as that is drawn before; labelled, new, silent (m,): which
    samples have a label, were asked about in this round, and got no answer. waiting: what states show whose
    labels are asked for later, each with the rows that they are. begun: how many of the first samples are
    labels from before a break. known: what a device says of a round all of whose labels it has computed;
    those of states with a weight count as asked for. by (m,): of several experts, whose a state is.
    """

    def __init__(self, size: int, observations: Seen, actions: Actions, kind: str, envs: int = 1):
        self.size, self.envs, self._actions, self._kind = size, envs, actions, kind
        self.inputs: Any = np.empty((size, observations.width), observations.dtype)
        self.targets: Any = np.zeros((size, actions.outputs), np.float32)
        self.executed: Any = np.empty((size, actions.size), actions.dtype)
        self.rewards: Any = np.empty(size, np.float32)
        self.flags: Any = np.zeros(size, np.uint8)
        self.labelled, self.new, self.silent = (np.zeros(size, bool) for _ in range(3))
        self.by_expert = np.zeros(size, bool)
        self.waiting: list[tuple[Observed, np.ndarray | slice]] = []
        self._steps: list[tuple[np.ndarray, ArrayLike, ArrayLike]] = []  # entered a few at a time
        self.filled = self.begun = 0
        self.known: Counts | None = None
        self.by: np.ndarray | None = None

    def recover(self, found: Sequence[Kept]) -> None:
        """Enters labels from before a break (`runs.journal.Kept`) as the first samples."""
        self.filled = self.begun = count = len(found)
        if count:
            self.inputs[:count] = np.stack([np.asarray(one.row) for one in found])
            self.targets[:count] = self.targets_of(np.stack([one.label for one in found]))
            self.executed[:count], self.rewards[:count], self.flags[:count] = 0, np.nan, BREAK
            self.labelled[:count] = self.new[:count] = True

    def record(
        self,
        rows: np.ndarray,
        actions: ArrayLike,
        rewards: ArrayLike,
        terminated: np.ndarray | None = None,
        truncated: np.ndarray | None = None,
    ) -> None:
        """Enters a step: what the environments showed, what was played there, and what came of it.
        terminated, truncated (n,): where an episode ended; None where none did.
        """
        row, self.filled = self.filled, self.filled + len(rows)
        self._steps.append((rows, actions, rewards))
        if terminated is not None and truncated is not None:
            self.flags[row : self.filled] = TERMINATED * terminated + TRUNCATED * truncated
        if len(self._steps) >= STEPS:
            self.settle()

    def settle(self) -> None:
        """Writes the last steps into the columns."""
        if not self._steps:
            return
        rows, actions, rewards = zip(*self._steps, strict=True)
        self._steps, inputs = [], np.concatenate(rows)
        here = slice(self.filled - len(inputs), self.filled)
        self.inputs[here] = inputs
        self.executed[here] = np.concatenate([np.asarray(one) for one in actions]).reshape(len(inputs), -1)
        self.rewards[here] = rewards if np.ndim(rewards[0]) == 0 else np.concatenate(rewards)

    def enter(self, index: ArrayLike, labels: Labels) -> None:
        """Enters the expert's answers to the samples `index` (k,)."""
        has, index = labels.answered, np.asarray(index)
        if has.all():
            self.targets[index] = self.targets_of(np.asarray(labels.values))
        elif has.any():
            self.targets[index[has]] = self.targets_of(np.asarray(labels.values)[has])
        self.labelled[index], self.new[index], self.silent[index] = has, labels.new, ~has
        if labels.by is not None:
            self.by = np.full(self.size, -1) if self.by is None else self.by
            self.by[index] = labels.by

    def targets_of(self, values: np.ndarray) -> np.ndarray:
        """What the learner is to give where the expert has answered so."""
        return self._actions.targets(values, self._kind)

    @property
    def slots(self) -> np.ndarray:
        """Which environment each sample is of, (m,)."""
        return ((np.arange(self.size) - self.begun) % self.envs).astype(np.int32)

    @property
    def ends(self) -> np.ndarray:
        """After which states an episode was terminated, (m,)."""
        return np.asarray(self.flags) & TERMINATED > 0

    def round(self, weights: np.ndarray) -> Round:
        """The round in which these states have weights (m,), 0 for those that were not asked about. Those
        with an answer stand for those without.
        """
        asked = weights > 0
        if self.known is not None:
            return self._round(weights, self.targets if asked.all() else self.targets * asked[:, None])
        has = self.labelled
        if asked.any() and not has.any():
            raise UserError(f"the expert gave no answer in any of {int(asked.sum())} states.")
        if not has[asked].all():
            weights = weights * (weights.sum() / weights[has].sum())
        self.flags[self.begun :][self.by_expert[self.begun :]] |= EXPERT
        return self._round(np.where(has, weights, 0.0), self.targets)

    def _round(self, weights: np.ndarray, targets: Numbers) -> Round:
        asked = weights > 0 if self.known is not None else self.new
        return Round(
            inputs=self.inputs,
            targets=targets,
            executed=self.executed,
            rewards=self.rewards,
            flags=self.flags,
            slots=self.slots,
            weights=weights,
            labels=int(np.count_nonzero(asked)),
            unanswered=int(self.silent.sum()),
            counted=self.known,
            by=self.by,
            new=None if self.by is None else self.new,
        )


@final
@dataclasses.dataclass(frozen=True, eq=False)
class Question:
    """What the expert is to be asked: the states `index` (k,) of the `path` of a round, each with the
    probability `p` (k,) with which it was to be asked. weights (m,): of all states in the round's loss.
    """

    id: int
    index: np.ndarray
    p: np.ndarray
    weights: np.ndarray
    path: Path


def count(size: int, envs: int, length: int) -> int:
    """How many sequences of so many rows the samples of a round in so many slots make."""
    each = [size // envs + (slot < size % envs) for slot in range(min(envs, size))]
    return sum(-(-one // length) for one in each)


@final
class Sequences:
    """Cuts the samples of each slot into sequences of `burn` + `length` rows, in the order played.

    Every sample is once among the last `length` rows of a sequence; before them are the `burn` samples that
    came before in the slot, from the round before where need be, with weight 0: they warm the memory. What is
    missing is rows of zeros. The last column of a row is its mark (see `Recalled`): 1 in the first sample of
    a sequence, where the memory is empty.

    >>> cut = Sequences(length=2, burn=1)
    >>> rows = np.array([[5.0, 1.0], [6.0, 0.0], [7.0, 0.0]], np.float32)
    >>> inputs, _, weights = cut.of(rows, np.ones((3, 1)), np.full(3, 1 / 3), np.zeros(3, int))
    >>> inputs[..., 0].tolist(), inputs[..., 1].tolist()
    ([[0.0, 5.0, 6.0], [6.0, 7.0, 0.0]], [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]])
    >>> (weights > 0).tolist(), count(3, envs=1, length=2)
    ([[False, True, True], [False, True, False]], 2)
    """

    def __init__(self, length: int, burn: int):
        self.length, self.burn = length, burn
        self._last: Any = None  # (slots, burn, width): the rows before the next, the last at the end
        self._have = np.zeros(0, np.int64)  # how many of them there are

    def of(
        self, inputs: Numeric, targets: Numeric, weights: np.ndarray, slots: np.ndarray
    ) -> tuple[Numeric, Numeric, np.ndarray]:
        """The next round's samples, with the sequences in front: (n, l, width), (n, l, k) and (n, l). Inputs
        and targets that are on the device stay there.
        """
        owners, counts = np.unique(slots, return_counts=True)
        order, starts = np.argsort(slots, kind="stable"), np.cumsum(counts) - counts
        self._grow(int(owners[-1]) + 1, inputs)
        each = -(-counts // self.length)
        mine = np.repeat(np.arange(len(owners)), each)  # of a sequence: its slot, and its first sample there
        first = (np.arange(len(mine)) - np.repeat(np.cumsum(each) - each, each)) * self.length
        size = len(self._have) * self.burn  # the rows from before are in front of the round's

        def places(of: np.ndarray, at: np.ndarray) -> np.ndarray:
            """Where the rows `at` (n, …) of slots `of` (n,) are; those below 0 are old ones. −1: nowhere."""
            of = of[:, None]
            old = (at < 0) & (at >= -self._have[owners[of]])
            new = (at >= 0) & (at < counts[of])
            here = size + order[np.clip(starts[of] + at, 0, len(order) - 1)]
            return np.where(new, here, np.where(old, (owners[of] + 1) * self.burn + at, -1))

        steps = np.arange(-self.burn, self.length)
        where = places(mine, first[:, None] + steps)
        begins = np.argmax(where >= 0, axis=1)[:, None] == np.arange(len(steps))
        after = np.arange(size).reshape(len(self._have), self.burn)
        after[owners] = places(np.arange(len(owners)), counts[:, None] - np.arange(self.burn, 0, -1))
        self._have[owners] = np.minimum(self._have[owners] + counts, self.burn)
        own = np.where((steps >= 0) & (where >= 0), where - size, -1)
        taken: Any = taken_here if isinstance(inputs, np.ndarray) else taken_there
        rows, labels, self._last = taken(self._last, inputs, targets, where, begins, own, after)
        return rows, labels, np.where(own >= 0, weights[own], 0)

    def arrays(self) -> dict[str, np.ndarray]:
        """What the next round's sequences begin with, for a snapshot."""
        if self._last is None:
            return {}
        return {"before.rows": np.asarray(self._last), "before.have": self._have}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Goes on from what `arrays` gave."""
        if "before.rows" in arrays:
            self._last, self._have = arrays["before.rows"], np.array(arrays["before.have"])

    def _grow(self, slots: int, inputs: np.ndarray | Array) -> None:
        missing = slots - len(self._have)
        if self._last is None or missing > 0:
            own = NUMPY if isinstance(inputs, np.ndarray) else JAX
            more = own.zeros((missing, self.burn, inputs.shape[1]), inputs.dtype)
            self._last = more if self._last is None else own.concatenate([self._last, more])
            self._have = np.concatenate([self._have, np.zeros(missing, np.int64)])


def taken_here(
    last: Numeric, inputs: Numeric, targets: Numeric, *places: Numeric
) -> tuple[Numeric, Numeric, Numeric]:
    """The inputs and targets of sequences, and the rows that stay: see `Sequences.of`."""
    xp = NUMPY if isinstance(inputs, np.ndarray) else JAX
    where, begins, own, after = places
    every = xp.concatenate([last.reshape(-1, inputs.shape[1]), inputs])

    def at(rows: Numeric, places: Numeric) -> Numeric:
        return xp.where((places >= 0)[..., None], rows[places], xp.zeros((), rows.dtype))

    rows = at(every, where)
    marks = xp.where(begins, xp.ones((), rows.dtype), rows[..., -1])
    rows = xp.concatenate([rows[..., :-1], marks[..., None]], axis=-1)
    return rows, at(targets, own), at(every, after)


taken_there = jax.jit(taken_here)
