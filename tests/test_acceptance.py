"""The test of "good enough": its e-processes against integrals and exact expectations, how often it is wrong
on an MDP whose returns are known exactly, how soon it decides, and what happens without its rules.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import integrate, stats

from understudy import acceptance
from understudy.acceptance import Acceptance, bounded, level_of, normal
from understudy.errors import UserError

HORIZON = 8


class Walk:
    """A chain of four states; action 1 in state s moves on with probability 0.9, and the last state pays 1 a
    step. The expert plays 1; a policy plays 1 with probability x; random actions do with 1/2.
    """

    PAYS = np.array([0.0, 0.1, 0.0, 1.0])

    def mean(self, x: float) -> float:
        """The exact mean return of HORIZON steps."""
        moves = np.zeros((4, 4))
        for s in range(4):
            moves[s, min(s + 1, 3)] += 0.9 * x
            moves[s, max(s - 1, 0) if s < 3 else 3] += 1 - 0.9 * x
        at, total = np.eye(4)[0], 0.0
        for _ in range(HORIZON):
            at = at @ moves
            total += at @ self.PAYS
        return float(total)

    def returns(self, x: float, numbers: np.ndarray) -> np.ndarray:
        """Returns (…) of episodes whose chance is `numbers` (…, HORIZON): common to all who play them."""
        state, total = np.zeros(numbers.shape[:-1], int), np.zeros(numbers.shape[:-1])
        for step in range(HORIZON):
            on = numbers[..., step] < 0.9 * x
            state = np.where(on, np.minimum(state + 1, 3), np.where(state < 3, np.maximum(state - 1, 0), 3))
            total += self.PAYS[state]
        return total

    def differences(self, x: float, wanted: float, numbers: np.ndarray) -> np.ndarray:
        """On common episodes: mostly small and positive, seldom large and negative."""
        played = [self.returns(y, numbers) for y in (x, 1.0, 0.5)]
        return acceptance.Played(*played).differences(wanted)

    def mixed(self, x: float, wanted: float, numbers: np.ndarray) -> np.ndarray:
        """The mean of 25 differences on episodes of their own each: nearly normal."""
        shape = (*numbers.shape[:-2], -1, 25)
        played = [self.returns(y, np.roll(numbers, 7 * i, axis=-2)) for i, y in enumerate((x, 1.0, 0.5))]
        return acceptance.Played(*played).differences(wanted).reshape(shape).mean(axis=-1)

    def exactly(self, wanted: float) -> float:
        """The policy x with the score `wanted`: the edge of the hypothesis, where errors are most likely."""
        goal = wanted * self.mean(1.0) + (1 - wanted) * self.mean(0.5)
        low, high = 0.0, 1.0
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if self.mean(middle) < goal else (low, middle)
        return low


def false_acceptances(
    evidence, runs: int, candidates: int, episodes: int, level=level_of, seed: int = 0
) -> float:
    """The share of runs in which any of so many candidates, all below the wanted score by a hair, is accepted
    at some look. The stream is adversarial: a next candidate is taken up whenever one is not accepted.
    """
    walk, rng = Walk(), np.random.default_rng(seed)
    x, wrong = walk.exactly(0.9), np.zeros(runs, bool)
    for candidate in range(1, candidates + 1):
        each = 1 if evidence is exact else 25
        numbers = rng.random((runs, each * episodes, HORIZON))
        differences = (walk.differences if evidence is exact else walk.mixed)(x, 0.9, numbers)
        wrong |= (evidence(differences) >= -math.log(level(candidate)))[:, 4:].any(axis=1)
    return float(wrong.mean())


def exact(differences: np.ndarray) -> np.ndarray:
    """The e-process of returns from 0 to HORIZON."""
    return bounded(differences, -HORIZON)


def peeking(differences: np.ndarray) -> np.ndarray:
    """Student's test for a number of episodes fixed beforehand, looked at after every episode."""
    n = np.arange(1, differences.shape[-1] + 1)
    mean = np.cumsum(differences, -1) / n
    spread = np.sqrt(
        np.maximum(np.cumsum(differences**2, -1) / n - mean**2, 1e-12) * n / np.maximum(n - 1, 1)
    )
    return -np.log(stats.t.sf(mean / spread * np.sqrt(n), np.maximum(n - 1, 1)))


def test_the_mixture_is_the_integral_that_it_says():
    for d in ([0.3, -0.1, 0.4, 0.2], [-0.5, -0.2, 0.1]):
        x, c = np.array(d), acceptance.EFFECT

        def joint(s: float, effect: float, x=x, c=c) -> float:
            prior = 2 * c / math.sqrt(2 * math.pi) * math.exp(-((c * effect) ** 2) / 2)
            return s ** (-len(x) - 1) * math.exp(-np.sum((x - effect * s) ** 2) / (2 * s * s)) * prior

        mixed = integrate.dblquad(joint, 0, 8, lambda _: 0.01, lambda _: 80, epsabs=1e-11)[0]
        plain = integrate.quad(
            lambda s, x=x: s ** (-len(x) - 1) * math.exp(-np.sum(x**2) / (2 * s * s)), 0, np.inf
        )[0]
        assert normal(x)[-1] == pytest.approx(math.log(mixed / plain), abs=1e-6)


def test_the_wealth_is_a_supermartingale_to_the_last_digit():
    """Every expectation over two-point differences of mean 0 is a finite sum: it is 1, and never more."""
    for low, high in ((-1.0, 0.05), (-1.0, 1.0), (-1.0, 9.0)):
        p, paths = high / (high - low), list(itertools.product((0, 1), repeat=6))
        points, weights = np.array([low, high]), np.array([p, 1 - p])
        logs = bounded(points[np.array(paths)], low)
        mean = np.prod(weights[np.array(paths)], axis=1) @ np.exp(logs)
        assert np.allclose(mean, 1.0, atol=1e-10) and (mean <= 1.0 + 1e-14).all()
        # Negative control: differences that can fall below what was said make it grow.
        lying = bounded(np.maximum(points, -0.5)[np.array(paths)], -0.5)
        assert (np.prod(weights[np.array(paths)], axis=1) @ np.exp(lying))[-1] > 1.04


def test_one_normal_number_says_nothing_and_scale_does_not_matter():
    # One positive number is a sign that came up: twice, and not more.
    assert normal([3.0])[0] == pytest.approx(math.log(2.0 * stats.t.cdf(1 / acceptance.EFFECT, 1)))
    x = np.random.default_rng(3).normal(0.4, 1.0, size=30)
    assert np.allclose(normal(x), normal(1e6 * x)) and np.all(
        np.diff([normal(x + s)[-1] for s in (0, 0.1, 0.2)]) > 0
    )


def test_levels_add_up_to_delta():
    assert sum(level_of(j) for j in range(1, 200_000)) == pytest.approx(acceptance.DELTA, rel=1e-4)
    assert sum(level_of(j) for j in range(1, 200_000)) < acceptance.DELTA


def test_a_bad_policy_is_hardly_ever_accepted_and_peeking_would_accept_it():
    assert false_acceptances(exact, 1000, 5, 150) <= 0.05
    assert false_acceptances(normal, 300, 5, 40) <= 0.05
    assert false_acceptances(peeking, 300, 5, 40) > 0.1
    # Without levels that add up, ten candidates are ten chances.
    assert false_acceptances(normal, 200, 10, 40, level=lambda j: acceptance.DELTA) > 0.06


def test_rare_failures_fool_the_approximate_test_and_not_the_exact_one():
    """A policy that fails in one episode of ten, at the edge of what is wanted."""
    rng = np.random.default_rng(8)
    differences = np.where(rng.random((1000, 150)) < 0.1, -0.9, 0.1)
    least = -math.log(level_of(1))
    wrong = [
        (log >= least)[:, 9:].any(axis=1).mean() for log in (normal(differences), bounded(differences, -0.9))
    ]
    assert wrong[0] > 0.2 and wrong[1] <= level_of(1)


@pytest.mark.parametrize(("wanted", "episodes"), [(0.95, 85), (0.9, 44)])
def test_a_policy_as_good_as_its_expert_is_accepted_after_so_many_episodes(wanted, episodes):
    test = Acceptance(wanted, limits=(0.0, 1.0))
    test.add(np.ones(200), np.ones(200), np.zeros(200))
    log = bounded(np.full(200, 1 - wanted), -1.0)
    assert test.state == "accepted" and np.argmax(log >= -math.log(level_of(1))) + 1 == episodes


def test_the_approximate_test_waits_until_rare_failures_would_have_shown():
    """A policy that loses everything in 1 − q of its episodes looks perfect so long with probability δ."""
    for score, level in ((0.95, level_of(1)), (0.8, 0.01), (0.95, level_of(7))):
        first = int(acceptance.guard(score, level))
        assert score**first <= level < score ** (first - 1)
    test = Acceptance(0.9)
    assert test.add(np.full(33, 10.0), np.full(33, 10.0)) == "open"
    assert test.add([10.0], [10.0]) == "accepted" and test.needed() == 34


def test_a_range_that_was_seen_is_nearly_as_good_as_one_that_is_known():
    """The range is that of random actions, the expert and a look; a policy that fails rarely is seldom
    wrongly accepted by it, and the mixture of t-tests takes it in every fourth run.
    """
    walk, rng = Walk(), np.random.default_rng(6)
    x, wrong = walk.exactly(0.9), np.zeros(2)
    for _ in range(150):
        numbers = [rng.random((count, HORIZON)) for count in (20, 20, 10, 150)]
        seen = np.concatenate([walk.returns(y, n) for y, n in zip((0.5, 1.0, x), numbers, strict=False)])
        limits = float(seen.min()), float(seen.max())
        played = [walk.returns(y, numbers[3]) for y in (x, 1.0, 0.5)]
        test = Acceptance(0.9, limits=limits, assumed=True)
        wrong += (test.add(*played) == "accepted", Acceptance(0.9).add(*played) == "accepted")
    assert not test.exact and "approximate" in str(test)
    assert wrong[0] <= 0.03 * 150 and wrong[1] > 0.05 * 150


def test_returns_beyond_an_assumed_range_are_no_error_and_cost_nearly_all():
    known, assumed = (Acceptance(0.9, limits=(0.0, 10.0), assumed=a) for a in (False, True))
    with pytest.raises(UserError, match="limits"):
        known.add([-5.0], [10.0])
    assumed.add(np.full(30, 10.0), np.full(30, 10.0))
    before = assumed.needed()
    assumed.add([-50.0], [10.0])
    assert assumed.state == "open" and assumed.needed() > before + 20


def test_agreement_and_loss_are_tested_as_scores_are():
    agree = Acceptance(0.9, kind="agreement", limits=(0.0, 1.0))
    # The same numbers as a policy whose every episode returns one, beside an expert that always does.
    score = Acceptance(0.9, limits=(0.0, 1.0))
    x = (np.random.default_rng(1).random(200) < 0.99).astype(float)
    assert agree.add(x) == score.add(x, np.ones(200)) == "accepted"
    assert "agreement" not in str(agree) and "plays the expert's action in at least 0.9" in str(agree)
    assert 0.9 <= agree.interval().low < x.mean() <= agree.interval().high <= 1.0
    for limits in (None, (-1.0, 0.0)):
        loss = Acceptance(0.1, kind="loss", limits=limits)
        assert loss.add(-0.05 * np.random.default_rng(2).random(400)) == "accepted"
        assert 0 <= loss.interval().low < 0.025 < loss.interval().high <= 0.1
        worse = Acceptance(0.1, kind="loss", limits=limits)
        assert worse.add(np.full(60, -0.5)) == "rejected" and "above 0.1" in str(worse)


def test_the_agreement_of_bad_policies_is_hardly_ever_accepted():
    """At the edge, with a state an episode: 400 labels, looked at after each."""
    x = (np.random.default_rng(3).random((2000, 400)) < 0.95).astype(float)
    logs = bounded(x - 0.95, -0.95)
    assert (logs >= -math.log(level_of(1))).any(axis=1).mean() <= level_of(1)
    fixed = peeking(np.where(x > 0, 0.05, -0.95) + 1e-9)[:, 19:]
    assert (fixed >= -math.log(0.05)).any(axis=1).mean() > 0.2, "peeking would accept many"


def test_a_hopeless_test_is_given_up_and_one_with_bad_luck_is_not():
    rng = np.random.default_rng(0)
    good, poor = Acceptance(0.95, limits=(0.0, 1.0)), Acceptance(0.95, limits=(0.0, 1.0))
    for test in (good, poor):
        assert not test.over
    good.add([0.3, *np.ones(11)], np.ones(12))
    assert good.state == "open" and not good.over, "one bad episode of twelve may be luck"
    poor.add(0.95 + 0.001 * rng.normal(size=12), np.ones(12))
    assert poor.state == "open" and poor.over and not poor.settled
    poor.add(np.full(38, 0.95), np.ones(38))
    assert poor.settled


def test_two_are_compared_after_any_number_of_episodes():
    rng = np.random.default_rng(5)
    luck = 100 + 30 * rng.normal(size=60)  # common to both
    better = luck + 2 + rng.normal(size=60)
    assert [acceptance.compare(better[:n], luck[:n]).answer for n in (10, 60)] == ["not yet", "yes"]
    assert acceptance.compare(luck, better).answer == "no"
    near = acceptance.compare(luck[:30] + rng.normal(size=30), luck[:30])
    assert near.answer == "not yet" and near.needed > 30 and "would decide" in str(near)
    exact = acceptance.compare(np.ones(40), np.zeros(40), limits=(0.0, 1.0))
    assert exact.answer == "yes"
    assert acceptance.compare([1.0, np.nan], [0.0, 0.0]).answer == "not yet"


def test_comparing_equals_is_seldom_wrong_and_peeking_often_is():
    d = np.random.default_rng(9).normal(size=(1000, 200))
    sequential = [(normal(s * d)[:, 19:] >= -math.log(0.025)).any(axis=1) for s in (1, -1)]
    assert np.any(sequential, axis=0).mean() <= 0.05
    fixed = [(peeking(s * d)[:, 19:] >= -math.log(0.025)).any(axis=1) for s in (1, -1)]
    assert np.any(fixed, axis=0).mean() > 0.15


@pytest.mark.slow
def test_coverage_and_power_over_many_runs():
    assert false_acceptances(exact, 5000, 10, 150, seed=1) <= 0.05
    assert false_acceptances(normal, 5000, 5, 20, seed=1) <= 0.05
    rng = np.random.default_rng(5)
    for effect in (0.25, 0.5, 1.0):
        level = level_of(1)
        fixed = next(
            n
            for n in range(3, 1000)
            if stats.nct.sf(stats.t.ppf(1 - level, n - 1), n - 1, effect * math.sqrt(n)) >= 0.9
        )
        accepted = normal(rng.normal(effect, 1.0, size=(2000, 1500))) >= -math.log(level)
        assert accepted.any(axis=1).all()
        assert np.mean(accepted.argmax(axis=1) + 1) <= 1.5 * fixed


def test_a_run_that_peeking_would_have_stopped_goes_on():
    """Streams in which a test for a fixed number of episodes says yes at some look, and the truth is no."""
    rng, walk = np.random.default_rng(1), Walk()
    differences = walk.differences(walk.exactly(0.9), 0.9, rng.random((400, 150, HORIZON)))
    fooled = np.flatnonzero((peeking(differences) >= -math.log(0.05))[:, 4:].any(axis=1))
    accepted = (exact(differences[fooled]) >= -math.log(level_of(1))).any(axis=1)
    assert len(fooled) > 100 and accepted.mean() <= 0.05


def test_it_does_not_matter_in_which_pieces_episodes_come():
    rng = np.random.default_rng(2)
    expert = 50 + rng.normal(size=40)
    policy, chance = expert - 3 + rng.normal(size=40), rng.normal(size=40)
    whole, pieces = Acceptance(0.9, limits=(-50, 100)), Acceptance(0.9, limits=(-50, 100))
    whole.add(policy, expert, chance)
    for i in range(0, 40, 7):
        pieces.add(policy[i : i + 7], expert[i : i + 7], chance[i : i + 7])
    assert whole.state == pieces.state and whole.interval() == pieces.interval()


def test_what_is_decided_stays_decided():
    test = Acceptance(0.9)
    assert test.add(np.full(40, 10.0) + 0.01 * np.arange(40), np.full(40, 10.0)) == "accepted"
    assert test.add(np.zeros(50), np.full(50, 10.0)) == "accepted"


def test_a_policy_far_below_is_rejected_and_its_interval_holds_its_score():
    rng, walk = np.random.default_rng(4), Walk()
    numbers = rng.random((400, HORIZON))
    returns = [walk.returns(y, numbers) for y in (0.7, 1.0, 0.5)]
    score = (walk.mean(0.7) - walk.mean(0.5)) / (walk.mean(1.0) - walk.mean(0.5))
    for limits in (None, (0.0, float(HORIZON))):
        test = Acceptance(0.9, limits=limits)
        assert test.add(*returns) == "rejected"
        interval = test.interval()
        assert interval.low < score < interval.high < 0.9
        assert "below 0.9" in str(test)


def test_an_open_test_says_how_many_more_would_decide():
    test = Acceptance(0.95, limits=(0.0, 1.0))
    test.add(np.ones(40), np.ones(40))
    more = test.needed()
    assert test.state == "open" and 41 < more < 1000 and "would decide" in str(test)
    assert test.add(np.ones(more - 41), np.ones(more - 41)) == "open"
    assert test.add([1.0], [1.0]) == "accepted"
    stuck = Acceptance(0.95)
    stuck.add(0.95 * np.array([10.0, 11.0]) + [-1, 1], [10.0, 11.0])
    assert stuck.needed() > 1000


def test_an_interval_and_the_decision_agree():
    for seed in range(6):
        rng = np.random.default_rng(seed)
        expert = 20 + rng.normal(size=30)
        test = Acceptance(0.93)
        test.add(0.96 * expert + rng.normal(size=30), expert)
        assert (test.interval().low >= 0.93) == (test.state == "accepted")


def test_what_cannot_be_is_refused_in_a_sentence():
    with pytest.raises(UserError, match=r"score: 0.* is not above 0"):
        Acceptance(0.0)
    with pytest.raises(UserError, match="limits"):
        Acceptance(0.9, limits=(1.0, 1.0))
    with pytest.raises(UserError, match="a return of 3 is outside 0 to 1"):
        Acceptance(0.9, limits=(0.0, 1.0)).add([3.0], [1.0])
    with pytest.raises(UserError, match="same episodes"):
        Acceptance(0.9).add([3.0, 1.0], [1.0])
