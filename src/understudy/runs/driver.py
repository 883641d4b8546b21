"""Who acts in a round: the policy, the expert, one of them at random, or the expert where it takes over.

A label is asked for at once where the expert acts, or where it remembers what it saw; all others after the
round.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ..asking import Gate
from ..envs.gymnasium import Seen, derive
from ..policies.acting import Actor
from ..samples import Labels, Path
from ..student import Plan, Understudy
from .labelling import Human, Labelling, some_of

if TYPE_CHECKING:
    from .collect import Episodes


def drawn(plan: Plan, seed: int, *, begun: int = 0, spent: bool = False) -> np.ndarray:
    """In which steps of a round the expert acts, (size,): with probability β, drawn for every step. The first
    `begun` are labels from before a break, which count as such steps. spent: the labels of the round are
    limited; where they are spent, the policy acts.
    """
    if plan.beta in (0.0, 1.0):  # no number is drawn that could change it
        by_expert = np.full(plan.size, plan.beta == 1.0)
    else:
        by_expert = np.random.default_rng(derive(seed, "mixing", plan.number)).random(plan.size) < plan.beta
    by_expert[:begun] = True
    return by_expert & (np.cumsum(by_expert) <= plan.labels) if spent else by_expert


def noise_of(student: Understudy, plan: Plan) -> np.ndarray | None:
    """What is added to the policy's outputs in a round, (size, k): Gaussian (Box) or Gumbel on the logits
    (choices); None where nothing is.
    """
    actions, size = student.parts.actions, student.resolved.noise
    if not size:
        return None
    rng = np.random.default_rng(derive(student.spec.seed, "noise", plan.number))
    shape = plan.size, actions.outputs
    made = rng.gumbel(size=shape) if actions.categorical else rng.standard_normal(shape)
    return (size * made).astype(np.float32)


@final
class Driver:
    """Acts for a student in the slots of a run, round after round. asked: labels of the round so far.

    A policy with memory begins a round in the midst of an episode with what its new parameters remember of
    the last states; within the round its memory goes on, whoever acts.
    """

    def __init__(self, student: Understudy, labelling: Labelling, episodes: Episodes):
        self.student, self.labelling, self.episodes = student, labelling, episodes
        self._remembers = labelling.expert.on_reset is not None
        self._infos = labelling.expert.needs_infos or labelling.expert.person is not None
        seen = student.parts.observations
        rows = student.spec.memory_limit // max(seen.width * seen.dtype.itemsize, 1)
        # A rule must have seen the whole round before anything is asked.
        self._most = None if student.timetable.rule is not None else max(rows, episodes.count)

    def begin(self, plan: Plan, found: Sequence[Any] = ()) -> Path:
        """The empty path of a round; `found` are labels of it from before a break."""
        student = self.student
        self.path = path = student.path(plan.size, self.episodes.count)
        path.recover(found[: plan.size])
        limited = student.timetable.budget is not None
        path.by_expert[:] = drawn(plan, student.spec.seed, begun=path.begun, spent=limited)
        self._noise, self._gate = noise_of(student, plan), student.gate()
        self._actor: Actor | None = None
        self.episodes.driven[:] = False
        self.asked = path.begun
        asked = self._remembers or self._gate is not None or path.by_expert[path.begun :].any()
        self._alone = not asked  # nobody but the policy acts, and nothing is asked on the way
        self.labelling.begin(plan.number)
        return path

    def act(self, slots: np.ndarray, seen: Seen, rows: np.ndarray) -> Any:
        """The actions (n, …) in these slots, which show `seen`, as rows (n, width)."""
        path, here = self.path, slice(self.path.row, self.path.row + len(rows))
        if self._alone:
            self._wait(seen, range(here.start, here.stop))
            return self._policy(slots, rows, here)
        if self._gate is not None:
            self._take_over(self._gate, slots, seen, rows, here)
        acts = self.student.parts.actions
        asked = np.ones(len(rows), bool) if self._remembers else path.by_expert[here].copy()
        actions = np.zeros((len(rows), *acts.shape), acts.dtype)
        if asked.any():
            chosen = np.flatnonzero(asked)
            some = seen if asked.all() else some_of(seen, chosen)
            labels = self.labelling.label(some, rows[chosen], live=True)
            path.enter(here.start + chosen, labels)
            self.asked += int(labels.new.sum())
            actions[chosen] = self._played(labels)
            path.by_expert[here][chosen] &= labels.answered  # where it is silent, the policy acts
        if not asked.all():
            others = np.flatnonzero(~asked)
            self._wait(some_of(seen, others), here.start + others)
        mine = ~path.by_expert[here]
        if mine.all():
            return self._policy(slots, rows, here)
        if self.student.game.policy.memory and not path.by_expert.all():  # it goes on, whoever acts
            actions[mine] = self._policy(slots, rows, here)[mine]
        elif mine.any():
            actions[mine] = self._policy(slots[mine], rows[mine], here, mine)
        return actions

    def _policy(self, slots: np.ndarray, rows: np.ndarray, here: slice, mine: Any = slice(None)) -> Any:
        """The policy's actions for these rows, with the noise of the steps `here`, or of those of them that
        are `mine`.
        """
        if self._actor is None:
            self._actor = self._loaded()
        outputs = self._actor.outputs(rows, slots)
        if self._noise is not None:
            outputs = outputs + self._noise[here][mine]
        return self.student.parts.actions.plays(outputs)

    def _loaded(self) -> Actor:
        """The policy of now; what it remembers comes from the last rows of every slot."""
        policy, params = self.student.acting()
        actor = Actor(policy, params, self.student.normaliser, self.episodes.count)
        kept, burn = self.episodes.history.kept, getattr(policy, "burn", 0)
        for j in range(kept.shape[1] - burn, kept.shape[1]) if actor.memory else ():
            actor.outputs(kept[:, j], self.episodes.slots)
        return actor

    def _played(self, labels: Labels) -> np.ndarray:
        """The actions behind answers, zeros where there are none; a distribution is played by its mode."""
        acts = self.student.parts.actions
        if not labels.answered.any():
            return np.zeros((len(labels.answered), *acts.shape), acts.dtype)
        if self.student.parts.kind == "distribution":
            return acts.plays(labels.values)
        return np.asarray(labels.values).astype(acts.dtype).reshape(-1, *acts.shape)

    def _take_over(
        self, gate: tuple[Gate | None, int], slots: np.ndarray, seen: Seen, rows: np.ndarray, here: slice
    ) -> None:
        """Enters where the expert takes over in this step."""
        rule, most = gate
        left = max(most - int(self.path.by_expert[: here.start].sum()), 0)
        if rule is None:
            assert isinstance(self.labelling, Human)
            drives = np.array([left > 0 and self.labelling.takes_over(seen)])
        else:
            drives = rule.driving(rows, self.episodes.driven[slots])
        self.episodes.driven[slots] = drives & (np.cumsum(drives) <= left)
        self.path.by_expert[here] = self.episodes.driven[slots]

    def _wait(self, seen: Seen, index: Any) -> None:
        """Keeps states whose labels are asked for after the round. Where the limit of memory is reached,
        those before are asked about now: they are on the path already.
        """
        waiting = len(self.path.waiting) * self.episodes.count
        if self._most is not None and waiting >= self._most:
            self.labelling.answer(self.path, np.ones(self.path.size))
        infos = copy.deepcopy(seen.infos) if self._infos else ()  # environments may write over them
        self.path.waiting.append((Seen(seen.batch, infos), index))
