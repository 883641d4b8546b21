"""The bound on the loss on all visited states: its coverage where all labels are known, and what fails it."""

from __future__ import annotations

import numpy as np
import pytest

from understudy.regret import Confidence

ROUNDS, STATES, LABELS = 8, 100, 10
SHARES = (2.5, 1.0, 0.5, 1.0, 1.0, 2.0, 1.0, 0.25)
"""What rounds weigh that do not weigh alike."""


def streams(count: int):
    """Losses (rounds, states) in [0, 1]: skewed; rare ones of full size, the hardest; ordered in time."""
    for seed in range(count):
        rng = np.random.default_rng(seed)
        if seed % 3 == 0:
            yield rng, rng.beta(0.3, 3.0, (ROUNDS, STATES))
        elif seed % 3 == 1:
            yield rng, (rng.random((ROUNDS, STATES)) < 0.03).astype(float)
        else:
            yield rng, np.sort(rng.random((ROUNDS, STATES)), axis=1) ** 4


def at_random(made, losses, rng, size=STATES):
    made.without_replacement(rng.choice(losses, LABELS, replace=False), STATES, size)


def independently(made, losses, rng):
    p = LABELS / STATES
    made.independent(losses[rng.random(STATES) < p], p, STATES, STATES)


def by_score_with_a_floor(made, losses, rng):
    """Half of the labels where a score is highest, which knows the losses; the others at random."""
    order = np.argsort(-losses)
    made.know(losses[order[: LABELS // 2]].sum() / STATES)
    rest = losses[order[LABELS // 2 :]]
    made.without_replacement(rng.choice(rest, LABELS // 2, replace=False), len(rest), STATES)


def unweighted_by_score(made, losses, rng):
    """Labels where the score is highest, as if they were drawn at random: what must not be done."""
    score = losses + 0.1 * rng.random(STATES)
    made.without_replacement(losses[np.argsort(score)[:LABELS]], STATES, STATES)


def covered(ask, count: int, shares=(1.0,) * ROUNDS) -> tuple[float, float]:
    """The share of streams whose sum, of rounds that weigh `shares`, is never above the bound, and the mean
    error of the estimate.
    """
    held, errors = 0, []
    for rng, losses in streams(count):
        made, true, good = Confidence(top=1.0, scale=1.0 / LABELS), 0.0, True
        for one, share in zip(losses, shares, strict=True):
            ask(made, one, rng, **({} if share == 1.0 else {"size": STATES / share}))
            true += share * one.mean()
            good &= true <= made.bound()
        held += good
        errors.append(made.estimate - true)
    return held / count, float(np.mean(errors))


@pytest.mark.parametrize("ask", [at_random, independently, by_score_with_a_floor])
def test_the_bound_holds_in_all_rounds_of_nineteen_streams_in_twenty(ask):
    held, error = covered(ask, 1000)
    assert held >= 0.95
    assert abs(error) < 0.02  # the estimate is unbiased


def test_rounds_that_weigh_more_must_do_so_in_the_bound():
    held, error = covered(at_random, 1000, SHARES)
    assert held >= 0.95
    assert abs(error) < 0.02
    untold = covered(lambda made, losses, rng, size=None: at_random(made, losses, rng), 300, SHARES)
    assert untold[1] < -0.05  # else the estimate is biased


def test_labels_chosen_by_a_score_are_biased_without_weights():
    held, error = covered(unweighted_by_score, 150)
    assert held < 0.5 and error < -0.3  # those with the least score, here: the loss looks small


def test_it_is_not_vacuous_and_narrows_with_labels():
    losses, rng = np.random.default_rng(0).beta(0.3, 3.0, (30, 1000)), np.random.default_rng(1)
    widths = []
    for labels in (10, 100, 1000):
        made = Confidence(top=1.0, scale=1.0 / labels)
        for one in losses:
            made.without_replacement(rng.permutation(one)[:labels], 1000, 1000)
        widths.append(made.bound() - made.estimate)
    assert widths[0] < 2.0 and widths[1] < widths[0] / 2.5 and widths[2] == 0.0  # of a sum of about 2.7


def test_its_state_is_kept_to_the_last_bit():
    one, other = (Confidence(top=2.0, scale=0.1) for _ in range(2))
    one.without_replacement([0.1, 0.7], 9, 10)
    other.restore(one.numbers())
    for made in (one, other):
        made.independent([0.3], 0.5, 4, 4)
    assert one.bound() == other.bound() and one.numbers() == other.numbers()


def test_the_inequality_behind_it():
    """E exp(λ(m − x) − ψ(λc)(g − x)²/c²) ≤ 1 for two-point x, and not with the wrong sign of the range."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        c, q, low, g = rng.random(4)
        rate = 0.95 * rng.random() / c
        psi = -np.log1p(-rate * c) - rate * c
        x, chance = np.array([low * c, c]), np.array([1 - q, q])
        m, guess = float(x @ chance), g * c
        assert chance @ np.exp(rate * (m - x) - psi * (guess - x) ** 2 / c**2) <= 1 + 1e-12
