"""The study of queries, small: every series plays its budget, and what is reported follows from the runs."""

from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pytest

import understudy
from paper import queries, queries_report
from paper.queries_report import Curve
from understudy import UserError


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    quick = {"policy": "linear", "loss": "squared", "steps_per_round": 40, "episode_limit": 60}
    series = ("distance", "random", "all", "bc")
    scale = dataclasses.replace(
        queries.SCALES["small"],
        series=series,
        seeds=(5, 6),
        episodes=1,
        evaluations=2,
        share=0.2,
        settings=quick,
    )
    return queries.part("CartPole-v1", scale, tmp_path_factory.mktemp("study"), engine="inline")


def test_every_series_spends_the_same_labels(done):
    assert len(done.final.entries) == 8 and not done.final.failed
    assert {result.rows[-1]["labels"] for result in done.final.results} == {40}
    found = queries_report.curves([done])
    assert [one.series for one in found] == ["distance", "random", "all", "bc"]
    assert all(len(one.scores) == 2 and (np.diff(one.labels) > 0).all() for one in found)
    again = understudy.load(done.final.folder)
    assert [entry.labels for entry in again.entries] == [entry.labels for entry in done.final.entries]


def test_series_that_are_the_same_runs_are_played_once(tmp_path):
    quick = {"policy": "linear", "loss": "squared", "steps_per_round": 40, "episode_limit": 60}
    scale = dataclasses.replace(
        queries.SCALES["small"], series=("distance", "one"), seeds=2, episodes=1, budget=40, settings=quick
    )
    first, second = (
        [entry.id for entry in queries.study("CartPole-v1", scale).runs if entry.labels["series"] == series]
        for series in scale.series
    )
    assert first == second  # a linear policy has no committee
    done = queries.part("CartPole-v1", scale, tmp_path, engine="inline", workers=1).final
    shards = [json.loads(path.read_text())["shard"] for path in (done.folder / "runs").glob("*.json")]
    assert len(done) == 4 and [one["runs"] for one in shards] == [1, 1]


def test_a_budget_that_is_asked_for_is_spent_at_every_scale():
    for scale in queries.SCALES.values():
        asked = dataclasses.replace(scale, budget=400)
        assert {queries.settings(one, "Walker2d-v5", asked)["budget"] for one in queries.SERIES} == {400}
    assert queries.settings("one", "Hopper-v5", queries.SCALES["small"])["budget"] == 200


def test_the_report_has_claims_a_figure_and_tables(done, tmp_path):
    made = queries_report.judged([done])
    assert {one.claim[:3] for one in made} >= {"(5)", "(6)", "(7)"}
    names = queries_report.write(tmp_path, [done], made)
    assert {"queries.png", "queries.svg", "labels.csv", "scores.csv", "claims.md"} <= set(names)
    assert queries_report.facts([done])[0][0] == "CartPole-v1: labels to 90 %"
    assert {row["seed"] for row in queries_report.points(queries_report.curves([done]))} == {
        5,
        6,
    }


def test_labels_to_nine_tenths_and_the_least_score_afterwards():
    scores = np.array([[0.1, 0.95, 0.5, 1.0], [0.2, 0.3, 0.4, 0.5], [0.9, 0.91, 0.96, 0.97]])
    one = Curve("Hopper-v5", "distance", np.array([10, 20, 30, 40]), scores, np.array([0.93, 0.5, 0.89]))
    assert one.enough().tolist() == [20.0, np.inf, 10.0]
    assert one.least_after().tolist() == [0.5, 0.96] and one.kept_after().tolist() == [0.93, 0.89]
    verdicts = {claim.claim[:3]: claim.verdict for claim in queries_report._judged([one])}
    # Of three seeds one is not there: another draw may have two of it.
    assert verdicts == {"(1)": "cannot be told"} | dict.fromkeys(("(2)", "(3)", "(4)"), "does not hold")
    late = one._replace(labels=np.array([10, 30, 35, 40]))  # more than 40 may be less than 2 · 30
    assert (
        next(two for two in queries_report._judged([late]) if two.claim[:3] == "(2)").verdict[:6] == "cannot"
    )
    better = one._replace(kept=np.array([0.93, 0.5, 0.91]))
    assert [c.verdict for c in queries_report._judged([better]) if c.claim.startswith("(3)")] == ["holds"]


def test_the_labels_wanted_are_judged_by_the_median_and_its_interval():
    labels, kept = np.array([100, 200]), np.ones(6)

    def first(scores, labels=labels):
        return next(iter(queries_report._judged([Curve("Hopper-v5", "distance", labels, scores, kept)])))

    never = first(np.zeros((6, 2)))  # 200 labels do not say whether 400 are enough
    assert (never.low, never.value, never.verdict) == (201.0, math.inf, "cannot be told")
    assert first(np.zeros((6, 2)), np.array([200, 400])).verdict == "does not hold"
    scores = np.array([[1.0, 1.0]] + [[0.0, 1.0]] * 5)
    some = first(scores)
    assert (some.low, some.value, some.high, some.verdict) == (100.0, 200.0, 200.0, "holds")
    few = first(scores[:5])  # the least and the greatest of five hold the median with 94 %
    assert (few.low, few.value, few.high, few.verdict) == (-math.inf, 200.0, math.inf, "cannot be told")


def test_a_seed_that_was_asked_more_is_not_told_by_the_labels_of_another(done):
    results = [one for _, one in done.final]
    rows = [row | {"labels": row["labels"] + 7} for row in results[1].rows]
    results[1] = results[1]._replace(rows=rows)
    more = done._replace(final=understudy.studies.Results(done.final.entries, results, None))
    before, after = (queries_report.curves([part])[0].labels for part in (done, more))
    assert (after == before + 7).all() and after.dtype.kind == "i"


def test_fewer_labels_are_told_by_medians_and_a_series_that_never_arrives_needs_more_than_it_had():
    labels, kept = np.array([10, 20, 30, 40]), np.ones(6)

    def curve(series, first):
        return Curve("Hopper-v5", series, labels, 1.0 * (labels >= np.array(first)[:, None]), kept)

    one, late, never = (
        curve("one", [10, 10, 20, 20, 20, 20]),
        curve("random", [30] * 6),
        curve("bc", [99] * 6),
    )
    found = queries_report.fewer("", one, late)
    assert (found.value, found.verdict) == (20 / 30, "holds") and "at most" not in found.measure
    found = queries_report.fewer("", one, never)
    assert (found.value, found.verdict) == (20 / 41, "holds") and "at most" in found.measure
    assert queries_report.fewer("", late, one).verdict == "does not hold"
    assert queries_report.fewer("", never, late).verdict == "does not hold"  # it needs more than it had
    assert queries_report.fewer("", never, never).verdict == "cannot be told"
    most = curve("one", [10, 10, 20, 20, 99, 99])  # two of six are not there: another draw may have four
    assert queries_report.fewer("", most, never).verdict == "cannot be told"


def test_a_run_that_failed_never_arrives():
    labels = np.array([10, 20])
    one = Curve("Hopper-v5", "distance", labels, np.ones((2, 2)), np.ones(2), failed=3)
    assert one.enough().tolist() == [10, 10, math.inf, math.inf, math.inf]


def test_failed_runs_of_a_study_are_counted_in_its_curves(done):
    """Negative control: as the study was, none had failed."""
    part = done
    series = part.final.entries[0].labels["series"]
    assert next(one for one in queries_report.curves([part]) if one.series == series).failed == 0
    results = [one for _, one in part.final]
    results[0] = results[0]._replace(error="the floor gave way")
    hurt = part._replace(final=understudy.studies.Results(part.final.entries, results, None))
    mine = next(one for one in queries_report.curves([hurt]) if one.series == series)
    assert mine.failed == 1 and math.isinf(mine.enough()[-1])


@pytest.mark.parametrize("series", ["random", "distance"])
def test_a_series_of_which_every_run_failed_is_judged(done, tmp_path, series):
    """As if none had arrived; it has no curve and no row. Two seeds bound no median."""
    results = [
        result._replace(rows=[], error="it broke") if entry.labels["series"] == series else result
        for entry, result in done.final
    ]
    hurt = done._replace(final=understudy.studies.Results(done.final.entries, results, None))
    made = queries_report.judged([hurt])
    (one,) = (claim for claim in made if claim.claim[:3] == "(7)")
    assert math.isinf(one.value) == (series == "distance") and one.verdict == "cannot be told"
    assert ("at most" in one.measure) == (series == "random")
    assert f"{series} not reached" in queries_report.facts([hurt])[0][1]
    names = queries_report.write(tmp_path, [hurt], made)
    assert "queries.png" in names and series not in (tmp_path / "labels.csv").read_text()


def test_the_legend_has_the_series_of_every_panel():
    labels, scores = np.array([10, 20]), np.ones((2, 2))
    envs = (("Hopper-v5", ("distance",)), ("Walker2d-v5", ("distance", "bc")))
    every = [Curve(env, name, labels, scores, np.ones(2)) for env, names in envs for name in names]
    named = [text.get_text() for text in queries_report.draw(every).legends[0].get_texts()]
    assert named == ["distance (default)", "kept, on new episodes (mean, range)", "BC"]


def test_a_larger_budget_is_not_held_against_the_labels_wanted():
    labels = np.array([2000, 10000])
    one = Curve("Hopper-v5", "distance", labels, np.ones((2, 2)), np.ones(2))
    assert [claim.claim[:3] for claim in queries_report._judged([one])] == ["(3)", "(4)"]
    scale = dataclasses.replace(queries.SCALES["full"], budget=10000)
    assert queries.settings("distance", "Hopper-v5", scale)["ask"] == "distance:500"


def test_a_peer_has_the_score_of_its_last_evaluation(done, tmp_path):
    runs = [[[100, 100.0, 1.0], [300, 480.0, 2.0]], [[100, 60.0, 1.0], [200, 260.0, 2.0], [400, 500.0, 3.0]]]
    for seed, curve in enumerate(runs):
        made = {"expert": 500.0, "curve": curve}
        (tmp_path / f"CartPole-v0-imitation-{seed}.json").write_text(json.dumps(made))
    found = queries.measured(tmp_path, "CartPole-v1")
    pairs = [[(labels, score) for labels, score, _ in curve] for curve in runs]
    assert [one["curve"] for one in found] == pairs and not queries.measured(tmp_path, "Hopper-v5")
    one = queries_report.curves([done._replace(peer=found)])[-1]
    assert one.series == "imitation" and one.labels.tolist() == [100, 200, 300, 400]
    wanted = (np.array([[100, 100, 480, 480], [60, 260, 260, 500]]) - 20) / 480
    assert np.allclose(one.scores, wanted) and one.enough().tolist() == [300, 400]
    assert queries_report.draw([one]).axes[0].get_xscale() == "log"
    scale = dataclasses.replace(queries.SCALES["small"], peer=tmp_path / "none")
    with pytest.raises(UserError, match="is no folder"):
        queries.part("CartPole-v1", scale, tmp_path / "study")
    for text, said in (('{"curve": [[1, 2]]}', "KeyError: 'expert'"), ('{"curve": []}', "it.* has no point")):
        (tmp_path / "CartPole-v0-imitation-0.json").write_text(text)
        with pytest.raises(UserError, match=rf"peer: .*imitation-0.json is damaged \(.*{said}"):
            queries.part("CartPole-v1", dataclasses.replace(scale, peer=tmp_path), tmp_path / "study")
    assert not (tmp_path / "study").exists()  # before anything is played


def test_the_default_of_the_study_is_that_of_the_preset():
    from understudy import RunSpec
    from understudy.defaults import plan_of

    for env, world in queries.WORLDS.items():
        made = queries.settings(queries.DEFAULT, env, queries.SCALES["full"])
        plan = plan_of(RunSpec(env=env, budget=world.budget))
        assert (made["ask"], made["ensemble"] > 1) == (plan.ask, made.get("policy") != "linear")
        assert plan.keep_best
        assert made["first_steps"] == plan.sizes[0]
