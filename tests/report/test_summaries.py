"""Interquartile means, bootstrap intervals, bands, and the sentence made of them."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import invented
from understudy.report.account import grouped
from understudy.report.sources import Source, read
from understudy.report.summaries import curve, interval, iqm, ratio
from understudy.report.verdict import verdicts


@pytest.mark.parametrize("size", [1, 3, 4, 7, 20])
def test_the_interquartile_mean_is_scipys(size):
    from scipy.stats import trim_mean  # half a second to import

    values = np.random.default_rng(size).normal(size=(3, size)) ** 3
    np.testing.assert_allclose(iqm(values), trim_mean(values, 0.25, axis=-1))


def test_a_bootstrap_interval_covers_as_often_as_it_says():
    rng = np.random.default_rng(0)
    inside, narrow = 0, 0
    for _ in range(200):
        values = rng.normal(3.0, 2.0, size=30)
        found = interval(values, np.mean, resamples=400)
        inside += found.low <= 3.0 <= found.high
        middle, half = found.middle, (found.high - found.low) / 8
        narrow += middle - half <= 3.0 <= middle + half
    # Close to 95 %; one of a quarter of the width does not reach that.
    assert 178 <= inside <= 198 and narrow < 120


def test_the_interval_of_a_ratio_pairs_episodes_of_equal_seeds():
    rng = np.random.default_rng(1)
    theirs = rng.uniform(50, 150, size=20)
    paired = ratio(0.9 * theirs, theirs)
    assert paired.middle == pytest.approx(0.9) and paired.high - paired.low < 1e-9
    loose = ratio(0.9 * theirs[:19], theirs)
    assert loose.high - loose.low > 0.05


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


def source(name="a", *, returns=(90.0, 95.0, 100.0), expert=(100.0, 100.0, 100.0), state="finished", **more):
    columns = {"round": np.array([1]), "queries": np.array([7]), "average_loss": np.array([0.25])}
    settings = {"env": "E-v0", "learner": "ftl", "seed": 0, **more.pop("settings", {})}
    mine, theirs = (None if one is None else np.asarray(one) for one in (returns, expert))
    mean = math.nan if theirs is None else float(theirs.mean())
    return Source(
        name, Path(name), state, settings=settings, columns=columns, returns=mine, expert_returns=theirs,
        expert=mean, spent={"total": 4.0}, **more,
    )  # fmt: skip


NEW = {"env": "E-v0", "learner": "ftl"}
SPREAD = "FTL reaches 95 % of the expert's return on E-v0 (95 % interval 90 % to 100 %)"


@pytest.mark.parametrize(
    ("one", "text"),
    [
        (source(), SPREAD),
        (
            source(returns=(80.0, 91.5, 98.5)),
            "FTL reaches 90.0 % of the expert's return on E-v0 (95 % interval 80.0 % to 98.5 %)",
        ),
        (source(returns=(80.0,) * 3), "FTL reaches 80 % of the expert's return on E-v0 in every episode"),
        (
            source(returns=(-3.0, -1.0), expert=(-1.0, -1.0)),
            "FTL returns -2.000 on E-v0 (95 % interval -3.000 to -1.000), the expert -1.000",
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
    assert verdicts(grouped([one]))[0]["text"] == f"{text}, with 7 labels in 4.0 s."


def test_runs_that_were_not_evaluated_are_in_no_mean():
    runs = [source(str(seed), settings={"seed": seed}) for seed in range(2)]
    runs.append(source("c", returns=None, settings={"seed": 2}))
    [group] = grouped(runs)
    assert group["counted"] == 3 and "bootstrap interval over 2 runs" in verdicts([group])[0]["note"]


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
    [found] = verdicts(grouped(runs))
    assert found["text"] == text and found["note"].startswith(note) and bool(found["note"]) == bool(note)


def test_a_share_of_the_expert_is_of_all_runs_or_none():
    runs = [source(str(seed), settings={"seed": seed}) for seed in range(2)]
    assert grouped(runs)[0]["share"].middle == 0.95
    [group] = grouped([*runs, source("c", expert=None, settings={"seed": 2})])
    assert math.isnan(group["share"].middle) and group["expert"] == 100 and group["return"].middle == 95


def test_runs_that_failed_have_no_interval_to_lie_above(tmp_path):
    bad = dict.fromkeys(range(3), "round 1: it failed.")
    [found] = verdicts(grouped(read(invented.study(tmp_path / "bad", errors=bad))))
    assert "No other has a return to compare with." in found["note"] and "lie above" not in found["note"]


def test_the_best_of_several_is_set_apart_only_where_its_interval_is(tmp_path):
    apart = verdicts(grouped(read(invented.study(tmp_path / "apart", learners=("ftl", "ogd")))))[0]
    assert apart["text"].startswith("OGD, the best of 2, reaches ") and "above all others" in apart["note"]
    runs = []
    for who, much in (("ftl", 5), ("bc", 4)):
        for seed in range(5):
            same = (90.0 + seed * much,) * 2
            runs.append(source(f"{who}{seed}", returns=same, settings={"learner": who, "seed": seed}))
    assert "does not lie above that of BC" in verdicts(grouped(runs))[0]["note"]


def test_of_those_that_return_the_same_the_one_that_asked_less_is_the_best():
    """Their losses may be of two kinds, so the smaller loss says nothing."""
    made = [source(who, settings={"learner": who}) for who in ("ftl", "bc")]
    made[0].columns.update(queries=np.array([5000]), average_loss=np.array([0.1]))
    assert [one["labels"]["learner"] for one in grouped(made)] == ["bc", "ftl"]
