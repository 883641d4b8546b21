"""The study of aggregation, small: every series plays its interactions; verdicts follow from the losses."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest

from paper import aggregation, aggregation_report
from paper.aggregation import Part, Scale

TINY = Scale(
    env="drift:make",
    totals=(96,),
    seeds=2,
    rounds=3,
    steps=8,
    episodes=2,
    settings={"expert": "drift:back", "policy": "linear"},
)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    return aggregation.part(96, TINY, tmp_path_factory.mktemp("study"), engine="inline")


def test_every_series_spends_the_same_interactions_and_says_its_seconds_and_bytes(done):
    found = aggregation_report.rows([done])
    assert not done.final.failed and {row["series"] for row in found} == set(aggregation.SERIES)
    assert len(found) == 10 and all(math.isfinite(row["return"]) for row in found)
    assert all(row["seconds"] > 0 and row["solve_seconds"] > 0 for row in found)
    held = {row["series"]: row["memory_bytes"] for row in found}
    # Two rounds more are 64 samples of two inputs, a label and a weight in float64; a linear policy on all
    # rounds keeps statistics, whatever their number.
    assert held["window:3"] - held["window:1"] == 2 * 32 * 4 * 8
    assert held["ftl"] == held["ftrl"] == held["adaftrl"] < held["window:1"]
    losses = {row["series"]: row["average_loss"] for row in found if row["seed"] == 0}
    assert losses["window:3"] == pytest.approx(losses["ftl"], rel=1e-3)  # three rounds are all of them
    assert losses["window:1"] != losses["ftl"]


def test_the_report_has_claims_a_figure_and_tables(done, tmp_path):
    made = aggregation_report.judged([done])
    assert {one.claim[:3] for one in made} == {f"({number})" for number in range(1, 9)}
    names = aggregation_report.write(tmp_path, [done], made)
    assert {"aggregation.png", "aggregation.svg", "runs.csv", "rounds.csv", "claims.csv", "claims.md"} <= set(
        names
    )
    told = dict(aggregation_report.facts([done]))
    assert {"96: seconds a run", "96: MB learned from"} <= set(told) and told["runs that failed"] == "0"


class Played(list):
    """Runs and what came of them."""

    failed = ()


def invented(losses, returns, expert):
    """A part whose runs had these average losses and returns, (series → one a seed)."""
    runs = Played()
    for series, values in losses.items():
        for seed, loss in enumerate(values):
            entry = SimpleNamespace(labels={"series": series, "seed": seed})
            row = {"loss": loss, "average_loss": loss, "return_mean": returns[series][seed]}
            seconds = dict.fromkeys(("collect", "solve", "first_round"), 0.0)
            summary = {"expert_return": expert, "memory_bytes": 1}
            result = SimpleNamespace(rows=[row], error=None, seconds=seconds, summary=summary)
            runs.append((entry, result))
    return Part(96, TINY, runs)


def verdicts(*given):
    found = aggregation_report.judged([invented(*given)])
    return {(one.claim[:3], one.measure if one.claim[1] != "6" else one.claim): one.verdict for one in found}


def test_a_verdict_turns_with_the_losses_and_the_returns():
    less, more, mixed = [1.0, 1.1, 0.9], [2.0, 2.2, 1.9], [0.5, 3.0, 0.7]
    good, bad = [-100.0, -104.0, -98.0], [-400.0, -300.0, -350.0]
    returns = {"ftl": good, "window:1": bad, "adaftrl": good}
    found = verdicts({"ftl": less, "window:1": more, "adaftrl": mixed}, returns, -100.0)
    assert found["(1)", "ftl/window:1"] == "holds"
    assert found["(3)", "adaftrl/ftl"] == "cannot be told"
    assert found["(6)", "(6) all rounds (FTL): nine tenths of the expert's return"] == "holds"
    assert found["(6)", "(6) current round alone: nine tenths of the expert's return"] == "does not hold"
    assert found["(7)", "ftl/window:1"] == found["(8)", "difference / abs(expert's)"] == "holds"
    # Exchanged, they turn.
    back = {"ftl": bad, "window:1": good, "adaftrl": good}
    found = verdicts({"ftl": more, "window:1": less, "adaftrl": less}, back, -100.0)
    assert found["(1)", "ftl/window:1"] == "does not hold" and found["(3)", "adaftrl/ftl"] == "holds"
    assert found["(7)", "ftl/window:1"] == found["(8)", "difference / abs(expert's)"] == "does not hold"
    assert found["(6)", "(6) all rounds (FTL): nine tenths of the expert's return"] == "does not hold"


def test_a_run_that_left_the_finite_numbers_is_not_left_out():
    returns = {"ftl": [1.0, 1.0], "window:1": [1.0, 1.0]}
    found = verdicts({"ftl": [1.0, np.inf], "window:1": [2.0, 2.0]}, returns, 1.0)
    assert found["(1)", "ftl/window:1"] == "does not hold"


def test_a_run_that_failed_counts_as_infinitely_bad():
    returns = {"ftl": [1.0, 1.0], "window:1": [1.0, 1.0]}
    part = invented({"ftl": [1.0, 1.0], "window:1": [2.0, 2.0]}, returns, 1.0)
    assert [one.verdict for one in aggregation_report.judged([part]) if one.claim[:3] == "(1)"] == ["holds"]
    part.final[0][1].error, part.final[0][1].rows = "round 1: the solver left the finite numbers.", []
    found = {one.claim[:3] + one.claim[4:7]: one.verdict for one in aggregation_report.judged([part])}
    assert {found[name] for name in ("(1)all", "(6)all", "(7)all", "(8)all")} == {"does not hold"}
    assert found["(6)cur"] == "holds"
    # Of the other series another seed: what is compared is of one seed, or lost.
    part.final[3][1].error, part.final[3][1].rows = "round 1: the solver left the finite numbers.", []
    told = next(one for one in aggregation_report.judged([part]) if one.claim[:3] == "(1)")
    assert told.verdict == "cannot be told"
