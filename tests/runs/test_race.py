"""How a run chooses among its policies: races on common episodes, of candidates whose returns are made up."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from understudy.defaults import COURSE, LOOKS, SURE
from understudy.runs.evaluate import FEW_EPISODES as FEW
from understudy.runs.evaluate import LOOKED, Evaluation, Judge

ALL, LONG = COURSE * LOOKS, SURE * LOOKS
STEADY, FALLING = np.full(LONG, 100.0), np.where(np.arange(LONG) % 5 == 4, 10.0, 100.0)


class Table:
    """An arena in which every policy has a row of returns, and an episode a place in it."""

    def __init__(self, few: int = FEW, expert: np.ndarray | None = None):
        self.few, self.expert, self.asked = few, expert, list[tuple[str, int]]()

    def _play(self, who: str, returns: np.ndarray, asked: tuple[int, int, int]) -> Evaluation:
        seed, count, number = asked
        assert seed == 7 and number in LOOKED
        looks = LOOKED.index(number) - 1
        first = [0, self.few, *(LOOKS * k for k in range(1, SURE))][looks + 1]
        self.asked.append((who, count))
        return Evaluation(returns[first : first + count], np.full(count, 5), np.arange(count))

    def of_policy(self, shown, asked):
        return self._play("policy", shown[1], asked)

    def of_expert(self, asked):
        assert self.expert is not None, "it must not be asked"
        return self._play("expert", self.expert, asked)


class Pupil:
    """A student whose policies are rows of returns: the one that acts, and the mean of several."""

    def __init__(self, rounds, *, quick: bool = True, expert_episodes: int = 30):
        self.rounds, self.round, self.trained = rounds, 0, list[int]()
        self.spec = SimpleNamespace(seed=7)
        self.timetable = SimpleNamespace(
            keep_best=True,
            looks=LOOKS,
            sizes=(1,) * len(rounds),
            evaluated=frozenset(range(1, len(rounds) + 1)),
            measures=lambda *, expensive: 0 if expensive else expert_episodes,
        )
        self.resolved = SimpleNamespace(ensemble=1 if rounds[0][1] is None else 5)
        expert = SimpleNamespace(deterministic=quick, workers=None)
        self.parts, self.labels, self.ensemble = SimpleNamespace(expert=expert), 0, list[np.ndarray]()

    @property
    def last(self):
        return [self.rounds[self.round - 1][0]]

    def complete(self):
        self.trained.append(self.round)
        self.ensemble = [self.rounds[self.round - 1][1]]

    def mean(self, members):
        return "policy", members[0]


def race(*rounds, few: int = FEW, expert: np.ndarray | None = None, **about):
    """Rounds of (returns of the network that acts, of the mean or None): the judge, its pupil and arena, and
    the episodes that every candidate played.
    """
    pupil, arena = Pupil(rounds, quick=expert is not None, **about), Table(few, expert)
    judge, played, compared = Judge(pupil, arena, print), list[int](), Judge._compared

    def counted(judge, members):
        before = sum(n for who, n in arena.asked if who == "policy")
        found = compared(judge, members)
        played.append(sum(n for who, n in arena.asked if who == "policy") - before)
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Judge, "_compared", counted)
        rows = []
        for t in range(1, len(rounds) + 1):
            pupil.round, pupil.ensemble = t, []
            rows.append({})
            judge.after(rows[-1], lambda part: None)
    return judge, pupil, arena, played, rows


def test_a_candidate_far_behind_plays_a_few_episodes_and_a_close_one_all():
    close = STEADY + np.where(np.arange(LONG) % 2, 0.5, -0.5)
    judge, _, _, played, rows = race(
        (STEADY, None), (STEADY - 50, None), (STEADY + 0.25, None), (close, None)
    )
    assert played == [LOOKS, FEW, LOOKS, LOOKS] and judge.kept_round == 3
    assert [row["return_mean"] for row in rows] == [100, 50, 100.25, 100]
    judge, _, _, played, _ = race((FALLING, None), (np.roll(FALLING, 1) + 0.1, None), (STEADY, None))
    assert played == [ALL] * 3 and judge.kept_round == 3  # one that is known must be so where the best was


def test_luck_in_the_first_episodes_does_not_choose():
    lucky = np.concatenate([np.full(LOOKS, 101.0), np.full(LONG - LOOKS, 50.0)])
    judge, _, _, played, _ = race((FALLING, None), (lucky, None))
    assert played == [ALL, 2 * LOOKS] and judge.kept_round == 1
    _, _, _, played, _ = race((STEADY, None), (lucky, None))
    assert played == [LOOKS, LOOKS], "as many as the best has played"
    judge, _, _, played, _ = race((lucky, None), (STEADY, None))
    assert played == [LOOKS, FEW] and judge.kept_round == 1, "known to 1 % after a look"
    places = np.arange(LONG)
    fallen = np.where(places == LOOKS + 1, -500.0, 101.0 + 20 * (-1.0) ** places)
    judge, _, _, played, _ = race((fallen, None), (STEADY, None))
    assert played == [ALL, ALL] and judge.kept_round == 2, "the best one's luck in the first look is known"


def test_few_episodes_are_those_that_an_arena_plays_quicker():
    _, _, arena, played, _ = race((STEADY, None), (STEADY - 50, None), few=1 << 30)
    assert played == [LOOKS, LOOKS] and arena.asked == [("policy", LOOKS)] * 2


def test_the_ensemble_is_trained_until_the_best_is_as_good_as_the_expert():
    weak, good = STEADY - 60, STEADY - 0.5
    rounds = [(weak, weak + 30), (weak, good), (good, STEADY), (STEADY, STEADY)]
    judge, pupil, arena, played, rows = race(*rounds, expert=STEADY)
    assert pupil.trained == [1, 2] and judge.kept_round == 2 and judge.best.equal
    assert played == [LOOKS, LOOKS, FEW, LONG, FEW, FEW], "equal in all episodes; then a few, for the record"
    assert {n for who, n in arena.asked if who == "expert"} == {FEW, LOOKS - FEW, LOOKS}
    assert judge.compared == SURE + 1 and judge.calls == 5 * LONG
    assert [row["return_mean"] for row in rows] == [70, 99.5, 99.5, 100]
    for about in ({"expert": None}, {"expert": STEADY, "expert_episodes": 0}):  # nobody to compare with
        judge, pupil, _, _, _ = race(*rounds, **about)
        assert pupil.trained == [1, 2, 3, 4] and judge.kept_round == 4 and judge.calls == 0
    judge, pupil, _, played, _ = race((weak, np.append(STEADY[:-1], 0)), (weak, weak), expert=STEADY)
    assert pupil.trained == [1, 2] and not judge.best.equal, "the last episode was lost"
    assert played[:2] == [LOOKS, LONG]


def test_a_policy_that_is_quicker_than_the_expert_and_falls_is_not_as_good():
    quick = np.where(np.arange(LONG) == LONG - 1, 20.0, 106.0)
    judge, pupil, *_ = race((quick, STEADY - 90), (STEADY, STEADY), expert=STEADY)
    assert judge.best.mean > 100 and not judge.best.equal and pupil.trained == [1, 2]
    quick = np.where(np.arange(LONG) == LONG - 1, 90.0, 106.0)
    judge, pupil, *_ = race((quick, STEADY - 90), (STEADY, STEADY), expert=STEADY)
    assert judge.best.equal and pupil.trained == [], "a slow episode is no fall"


def test_how_bad_a_policy_is_need_not_be_known_well():
    rounds = (FALLING - 20, None), (FALLING - 19, None), (FALLING, None)  # 62, 63 and 82 of 100
    _, _, _, played, _ = race(*rounds, expert=STEADY)
    assert played == [LOOKS, LOOKS, ALL]
    _, _, _, played, _ = race(*rounds)
    assert played == [ALL] * 3, "nobody to compare with"


def test_the_network_that_acts_may_be_better_than_the_mean():
    judge, pupil, _, played, rows = race((STEADY, STEADY - 70), (STEADY - 90, STEADY - 80))
    assert judge.best.members == [STEADY] or np.array_equal(judge.best.members[0], STEADY)
    assert judge.kept_round == 1 and pupil.trained == [1, 2] and played == [LOOKS, FEW, FEW, FEW]
    assert [row["return_mean"] for row in rows] == [100, 20]


def test_a_mean_that_is_no_number_is_behind_every_other():
    judge, *_ = race((STEADY * np.nan, None), (STEADY - 90, None), (STEADY * np.nan, None))
    assert judge.kept_round == 2
