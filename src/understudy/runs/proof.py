"""Whether a run has reached what `until` says: its candidates, their tests, and the statement at the end.

A policy that looks good enough after a round is a candidate. It is fixed then, and tested on fresh episodes,
which nothing else of the run plays, until `acceptance.Acceptance` says something: the run ends where it is
accepted and goes on where it is rejected or given up. All of a test happens in its round, so that a run which
is killed plays it again, and every outcome is in the checkpoint.
"""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

import jax.numpy as jnp
import numpy as np

from ..acceptance import Acceptance
from ..asking.visited import largest, per_sample
from ..disk import Json
from ..envs.gymnasium import Observed, derive
from ..errors import UserError
from ..nested import join
from ..policies import Params, Policy
from ..student import Row, Understudy
from .evaluate import JUDGED, LANES, Arena, EpisodeSet, Evaluation, Stage
from .labelling import Labelling, some_of
from .statement import Statement

Shown = tuple[Policy, Params]
"""A policy and its parameters."""
TESTED = 1 << 29
"""Added to the number of a test, it gives those of its episodes."""
CHUNKS = 1 << 10
"""Most pieces in which the episodes of a test are played."""
MARGIN = 0.25
"""A policy is a candidate if its score is at least wanted + MARGIN·(1 − wanted)."""
RISING = 0.1
"""A run was still getting better if its last third of rounds closed this share of the gap to the goal."""
EXACT_UP_TO = 20.0
"""A loss is tested exactly where the largest possible one is at most so many times the wanted one."""
REWARDS = {
    "CartPole-v0": (0.0, 1.0),
    "CartPole-v1": (0.0, 1.0),
    "MountainCar-v0": (-1.0, 0.0),
    "Acrobot-v1": (-1.0, 0.0),
    "Pendulum-v1": (-16.2736045, 0.0),
    "FrozenLake-v1": (0.0, 1.0),
    "FrozenLake8x8-v1": (0.0, 1.0),
    "CliffWalking-v1": (-100.0, 0.0),
    "Taxi-v3": (-10.0, 20.0),
}
"""The least and the largest reward of a step, by environment, where Gymnasium's code bounds it."""


@final
class Proof:
    """The candidates of a run and their tests, by the round after which they were learnt.

    calls: of the expert, in episodes of tests. stage: environments on the host, for tests by labels.
    """

    def __init__(
        self, student: Understudy, arena: Arena, labelling: Labelling, stage: Callable[[], Stage], env: str
    ):
        goal = student.timetable.goal
        assert goal is not None
        self.student, self.arena, self.goal, self.calls = student, arena, goal, 0
        self.tests: dict[int, Acceptance] = {}
        self._labelling, self._stage = labelling, stage
        self._limits = self._known_limits(env)
        self._seen: tuple[float, float] | None = None  # the least and the largest return so far

    def _known_limits(self, env: str) -> tuple[float, float] | None:
        spec, game = self.student.spec, self.student.game
        if self.goal.kind == "agreement":
            return 0.0, 1.0
        if self.goal.kind == "loss":
            top = largest(self.student.shown()[0], game.loss, self.student.parts.actions)
            return None if top > EXACT_UP_TO * self.goal.wanted else (-top, 0.0)
        return known_limits(spec.plain(), env)

    @property
    def accepted(self) -> bool:
        """Whether a candidate was accepted: the last one."""
        return any(test.state == "accepted" for test in self.tests.values())

    def test(self, row: Row, shown: Shown) -> None:
        """Tests a policy, which was learnt in the round whose row this is."""
        test = self._test(shown)
        _, row["score_low"], row["score_high"], *_ = test.interval()

    def settle(self, shown: Shown, number: int) -> None:
        """No test accepted a policy: tests the kept one, of round `number`, if that was not done yet."""
        if self.goal.kind == "share" and number not in self.tests and self._mark() < math.inf:
            self._test(shown, number)

    # ------------------------------------------------------------------------------------ candidates

    def looks_good(
        self, row: Row, evaluation: Evaluation | None, looked: Evaluation | None, theirs: np.ndarray | None
    ) -> bool:
        """Whether the policy after a round is worth a test, by the round's row, or by the episodes `looked`,
        in which the expert had `theirs`, if it has played them. `evaluation`: all that the round played.
        """
        if self.goal.kind == "share":
            good = looked is not None and looked.mean >= self._mark(theirs)
            self._see(() if evaluation is None else evaluation.returns)
            return good
        if row["by_expert"] == 1.0:  # its states are the expert's
            return False
        if self.goal.kind == "agreement":
            return float(row["agreement"]) >= self.goal.wanted + MARGIN * (1.0 - self.goal.wanted)
        ordinary = self.student.resolved.ordinary
        share = 1.0 if ordinary is None else float(row["samples"]) / ordinary
        return float(row["loss"]) / share <= (1.0 - MARGIN) * self.goal.wanted

    def _see(self, returns: Sequence[float] | np.ndarray) -> None:
        """Widens the range of the returns that were seen."""
        ends = (*(self._seen or ()), *(float(each) for each in returns if np.isfinite(each)))
        self._seen = (min(ends), max(ends)) if len(set(ends)) > 1 else self._seen

    @functools.cached_property
    def _judged(self) -> tuple[float, float]:
        """The mean returns of the expert and of random actions in the episodes that judge."""
        asked = EpisodeSet(JUDGED[0], self.student.timetable.expert_episodes, JUDGED[1])
        expert, chance = self.arena.of_expert(asked), self._random(asked)
        self._see((*expert.returns, *(() if chance is None else chance.returns)))
        theirs, least = expert.mean, 0.0 if chance is None else chance.mean
        if not theirs > least and self.student.spec.goal is not None:
            raise UserError(
                f"until: the expert's mean return is {theirs:.4g} and that of "
                f"{'nothing' if chance is None else 'random actions'} {least:.4g}, so a share of it says "
                "nothing; say agreement:0.98 or loss:0.05."
            )
        return theirs, least

    def _mark(self, theirs: np.ndarray | None = None) -> float:
        """The mean return of a candidate, beside returns of the expert in the same episodes (default: those
        that judge).
        """
        expert, least = self._judged
        if not expert > least:
            return math.inf  # nobody asked for a goal, and no policy is a candidate
        expert = expert if theirs is None or not len(theirs) else float(theirs.mean())
        wanted = self.goal.wanted + MARGIN * max(0.0, 1.0 - self.goal.wanted)
        return wanted * expert + (1.0 - wanted) * least

    # ----------------------------------------------------------------------------------------- tests

    def _test(self, shown: Shown, number: int | None = None) -> Acceptance:
        """Tests a policy, which was learnt after round `number` (default: the last one)."""
        student, goal = self.student, self.goal
        candidate = 1 + len(self.tests)
        limits = self._limits if self._limits is not None else self._seen
        test = self._acceptance(candidate, limits)
        self.tests[student.round if number is None else number] = test
        first = TESTED + candidate * CHUNKS + (0 if number is None else CHUNKS // 2)
        for chunk in range(CHUNKS // 2):
            count = LANES
            if goal.kind != "share" and student.timetable.budget is not None:
                count = min(LANES, student.timetable.budget - student.labels)
            if (test.over if number is None else test.settled) or count < 1:
                break
            asked = EpisodeSet(student.spec.seed, count, first + chunk)
            if goal.kind == "share":
                self._add_episodes(test, shown, asked)
            else:
                test.add(self._answers(shown, asked))
        if goal.kind == "share":
            self._see(test.played.policy)
        return test

    def _acceptance(self, candidate: int, limits: tuple[float, float] | None) -> Acceptance:
        goal, assumed = self.goal, self._limits is None
        return Acceptance(goal.wanted, kind=goal.kind, candidate=candidate, limits=limits, assumed=assumed)

    def _add_episodes(self, test: Acceptance, shown: Shown, asked: EpisodeSet) -> None:
        mine, theirs = self.arena.of_policy(shown, asked), self.arena.of_expert(asked)
        self.calls += int(theirs.lengths.sum())
        chance = self._random(asked)
        test.add(mine.returns, theirs.returns, None if chance is None else chance.returns)

    def _random(self, asked: EpisodeSet) -> Evaluation | None:
        """The episodes of random actions; None where nobody can draw them."""
        actions = self.student.parts.actions
        return self.arena.of_random(asked) if actions.categorical or actions.bounded else None

    def _answers(self, shown: Shown, asked: EpisodeSet) -> np.ndarray:
        """The policy against the expert in one state of each of these episodes: whether they agree, or minus
        the loss. States without an answer are left out.
        """
        student, stage = self.student, self._stage()
        if student.on_device:  # its labels come with the round
            self._labelling.begin(student.round)
        drawn = OneStateAnEpisode(asked)
        stage.of_policy(shown, asked, drawn)
        found, rows = drawn.states()
        given = self._labelling.label(found, rows)
        student.labels += int(given.new.sum())
        has = np.flatnonzero(given.answered)
        targets = student.parts.actions.targets(np.asarray(given.values)[has], student.parts.kind)
        policy, params = shown
        inputs = jnp.asarray(student.normaliser(rows[has]))
        if self.goal.kind == "agreement":
            outputs = np.asarray(policy.apply(params, inputs))
            return (outputs.argmax(axis=1) == np.asarray(targets).argmax(axis=1)).astype(float)
        return -np.asarray(per_sample(policy, student.game.loss, params, inputs, jnp.asarray(targets)), float)

    # ------------------------------------------------------------------------------------- statement

    def statement(self, kept: int) -> Statement:
        """What the run says of its goal; `kept`: the round of the policy that is kept."""
        labels, number = self.student.labels, max(self.tests, default=0)
        test = self.tests.get(kept, self.tests.get(number))
        statement = functools.partial(
            Statement, until=str(self.goal), labels=labels, candidates=len(self.tests)
        )
        if test is None:
            text = f"not reached with {labels:,} labels: no policy looked good enough for a test"
            if self.goal.kind == "share" and self._mark() == math.inf:
                text = f"not tested with {labels:,} labels: the expert returns no more than random actions"
            return statement(reached=False, episodes=0, exact=False, text=f"{text}; {self._advice()}")
        score, reached = test.interval(), test.state == "accepted"
        text = test.sentence("the kept policy", labels)
        return statement(
            reached=reached,
            score=score.middle,
            low=score.low,
            high=score.high,
            episodes=test.count,
            exact=test.exact,
            more=test.needed() - test.count,
            text=text if reached else f"{text}; {self._advice()}",
        )

    def _advice(self) -> str:
        """What would help a run that has not reached its goal, by whether it was still getting better."""
        rows, budget = self.student.rows, self.student.timetable.budget
        name = "return_mean" if self.goal.kind == "share" else self.goal.kind
        sign = -1.0 if name == "loss" else 1.0  # more is better of a mean return and of an agreement
        values = np.nan_to_num([sign * float(row[name]) for row in rows], nan=-np.inf)
        late = max(1, len(values) // 3)
        goal = self._mark() if name == "return_mean" else sign * self.goal.wanted
        before = values[:-late].max(initial=-np.inf)
        rising = values[-late:].max() - before > RISING * (goal - before)
        if rising and budget is not None:
            return f"it was still getting better: --budget {2 * budget} would help"
        if rising:
            return "it was still getting better: more rounds would help"
        return (
            "more labels alone did not help in the last third of the rounds; wider networks (--widths) or "
            "what came before (--frame-stack 3) may"
        )

    # ------------------------------------------------------------------------------------ checkpoints

    def plain(self) -> dict[str, Json]:
        """All tests as plain data, from which `restore` goes on."""
        tests: list[Json] = []
        for number, test in self.tests.items():
            returns = [None if part is None else part.tolist() for part in test.played]
            tests.append([number, test.candidate, test.limits, *returns])
        return {"tests": tests, "seen": self._seen}

    def restore(self, plain: Mapping[str, Any]) -> None:
        """Back to what `plain` gave."""
        self.tests.clear()
        self._seen = plain["seen"] and (plain["seen"][0], plain["seen"][1])
        for number, candidate, limits, *played in plain["tests"]:
            test = self._acceptance(candidate, limits)
            if played[0]:
                test.add(*played)
            self.tests[number] = test


def known_limits(settings: Mapping[str, Any], env: str) -> tuple[float, float] | None:
    """The least and the largest return of an episode that a run's settings, or the environment, say."""
    if (said := settings.get("return_limits")) is not None:
        return said[0], said[1]
    steps, more = longest_episode(settings, env), set(settings["env_kwargs"]) - {"max_episode_steps"}
    if env not in REWARDS or not steps or more:
        return None
    return steps * REWARDS[env][0], steps * REWARDS[env][1]


def longest_episode(settings: Mapping[str, Any], env: str) -> int:
    """Most steps of an episode; 0 where there is no limit that Gymnasium knows.

    >>> longest_episode({"env_kwargs": {}, "episode_limit": 300}, "CartPole-v1")
    300
    """
    import gymnasium

    kwargs, known = settings["env_kwargs"], gymnasium.registry.get(env.rpartition(":")[2])
    own: int | None = kwargs.get("max_episode_steps") or getattr(known, "max_episode_steps", None)
    return min(filter(None, (own, settings["episode_limit"])), default=0)


@final
class OneStateAnEpisode:
    """One state of every episode, each of them with the same probability, and its row."""

    def __init__(self, asked: EpisodeSet):
        self._asked, self._begun = asked, 0
        self._lanes: dict[int, tuple[int, int, np.random.Generator]] = {}
        self._kept: dict[int, tuple[Observed, np.ndarray]] = {}

    def __call__(self, seen: Observed, rows: np.ndarray, slots: np.ndarray, fresh: np.ndarray) -> None:
        seed, number = self._asked.seed, self._asked.number
        for i, slot in enumerate(slots.tolist()):
            if fresh[i]:
                rng = np.random.default_rng(derive(seed, "ask", number, self._begun))
                self._lanes[slot], self._begun = (self._begun, 0, rng), self._begun + 1
            episode, steps, rng = self._lanes[slot]
            self._lanes[slot] = episode, steps + 1, rng
            if rng.random() * (steps + 1) < 1.0:
                self._kept[episode] = copy.deepcopy(some_of(seen, [i])), rows[i].copy()

    def states(self) -> tuple[Observed, np.ndarray]:
        """The states in the order of their episodes, and their rows (m, width)."""
        chosen = [self._kept[episode] for episode in range(self._begun)]
        infos = [info for seen, _ in chosen for info in seen.infos]
        return Observed(join([seen.batch for seen, _ in chosen]), infos), np.stack([row for _, row in chosen])
