"""What a policy is worth: returns of whole episodes, in environments of their own, seeded apart from
collection. An evaluation costs no labels and no steps.

Who is compared plays the same episodes: `JUDGED` says which ones judge the kept policies of all runs,
whatever their seeds, and their experts.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, final

import numpy as np

from .. import intervals
from ..defaults import COURSE, SURE
from ..envs.gymnasium import Observed, VectorEnv, derive, raise_broken
from ..errors import UserError, failure
from ..policies import (
    Actions,
    History,
    Normaliser,
    Params,
    Policy,
    Recalled,
    Seen,
    TrainedPolicy,
    require_finite,
)
from ..policies.acting import Actor
from ..progress import EVALUATING, KEEPING, TRAINING
from ..student import Understudy
from .world import World

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from ..student import Row
    from .proof import Proof

STEP_LIMIT = 100_000
JUDGED = 0, 1 << 31
"""Seed and number of the final evaluation of every run and its expert. No other evaluation uses them."""
LANES = 10
"""Most episodes that are played side by side."""
LOOKED = tuple((1 << 30) + k for k in range(1 + SURE))
"""Evaluation numbers of the race in which a run chooses its best policy, one per portion of episodes."""
FEW_EPISODES = 3
"""Episodes that show whether a policy is far behind."""
PRECISE = 0.01
"""A share of a mean return. No more episodes are needed once the standard error is at most this share; a
policy that is behind another by at most this share counts as equally good.
"""
NEAR = 0.2
"""A policy whose mean return is behind the expert's by more than this share of it needs no second look."""
Act = Callable[[Observed, np.ndarray, np.ndarray], "np.ndarray | Sequence[ArrayLike]"]
"""``(seen, lanes, fresh) -> actions``: lanes (n,) are numbers, fresh (n,) is True where an episode begins."""


class EpisodeSet(NamedTuple):
    """Which episodes are played: a seed, how many, and the number of the evaluation."""

    seed: int
    episodes: int
    number: int


class Evaluation(NamedTuple):
    """Undiscounted returns, lengths and seeds of the episodes, (episodes,) each; no seeds where they are not
    known. Those of equal seeds can be compared, one by one.
    """

    returns: np.ndarray
    lengths: np.ndarray
    seeds: np.ndarray = np.zeros(0, np.int64)

    @property
    def mean(self) -> float:
        return float(self.returns.mean())

    @property
    def std(self) -> float:
        return float(self.returns.std())

    @property
    def precise(self) -> bool:
        """Whether more episodes would hardly change the mean."""
        count = len(self.returns)
        return count > 1 and float(self.returns.std(ddof=1)) <= PRECISE * abs(self.mean) * count**0.5

    def first(self, episodes: int) -> Evaluation:
        """The first so many of these episodes."""
        return Evaluation(*(column[:episodes] for column in self))

    def listed(self) -> dict[str, list[float]]:
        """As plain data."""
        return {name: column.tolist() for name, column in self._asdict().items()}

    @classmethod
    def read(cls, listed: Mapping[str, Sequence[float | None]] | None) -> Evaluation | None:
        """What `listed` gave; None where there is nothing."""
        if not listed:
            return None
        # A return that is not finite is null in a file.
        lengths, seeds = (np.asarray(listed.get(name, ()), np.int64) for name in ("lengths", "seeds"))
        return cls(np.asarray(listed["returns"], float), lengths, seeds)

    def with_more(self, more: Evaluation) -> Evaluation:
        """These episodes and `more`."""
        return Evaluation(*(np.concatenate(both) for both in zip(self, more, strict=True)))


def paired(mine: Evaluation, theirs: Evaluation) -> tuple[np.ndarray, np.ndarray]:
    """The returns of the episodes that both have played, in pairs; none where their seeds are not known.

    >>> one = Evaluation(np.array([5.0, 7.0]), np.array([9, 9]), np.array([31, 4]))
    >>> paired(one, Evaluation(np.array([6.0]), np.array([9]), np.array([4])))
    (array([7.]), array([6.]))
    """
    _, here, there = np.intersect1d(mine.seeds, theirs.seeds, return_indices=True)
    return mine.returns[here], theirs.returns[there]


def judged(mine: Evaluation | None, theirs: Evaluation | None) -> dict[str, float]:
    """What the returns of a policy and of its expert come to, with 95 % intervals of the means, and of the
    mean paired difference; nan for what was not measured, or is not bounded.
    """
    names = ("return_mean", "return_std", "return_low", "return_high", "return_least", "episodes")
    names += ("expert_return_low", "expert_return_high", "difference", "difference_low", "difference_high")
    numbers: dict[str, float] = dict.fromkeys(names, np.nan)
    both = None if mine is None or theirs is None else paired(mine, theirs)
    if mine is not None:
        numbers |= {"return_mean": mine.mean, "return_std": mine.std, "episodes": len(mine.returns)}
        numbers["return_least"] = float(mine.returns.min())
        _, numbers["return_low"], numbers["return_high"], *_ = intervals.mean(mine.returns)
    if theirs is not None:
        _, low, high, *_ = intervals.mean(theirs.returns)
        numbers |= {"expert_return_low": low, "expert_return_high": high}
    if both is not None:
        gap, low, high, *_ = intervals.difference(*both)
        numbers |= {"difference": gap, "difference_low": low, "difference_high": high}
    for name, value in numbers.items():
        numbers[name] = value if np.isfinite(value) else np.nan
    return numbers


def endless(name: str) -> UserError:
    """That an episode of this environment does not end."""
    return UserError(
        f"env: an evaluation episode of {name} has lasted {STEP_LIMIT} steps and the environment has no "
        "limit; give one with episode_limit, as in --episode-limit 1000 (a run is resumed with it)."
    )


def play_episodes(
    env: VectorEnv,
    name: str,
    asked: EpisodeSet,
    act: Act,
    *,
    stream: str = "evaluate",
    lanes: int = 1,
    limit: int | None = None,
    progress: Callable[[int], None] | None = None,
    on_reset: Callable[[], None] | None = None,
) -> Evaluation:
    """Whole episodes, those that `asked` says, side by side in `lanes` slots of `env`.

    Episode j is seeded by (its seed, stream, number, j), so lanes do not change the result. An episode ends
    after `limit` steps; without such a limit one of `STEP_LIMIT` steps is an error. `progress` is called with
    the number of episodes that have ended, `on_reset` before one begins.
    """
    seed, episodes, number = asked
    seeds = [derive(seed, stream, number, j) for j in range(episodes)]
    returns, lengths = np.zeros(episodes), np.zeros(episodes, np.int64)
    episode = np.full(lanes, -1)  # under way in every lane; -1: none
    total, steps, begun, ended = np.zeros(lanes), np.zeros(lanes, np.int64), 0, 0

    def begin(slots: np.ndarray) -> None:
        nonlocal begun
        here: np.ndarray = slots[: episodes - begun]
        total[slots], steps[slots], episode[slots] = 0.0, 0, -1
        episode[here] = np.arange(begun, begun + len(here))
        begun += len(here)
        if on_reset is not None and len(here):
            on_reset()
        env.begin(here, [seeds[int(j)] for j in episode[here]])

    begin(np.arange(lanes))
    slots = np.flatnonzero(episode >= 0)
    while len(slots):
        if env.broken:
            raise_broken(env)
        actions = act(env.observe(slots), slots, steps[slots] == 0)
        rewards, terminated, truncated = env.step(slots, actions)
        total[slots] += rewards
        steps[slots] += 1
        over = terminated | truncated
        if limit is not None:
            over |= steps[slots] >= limit
        elif steps.max() >= STEP_LIMIT:
            raise endless(name)
        if over.any():
            done = slots[over]
            returns[episode[done]], lengths[episode[done]] = total[done], steps[done]
            begin(done)
            slots, ended = np.flatnonzero(episode >= 0), ended + len(done)
            if progress is not None:
                progress(ended)
    if env.broken:
        raise_broken(env)
    return Evaluation(returns, lengths, np.asarray(seeds))


Look = Callable[[Observed, np.ndarray, np.ndarray, np.ndarray], None]
"""Called as ``look(seen, rows, lanes, fresh)``: an `Act`'s arguments, with the encoded rows (n, width)."""


def by_policy(
    policy: Policy,
    params: Params,
    normaliser: Normaliser,
    seen: Seen,
    actions: Actions,
    lanes: int,
    look: Look | None = None,
) -> Act:
    """The deterministic actions of a policy, in so many lanes; `look` is called with every state."""
    actor = Actor(policy, params, normaliser, lanes)
    history = History(seen, lanes) if isinstance(seen, Recalled) else None

    def act(shown: Observed, slots: np.ndarray, fresh: np.ndarray) -> np.ndarray:
        if history is None:
            rows = seen.rows(shown.batch)
        else:
            history.begin(slots[fresh])
            rows = history.see(slots, shown.batch)
        require_finite(rows)
        if look is not None:
            look(shown, rows, slots, fresh)
        if history is not None:
            history.advance(slots, rows)
        return actions.plays(actor.outputs(rows, slots))

    return act


def by_chance(actions: Actions, asked: EpisodeSet) -> Act:
    """Random actions: uniform within their bounds, or among the choices; those of an episode are its own."""
    lanes: dict[int, np.random.Generator] = {}
    begun = 0

    def act(shown: Observed, slots: np.ndarray, fresh: np.ndarray) -> np.ndarray:
        nonlocal begun
        for slot in slots[fresh].tolist():  # as `play_episodes` begins them
            lanes[slot] = np.random.default_rng(derive(asked.seed, "random", asked.number, begun))
            begun += 1
        drawn = np.stack([lanes[slot].random(actions.outputs) for slot in slots.tolist()])
        return actions.plays(actions.spread(drawn))

    return act


class Best(NamedTuple):
    """The best policy so far: its returns in the episodes that all have played, its round, the parameters
    that it is the mean of, and whether it is as good as the expert.
    """

    returns: np.ndarray
    round: int
    members: list[Params]
    equal: bool

    @property
    def mean(self) -> float:
        return float(self.returns.mean())


class Arena(Protocol):
    """Where episodes are played: on the host (`Stage`) or on the device (`runs.device`).

    few: episodes of the first portion of a race, after which a policy that is clearly behind stops.
    """

    few: int

    def of_policy(self, shown: tuple[Policy, Params], asked: EpisodeSet) -> Evaluation:
        """The episodes of a policy that the student has learnt."""
        ...

    def of_expert(self, asked: EpisodeSet) -> Evaluation:
        """Those of the expert."""
        ...

    def of_random(self, asked: EpisodeSet) -> Evaluation:
        """Those of random actions, which have bounds or are choices."""
        ...


@final
class Stage:
    """Evaluations on the host. Episodes are played one by one in one environment, or up to `LANES` side by
    side if slots are `light` (cheap) and the player's answers do not depend on the batch. Environments are
    borrowed from the world until `opened` is closed. The expert's episodes are played once for all runs of a
    world.
    """

    few = FEW_EPISODES

    def __init__(
        self,
        world: World,
        student: Understudy,
        limit: int | None,
        opened: contextlib.ExitStack,
        *,
        light: bool = False,
    ):
        self._world, self._student, self._limit, self._light = world, student, limit, light
        self._expert = student.parts.expert
        self._lent, self._opened = dict[int, VectorEnv](), opened

    def of_policy(
        self, shown: tuple[Policy, Params], asked: EpisodeSet, look: Look | None = None
    ) -> Evaluation:
        parts, normaliser = self._student.parts, self._student.normaliser
        about = *shown, normaliser, parts.observations, parts.actions
        return self._play(asked, lambda lanes: by_policy(*about, lanes, look), deterministic=True)

    def of_expert(self, asked: EpisodeSet) -> Evaluation:
        def play() -> Evaluation:
            hook = self._expert.on_reset
            deterministic = self._expert.deterministic and hook is None
            try:
                return self._play(
                    asked, lambda lanes: self._expert_actions, deterministic=deterministic, hook=hook
                )
            except Exception as error:
                raise failure("expert", error) from error

        return self._once("expert", asked, play)

    def of_random(self, asked: EpisodeSet) -> Evaluation:
        act = by_chance(self._student.parts.actions, asked)
        return self._once("random", asked, lambda: self._play(asked, lambda lanes: act, deterministic=True))

    def _once(self, who: str, asked: EpisodeSet, play: Callable[[], Evaluation]) -> Evaluation:
        """What is the same in all runs of a world is played once."""
        known, same = self._world.cache, (who, asked, self._limit)
        if same not in known:
            known[same] = play()
        return known[same]

    def _expert_actions(self, seen: Observed, slots: np.ndarray, fresh: np.ndarray) -> np.ndarray:
        return self._expert.act(seen.batch, seen.infos)

    def _play(
        self,
        asked: EpisodeSet,
        act: Callable[[int], Act],
        *,
        deterministic: bool,
        hook: Callable[[], None] | None = None,
    ) -> Evaluation:
        """`act(lanes)` plays in so many slots; deterministic: it does the same in any number of them."""
        lanes = min(asked.episodes, LANES) if deterministic and self._light else 1
        if lanes not in self._lent:
            self._lent[lanes] = self._opened.enter_context(self._world.lend(lanes))
        env, name = self._lent[lanes], self._world.make.name
        return play_episodes(env, name, asked, act(lanes), lanes=lanes, limit=self._limit, on_reset=hook)


@final
class Judge:
    """The evaluations of a run: on the way, of the policy that is kept, and of the expert.

    If the best policy is to be kept, every evaluation is a race on the same episodes. A new policy plays a
    few and stops if it is clearly behind the best one so far. Otherwise it plays on, for up to `COURSE`
    looks, until its mean return is known precisely, so that luck does not choose; a policy that is far behind
    the expert plays one look only. One that is as good as the expert plays `SURE` looks. If it still is, no
    ensemble is trained any more, and later policies play a few episodes for the record. The policy that is
    kept at the end is evaluated on episodes that were not used to choose it.

    compared: portions of the race that the expert has played. calls: its steps in them since the run was
    begun or resumed.
    """

    def __init__(
        self,
        student: Understudy,
        arena: Arena,
        tell: Callable[[str], None],
        proof: Proof | None = None,
    ):
        self._tell = tell
        self.student, self.arena, self.spec, self.timetable = student, arena, student.spec, student.timetable
        self.proof = proof
        self.best: Best | None = None
        self.compared = self.calls = 0
        self.evaluation: Evaluation | None = None
        self.expert_evaluation: Evaluation | None = None

    @property
    def chooses(self) -> bool:
        """Whether the best policy is kept, and not the last one."""
        return self.timetable.keep_best

    @property
    def kept_round(self) -> int:
        """The round after which the policy that is kept was learnt."""
        return self.student.round if self.best is None else self.best.round

    @property
    def shown(self) -> tuple[Policy, Params]:
        """The policy that is kept: the last one, or the best of those that have raced."""
        last = self.student.ensemble or self.student.last
        return self.student.mean(last if self.best is None else self.best.members)

    @property
    def policy(self) -> TrainedPolicy:
        """That policy with what it sees and plays."""
        parts, normaliser = self.student.parts, self.student.normaliser
        return TrainedPolicy(*self.shown, parts.observations, parts.actions, normaliser)

    def due(self) -> bool:
        """Whether the policy is evaluated after the round that has just ended."""
        last, chosen = len(self.timetable.sizes), self.timetable.evaluated
        return self.student.round in chosen or (self.student.finished and last in chosen)

    def after(self, row: Row, clock: Callable[[str], None]) -> None:
        """Evaluates the policy of the round with this row, if that is due. With a goal (`until`), a policy
        that looks good enough is also tested; if the test accepts it, the run ends (`student.ended`).
        """
        evaluation = None
        if self.due():
            evaluation = self._race(clock) if self.chooses else self._look(clock)
            row |= {"return_mean": evaluation.mean, "return_std": evaluation.std}
            clock("evaluate")
        if self.proof is not None:
            self._test(self.proof, row, evaluation, clock)

    def _test(
        self, proof: Proof, row: Row, evaluation: Evaluation | None, clock: Callable[[str], None]
    ) -> None:
        """Tests the policy of the round where it may be good enough."""
        student, best = self.student, self.best
        looked = evaluation
        if best is not None and evaluation is not None:  # the best is not tested twice
            seeds = np.zeros(0, np.int64)
            looked = Evaluation(best.returns, seeds, seeds) if best.round == student.round else None
        theirs = None if looked is None or not self.chooses else self._expert_returns(looked)
        if proof.looks_good(row, evaluation, looked, theirs):
            if best is None:
                self._complete(clock, EVALUATING)
            proof.test(row, self.shown)
            student.ended = proof.accepted
            # After a test, a policy that is not clearly behind the best one may become the next candidate.
            self.best = None if self.best is None else self.best._replace(equal=False)
        row["labels"] = student.labels
        clock("evaluate")

    def _look(self, clock: Callable[[str], None]) -> Evaluation:
        """Evaluates the last policy on the episodes of the final evaluation: after the last round on all of
        them, else on the first few.
        """
        self._complete(clock, EVALUATING)
        count = self.timetable.judging if self.student.finished else self.timetable.looks
        evaluation = self.arena.of_policy(self.shown, EpisodeSet(JUDGED[0], count, JUDGED[1]))
        self.evaluation = evaluation if self.student.finished else self.evaluation
        # As many as in every other row: then an extended run has the ledger of one that never stopped.
        return evaluation.first(self.timetable.looks)

    def _race(self, clock: Callable[[str], None]) -> Evaluation:
        """Races the policy that acts and, if there is an ensemble, its mean; returns what the better had."""
        student, own = self.student, self._compared(self.student.last)
        if student.resolved.ensemble < 2 or (self.best is not None and self.best.equal):
            return own
        clock("evaluate")
        self._complete(clock, EVALUATING)
        mean = self._compared(student.ensemble)
        return mean if not mean.mean < own.mean else own

    def _compared(self, members: list[Params]) -> Evaluation:
        """Plays a policy until it is behind the best; if it never is, it becomes the best."""
        shown, asked = self.student.mean(members), self._portions()
        evaluation = self.arena.of_policy(shown, asked[0])
        for portion in asked[1:]:
            if self._behind(evaluation) or (self._known(evaluation) and not self._equal(evaluation)):
                break
            evaluation = evaluation.with_more(self.arena.of_policy(shown, portion))
        if not self._behind(evaluation):
            whole = len(evaluation.returns) == sum(portion.episodes for portion in asked)
            equal = whole and self._equal(evaluation)
            self.best = Best(evaluation.returns, self.student.round, members, equal)
        return evaluation

    def _portions(self) -> list[EpisodeSet]:
        """The episodes of a race: a few, the rest of a look, and more looks."""
        looks = self.timetable.looks
        few = min(self.arena.few, looks)
        counts = few, looks - few, *(looks,) * (SURE - 1)
        return [EpisodeSet(self.spec.seed, n, number) for n, number in zip(counts, LOOKED, strict=True) if n]

    def _known(self, evaluation: Evaluation) -> bool:
        """Whether these episodes are enough to know the mean: at least a look and as many as the best one
        played, and either precise, far behind the expert, or a whole course.
        """
        best, played = 0 if self.best is None else len(self.best.returns), len(evaluation.returns)
        if played < max(self.timetable.looks, best):
            return False
        if played >= COURSE * self.timetable.looks:
            return True
        theirs = self._expert_returns(evaluation)
        return evaluation.precise or (
            theirs is not None and evaluation.mean < theirs.mean() - _share(NEAR, theirs)
        )

    def _behind(self, evaluation: Evaluation) -> bool:
        """Whether the policy with these returns is behind the best: clearly, in the same episodes, before a
        look is over; after it in the mean, both of the same episodes and of all that the best has played,
        since it may have been lucky in the first. A mean that is not a number is behind every other.
        """
        if self.best is None or np.isnan(self.best.mean):
            return False
        if self.best.equal:
            return True
        both = min(len(evaluation.returns), len(self.best.returns))
        gap = intervals.difference(evaluation.returns[:both], self.best.returns[:both])
        tested = self.proof is not None and self.best.round in self.proof.tests
        if tested or both < self.timetable.looks:
            return gap.high < 0
        return not (gap.middle >= 0 or evaluation.mean >= self.best.mean)

    def _equal(self, evaluation: Evaluation) -> bool:
        """Whether the policy with these returns is as good as the expert in the same episodes: as a mean, and
        far behind in none, since a policy that is quicker than the expert may fall now and then.
        """
        theirs = self._expert_returns(evaluation)
        if theirs is None or evaluation.mean < theirs.mean() - _share(PRECISE, theirs):
            return False
        return bool((evaluation.returns >= theirs - _share(NEAR, theirs)).all())

    def _expert_returns(self, evaluation: Evaluation) -> np.ndarray | None:
        """The expert's returns in the same episodes of the race; None where it is not to be played, or where
        that might take long.
        """
        expert = self.student.parts.expert
        if not expert.deterministic or not self.timetable.measures(expensive=expert.workers is not None):
            return None
        theirs = np.zeros(0)
        for k, asked in enumerate(self._portions()):
            if len(theirs) < len(evaluation.returns):
                played = self.arena.of_expert(asked)
                theirs = np.append(theirs, played.returns)
                if k >= self.compared:
                    self.compared, self.calls = k + 1, self.calls + int(played.lengths.sum())
        return theirs

    def finish(self, clock: Callable[[str], None]) -> None:
        """The rounds are over: judges the policy that is kept, where that is not done yet."""
        open_test = self.proof is not None and not self.proof.accepted
        if self.best is None:
            self._complete(clock, KEEPING)
        if self.proof is not None and open_test:
            self.proof.settle(self.shown, self.kept_round)
        if self.evaluation is None and self.timetable.judging:
            self.evaluation = self.arena.of_policy(
                self.shown, EpisodeSet(JUDGED[0], self.timetable.judging, JUDGED[1])
            )
        clock("evaluate")

    def _complete(self, clock: Callable[[str], None], then: str) -> None:
        if self.student.resolved.ensemble > 1 and not self.student.ensemble:
            self._tell(TRAINING)
            self.student.complete()
            self._tell(then)
        clock("solve")

    def measure_expert(self, episodes: int, clock: Callable[[str], None]) -> None:
        """Plays the expert on the first of the episodes that judge the policy."""
        self.expert_evaluation = self.arena.of_expert(EpisodeSet(JUDGED[0], episodes, JUDGED[1]))
        clock("evaluate")


def _share(share: float, returns: np.ndarray) -> float:
    """A share of a mean return, which may be negative."""
    return share * abs(float(returns.mean()))
