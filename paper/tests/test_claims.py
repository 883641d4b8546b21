"""The protocol and the verdicts, on made-up numbers whose answers are known."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from paper import claims, toy
from paper.mapping import Table
from paper.protocol import STEPS, at_best, ends, steps_of
from understudy.studies.tuning import choose


def table(best: dict[str, float], diverging: float = np.inf) -> Table:
    """Regret (log10(step) − best)² + 1 for each learner; from `diverging` on it is not a number."""
    rows = [("p", name, step, seed) for name in best for step in STEPS for seed in (0, 1)]
    problem, learner, step, seed = (np.asarray(column) for column in zip(*rows, strict=True))
    regret = np.asarray([(np.log10(s) - best[n]) ** 2 + 1 + k for _, n, s, k in rows])
    regret[step >= diverging] = np.nan
    labels = {"problem": problem, "learner": learner, "step": step, "seed": seed}
    return Table(labels, {"regret": np.stack([np.full_like(regret, 7.0), regret], axis=1)})


def test_the_grid_has_eleven_decades():
    assert len(STEPS) == 11 and STEPS[0] == 1e-5 and STEPS[-1] == 1e5
    assert np.isnan(steps_of("ftl")).all() and steps_of("adaftrl_untuned") == (1.0,)


def chosen(table: Table) -> list[tuple]:
    return [(one.setting["learner"], one.values["step"], one.edge) for one in choose(ends(table), ("step",))]


def test_the_step_with_least_mean_final_regret_is_taken_and_edges_are_told():
    found = table({"ftrl": -1.0, "ogd": -7.0, "adagrad": 9.0})
    assert chosen(found) == [
        ("ftrl", 0.1, {}),
        ("ogd", 1e-5, {"step": "low"}),
        ("adagrad", 1e5, {"step": "high"}),
    ]
    first = choose(ends(found), ("step",))[0]
    assert first.score == pytest.approx(1.5) and first.setting == {"problem": "p", "learner": "ftrl"}


def test_steps_that_diverge_are_never_taken():
    found = table({"ftrl": 3.0}, diverging=1.0)
    assert chosen(found) == [("ftrl", 0.1, {})]
    assert at_best(found)["step"].tolist() == [0.1, 0.1]


def test_every_setting_has_its_own_best_step():
    found = at_best(table({"ftrl": -1.0, "ogd": 2.0}))
    assert found["learner"].tolist() == ["ftrl", "ftrl", "ogd", "ogd"]
    assert found["step"].tolist() == [0.1, 0.1, 100.0, 100.0]


def test_learners_that_differ_in_numbers_only_have_one_structure():
    def structure(name: str):
        return jax.tree.structure(toy.game("huber", name, 0.1).learner)

    same = {structure(name) for name in ("ftl", "ftrl", "alt_ftrl", "adaftrl", "adaftrl_untuned")}
    assert len(same) == 1 and structure("ogd") not in same


def test_ratio_is_paired_and_covers_the_truth():
    rng = np.random.default_rng(1)
    hits = 0
    for _ in range(200):
        shared = rng.lognormal(0.0, 1.0, size=40)
        value, low, high, _ = claims.ratio(0.5 * shared * rng.lognormal(0.0, 0.1, 40), shared)
        assert low <= value <= high
        hits += low <= 0.5 * np.exp(0.005) <= high
    assert hits >= 0.85 * 200
    # Pairing matters: the same numbers in another order are much less certain.
    shared = rng.lognormal(0.0, 1.0, size=40)
    paired = claims.ratio(0.5 * shared, shared)
    shuffled = claims.ratio(0.5 * rng.permutation(shared), shared)
    assert paired[2] - paired[1] < 1e-12 < shuffled[2] - shuffled[1]


@pytest.mark.parametrize("below", [[-1.0, -1.2], [-1.0, 4.0], [0.0, 0.0]])
def test_nothing_is_told_by_a_ratio_to_what_may_be_zero_or_less(below):
    one = claims.judge("c", "s", "m", claims.ratio([1.0, 1.1], below), below=1.0)
    assert one.verdict == claims.OPEN and one.evidence.endswith(" [-inf, inf]")


def test_a_diverged_run_is_not_averaged_away():
    good, bad = np.ones(5), np.array([1.0, 1.0, np.inf, 1.0, np.nan])
    assert claims.ratio(bad, good)[0] == np.inf and claims.ratio(good, bad)[0] == 0.0
    assert claims.judge("c", "s", "m", claims.ratio(bad, bad), below=1.0).verdict == claims.OPEN
    lost = np.array([1.0, -np.inf])  # a return
    assert claims.judge("c", "s", "m", claims.mean(lost), above=0.9).verdict == claims.FAILS


@pytest.mark.parametrize(
    ("interval", "limits", "verdict"),
    [
        ((0.5, 0.4, 0.6), {"below": 1.0}, claims.HOLDS),
        ((1.5, 1.4, 1.6), {"below": 1.0}, claims.FAILS),
        ((1.0, 0.9, 1.1), {"below": 1.0}, claims.OPEN),
        ((3.0, 2.5, 3.5), {"above": 2.0}, claims.HOLDS),
        ((1.0, 0.5, 1.5), {"above": 2.0}, claims.FAILS),
        ((2.0, 1.5, 2.5), {"above": 2.0}, claims.OPEN),
    ],
)
def test_the_verdict_follows_the_interval(interval, limits, verdict):
    assert claims.judge("c", "s", "m", interval, **limits).verdict == verdict


@pytest.mark.parametrize("found", [claims.ratio([1.0], [2.0]), claims.mean([0.5])])
def test_one_seed_bounds_nothing_and_has_no_verdict(found):
    one = claims.judge("c", "s", "m", found, below=1.0)
    assert (one.value, one.low, one.high, one.verdict) == (0.5, -np.inf, np.inf, claims.OPEN)
    assert "| m = 0.5 [-inf, inf] | < 1 | cannot be told |" in claims.markdown([one])


def test_one_seed_that_diverged_is_as_bad_as_many():
    one = claims.judge("c", "s", "m", claims.ratio([np.inf], [2.0]), below=1.0)
    assert one.verdict == claims.FAILS and one.evidence == "m = inf (no spread)"


def test_a_number_of_the_runs_that_were_played_has_no_interval():
    one = claims.judge("no seed played needed more", "s", "most", 1.5, below=2.0)
    assert (one.verdict, one.evidence) == (claims.HOLDS, "most = 1.5")
    assert claims.judge("c", "s", "most", 2.5, below=2.0).verdict == claims.FAILS


def test_three_seeds_that_agree_are_not_yet_a_verdict_and_ten_are():
    """The bootstrap, whose interval lies within the range of the seeds, told both."""
    ratios = np.array([0.7, 0.9, 0.95])
    three = claims.judge("c", "s", "m", claims.ratio(ratios, np.ones(3)), below=1.0)
    ten = claims.judge("c", "s", "m", claims.ratio(np.resize(ratios, 10), np.ones(10)), below=1.0)
    assert (three.verdict, ten.verdict) == (claims.OPEN, claims.HOLDS) and ratios.max() < 1


def test_one_failure_fails_the_claim_and_doubt_is_told():
    made = [
        claims.judge("c", s, "m", (v, lo, hi), below=1.0)
        for s, v, lo, hi in (("a", 0.5, 0.4, 0.6), ("b", 1, 0.9, 1.1))
    ]
    assert claims.together(made) == [("c", claims.OPEN, "holds in 1 of 2; cannot be told in: b")]
    assert "| c | b | m = 1 [0.9, 1.1] | < 1 | cannot be told |" in claims.markdown(made)
    assert [one.verdict for one in made] == [claims.HOLDS, claims.OPEN]
