"""What the rules choose, with which probability, and what they refuse; no environment, no JAX program."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from understudy import UserError
from understudy.asking import RULES, View, rule
from understudy.asking.base import at_random, shortly_before
from understudy.asking.distance import features, nearest
from understudy.losses import Squared
from understudy.policies import MLP, Linear

STATES = np.random.default_rng(0).standard_normal((60, 3))
KNOWN = np.random.default_rng(1).standard_normal((20, 3))


def view(rows=STATES, known=KNOWN, most=1000, seed=0) -> View:
    targets = np.zeros((len(known), 1), np.float32)
    return View(
        rows, known, targets, Linear(), np.zeros((3, 1)), Squared(), most, np.random.default_rng(seed)
    )


@pytest.mark.parametrize(
    "text", ["random:7", "distance:7", "fraction:0.1", "all", "leverage:0.05", "disagreement:7", "radius:1"]
)
def test_a_rule_chooses_states_once_in_order_and_never_too_many(text):
    for most in (1000, 3):
        found = rule(text).choose(view(most=most))
        assert (np.diff(found.index) > 0).all() and ((found.index >= 0) & (found.index < 60)).all()
        assert len(found.index) == len(found.p) <= most and ((found.p > 0) & (found.p <= 1)).all()
        if rule(text).count is not None:
            assert len(found.index) == min(7, most)


@pytest.mark.parametrize("text", ["random:7", "fraction:0.1", "all", "distance:7"])
@pytest.mark.parametrize("most", [1000, 5])
def test_honest_weights_are_unbiased_and_others_are_not(text, most):
    """E Σ_asked l/p = Σ l, over many draws; for a rule without a floor it is far off (negative control)."""
    losses = np.linalg.norm(STATES, axis=1)  # what is far away is badly imitated
    made, draws = rule(text), []
    for seed in range(600):
        found = made.choose(view(most=most, seed=seed))
        draws.append((losses[found.index] / found.p).sum())
    error = np.mean(draws) - losses.sum()
    noise = np.std(draws) / np.sqrt(len(draws)) + 1e-9
    assert (abs(error) < 4.5 * noise) == made.honest
    if not made.honest:
        floored = rule(text, {"random_share": 0.3})
        draws = [
            (losses[one.index] / one.p).sum()
            for one in (floored.choose(view(most=most, seed=seed)) for seed in range(600))
        ]
        assert floored.honest
        assert abs(np.mean(draws) - losses.sum()) < 4.5 * np.std(draws) / np.sqrt(len(draws))


def test_the_same_seed_chooses_the_same_states():
    for text in ("random:7", "fraction:0.2", "distance:7"):
        one, same, other = (rule(text, {}).choose(view(seed=seed)).index.tolist() for seed in (1, 1, 2))
        assert one == same and (one != other or text == "distance:7")


def test_centres_are_the_farthest_from_what_is_known_and_chosen():
    found = rule("distance:9").choose(view()).index
    centres, left = KNOWN, list(range(60))
    for _ in range(9):  # the definition, by all pairs
        away = [np.linalg.norm(STATES[i] - centres, axis=1).min() for i in left]
        chosen = left.pop(int(np.argmax(away)))
        centres = np.vstack([centres, STATES[chosen]])
        assert chosen in found
    same = rule("distance:9").choose(view(rows=np.ones((12, 3)))).index
    assert len(set(same.tolist())) == 9  # states that are all the same are chosen once each


def test_distances_to_the_nth_nearest_and_the_threshold_of_a_quantile():
    pairs = np.sort(np.linalg.norm(STATES[:, None] - KNOWN, axis=2), axis=1)
    for which in (1, 3):
        assert np.allclose(nearest(STATES, KNOWN, which), pairs[:, which - 1])
    own = np.sort(np.linalg.norm(KNOWN[:, None] - KNOWN, axis=2), axis=1)[:, 2]
    chosen = rule("distance:0.2", {"neighbour": 2}).choose(view()).index
    assert chosen.tolist() == np.flatnonzero(pairs[:, 1] > np.quantile(own, 0.8)).tolist()
    for few in range(4):  # so few are known that none of them has a third neighbour: nothing is near yet
        found = rule("distance:0.2", {"neighbour": 3}).choose(view(known=KNOWN[:few]))
        assert len(found.index) == 60


def test_features_are_what_the_last_layer_sees():
    import jax

    policy = MLP(widths=(5, 4))
    params = policy.init(jax.random.key(0), 3, 2)
    last = params[-1]
    rows = STATES.astype(np.float32)
    made = features(policy, params, rows) @ last["weight"] + last["bias"]
    assert np.allclose(made, policy.apply(params, rows), atol=1e-5)


@pytest.mark.parametrize(
    ("text", "options", "sentence"),
    [
        ("random", {}, "ask: 'random' needs a number, as in random:50"),
        ("random:x", {}, "ask: 'random:x' needs a number, as in random:50"),
        ("random:0", {}, "ask: random 0.0 is not a whole number ≥ 1"),
        ("random:2.5", {}, "is not a whole number"),
        ("fraction:2", {}, r"is not a number in \(0, 1\]"),
        ("distance:nan", {}, "is not a whole number"),
        ("distance:5", {"random_share": 1.0}, r"random_share 1.0 is not a number in \[0, 1\)"),
        ("distance:5", {"random_share": 0.1, "mix": 0.1}, "mix 0.1 does not go with a random_share of 0.1"),
        ("distance:5", {"on": "pixels"}, "Accepted: features, observations"),
        ("random:5", {"random_share": 0.1}, "'random' does not take random_share"),
        ("randm:5", {}, "random"),
    ],
)
def test_what_is_refused(text, options, sentence):
    with pytest.raises(UserError, match=sentence):
        rule(text, options)


def test_a_rule_of_ones_own(monkeypatch):
    import understudy

    monkeypatch.setattr(RULES, "makers", dict(RULES.makers))
    understudy.register("ask", "twice", lambda number: rule(f"random:{2 * int(number)}"))
    assert len(rule("twice:4").choose(view()).index) == 8
    assert rule(rule("random:3")).count == 3


def test_leverage_keeps_its_cap_and_would_not_without_updating():
    """Streams that the rule likes least: directions come back, each a little longer. N ≤ its cap always."""
    made, d = rule("leverage:0.2"), 4
    rng = np.random.default_rng(3)
    streams = [rng.standard_normal((3000, d)), np.repeat(np.eye(d), 700, axis=0) * 2.0]
    streams.append(np.eye(d)[rng.integers(d, size=3000)] * np.linspace(0.1, 3.0, 3000)[:, None])
    for stream in streams:
        norm = np.linalg.norm(stream, axis=1).max()
        known, asked = np.zeros((0, d)), 0
        for part in np.array_split(stream, 10):
            chosen = made.states(part, known)
            matrix = np.eye(d) + known.T @ known  # the definition, state by state
            expected = []
            for i, x in enumerate(part):
                if x @ np.linalg.solve(matrix, x) > 0.2:
                    expected.append(i)
                    matrix += np.outer(x, x)
            assert chosen.tolist() == expected
            known, asked = np.vstack([known, part[chosen]]), asked + len(chosen)
        assert 0 < asked <= made.cap(dimensions=d, norm=norm)
        stale = (np.einsum("ij,ij->i", stream, stream) > 0.2).sum()  # A as it was before the round
        assert stale > made.cap(dimensions=d, norm=norm)
    cap = made.cap(dimensions=d, norm=2.0)
    assert cap == pytest.approx(d * np.log(1 + cap * 4 / d) / np.log(1.2))


def test_a_ridge_is_what_nothing_known_counts_for():
    made = rule("leverage:0.2", {"ridge": 4.0})
    rows = np.array([[0.85, 0.0], [0.0, 0.95], [0.95, 0.0]])  # 0.85²/4 < 0.2 < 0.95²/4
    assert made.states(rows, np.zeros((0, 2))).tolist() == [1, 2]
    cap = made.cap(dimensions=2, norm=3.0)
    assert cap == pytest.approx(2 * np.log(1 + cap * 9 / (2 * 4)) / np.log(1.2))


@pytest.mark.parametrize("neighbour", [1, 3])
def test_a_radius_asks_where_fewer_are_near_and_ends_by_itself(neighbour):
    made = rule("radius:0.5", {"neighbour": neighbour})
    rng = np.random.default_rng(2)
    known = rng.uniform(0, 1, (5, 2))
    for number in range(40):
        rows = rng.uniform(0, 1, (30, 2))
        expected, labelled = [], list(known)
        for i, x in enumerate(rows):  # the definition, state by state
            if sum(np.linalg.norm(x - one) <= 0.5 for one in labelled) < neighbour:
                expected.append(i)
                labelled.append(x)
        assert made.states(rows, known).tolist() == expected
        known = np.vstack([known, rows[expected]])
        assert number < 20 or not expected
    assert np.allclose(made.distances(known[:1], np.zeros((3, 2))), np.linalg.norm(known[0]))
    assert np.isinf(made.distances(known[:1], np.zeros((0, 2)))).all()


def test_a_radius_is_above_zero_and_is_asked_for():
    with pytest.raises(UserError, match=r"ask: radius -1.0 is not a positive number"):
        rule("radius:-1")
    with pytest.raises(UserError, match=r"needs a number, as in radius:1\.0"):
        rule("radius")


def test_members_disagree_where_there_are_no_labels():
    known = np.random.default_rng(0).uniform(-1, 1, (80, 3))
    rows = np.vstack([known[:20] * 0.5, known[:20] + 6.0])
    seen = view(rows=rows, known=known)
    score = rule("disagreement:5").score(seen)(rows)
    assert np.median(score[20:]) > 10 * np.median(score[:20])
    assert (rule("disagreement:5").choose(view(rows=rows, known=known)).index >= 20).all()


def test_the_expert_drives_from_the_threshold_until_the_release():
    made = rule("distance:0.5", {"release": 0.25, "on": "observations"})
    known = np.array([[0.0], [1.0], [3.0]])
    gate = made.gate(view(rows=known, known=known))
    assert (gate.high, gate.low) == (1.0, 0.25)  # the median of 1, 1 and 2
    driven, before = [], np.array([False])
    for x in (0.5, 1.9, 4.5, 4.1, 3.9, 3.3, 3.2, 3.5):
        before = gate.driving(np.array([[x]]), before)
        driven.append(bool(before[0]))
    assert driven == [False, False, True, True, True, True, False, False]


def test_states_shortly_before_a_fall_are_passed_over():
    ends = np.zeros(60, bool)
    ends[[9, 19, 59]] = True
    alone, two = shortly_before(ends), shortly_before(np.repeat(ends, 2) & np.tile([True, False], 60), envs=2)
    assert alone.nonzero()[0].tolist() == [8, 9, 18, 19, *range(52, 60)]
    assert (two[::2] == alone).all() and not two[1::2].any()
    assert shortly_before(np.arange(200) == 199).sum() == 15
    seen = dataclasses.replace(view(), lost=alone)
    far = dataclasses.replace(seen, rows=np.where(alone[:, None], 100.0 + STATES, STATES))
    for text in ("distance:7", "disagreement:7"):
        assert not alone[rule(text).choose(far).index].any()
    assert alone[rule("distance:7", {"falls": True}).choose(far).index].any()  # they are the farthest
    assert len(rule("distance:55").choose(far).index) == 55  # the others are not enough
    floored = rule("distance:40", {"random_share": 0.5}).choose(far)
    assert alone[floored.index[floored.p < 1]].any()  # at random, so that each has p > 0
    few = rule("distance:50", {"random_share": 0.1}).choose(far)
    assert not alone[few.index[few.p == 1]].any()  # the others are enough for those that are not at random
    mixed = rule("distance:40", {"mix": 0.5})
    found = mixed.choose(far)
    assert len(found.index) == 40 and (found.p < 1).sum() == 20 and not mixed.honest
    assert not alone[found.index].any()  # their labels would teach nothing
    chosen = rule("distance:20").choose(far).index
    assert found.index[found.p == 1].tolist() == chosen.tolist()


def test_a_rule_of_ones_own_on_the_spot_needs_neither_floor_nor_mix():
    assert at_random(object(), 5) == 0
    assert at_random(rule("distance:0.5", {"random_share": 0.5}), 0) == 1
    assert at_random(rule("distance:0.5", {"mix": 0.5}), 0) == 0
    assert at_random(rule("distance:0.5", {"mix": 0.25}), 30) == 10  # a quarter of all 40 labels
