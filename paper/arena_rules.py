"""The arena's rules: who acts, which states the expert is asked about, and what is learnt from its answers.

Every rule trains the same student (`Sizes`) on portions of the same size, so only the rule differs. A rule
that is a setting of the package is `Asking`; each of the others is one class. docs/studies/arena.md says for
each what its paper says, what is run here, and where the two differ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
from gymnasium import spaces

from understudy import Understudy
from understudy.asking import Radius

from .arena_worlds import Act, Teacher, Trace, Walk, World

MEMBERS = 5
"""Networks of an ensemble, as in the papers."""
MOST = 100
"""No run has as many rounds."""


class Sizes(NamedTuple):
    """The student of all rules. name: how it is called; settings: those of the package."""

    name: str
    settings: Mapping[str, Any]


STUDENTS = {
    "network": Sizes("network", {"widths": (128, 128), "max_iterations": 1500}),
    "narrow": Sizes("narrow", {"widths": (8, 8), "max_iterations": 1500}),
    "linear": Sizes("linear", {"policy": "linear"}),
}


class Stage(NamedTuple):
    """What a rule is given: where, who answers, the walk that it collects with, the student, its seed, and
    how many offline states there are, if a rule does not begin by itself.
    """

    world: World
    teacher: Teacher
    walk: Walk
    sizes: Sizes
    seed: int
    offline: int = 0


class Rule:
    """A rule of interactive imitation. Subclasses say `round`, and who is judged where it is not `student`.

    warm: whether as many expert-driven labels come first as `World.first` says; else one portion of them
    does. first, portion: labels of the first round and of every other. done: whether the rule wants no more
    labels.
    """

    warm: ClassVar[bool] = True
    done = False
    settings: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, stage: Stage, **settings: Any):
        self.stage, self.world, self.walk = stage, stage.world, stage.walk
        self.rng = np.random.default_rng([stage.seed, 2])
        self.first, self.portion = self.sizes()
        self.changes = {**self.settings, **settings}
        self.student = self.make(stage.seed)

    def sizes(self) -> tuple[int, int]:
        """Labels of the first round and of every other."""
        world = self.world
        return world.first if self.warm else world.portion, world.portion

    def make(self, seed: int, **settings: Any) -> Understudy:
        """A student that learns what it is given, each label as much as every other."""
        plan = {"ask": "all", "steps_per_round": self.portion}
        return self._student(seed, plan | {"first_steps": self._first} | settings)

    @property
    def _first(self) -> int:
        """The most labels of the first round."""
        return self.stage.offline or max(self.first, 2 * self.portion)

    def _student(self, seed: int, settings: Mapping[str, Any]) -> Understudy:
        budget = self._first + MOST * self.portion
        given: dict[str, Any] = {"rounds": MOST, "budget": budget, "ensemble": 1, "weigh": "labels"}
        given |= {"comparator": "none", **settings, **self.stage.sizes.settings, **self.changes}
        if self.stage.sizes.settings.get("policy") == "linear":
            given = {name: value for name, value in given.items() if name not in ("ensemble", "weigh")}
        return Understudy(self.walk.observation_space, self.walk.action_space, seed=seed, **given)

    def label(self, states: np.ndarray) -> np.ndarray:
        """The expert's answers."""
        return self.stage.teacher.label(states)

    def expert(self, state: np.ndarray) -> tuple[Any, Any]:
        """The expert acts, and its action is the label."""
        answer = self.label(state[None])[0]
        return answer, answer

    def act(self, state: np.ndarray) -> tuple[Any, Any]:
        """The student acts."""
        return self.student.act(state), None

    def begin(self) -> int:
        """The first labels; how many there were."""
        return self.demonstrate(self.first)

    def demonstrate(self, count: int) -> int:
        """Learns from so many states in which the expert drives."""
        trace = self.walk.go(count, self.expert)
        self.teach(trace.states, trace.labels)
        return len(trace.labels)

    def teach(self, states: np.ndarray, labels: np.ndarray) -> None:
        """The student learns from these states."""
        _teach(self.student, states, labels)

    def round(self) -> int:
        """Collects, asks and learns; how many labels were asked for."""
        raise NotImplementedError

    @property
    def player(self) -> Callable[[Any], Any]:
        """The policy that is judged."""
        return self.student.policy


def _teach(student: Understudy, states: np.ndarray, labels: np.ndarray) -> None:
    if len(states):
        student.learn(student.choose(states), labels)


class Asking(Rule):
    """A setting of the package: its rule chooses among the states of a round, after the round."""

    rule: ClassVar[str] = "distance"

    def make(self, seed: int, **settings: Any) -> Understudy:
        plan = {"ask": f"{self.rule}:{self.portion}", "steps_per_round": self.world.steps}
        return self._student(seed, plan | {"first_steps": self._first} | settings)

    def demonstrate(self, count: int) -> int:
        return self._ask(self.walk.go(count, self.expert))

    def round(self) -> int:
        return self._ask(self.walk.go(self.world.steps, self.act))

    def _ask(self, trace: Trace) -> int:
        student = self.student
        path = student.path(len(trace.states))
        rows = student.parts.observations.rows(trace.states)
        path.record(rows, trace.actions, trace.rewards, trace.terminated, trace.truncated)
        path.by_expert[trace.by] = True
        question = student.choose(path)
        known = dict(zip(trace.by.tolist(), trace.labels, strict=True))
        missing = [i for i in question.index.tolist() if i not in known]
        if missing:
            known |= dict(zip(missing, self.label(trace.states[missing]), strict=True))
        labels = np.asarray([known[i] for i in question.index.tolist()])
        student.learn(question, labels)
        self.teach(trace.states[question.index], labels)
        return len(labels)

    def teach(self, states: np.ndarray, labels: np.ndarray) -> None:
        """The student has learnt; whoever else there is learns here."""


class Distance(Asking):
    """Ours: k-centre in the student's last features; one network is judged."""


class Ours(Asking):
    """Ours as the preset practical has it: the first round and the portions are what the package decides
    for the budget, and the mean of five networks is judged, each from a start of its own and trained on from
    round to round; one of them acts.
    """

    def __init__(self, stage: Stage):
        super().__init__(stage)
        seeds = np.random.SeedSequence([stage.seed, 3]).generate_state(MEMBERS - 1)
        self.others = [Rule.make(self, int(seed)) for seed in seeds]

    def sizes(self) -> tuple[int, int]:
        seen = self.walk.observation_space, self.walk.action_space
        given = {name: one for name, one in self.stage.sizes.settings.items() if name == "policy"}
        usual = Understudy(*seen, seed=self.stage.seed, budget=self.world.budget, **given)
        (_, first), (_, portion), *_ = usual.timetable.rounds
        return first, portion

    def teach(self, states: np.ndarray, labels: np.ndarray) -> None:
        for other in self.others:
            _teach(other, states, labels)

    @property
    def player(self) -> Callable[[Any], Any]:
        members = [self.student, *self.others]
        return self.student.trained(*self.student.mean([member.params for member in members]))


class Early(Asking):
    """Ours with two portions of expert-driven labels in place of a quarter of the budget."""

    def sizes(self) -> tuple[int, int]:
        return 2 * self.world.portion, self.world.portion


class Random(Asking):
    """WARM-STAGGER in a portion a round: random states of the student's, after demonstrations."""

    rule = "random"


class Disagreement(Asking):
    """States on which bootstrapped networks disagree, after the round."""

    rule = "disagreement"


class Cloning(Rule):
    """Behavioural cloning with the log-loss: the expert drives; squared loss is that of a normal policy."""

    warm = False

    def __init__(self, stage: Stage):
        box = isinstance(stage.walk.action_space, spaces.Box)
        super().__init__(stage, **({"loss": "squared"} if box else {}))

    def round(self) -> int:
        return self.demonstrate(self.world.portion)


class Dagger(Rule):
    """DAgger: after a first portion of the expert's the student acts, and every state is labelled."""

    warm = False

    def round(self) -> int:
        trace = self.walk.go(self.world.portion, self.act)
        self.teach(trace.states, self.label(trace.states))
        return len(trace.states)


class Dart(Rule):
    """DART: the expert drives with noise, whose covariance is that of the student's error on the last round's
    states before it learnt from them; choices are replaced as often as the student was wrong there.
    """

    warm = False

    def __init__(self, stage: Stage):
        super().__init__(stage)
        self._error: np.ndarray | None = None

    def expert(self, state: np.ndarray) -> tuple[Any, Any]:
        answer, actions = self.label(state[None])[0], self.walk.action_space
        if self._error is None:
            return answer, answer
        if not isinstance(actions, spaces.Box):
            wrong = self.rng.random() < float(self._error)
            return (int(self.rng.integers(actions.n)) if wrong else answer), answer
        noise = self._error @ self.rng.standard_normal(answer.size)
        return np.clip(answer + noise.reshape(answer.shape), actions.low, actions.high), answer

    def round(self) -> int:
        return self.demonstrate(self.world.portion)

    def teach(self, states: np.ndarray, labels: np.ndarray) -> None:
        if self.student.labels:
            acts = np.asarray([self.student.act(state) for state in states])
            if isinstance(self.walk.action_space, spaces.Box):
                errors = (acts - labels).reshape(len(labels), -1).astype(np.float64)
                values, vectors = np.linalg.eigh(errors.T @ errors / len(errors))
                self._error = vectors * np.sqrt(np.maximum(values, 0.0))  # its square is the covariance
            else:
                self._error = np.asarray(np.mean(acts != labels))
        super().teach(states, labels)


class Stagger(Rule):
    """STAGGER: one random state of each of many episodes of the student's, without demonstrations. A round
    has as many episodes as a portion has labels, or as fit into three rounds' steps; then further states are
    drawn from those.
    """

    factor: ClassVar[int] = 3

    def begin(self) -> int:
        space = self.walk.action_space  # nothing is learnt yet: the first round acts at random
        return self._round(lambda state: (_random(space, self.rng), None))

    def round(self) -> int:
        return self._round(self.act)

    def _round(self, act: Act) -> int:
        portion = self.world.portion
        self.walk.begin()
        trace = self.walk.go(self.factor * self.world.steps, act, episodes=portion)
        chosen = [int(self.rng.choice(steps)) for steps in trace.episodes][:portion]
        others = np.setdiff1d(np.arange(len(trace.states)), chosen)
        more = min(portion - len(chosen), len(others))
        index = np.sort(np.append(chosen, self.rng.choice(others, more, replace=False)).astype(int))
        self.teach(trace.states[index], self.label(trace.states[index]))
        return len(index)


def _random(space: Any, rng: np.random.Generator) -> Any:
    if isinstance(space, spaces.Box):
        return rng.uniform(space.low, space.high).astype(np.float32)
    return int(rng.integers(space.n))


class Crsail(Rule):
    """CRSAIL: after a round those states are asked about whose distance to the K-th nearest labelled one
    exceeds a radius: the (1 − α) quantile of such distances in the first round of the student's, once and
    for all.
    """

    alpha: ClassVar[float] = 0.05
    near: ClassVar[Radius] = Radius(number=1.0, neighbour=1)  # it measures the distances

    def __init__(self, stage: Stage):
        super().__init__(stage)
        self.radius: float | None = None
        self.known = np.zeros((0, *np.shape(stage.walk.observation_space.sample())))

    def teach(self, states: np.ndarray, labels: np.ndarray) -> None:
        self.known = np.append(self.known, states, axis=0)
        super().teach(states, labels)

    def round(self) -> int:
        for _ in range(10):
            trace = self.walk.go(self.world.steps, self.act)
            away = self.away(trace.states)
            if self.radius is None:
                self.radius = float(np.quantile(away, 1.0 - self.alpha))
            far = np.flatnonzero(away > self.radius)
            if len(far):
                break
        else:
            self.done = True  # nothing is new in ten rounds
            return 0
        index = np.sort(self.rng.choice(far, min(len(far), self.world.portion), replace=False))
        self.teach(trace.states[index], self.label(trace.states[index]))
        return len(index)

    def away(self, states: np.ndarray) -> np.ndarray:
        """How far each state is from its K-th nearest labelled one, both standardised."""
        return self.near.distances(*map(self.student.normaliser, (states, self.known)))


class Ensemble(Rule):
    """Shared by the rules below: networks on bootstrapped labels, whose mean action or majority acts."""

    def __init__(self, stage: Stage):
        super().__init__(stage)
        seeds = np.random.SeedSequence([stage.seed, 3]).generate_state(MEMBERS - 1)
        self.members = [self.student, *(self.make(int(seed)) for seed in seeds)]

    def teach(self, states: np.ndarray, labels: np.ndarray) -> None:
        for member in self.members:
            index = self.rng.integers(len(states), size=len(states))
            _teach(member, states[index], labels[index])

    def agree(self, state: np.ndarray) -> tuple[Any, float]:
        """What the members do together, and how much they disagree: the variance of their actions, or the
        share of them in the minority.
        """
        acts = np.asarray([member.act(state) for member in self.members])
        if isinstance(self.walk.action_space, spaces.Box):
            return acts.mean(axis=0), float(acts.var(axis=0).sum())
        counts = np.bincount(acts)
        return int(counts.argmax()), 1.0 - float(counts.max()) / len(acts)

    def apart(self, action: Any, answer: Any) -> float:
        """How far an action is from the expert's."""
        if isinstance(self.walk.action_space, spaces.Box):
            return float(np.sum((np.asarray(action) - answer) ** 2))
        return float(action != answer)

    def act(self, state: np.ndarray) -> tuple[Any, Any]:
        return self.agree(state)[0], None

    @property
    def player(self) -> Callable[[Any], Any]:
        policies = [member.policy for member in self.members]
        box = isinstance(self.walk.action_space, spaces.Box)

        def together(observation: Any) -> Any:
            acts = np.asarray([policy.act(observation) for policy in policies])
            return acts.mean(axis=0) if box else int(np.bincount(acts).argmax())

        return together


class Bootstrap(Ensemble):
    """Bootstrap-DAgger: in every step a member that is drawn acts, and random states of this mixture's are
    labelled. The mixture is judged.
    """

    def act(self, state: np.ndarray) -> tuple[Any, Any]:
        return self.members[int(self.rng.integers(MEMBERS))].act(state), None

    def round(self) -> int:
        trace = self.walk.go(self.world.steps, self.act)
        index = np.sort(self.rng.choice(len(trace.states), self.world.portion, replace=False))
        self.teach(trace.states[index], self.label(trace.states[index]))
        return len(index)

    @property
    def player(self) -> Callable[[Any], Any]:
        policies, rng = [member.policy for member in self.members], np.random.default_rng(0)
        return lambda observation: policies[int(rng.integers(MEMBERS))].act(observation)


class EnsembleDagger(Ensemble):
    """EnsembleDAgger: the mean acts where the members agree and its action is near the expert's, else the
    expert; every state is labelled. Bounds: nine tenths of the states before were below the one, and the
    members' mean distance to their labels is the other.
    """

    warm = False

    def __init__(self, stage: Stage):
        super().__init__(stage)
        self._seen: list[tuple[float, float]] = []

    def round(self) -> int:
        doubts = np.asarray(self._seen[-self.world.portion :]).reshape(-1, 2)
        doubt = float(np.quantile(doubts[:, 0], 0.9)) if len(doubts) else np.inf
        near = float(doubts[:, 1].mean()) if len(doubts) else np.inf

        def act(state: np.ndarray) -> tuple[Any, Any]:
            answer, (action, variance) = self.label(state[None])[0], self.agree(state)
            distance = self.apart(action, answer)
            self._seen.append((variance, distance))
            return (action if variance <= doubt and distance <= near else answer), answer

        trace = self.walk.go(self.world.portion, act)
        self.teach(trace.states, trace.labels)
        return len(trace.labels)


class Thrifty(Ensemble):
    """ThriftyDAgger: the expert takes over where the members disagree (novelty) or a fall is near (risk), and
    gives back where the mean's action is near its own and the risk is below the median. Bounds are quantiles
    of the student's states of the round before, so that a portion of a round is above. Risk is learnt:
    0.97 to the power of the steps to the fall.
    """

    DISCOUNT, TAIL, SHOWN = 0.97, 100, 300

    def __init__(self, stage: Stage):
        super().__init__(stage)
        plan: dict[str, Any] = {"rounds": MOST, "steps_per_round": self.SHOWN}
        plan |= {"widths": (64, 64), "max_iterations": 1000, "ensemble": 1, "comparator": "none"}
        self._risk = Understudy(
            self.walk.observation_space, spaces.Box(0.0, 1.0, (1,)), seed=stage.seed, **plan
        )
        self._rounds, self._mean = 0, 0.0
        self._bounds = np.inf, np.inf, 0.0

    def demonstrate(self, count: int) -> int:
        trace = self.walk.go(count, self.expert)
        self.teach(trace.states, trace.labels)
        pairs = [self.agree(state) for state in trace.states]
        self._mean = float(np.mean([self.apart(a, b) for (a, _), b in zip(pairs, trace.labels, strict=True)]))
        self._bound([doubt for _, doubt in pairs], [0.0] * len(pairs))
        return len(trace.labels)

    def danger(self, state: np.ndarray) -> float:
        """How near a fall is, from 0 to 1."""
        return float(np.ravel(self._risk.act(state))[0]) if self._rounds else 0.0

    def _bound(self, doubts: list[float], dangers: list[float]) -> None:
        share = 1.0 - self.world.portion / self.world.steps
        high = float(np.quantile(dangers, share)) if max(dangers) > 0 else np.inf
        self._bounds = float(np.quantile(doubts, share)), high, float(np.median(dangers))

    def round(self) -> int:
        (doubt, danger, calm), helped = self._bounds, False
        doubts: list[float] = []
        dangers: list[float] = []

        def act(state: np.ndarray) -> tuple[Any, Any]:
            nonlocal helped
            (action, variance), risk = self.agree(state), self.danger(state)
            if not helped:
                doubts.append(variance)
                dangers.append(risk)
                helped = variance > doubt or risk > danger
            if not helped:
                return action, None
            answer = self.label(state[None])[0]
            helped = not (self.apart(action, answer) < self._mean and risk <= calm)
            return answer, answer

        trace = self.walk.go(2 * self.world.steps, act, labels=self.world.portion)
        self.teach(trace.states[trace.by], trace.labels)
        self._learn_risk(trace)
        if len(doubts) > 25:
            self._bound(doubts, dangers)
        return len(trace.labels)

    def _learn_risk(self, trace: Trace) -> None:
        values, known = np.zeros(len(trace.states)), np.ones(len(trace.states), bool)
        for steps in trace.episodes:
            if trace.terminated[steps[-1]]:
                values[steps] = self.DISCOUNT ** np.arange(len(steps))[::-1]
            elif not trace.truncated[steps[-1]]:
                known[steps[-self.TAIL :]] = False  # what becomes of them is not known yet
        index = np.flatnonzero(known)
        if len(index):
            index = np.sort(self.rng.choice(index, min(len(index), self.SHOWN), replace=False))
            _teach(self._risk, trace.states[index], values[index, None].astype(np.float32))
            self._rounds += 1


class Entrant(NamedTuple):
    """A rule of the arena. make: its class; settings: changes to the student; source: who published it."""

    title: str
    make: type[Any]
    source: str
    settings: Mapping[str, Any] = {}

    def begin(self, stage: Stage) -> Rule:
        return self.make(stage, **self.settings)


RULES = {
    "bc": Entrant("cloning, log-loss", Cloning, "Foster et al. 2024"),
    "dart": Entrant("DART", Dart, "Laskey et al. 2017"),
    "dagger": Entrant("DAgger", Dagger, "Ross et al. 2011"),
    "ensemble-dagger": Entrant("EnsembleDAgger", EnsembleDagger, "Menda et al. 2019"),
    "bootstrap": Entrant("Bootstrap-DAgger", Bootstrap, "Li and Zhang 2024"),
    "thrifty": Entrant("ThriftyDAgger", Thrifty, "Hoque et al. 2021"),
    "stagger": Entrant("STAGGER", Stagger, "Li and Zhang 2025"),
    "warm-stagger": Entrant("WARM-STAGGER", Random, "Li and Zhang 2025"),
    "crsail": Entrant("CRSAIL", Crsail, "Firouzkouhi et al. 2025"),
    "distance": Entrant("distance, one network", Distance, "ours"),
    "early": Entrant("distance, few demonstrations", Early, "ours"),
    "ours": Entrant("ours (distance, five networks)", Ours, "ours"),
    "ftrl": Entrant("distance, FTRL", Distance, "ours", {"learner": "ftrl"}),
    "alt-ftrl": Entrant("distance, Alt-FTRL", Distance, "ours", {"learner": "alt_ftrl"}),
    "adaftrl": Entrant("distance, AdaFTRL", Distance, "ours", {"learner": "adaftrl"}),
}
PUBLISHED = tuple(name for name, one in RULES.items() if one.source != "ours")
LEARNERS = ("distance", "ftrl", "alt-ftrl", "adaftrl")
