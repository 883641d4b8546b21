"""What learns: policy, loss, learner, solver, ask rule, ledger and certificate; no environment, no expert.

    question = student.choose(states)           which of the states visited the expert is to be asked about
    row = student.learn(question, labels)       one round of the game, and its row of the ledger

`runs.Run` is a student in an environment with an expert and a folder. Whoever steps a robot or a simulator
of their own calls these two, with whatever time passes between them.
"""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownLambdaType=false
# pyright: reportUnknownVariableType=false, reportMissingTypeStubs=false
# JAX and optax say little of the types of their trees.

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from . import saving, threefry
from .asking import Driven, Gate, View
from .asking.base import at_random, beside, chosen_by, shortly_before
from .asking.visited import Measure, Visited, largest, per_sample
from .automatic import Automatic
from .defaults import UNCOMPARED
from .envs.gymnasium import derive
from .errors import UserError
from .machine import count_cores
from .nested import batch_size
from .objectives import Batch, Limited, Losses, Samples, Statistics, batch, empty_samples, limited, plain
from .online import LARGE, Game, GameState, Record, certify
from .parts import Parts, parts_of, remembers
from .policies import MLP, Committee, Guest, Normaliser, Params, Policy, TrainedPolicy
from .programs import alone, apart, compiled_solver, plain_keys, stacked
from .regret import COLUMNS, Certificate, Ledger
from .samples import UNREAD, Labels, Path, Question, Reader, Round, SampleLog, Sequences
from .solvers import Status, adam
from .students.rounds import Fitted, distance

if TYPE_CHECKING:
    from jax.typing import ArrayLike

    from .disk import Json
    from .experts import Kind, Nested, Space
    from .losses import Loss
    from .objectives import Reservoir, Window
    from .objectives.objective import Reader as Rows
    from .spec import Setting

Row: TypeAlias = "dict[str, float | str]"
"""A row of the ledger: numbers, nan where one was not measured, and words."""

EXTRA = {
    "steps": "environment steps so far",
    "labels": "expert labels so far",
    "unanswered": "states so far that a slow expert gave no label for",
    "asked": "share of the round's states that have a label",
    "breaks": "times so far that the run was resumed with a new episode in place of the one under way",
    "beta": "probability that the expert acted",
    "by_expert": "share of the round's steps that the expert acted",
    "handovers": "times in the round that the expert took over from the policy within an episode",
    "episodes": "episodes that ended in the round",
    "agreement": "share of the round's states where the policy's most likely action was the expert's; nan "
    "where actions are not one choice",
    "visited_high": "with probability 95 %, in all rounds at once, cumulative loss on all states visited, "
    "labelled or not, is at most this; nan where cumulative_loss is an estimate of it without a proof",
    "return_mean": "mean return of the policy after the round; nan where it was not evaluated",
    "return_std": "its standard deviation over episodes",
    "score_low": "the policy after the round has at least this share of the expert's return (this agreement, "
    "this loss), where it was tested as `until` says; nan where it was not",
    "score_high": "and at most this",
}
"""Columns of a run's ledger beside `understudy.regret.COLUMNS`."""
NAMES = ["round", "samples", *EXTRA, *(name for name in COLUMNS if name not in ("round", "samples"))]


BY_EXPERT = {
    "round": "t, from 1",
    "expert": "its name",
    "labels": "its labels so far",
    "loss": "the loss on its states of the round, before the update; nan where it has none, or of a policy "
    "with memory",
    "agreement": "share of these states where the policy's most likely action was its; nan where actions are "
    "not one choice",
}
"""Columns of the account of several experts, with a row a round and expert."""
ANEW = 3
"""How many trainings, one after another, a network gets in its first round in an ensemble."""


class Plan(NamedTuple):
    """The coming round: its number, its steps, the probability that the expert acts in a step, and the
    most labels that it may ask for.
    """

    number: int
    size: int
    beta: float
    labels: int


TIMES = ("collect", "solve", "comparator", "evaluate")
"""Parts of a round."""


@final
class Clock:
    """Seconds spent in each part of a round."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = dict.fromkeys(TIMES, 0.0)
        self._last = time.perf_counter()

    def __call__(self, part: str) -> None:
        """Counts the time since the last call for a part."""
        now = time.perf_counter()
        self.laps[part] += now - self._last
        self._last = now


Play = Callable[[Game, GameState, Batch, Array, "ArrayLike | None"], tuple[GameState, Record]]
"""`Game.play`, compiled: alone, or together with those of other runs (`together.Together`)."""


def precision(game: Game) -> contextlib.AbstractContextManager[None]:
    """Linear policies are solved to rounding, which needs float64; networks are not."""
    return jax.enable_x64(True) if game.policy.linear else contextlib.nullcontext()


@final
class Understudy:
    """A student of an expert, without the expert: it says which labels it wants and learns from them.

    Args:
      observation_space, action_space: Gymnasium's.
      label_kind: "action", or "distribution" where the expert answers with probabilities.
      settings: any field of `understudy.RunSpec` that is not about environment or expert.

    >>> import numpy as np
    >>> from gymnasium.spaces import Box
    >>> from understudy import Understudy
    >>> student = Understudy(Box(-1, 1, (2,)), Box(-1, 1, (1,)), policy="linear", rounds=2, steps_per_round=4)
    >>> states = np.array([[0.1, 0.2], [0.3, -0.1], [0.5, 0.5], [-0.2, 0.9]])
    >>> question = student.choose(states)
    >>> row = student.learn(question, states[question.index, :1] - states[question.index, 1:])
    >>> row["labels"], student.act([0.5, 0.0]).round(2)
    (4, array([0.5], dtype=float32))
    """

    def __init__(
        self,
        observation_space: Space,
        action_space: Space,
        *,
        label_kind: Kind = "action",
        **settings: Setting,
    ):
        parts = parts_of(observation_space, action_space, label_kind, settings)
        self._begin(parts, SampleLog(parts.observations, parts.actions))

    @classmethod
    def of(cls, parts: Parts, samples: SampleLog, *, play: Play = alone) -> Understudy:
        """The student that a run's parts make; `play` plays its rounds of the game."""
        student = cls.__new__(cls)
        student._begin(parts, samples, play)
        return student

    def _begin(self, parts: Parts, samples: SampleLog, play: Play = alone) -> None:
        game, spec = parts.game, parts.spec
        self.parts, self.spec, self.game, self.samples = parts, spec, game, samples
        self.resolved, self.timetable, self.on_device = parts.resolved, parts.resolved.plan, False
        scale = parts.resolved.automatic
        self.automatic = None if scale is None else Automatic(scale)
        self.round = self.steps = self.labels = self.unanswered = self.breaks = 0
        self.rows: list[Row] = []
        self.ended = False  # before the last planned round
        self.by_expert: list[Row] = []
        self._dtype = jnp.float64 if game.policy.linear else jnp.float32
        self._key = threefry.key(derive(spec.seed, "solver"))
        self._guest = game.policy if isinstance(game.policy, Guest) else None
        self.rounds: Compiled | Fitted
        if self._guest is None:
            reader = (Reader(samples, self._dtype) if samples.keeps else UNREAD) if samples.mapped else None
            self.rounds = Compiled(game, play, reader)
        else:
            self.rounds = Fitted(game)
        self.reader = self.rounds.reader
        # Many demonstrations are never in one batch: they are read where they are, some at a time.
        self._reads_demos = (
            isinstance(self.reader, Reader)
            and parts.demos is not None
            and len(parts.demos) > LARGE
            and not game.policy.linear
            and not game.policy.memory
            and spec.memory == "all"
        )
        self._rows, self._capacity = parts.room
        if self._reads_demos:
            self._rows = max(1, *(most for _, most in self.timetable.rounds))
        self.see_as(parts.normaliser)
        architecture = game.policy
        self.cut = Sequences(architecture.length, architecture.burn) if remembers(architecture) else None
        with precision(game):
            self.state = self.rounds.start(parts.params, self._empty(parts.params))
        self.params = self._first = jax.tree.map(np.array, parts.params)
        self.recent: list[Params] = []
        self.ensemble: list[Params] = []
        self.members: list[Params] = []
        self.visited: Visited | None = None
        self.open: dict[int, Question] = {}
        self.asked = 0  # questions
        if self.timetable.rule is not None:
            labels = min(most for _, most in self.timetable.rounds[:3])
            top = largest(game.policy, game.loss, parts.actions)
            weighed = self.resolved.ordinary is not None
            self.visited = Visited(self.timetable.rule, top, labels, weighed=weighed)

    # ------------------------------------------------------------------------------------ asking

    @property
    def finished(self) -> bool:
        """Whether all planned rounds are learnt, the budget is spent, or the goal is reached."""
        return self.ended or self._ends(self.round, self.labels)

    def _ends(self, t: int, labels: int) -> bool:
        """Whether round t, after which there are so many labels, is the last."""
        budget = self.timetable.budget
        return t >= len(self.timetable.sizes) or (budget is not None and labels >= budget)

    @property
    def coming(self) -> int:
        """The number of the coming round; rounds whose questions are open have theirs already."""
        return self.round + 1 + len(self.open)

    @property
    def left(self) -> int:
        """The most labels of the coming round."""
        if self.coming > len(self.timetable.rounds):
            return 0
        most, budget = self.timetable.rounds[self.coming - 1][1], self.timetable.budget
        asked = self.labels + sum(len(question.index) for question in self.open.values())
        return most if budget is None else max(min(most, budget - asked), 0)

    @property
    def plan(self) -> Plan:
        """The coming round."""
        number, sizes = self.coming, self.timetable.sizes
        if self.finished or number > len(sizes):
            state = f"are over, or open ({len(self.open)})" if self.open else "are over"
            raise UserError(f"rounds: all {number - 1} {state}; more rounds or a larger budget plan more.")
        return Plan(number, sizes[number - 1], self.timetable.mixing.beta(number), self.left)

    def path(self, size: int | None = None, envs: int = 1) -> Path:
        """An empty record of a round of `size` steps (default: as planned), for `choose`."""
        size = self.plan.size if size is None else size
        return Path(size, self.parts.observations, self.parts.actions, self.parts.kind, envs)

    def choose(self, states: Nested | Path, *, driven: ArrayLike | None = None) -> Question:
        """The states of a round that the expert is to be asked about.

        states: n observations (arrays, or a dict of arrays, with n in front), or the `Path` of a round.
        driven (n,): where the expert acted; such states are asked about whatever the rule. The question may
        wait; what is learnt is the same whenever its labels come.
        """
        path = states if isinstance(states, Path) else self._walked(states, driven)
        _ = self.plan  # refuses where no round is left
        if path.size > (most := max(self.timetable.sizes)):
            raise UserError(
                f"states: {path.size} are more than a round of this student has ({most}); "
                "steps_per_round plans larger rounds."
            )
        path.settle()
        if self.timetable.rule is None:
            weights, p = np.full(path.size, 1.0 / path.size), np.ones(path.size)
        else:
            weights, p = self._weigh(path)
        index = np.flatnonzero(weights)
        self.asked += 1
        question = Question(self.asked, index, p[index], weights, path)
        self.open[question.id] = question
        return question

    def _walked(self, states: Nested, driven: ArrayLike | None) -> Path:
        """The path of states that somebody else visited; what was played there is not known."""
        path = self.path(batch_size(states))
        rows = self.parts.observations.rows(states)
        path.record(rows, np.zeros((len(rows), self.parts.actions.size)), np.nan)
        if driven is not None:
            path.by_expert[:] = driven
        return path

    def _weigh(self, path: Path) -> tuple[np.ndarray, np.ndarray]:
        """What the ask rule chooses: weights (m,) of the states, and the probabilities (m,) of asking. The
        weights are 1/(M p), or one over the number of the asked where some states are never asked about.
        """
        free = ~path.by_expert
        rule: Any = self.timetable.rule
        states, p = np.flatnonzero(free), 1.0 - free
        driven = path.size - len(states)
        most = self.left - driven
        if len(states) and most > 0:
            inputs = np.asarray(path.inputs)
            spares = getattr(rule, "falls", True) is False
            lost = shortly_before(path.ends, self.timetable.num_envs)[states] if spares else None
            view = self._view(inputs[states], most, lost)
            if self.spec.moment == "spot":  # the rule has chosen already
                random = min(at_random(rule, driven), most)
                chosen = beside(np.zeros(0, int), random, len(states), view.rng)
            else:
                chosen = chosen_by(rule, view)
            p[states[chosen.index]] = chosen.p
        asked = p > 0
        if rule.honest:
            return np.where(asked, 1.0 / (path.size * np.where(asked, p, 1.0)), 0.0), p
        return asked / max(asked.sum(), 1), p

    def gate(self) -> tuple[Gate | None, int] | None:
        """For ``moment="spot"``: the gate that says when the expert takes over in the coming round (None if a
        person decides), and for how many steps at most. None if the expert cannot take over in that round.
        """
        rule: Any = self.timetable.rule
        if isinstance(rule, Driven):
            return None, self.left
        if not self.round:
            return None
        last = self.samples.column("inputs")[-self.timetable.sizes[self.round - 1] :]
        gate = rule.gate(self._view(last, self.left))
        return gate._replace(score=lambda rows: gate.score(self.normaliser(rows))), self.left

    def _view(self, rows: np.ndarray, most: int, lost: np.ndarray | None = None) -> View:
        """What the ask rule sees of the coming round; `rows` are states before they are standardised."""
        rule, column = self.timetable.rule, self.samples.column
        inputs, targets = rows[:0], np.zeros((0, self.parts.actions.outputs), np.float32)
        if rule is not None and rule.reads and self.samples.rows:
            known = np.flatnonzero(column("weights"))
            inputs, targets = column("inputs")[known], column("targets")[known]
        return View(
            rows=self.normaliser(rows),
            known=self.normaliser(inputs),
            targets=targets,
            policy=self.game.policy,
            params=self.params,
            loss=self.game.loss,
            most=most,
            rng=np.random.default_rng(derive(self.spec.seed, "ask", self.coming)),
            lost=lost,
        )

    # ---------------------------------------------------------------------------------- learning

    def answer(self, question: Question, places: ArrayLike, labels: ArrayLike) -> int:
        """Enters labels of some states of a question as they come; how many of its states have none yet.

        places (j,): which of the k states of the question, from 0; labels (j, …). They may come in any order,
        days apart, and twice: what is learnt is the same, so a second label of a state that is another one is
        refused. `save` keeps what has come. `learn` without labels then plays the round.
        """
        self._check_open(question)
        path, where = question.path, np.asarray(places, np.int64).reshape(-1)
        if outside := [place for place in where.tolist() if not 0 <= place < len(question.index)]:
            raise UserError(f"places: {outside[0]} is none of its {len(question.index)} states.")
        given = self._read(len(where), labels, None)
        targets = path.targets_of(given.values)
        for number, (place, i) in enumerate(zip(where.tolist(), question.index[where].tolist(), strict=True)):
            if path.labelled[i] and not np.array_equal(path.targets[i], targets[number]):
                raise UserError(f"labels: state {place} of question {question.id} has another label already.")
            path.enter([i], Labels.of(given.values[number : number + 1]))
        return int(np.count_nonzero(~path.labelled[question.index]))

    def learn(
        self,
        question: Question,
        labels: ArrayLike | Labels | None = None,
        answered: ArrayLike | None = None,
        *,
        clock: Callable[[str], None] = lambda part: None,
    ) -> Row:
        """One round: its loss, the next policy, the best in hindsight where it is due; the row of the ledger.

        labels: the expert's answers (k, …) to the states of the question, in its order, or `Labels`. answered
        (k,): False where it gave none, now or to `answer`; the others then stand for those. labels None: the
        path has them already, by `answer`, and no other label will come.
        """
        self._check_open(question)
        path, index = question.path, question.index
        if isinstance(labels, Labels):
            path.enter(index, labels)
        else:
            if labels is not None:
                read = self._read(len(index), labels, answered)
                self.answer(question, np.flatnonzero(read.answered), read.values[read.answered])
            if path.known is None:
                path.silent[index] = ~path.labelled[index]
        try:
            played = path.round(question.weights)
        except UserError as error:
            raise UserError(f"round {self.round + 1}: {error}") from None
        row = self.learn_round(played, clock=clock)
        del self.open[question.id]
        return row

    def _check_open(self, question: Question) -> None:
        if question.id not in self.open:
            raise UserError(f"question: number {question.id} is not open; it was answered already.")

    def _read(self, k: int, labels: ArrayLike, answered: ArrayLike | None) -> Labels:
        """Answers to k states as they are given, checked."""
        has = np.ones(k, bool) if answered is None else np.asarray(answered, bool)
        values = np.asarray(labels)
        if values.ndim == 0 or len(values) != k or has.shape != (k,):
            count = len(np.atleast_1d(values))
            raise UserError(f"labels: there are {count} for the {k} states of the question.")
        kind = np.int64 if self.parts.actions.categorical and self.parts.kind == "action" else np.float32
        values = values.astype(kind)
        if not np.isfinite(values[has]).all():
            raise UserError("labels: not all are finite; mark states without an answer in answered.")
        return Labels(values, has, has.copy())

    def learn_round(self, found: Round, *, clock: Callable[[str], None] = lambda part: None) -> Row:
        """`learn` of a round that has its labels already, as recorded demonstrations have."""
        t, plan, linear = self.round + 1, self.timetable, self.game.policy.linear
        steps, labels = self.steps + found.steps, self.labels + found.labels
        labelled, unanswered = found.labelled, self.unanswered + found.unanswered
        row: Row = {
            "round": t,
            "samples": labelled,
            "steps": steps,
            "labels": labels,
            "unanswered": unanswered,
            "breaks": self.breaks,
            "asked": labelled / len(found),
            "beta": plan.mixing.beta(t),
            **found.counts._asdict(),
        }
        share = 1.0 if self.resolved.ordinary is None else labelled / self.resolved.ordinary
        found = dataclasses.replace(found, weights=share * found.weights)
        data = self._seen(found)
        self.samples.append(found)
        # With a goal any round may be the last. Networks wait until it is known (`compare_last`).
        last = self._ends(t, labels) or (linear and plan.goal is not None)
        due = t in plan.comparator_rounds or (last and plan.compares_last)
        compare = np.asarray(due) if linear and plan.comparator_rounds else None
        with precision(self.game):
            if self.visited is not None and self.cut is None:
                self._account(self.visited, found, data, share)
            by_expert = self._of_experts(found, data) if self.parts.expert.names else []
            game = self.game if self.automatic is None else self.automatic.tuned(self.game)
            key = threefry.fold_in(self._key, t)
            self.state, record = self.rounds.play(game, self.state, data, key, compare)
            record, params = jax.device_get(record), jax.tree.map(np.array, self.state.learner.params)
        record["agreement"] = record["agreement"] / share  # of this round, whatever it weighs
        self.params, self._robot = params, None
        self.recent, self.ensemble = [*self.recent, params][-self.resolved.average :], []
        if self.automatic is not None and not self.automatic.settled:
            self._see_scale(self.automatic, t, record)
        status = Status(int(record["solver_status"]))
        if status in (Status.DIVERGED, Status.NOT_FINITE):
            raise UserError(
                f"round {t}: the solver left the finite numbers ({status.name.lower()}); "
                "a smaller step or another loss may help."
            )
        clock("solve")
        if due and not linear:
            record = record | self._search(t, record)
        clock("comparator")
        self.round, self.steps, self.labels, self.unanswered = t, steps, labels, unanswered
        self.by_expert += by_expert
        # Without a rule every state is labelled. Unanswered states are not a random choice: then nothing is
        # proved of the loss on all states.
        high = float(record["cumulative_loss"]) if self.visited is None else self.visited.high()
        row["visited_high"] = np.nan if self.unanswered else high
        row |= dict.fromkeys(("return_mean", "return_std", "score_low", "score_high"), np.nan)  # come later
        told = {"solver_status": True, "comparator_status": due and np.isfinite(record["comparator"])}
        for name in NAMES:
            if name in told:
                row[name] = Status(int(record[name])).name.lower() if told[name] else ""
            elif name in record:
                value = np.asarray(record[name])
                row[name] = int(value) if value.dtype.kind == "i" else float(value)
        self.rows.append(row)
        return row

    def _seen(self, found: Round) -> Batch:
        """The samples of a round as the learner sees them."""
        with precision(self.game):
            if found.recorded and self._reads_demos:
                self._standardise(found.inputs)
                nothing = np.zeros((len(found), 0), self._dtype)
                return batch(nothing, found.targets, found.weights, dtype=self._dtype)
            return self.batch(found.inputs, found.targets, found.weights, found.slots)

    def _account(self, visited: Visited, played: Round, data: Batch, share: float) -> None:
        """Enters the round in the account of the loss on all states, asked about or not."""
        losses = np.asarray(self.rounds.measured(self.params, data, played.labelled), np.float64)
        rng = np.random.default_rng(derive(self.spec.seed, "ask", self.round + 1, 1))
        visited.add(played.weights, losses, rng, share)

    def _of_experts(self, played: Round, data: Batch) -> list[Row]:
        """The rows of a round in the account of several experts, see `BY_EXPERT`."""
        names = self.parts.expert.names
        nobody = np.full(len(played), -1)
        by, new = (
            nobody if played.by is None else played.by,
            nobody == 0 if played.new is None else played.new,
        )
        has = np.flatnonzero(played.weights > 0)
        loss = agreement = np.full(len(has), np.nan)
        if self.cut is None:
            loss = self.rounds.measured(self.params, data, played.labelled)
            if self.game.loss.categorical and getattr(self.game.loss, "groups", None) is None:
                agreement = self.rounds.measured(self.params, data, played.labelled, same_choice)
        before = {row["expert"]: row["labels"] for row in self.by_expert[-len(names) :]}
        rows: list[Row] = []
        for number, name in enumerate(names):
            mine = by[has] == number
            weights = played.weights[has][mine]

            def mean(values: np.ndarray, mine: np.ndarray = mine, weights: np.ndarray = weights) -> float:
                return float(np.average(values[mine], weights=weights)) if len(weights) else np.nan

            labels = int(before.get(name, 0)) + int(np.count_nonzero(new & (by == number)))
            row: Row = {"round": self.round + 1, "expert": name, "labels": labels}
            rows.append(row | {"loss": mean(loss), "agreement": mean(agreement)})
        return rows

    def _see_scale(self, automatic: Automatic, t: int, record: Mapping[str, np.ndarray]) -> None:
        """Shows the first rounds to what finds the scale of a learner's penalty."""
        with precision(self.game):
            travelled = float(self.rounds.distance(self.params, self._first))
        automatic.see(t, distance=travelled, gradient=float(record["gradient_norm"]))

    def batch(self, inputs: Any, targets: Any, weights: np.ndarray, slots: np.ndarray) -> Batch:
        """The samples of a round that have a label, as the learner sees them; of a policy with memory all, in
        sequences. The first round fixes how observations are standardised.
        """
        self._standardise(inputs)
        if self.cut is not None:
            labelled = self.cut.of(self.normaliser(inputs), targets, weights, slots)
        else:
            has = slice(None) if (weights > 0).all() else np.flatnonzero(weights > 0)
            labelled = self.normaliser(inputs[has]), targets[has], weights[has]
        return batch(*labelled, rows=self._rows, dtype=self._dtype)

    def _standardise(self, inputs: np.ndarray | Array) -> None:
        if not self.round and self.resolved.standardise:
            self.see_as(Normaliser.fit(inputs, self.parts.observations.measured))

    def see_as(self, normaliser: Normaliser) -> None:
        """Standardises observations so from now on."""
        self.normaliser, self._robot = normaliser, None
        if isinstance(self.reader, Reader):
            self.reader.normaliser = normaliser

    def _empty(self, params: Params) -> Samples | Statistics | Limited:
        """The losses of no round yet."""
        like, capacity, spec = self._like(), self._capacity, self.spec
        whole = self.rounds.empty(params, like, capacity)
        if spec.memory == "all":
            return whole
        key = threefry.key(derive(spec.seed, "memory"))
        return limited(spec.memory, whole, like, rounds=len(self.timetable.sizes), samples=capacity, key=key)

    def _like(self) -> Batch:
        seen = self.parts.observations
        kind = self._dtype if seen.dtype.kind == "f" else seen.dtype
        shape = (self._rows,) if self.cut is None else (self._rows, self.cut.burn + self.cut.length)
        inputs = np.zeros((*shape, seen.width), kind)
        targets = np.zeros((*shape, self.parts.actions.outputs), self._dtype)
        return batch(inputs, targets, np.zeros(shape), dtype=self._dtype)

    def memory_bytes(self) -> int:
        """Bytes of what the learner learns from, with room for all rounds: samples, or their statistics."""

        def kept() -> Window | Reservoir | Samples | Statistics:
            losses = self._empty(jax.tree.map(jnp.asarray, self.parts.params))
            return plain_keys(losses.memory if isinstance(losses, Limited) else losses)

        with precision(self.game):
            return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(jax.eval_shape(kept)))

    def compare_last(self) -> None:
        """The best network in hindsight of a run that has ended before its last planned round."""
        row, network = self.rows[-1], not self.game.policy.linear
        if network and self.timetable.compares_last and not row["comparator_status"]:
            known = {"cumulative_loss": np.asarray(row["cumulative_loss"])}
            for name, value in self._search(self.round, known).items():
                last = name == "comparator_status"
                row[name] = Status(int(value)).name.lower() if last else float(value)

    def searches(self, t: int) -> bool:
        """Whether the best in hindsight is searched for after round t. A network's is; a linear policy's is
        solved for, within the round.
        """
        linear, steps = self.game.policy.linear, self.spec.comparator_steps
        return not linear and steps > 0 and t in self.timetable.comparator_rounds

    def _search(self, t: int, record: Mapping[str, np.ndarray]) -> dict[str, float | np.ndarray]:
        """The best network in hindsight, searched for from where the learner is: an estimate."""
        if not self.spec.comparator_steps:
            return {}
        losses = self.state.losses
        whole = losses.whole if isinstance(losses, Limited) else losses
        key = threefry.fold_in(threefry.fold_in(self._key, t), 1)
        outcome = self.rounds.searched(whole, self.params, key, self.spec.comparator_steps)
        least, status = map(np.asarray, outcome)
        regret = float(record["cumulative_loss"]) - float(least)
        return {"comparator": float(least), "regret": regret, "comparator_status": status}

    # ----------------------------------------------------------------------- what has been learnt

    @property
    def ledger(self) -> Ledger:
        """One row a round, see `understudy.regret.COLUMNS` and `EXTRA`."""
        return Ledger({name: [row[name] for row in self.rows] for name in NAMES})

    @property
    def experts(self) -> Ledger:
        """The account of several experts, a row a round and expert, see `BY_EXPERT`; empty of one alone."""
        return Ledger({name: [row[name] for row in self.by_expert] for name in BY_EXPERT})

    @experts.setter
    def experts(self, account: Ledger) -> None:
        rows = zip(*(column.tolist() for column in account.values()), strict=True)
        self.by_expert = [dict(zip(account, row, strict=True)) for row in rows]

    @property
    def certificate(self) -> Certificate:
        """Measured regret and bound after the last judged round; proved for linear policies only."""
        judged = [row for row in self.rows if row["comparator_status"]]
        left_out = any(choice.reason == UNCOMPARED for choice in self.resolved.choices)
        found = certify(self.game, judged[-1] if judged else {})
        return found._replace(reason=f"{UNCOMPARED}; --comparator last does it.") if left_out else found

    @property
    def policy(self) -> TrainedPolicy:
        """The policy that acts now."""
        return self.trained(*self.acting())

    def trained(self, policy: Policy, params: Params) -> TrainedPolicy:
        """A policy with what it sees and plays."""
        return TrainedPolicy(policy, params, self.parts.observations, self.parts.actions, self.normaliser)

    def act(self, observation: Nested) -> np.ndarray | np.int64:
        """The deterministic action for one observation; a policy with memory takes it as the next of the
        episode (`reset` begins one).
        """
        if self._robot is None:
            self._robot = self.policy
        return self._robot.act(observation)

    def reset(self) -> None:
        """The next observation that `act` is given begins an episode."""
        if self._robot is not None:
            self._robot.reset()

    def acting(self) -> tuple[Policy, Params]:
        """Architecture and parameters of the policy that acts: the last one, or the mean of the last ones."""
        return self.mean(self.last)

    def shown(self) -> tuple[Policy, Params]:
        """Those of the policy that is evaluated: the ensemble, or the acting one."""
        return self.mean(self.ensemble or self.last)

    @property
    def last(self) -> list[Params]:
        """The parameters whose mean acts."""
        return self.recent or [self.params]

    def mean(self, members: list[Params]) -> tuple[Policy, Params]:
        """The policy that plays the mean of several."""
        return (self.game.policy, members[0]) if len(members) < 2 else self.rounds.mean(members)

    def complete(self) -> None:
        """Trains the other networks of the ensemble on the losses that the learner saw. If the best policy is
        kept, they continue from their last parameters, as the learner's own network does. A new network
        starts from random parameters of its own and is trained `ANEW` times.

        Scores of the mean of five, 128-128, in the rounds with the last 30 % of the labels, seeds 1 to 3, ten
        episodes each: Walker2d 0.14, 0.34, 0.89 where all begin anew and have 1,500 steps, 0.69, 0.75, 0.93
        with 4,500, 0.79, 0.94, 0.92 where they go on with 1,500. Hopper 0.94, 0.76, 0.71; 0.95, 0.85, 0.79;
        0.87, 0.77, 0.86.
        """
        parts, policy, count = self.parts, self.game.policy, self.resolved.ensemble - 1
        if count < 1 or self.ensemble:
            return
        losses = self.state.losses
        seen = losses.recall() if isinstance(losses, Limited) else losses
        seeds = [derive(self.spec.seed, "members", self.round, k) for k in range(count)]
        first, key = zip(*(threefry.split(threefry.key(seed), 2) for seed in seeds), strict=True)
        members, turns = self.members, 1
        if not members and self._guest is not None:
            members, turns = [self._guest.host.first(k + 1, seed) for k, seed in enumerate(seeds)], ANEW
        elif not members:
            members = [policy.init(one, parts.observations.width, parts.actions.outputs) for one in first]
            turns = ANEW
        for turn in range(turns):
            members = self.rounds.solved(seen, members, [threefry.fold_in(one, turn) for one in key])
        self.members = members if self.timetable.keep_best else []
        self.ensemble = [*members, self.params]

    # ------------------------------------------------------------------------------- on the disk

    def save(self, path: str | os.PathLike[str]) -> FilePath:
        """Writes all that was learnt, the samples and the open questions to one file, `path`.safetensors,
        from which `load` goes on bit for bit.
        """
        return saving.save(self, FilePath(path).with_suffix(".safetensors"))

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], observation_space: Space, action_space: Space, **settings: Setting
    ) -> Understudy:
        """The student that `save` wrote. The spaces are given again, and settings that were objects; others
        that are given take the place of those that were saved (more rounds, a larger budget).
        """
        file = FilePath(path).with_suffix(".safetensors")
        begin = functools.partial(cls, observation_space, action_space)
        return saving.load(begin, file, settings)

    def arrays(self) -> tuple[dict[str, np.ndarray], dict[str, Json]]:
        """Arrays and plain data from which `restore` goes on bit for bit, beside the samples, which are in
        their log; where the log keeps none, the learner's buffer is among the arrays.
        """
        return saving.snapshot(self)

    def restore(self, arrays: Mapping[str, np.ndarray], plain: Mapping[str, Any], rows: list[Row]) -> None:
        """Back to what `arrays` gave; the samples must be in their log already. rows: of the ledger."""
        with precision(self.game):
            saving.restore(self, arrays, plain, rows)

    def unlisted(self, name: str, arrays: Mapping[str, np.ndarray]) -> list[Params]:
        """The parameters that `saving.listed` gave."""
        return saving.unlisted(self.params, name, arrays)


@final
class Compiled:
    """The rounds of a game whose policy is JAX's, in compiled programs. `students.rounds.Fitted` has those of
    a student that is computed elsewhere.

    play: how a round is played, alone or together with those of other runs. reader: of samples in files.
    """

    def __init__(self, game: Game, play: Play, reader: Rows | None):
        self.game, self.play, self.reader, self.start = game, play, reader, game.init
        self.empty: Callable[[Params, Batch, int], Samples | Statistics]
        self.empty = game.empty if reader is None else self._unread

    def _unread(self, params: Params, like: Batch, capacity: int) -> Samples:
        """The losses of no round yet, whose samples will be in files."""
        return empty_samples(self.game.policy, self.game.loss, like, capacity=capacity, reader=self.reader)

    def taken(self, stored: list[np.ndarray], leaves: Sequence[Array]) -> list[Array]:
        """The leaves of a state as a snapshot has them, on the device."""
        if any(a.shape != b.shape or a.dtype != b.dtype for a, b in zip(stored, leaves, strict=True)):
            raise UserError("run: the checkpoint is damaged: its arrays are not those of this run.")
        return jax.device_put(stored, may_alias=False)

    def measured(self, params: Params, batch: Batch, count: int, measure: Measure = per_sample) -> np.ndarray:
        """The loss, or another `measure`, of each of the `count` samples of a round."""
        about = self.game.policy, self.game.loss, params
        if batch.inputs.shape[-1]:
            return np.asarray(measure(*about, batch.inputs, batch.targets))[:count]
        rows, reader = self.game.policy.minibatch, self.reader
        assert reader is not None
        parts = (reader.take(np.arange(first, first + rows)) for first in range(0, count, rows))
        return np.concatenate([measure(*about, *jax.device_put(part[:2])) for part in parts])[:count]

    def searched(self, losses: Losses, params: Params, key: Array, steps: int) -> tuple[Array, Array]:
        """The least Σ l_s(w) that a search from `params` finds, and how it ended."""
        return _searched(losses, jax.tree.map(jax.device_put, params), key, steps)

    def solved(self, losses: Losses, starts: list[Params], keys: Sequence[Array]) -> list[Params]:
        """Where the game's solver comes to from each of these starts."""
        if jax.default_backend() != "cpu" and self.reader is None:
            solve = compiled_solver(self.game, mapped=True)
            solutions = apart(solve(losses, *stacked(list(zip(starts, keys, strict=True)))), len(starts))
        else:
            # A small network keeps one core busy, so that members are solved side by side.
            with ThreadPoolExecutor(min(len(starts), count_cores())) as pool:
                solutions = list(
                    pool.map(functools.partial(compiled_solver(self.game), losses), starts, keys)
                )
        return list(map(functools.partial(jax.tree.map, np.array), solutions))

    def distance(self, params: Params, others: Params) -> Array:
        """The distance of two sets of parameters."""
        return distance(params, others)

    def mean(self, members: list[Params]) -> tuple[Policy, Params]:
        """The policy that plays the mean of several."""
        policy = self.game.policy
        if isinstance(policy, MLP):
            return Committee.of(policy, members)
        return policy, jax.tree.map(lambda *leaves: np.mean(leaves, axis=0, dtype=leaves[0].dtype), *members)


@eqx.filter_jit
def _searched(losses: Losses, start: Params, key: Array, steps: int) -> tuple[Array, Array]:
    """The least Σ l_s(w) that Adam finds from `start` with a step that decays to nothing, at most that of
    `start`, and how the search ended.
    """
    solver = adam(batch_size=losses.policy.minibatch, max_iterations=steps, measure=False, decay="cosine")
    solution = solver(plain(losses, start), start, key)
    return jnp.minimum(losses.value(solution.params), losses.value(start)), solution.status


@eqx.filter_jit
def same_choice(policy: Policy, loss: Loss, params: Params, inputs: Array, targets: Array) -> Array:
    """Whether the most likely actions (m,) of samples are those of their targets (m, k)."""
    return policy.apply(params, inputs).argmax(axis=1) == targets.argmax(axis=1)
