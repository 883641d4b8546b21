"""Intervals hold what they should as often as they say; the bootstrap that they replace does not."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from understudy import intervals


def covers(made, truth):
    return np.mean([one.low <= truth <= one.high for one in made])


@pytest.mark.parametrize("count", [3, 5, 10])
def test_student_covers_and_the_bootstrap_does_not(count):
    rng = np.random.default_rng(count)
    draws = rng.normal(1.0, 2.0, (2000, count))
    assert 0.935 < covers([intervals.mean(one) for one in draws], 1.0) < 0.965
    resampled = rng.integers(0, count, (300, count))
    low, high = np.quantile(draws[:, resampled].mean(axis=-1), [0.025, 0.975], axis=1)
    assert np.mean((low <= 1.0) & (high >= 1.0)) < 0.92


def test_the_mean_agrees_with_scipy():
    values = np.random.default_rng(0).normal(size=7)
    theirs = stats.ttest_1samp(values, 0.0).confidence_interval(0.95)
    assert intervals.mean(values)[1:3] == pytest.approx((theirs.low, theirs.high), rel=1e-12)
    known = intervals.of_moments(values.mean(), values.std(), 7)
    assert known == pytest.approx(intervals.mean(values), rel=1e-12)


def test_pairs_see_what_two_separate_intervals_cannot():
    rng = np.random.default_rng(1)
    luck = rng.normal(0, 100, 20)
    mine, theirs = luck + rng.normal(1, 0.5, 20), luck + rng.normal(0, 0.5, 20)
    paired = intervals.difference(mine, theirs)
    apart = intervals.mean(mine), intervals.mean(theirs)
    assert paired.low > 0 and apart[0].low < apart[1].high


@pytest.mark.parametrize("spread", [0.05, 0.3])
def test_fieller_covers_the_ratio_of_means(spread):
    rng = np.random.default_rng(2)
    made = []
    for _ in range(2000):
        theirs = 4.0 * (1 + spread * rng.normal(size=6))
        made.append(intervals.ratio(0.9 * theirs + 0.2 * rng.normal(size=6), theirs))
    assert 0.935 < covers(made, 0.9) < 0.965


def test_pairs_of_one_ratio_have_it_to_rounding():
    theirs = np.random.default_rng(3).uniform(1.0, 3.0, 10)
    found = intervals.ratio(0.3 * theirs, theirs)
    assert found.low <= found.middle <= found.high and found.high - found.low < 1e-14


def test_a_ratio_to_what_may_be_zero_is_not_bounded():
    found = intervals.ratio([1.0, 2.0, 1.5], [0.1, -0.2, 0.15])
    assert (found.low, found.high) == (-math.inf, math.inf)


@pytest.mark.parametrize("count", [5, 6, 10, 15])
def test_the_median_agrees_with_the_binomial_and_covers(count):
    rng = np.random.default_rng(count)
    made = [intervals.median(one) for one in rng.exponential(size=(2000, count))]
    assert covers(made, math.log(2)) >= 0.945
    if count < 6:
        assert math.isinf(made[0].high)
    else:
        rank = int(stats.binom.ppf(0.025, count, 0.5))
        values = np.arange(count, dtype=float)
        assert intervals.median(values)[1:3] == (values[rank - 1], values[count - rank])


def test_medians_with_runs_that_never_got_there():
    inf = math.inf
    assert intervals.median([1.0, 2.0, inf, inf]).middle == inf
    assert intervals.median([1, 2, 3, 4, 5, 6, 7, 8, 9, inf])[:3] == (5.5, 2.0, 9.0)


def test_too_few_or_no_numbers_bound_nothing():
    assert intervals.mean([]).count == 0 and math.isnan(intervals.mean([]).middle)
    assert intervals.mean([1.0, math.inf])[:3] == (math.inf, -math.inf, math.inf)
    assert intervals.difference([1.0], [0.0]).high == math.inf
    with pytest.raises(ValueError, match=r"\(2,\) and \(3,\)"):
        intervals.difference([1.0, 2.0], [1.0, 2.0, 3.0])
