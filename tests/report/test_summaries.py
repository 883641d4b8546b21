"""Bands, comparisons on the same episodes, and the sentence made of them."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest

import invented
from understudy.report.account import between, curve, group_runs, overview, short_names, verdicts
from understudy.report.sources import Source
from understudy.report.sources import read_folder as read
from understudy.runs import Evaluation


def test_a_band_reaches_from_the_5_to_the_95_percent_quantile():
    runs = np.random.default_rng(2).normal(size=(40, 6))
    found = curve([np.arange(6)] * 40, runs)
    wanted = np.quantile(runs, [0.05, 0.95], axis=0)
    np.testing.assert_allclose([found["low"], found["high"]], wanted, rtol=1e-6)
    np.testing.assert_allclose(found["middle"], runs.mean(axis=0), rtol=1e-6)
    # Of runs at other places the lines between them are taken, where all of them are.
    apart = curve([[0, 2, 4], [1, 3]], [[0.0, 2.0, 4.0], [1.0, 3.0]])
    assert apart["x"] == [1.0, 2.0, 3.0] and apart["middle"] == [1.0, 2.0, 3.0]
    assert curve([[1, 2]], [[math.nan, math.nan]]) is None


def played(returns, first=0):
    """An evaluation on the episodes with the seeds first, first + 1, …"""
    count = len(returns)
    return Evaluation(np.asarray(returns, float), np.full(count, 9), np.arange(first, first + count))


def source(
    name="a",
    *,
    returns=(90.0, 95.0, 100.0),
    expert=(100.0,) * 3,
    state="finished",
    first=0,
    driven=0.0,
    **more,
):
    columns = {"round": np.array([1]), "labels": np.array([7]), "average_loss": np.array([0.25])}
    columns |= {"by_expert": np.array([driven]), "loss": np.array([0.25])}
    settings = {"env": "E-v0", "learner": "ftl", "seed": 0, **more.pop("settings", {})}
    mine, theirs = (None if one is None else played(one, first) for one in (returns, expert))
    return Source(
        name, Path(name), state, settings=settings, columns=columns, evaluation=mine,
        expert_evaluation=theirs, expert=math.nan if theirs is None else theirs.mean,
        spent={"total": 4.0}, **more,
    )  # fmt: skip


NEW = {"env": "E-v0", "learner": "ftl"}
SPREAD = "FTL reaches 95.0 % of the expert's return on E-v0 (95 % interval 82.6 % to 107.4 %)"


@pytest.mark.parametrize(
    ("one", "text"),
    [
        (source(), SPREAD),
        (
            source(returns=(80.0, 91.5, 98.5)),
            "FTL reaches 90.0 % of the expert's return on E-v0 (95 % interval 66.8 % to 113.2 %)",
        ),
        (
            source(returns=(80.0,) * 3),
            "FTL reaches 80 % of the expert's return on E-v0 each time",
        ),
        (
            source(returns=(-3.0, -1.0), expert=(-1.0, -1.0)),
            "FTL returns -2.0 on E-v0 (95 % interval -14.7 to 10.7)",
        ),
        (
            source(returns=None, expert=None),
            "FTL has an average loss of 0.25 on E-v0 and was not evaluated",
        ),
        (
            source(returns=(math.nan, 90.0)),  # a mean over the others would be no mean return
            "FTL has an average loss of 0.25 on E-v0 and its returns are not finite",
        ),
        (source(state="unfinished", planned=5), f"Round 1 of 5 is done. So far {SPREAD}"),
    ],
)
def test_the_verdict(one, text):
    assert verdicts(group_runs([one]))[0]["text"] == f"{text}, with 7 labels in 4.0 s."


def test_runs_that_were_not_evaluated_are_in_no_mean():
    runs = [source(str(seed), settings={"seed": seed}) for seed in range(2)]
    runs.append(source("c", returns=None, settings={"seed": 2}))
    [group] = group_runs(runs)
    assert (
        group.counted == 3
        and "These are means over 2 runs of 3 episodes each" in verdicts([group])[0]["note"]
    )


@pytest.mark.parametrize(
    ("states", "text", "note"),
    [
        (["unfinished"], "No round is finished yet on E-v0.", ""),
        (["failed"], "Every run failed on E-v0.", "1 run of 1 failed or cannot be read. The first: why."),
        (["unfinished", "failed"], "No round is finished yet on E-v0.", "1 run of 2 failed or cannot be"),
    ],
)
def test_the_verdict_where_nothing_is_known(states, text, note):
    runs = [Source("b", Path("b"), state, "why.", settings=NEW) for state in states]
    [found] = verdicts(group_runs(runs))
    assert found["text"] == text and found["note"].startswith(note) and bool(found["note"]) == bool(note)


def test_a_share_of_the_expert_is_of_all_runs_or_none():
    runs = [source(str(seed), settings={"seed": seed}) for seed in range(2)]
    assert group_runs(runs)[0].share.middle == 0.95
    [group] = group_runs([*runs, source("c", expert=None, settings={"seed": 2})])
    assert math.isnan(group.share.middle) and group.expert.middle == 100 and group.returned.middle == 95


def test_runs_that_failed_have_no_interval_to_lie_above(tmp_path):
    bad = dict.fromkeys(range(3), "round 1: it failed.")
    [found] = verdicts(group_runs(read(invented.study(tmp_path / "bad", errors=bad))))
    assert "No other has a return to compare with." in found["note"] and "more than" not in found["note"]


LUCK = np.random.default_rng(5).normal(-150.0, 80.0, 200)
"""What 200 episodes of a pendulum cost whoever plays them."""


def pendulum(shift, first, many, learner, **more):
    """A policy on episodes first, first + 1, …: their luck, what it is worth itself, and little else."""
    own = np.random.default_rng([first, len(learner)]).normal(shift, 3.0, many)
    returns = LUCK[first : first + many] + own
    return source(learner, returns=returns, expert=None, first=first, settings={"learner": learner, **more})


def test_policies_on_other_episodes_are_not_compared_however_far_their_intervals_are_apart():
    """Ten lucky episodes and ten unlucky ones, of policies that are nearly alike."""
    lucky = LUCK.reshape(20, 10).mean(axis=1)
    one, other = (
        pendulum(0.0, 10 * int(at), 10, who) for at, who in ((lucky.argmax(), "ftl"), (lucky.argmin(), "bc"))
    )
    ends = [group_runs([each])[0].returned for each in (one, other)]
    assert ends[0].low > ends[1].high, "the intervals alone would call the lucky one better"
    note = verdicts(group_runs([one, other]))[0]["note"]
    assert "Not compared with BC: on other episodes." in note and "more than" not in note
    # On all episodes nothing is left of it.
    both = [pendulum(shift, 0, 200, who) for shift, who in ((0.0, "ftl"), (-0.3, "bc"))]
    assert "is not clearly above" in verdicts(group_runs(both))[0]["note"]
    assert between([both[0]], [both[1]])[1] == "200 episodes"


def test_a_difference_that_the_luck_of_episodes_hides_is_told_in_pairs():
    """The intervals of both means overlap, that of the difference is far from 0."""
    better, worse = pendulum(0.0, 0, 20, "ftl"), pendulum(-20.0, 0, 20, "bc")
    worse.evaluation.returns[:] += np.random.default_rng(9).normal(0.0, 5.0, 20)
    first, second = (one.returned for one in group_runs([better, worse]))
    assert first.low < second.high
    [found] = verdicts(group_runs([better, worse]))
    assert found["text"].startswith("FTL, with the highest mean return of 2 settings,")
    gap, over = between([better], [worse])
    assert gap.low > 0 and over == "20 episodes" and "It returns more than BC: by " in found["note"]
    elsewhere = pendulum(-20.0, 0, 20, "bc", env_kwargs={"g": 5.0})
    assert between([better], [elsewhere])[1] == "in another environment"


def test_groups_of_runs_are_compared_over_the_seeds_that_both_have(tmp_path):
    apart = verdicts(group_runs(read(invented.study(tmp_path / "apart", learners=("ftl", "ogd")))))[0]
    assert apart["text"].startswith("OGD, with the highest mean return of 2 settings, reaches ")
    assert (
        "It returns more than FTL: by " in apart["note"] and "over 3 seeds, 10 episodes each" in apart["note"]
    )
    runs = []
    for who, much in (("ftl", 5), ("bc", 4)):
        for seed in range(5):
            same = (90.0 + (seed if who == "ftl" else 4 - seed) * much,) * 2
            runs.append(source(f"{who}{seed}", returns=same, settings={"learner": who, "seed": seed}))
    assert "is not clearly above BC" in verdicts(group_runs(runs))[0]["note"]
    few = [*runs[:5], source("bc", returns=(1.0, 2.0), settings={"learner": "bc", "seed": 0})]
    assert "Not compared with BC: fewer than two seeds in common." in verdicts(group_runs(few))[0]["note"]


def test_the_best_of_many_needs_more_to_be_told_from_all_others():
    """Twenty policies that are alike: the best of them is often above the last at 95 %, and not at this."""
    rng, wrong, naive = np.random.default_rng(0), 0, 0
    for _ in range(40):
        runs = [
            source(str(at), returns=rng.normal(size=10), expert=None, settings={"learner": f"l{at}"})
            for at in range(8)
        ]
        groups = group_runs(runs)
        wrong += "It returns more than" in verdicts(groups)[0]["note"]
        naive += any(between(groups[0].sources, one.sources)[0].low > 0 for one in groups[1:])
    assert wrong <= 5 < 15 < naive


def test_the_expert_has_an_interval_and_is_compared_in_pairs_with_the_least_return():
    luck = np.array([0.0, 30.0, -20.0, 55.0])
    one = source(returns=200.0 + luck, expert=[*(210.0 + luck), 900.0])
    [group] = group_runs([one])
    assert group.difference[:3] == (-10.0, -10.0, -10.0) and group.expert.low < 340.0 < group.expert.high
    note = verdicts([group])[0]["note"]
    assert "the mean difference on the same episodes is -10.0 each time." in note
    assert "In brackets are Student's 95 % intervals over 4 episodes; the least return is 180.0." in note
    loose = source(returns=200.0 + luck, expert=None)
    loose = dataclasses.replace(loose, expert=210.0, settings=loose.settings | {"expert_episodes": None})
    note = verdicts(group_runs([loose]))[0]["note"]
    assert "the expert's 210.0 is by its card, on other episodes, and not compared" in note
    person = source(returns=200.0 + luck, expert=None, settings={"expert": "person"})
    assert "the expert's was not measured: it is a person." in verdicts(group_runs([person]))[0]["note"]


def test_the_verdict_has_the_sentence_of_a_run_that_had_a_goal():
    accepted = "with 95 % confidence the kept policy has at least 0.95 of the expert's return (exact)"
    one = source(summary={"reached": True, "statement": accepted})
    assert verdicts(group_runs([one]))[0]["note"].startswith(accepted.replace("with", "With", 1) + ".")
    two = [
        source(str(k), summary={"reached": k == 0, "statement": "x"}, settings={"seed": k}) for k in range(2)
    ]
    for k, run in enumerate(two):
        run.columns["loss"][0] = k  # else they would count once
    assert "1 of 2 runs reached their goal" in verdicts(group_runs(two))[0]["note"]
    assert "goal" not in verdicts(group_runs([source()]))[0]["note"]


def test_two_runs_that_are_not_told_apart_say_what_would():
    rng = np.random.default_rng(0)
    luck = 100 + 20 * rng.normal(size=30)
    runs = [
        source("a", returns=luck, expert=None),
        source("b", returns=luck - 1 + 4 * rng.normal(size=30), expert=None, settings={"learner": "bc"}),
    ]
    note = verdicts(group_runs(runs))[0]["note"]
    assert "It is not clearly above" in note and "common episodes would decide (understudy evaluate)" in note


def test_a_loss_on_the_experts_states_is_behind_those_of_policies_that_acted():
    made = [source(who, returns=None, expert=None, settings={"learner": who}) for who in ("ftl", "ogd")]
    bc = source("bc", returns=None, expert=None, driven=1.0, settings={"learner": "bc"})
    bc.columns.update(average_loss=np.array([0.001]))
    groups = group_runs([bc, *made])
    assert groups[-1].labels["learner"] == "bc"
    assert "BC: its loss is on the expert's states, so it is not ranked by it." in verdicts(groups)[0]["note"]


def test_of_those_that_return_the_same_the_one_that_asked_less_is_the_best():
    """Their losses may be of two kinds, so the smaller loss says nothing."""
    made = [source(who, settings={"learner": who}) for who in ("ftl", "bc")]
    made[0].columns.update(labels=np.array([5000]), average_loss=np.array([0.1]))
    assert [one.labels["learner"] for one in group_runs(made)] == ["bc", "ftl"]


def test_runs_that_return_the_same_in_every_episode_are_not_said_to_be_unclear():
    runs = [source(who, returns=[500.0] * 4, settings={"learner": who}) for who in ("ftl", "ogd")]
    note = verdicts(group_runs(runs))[0]["note"]
    assert "It returns the same as OGD in every episode." in note and "not clearly" not in note


def test_short_names_are_the_fewest_words_that_set_groups_apart():
    def short(*settings):
        made = [source(f"r{n}", settings={**one, "seed": 0}) for n, one in enumerate(settings)]
        groups = group_runs(made)
        names = dict(zip([group.sources[0].name for group in groups], short_names(groups), strict=True))
        return [names[f"r{n}"] for n in range(len(made))]

    assert short({}) == ["FTL"]
    budgets = [{"budget": labels, "steps_per_round": 5 * labels} for labels in (100, 400)]
    assert short(*budgets) == ["budget 100", "budget 400"] and short(*budgets, {})[-1] == "default"
    assert short(*budgets, {"policy": "linear"})[-1] == "no budget"
    assert short({"learner": "ftrl", "eta": 0.1}, {"learner": "ftl"}) == ["FTRL", "FTL"]
    both = [{"learner": a, "budget": b} for a in ("ftl", "ogd") for b in (50, 100)]
    assert short(*both) == ["FTL, budget 50", "FTL, budget 100", "OGD, budget 50", "OGD, budget 100"]
    assert short({"keep_best": True}, {"keep_best": False}) == ["keep best", "no keep best"]
    assert short({"env": "A"}, {"env": "B", "budget": 3}) == ["FTL", "FTL"]  # an environment each


def test_the_overview_has_a_line_for_every_run_and_marks_the_dead():
    returns = np.array([math.nan, 1.0, math.nan, 3.0])
    columns = {"round": np.arange(1, 5), "labels": np.arange(1, 5), "loss": 1.0 / np.arange(1, 5)}
    going = dataclasses.replace(source("going", state="unfinished"), columns=columns, going=True, planned=9)
    dead = dataclasses.replace(source("dead", state="unfinished"), columns=columns | {"return_mean": returns})
    waiting = dataclasses.replace(source("waiting", state="unfinished"), columns={}, going=True)
    failed = source("failed", state="failed", trouble="the floor gave way.")
    lines = overview([source("done"), failed, dead, waiting, going])
    assert [(line["name"], line["state"]) for line in lines] == [
        ("going", "running"),
        ("waiting", "waiting"),
        ("dead", "stopped"),
        ("failed", "failed"),
        ("done", "finished"),
    ]
    assert (lines[0]["spark"], lines[0]["drawn"]) == ([1.0, 0.5, 0.3333333, 0.25], "loss")
    assert (lines[2]["spark"], lines[2]["drawn"]) == ([1.0, 3.0], "return")
    assert (lines[0]["rounds"], lines[0]["planned"], lines[0]["labels"]) == (4, 9, 4.0)
