"""The theorems against numbers worked out by hand, and the printed constants where they fail."""

from __future__ import annotations

import math

import numpy as np
import pytest

import understudy
from understudy.regret import bounds


def test_values_by_hand():
    found = bounds.lemma(gradient_norms=[3.0, 4.0], weights=[1.0, 4.0], distances=[2.0, 1.0], mu=0.5)
    assert found.value == pytest.approx(9 / (2 * 1.5) + 16 / (2 * 5) + 0.5 * (1 * 4 + 3 * 1))
    assert found.paper == pytest.approx(3 + 1.6 + 0.5 * 4 * 4)
    # ηL = ½: (½/½)·3 + 4/(2·½·½)
    assert bounds.ftrl_smooth_constant(eta=0.5, L=1.0, D=2.0, interpolation=3.0).value == pytest.approx(11.0)
    assert bounds.ftrl_smooth(L=2.0, D=3.0, interpolation=4.0).value == pytest.approx(2 * 9 * 2 + (9 + 4) * 2)
    # c = 2 + 4/4 = 3: 2·0.5·9 + √1·3·√4; printed with c = 1 + 1 = 2
    smooth = bounds.adaftrl_smooth(alpha=2.0, L=0.5, D=2.0, interpolation=4.0)
    assert (smooth.value, smooth.paper) == (pytest.approx(15.0), pytest.approx(8.0))
    flat = bounds.ftrl_lipschitz(alpha=0.5, G=2.0, D=1.0, rounds=9)
    assert (flat.value, flat.paper) == (pytest.approx(3 * (2 + 1)), pytest.approx(1.5 * (2 + 2)))
    ada = bounds.adaftrl_lipschitz(alpha=1.0, G=2.0, D=2.0, rounds=4)
    assert (ada.value, ada.paper) == (pytest.approx((1 + 2) * 4), pytest.approx((0.5 + 2) * 4))
    log = 1 + math.log(5)
    strong = bounds.ftl_strongly_convex_smooth(L=2.0, mu=0.5, D=3.0, rounds=5)
    assert (strong.value, strong.paper) == (pytest.approx(36 * log), pytest.approx(12 * log))
    assert bounds.ftl_strongly_convex_lipschitz(G=2.0, mu=0.5, rounds=5).value == pytest.approx(4 * log)
    inside = bounds.ftl_interpolation(C=2.0, gamma=0.5, rounds=3)
    assert (inside.value, inside.paper) == (pytest.approx(3.5), pytest.approx(3.75))


def test_the_adagrad_inequality_needs_the_factor_two():
    """Σ a_t/√(Σ_{i≤t} a_i) ≤ 2√Σa. With a_t = 1 the left is Σ 1/√t, above √T from the second round on."""
    for ones in (np.ones(2), np.ones(100), np.arange(1.0, 50.0)):
        left, root = np.sum(ones / np.sqrt(np.cumsum(ones))), np.sqrt(ones.sum())
        assert root < left <= 2 * root


def test_the_printed_constant_fails_on_a_hand_made_stream():
    """OGD with η_t = 1/√t, nothing to learn for 9 rounds, then slopes that always point away from 0.

    Losses |w − y_t| with y_t out of reach have slope ±1. An iterate is 0 or −η_t in turn, so against u = 0
    every round costs η_t/2 on average, in all √T − √9 or so, while no iterate is farther from u than
    D = 1/√10. The printed bound, √T (1 + D²)/2, is half of that; the corrected one, √T (1 + D²/2), holds.
    """
    rounds, quiet = 300, 9
    w, stream, regret = [0.0], [], 0.0
    for t in range(1, rounds + 1):
        slope = 0.0 if t <= quiet else (1.0 if w[-1] >= 0 else -1.0)
        stream.append((np.full((1, 1), abs(slope)), np.full((1, 1), -1e3 * slope)))
        regret += slope * w[-1]
        w.append(w[-1] - slope / math.sqrt(t))
    learner = understudy.ogd(eta=1.0)
    played = understudy.replay(
        stream, loss="absolute", learner=learner, comparator="none", keep_iterates=True
    )
    np.testing.assert_allclose([v[0, 0] for v in played.iterates], w, atol=1e-12)
    at_zero = played.ledger["cumulative_loss"][-1] - 1e3 * (rounds - quiet)
    assert at_zero == pytest.approx(regret, abs=1e-7)
    D = float(np.abs(w).max())
    assert pytest.approx(1 / math.sqrt(quiet + 1)) == D
    bound = bounds.ftrl_lipschitz(alpha=1.0, G=1.0, D=D, rounds=rounds)
    assert bound.paper < regret <= bound.value


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda: bounds.ftrl_smooth_constant(eta=2.0, L=1.0, D=1.0, interpolation=0.0), "eta"),
        (lambda: bounds.ftrl_smooth(L=0.0, D=1.0, interpolation=0.0), "L"),
        (lambda: bounds.ftrl_lipschitz(alpha=float("nan"), G=1.0, D=1.0, rounds=1), "alpha"),
        (lambda: bounds.ftl_interpolation(C=1.0, gamma=1.0, rounds=1), "gamma"),
        (lambda: bounds.ftl_strongly_convex_lipschitz(G=1.0, mu=-1.0, rounds=1), "mu"),
    ],
)
def test_constants_that_no_theorem_takes(call, field):
    with pytest.raises(understudy.UserError, match=f"^{field}: "):
        call()
