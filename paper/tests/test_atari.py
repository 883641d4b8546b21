"""The Atari study, small: what is planned, that agents sample, what is reported."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import understudy
from paper import atari, atari_report
from paper.host import panels
from understudy.defaults import plan_of

pytest.importorskip("ale_py")
TINY = dataclasses.replace(
    atari.SCALES["small"],
    rounds=2,
    steps_per_round=24,
    linear=("ftl", "adaftrl", "ogd"),
    games=1,
    limit=30,
    # Newton's Hessian has 3078 rows.
    more={"solver": "lbfgs", "max_iterations": 20, "comparator": "none"},
)


def test_the_full_study_is_the_papers():
    full = atari.SCALES["full"]
    whole = atari.study(
        "pong", "linear", full, [name for name in full.linear if name in atari.STEPPED["linear"]]
    )
    assert len(whole.runs) == 5 * 11 * 3
    run = whole.runs[0].spec
    assert (run.rounds * run.steps_per_round, run.noise, plan_of(run).mixing.beta(1)) == (10_000, 1.0, 0.0)
    free = atari.study("breakout", "nature_cnn", full, ("ftl", "ftrl", "adaftrl", "bc"))
    assert free.runs[0].labels == {"env": "ALE/Breakout-v5", "learner": "ftl", "seed": 0}
    assert free.runs[0].spec.max_iterations == 2000 and len(free.runs) == 4 * 3
    stepped = atari.study("breakout", "nature_cnn", full, atari.STEPPED["nature_cnn"])
    assert stepped.runs[0].spec.max_iterations is None and len(stepped.runs) == 2 * 7 * 3


def test_agents_of_the_paper_sample_and_others_play_the_mode():
    """One round from a policy that is uniform: the mode is always action 0."""
    how = {
        "policy": "linear",
        "learner": "ogd",
        "eta": 1.0,
        "rounds": 1,
        "steps_per_round": 48,
        "episodes": 0,
    }
    how |= {"first_round": "agent", "comparator": "none"}
    still = understudy.imitate("ALE/Pong-v5", **how, noise=0.0)
    moved = understudy.imitate("ALE/Pong-v5", **how, preset="paper")
    assert set(still.samples("executed").ravel()) == {0}
    chosen = np.bincount(moved.samples("executed").ravel().astype(int), minlength=6)
    assert (chosen > 0).all() and chosen.max() < 24  # of 48, 8 expected each


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    return atari.part("pong", "linear", TINY, tmp_path_factory.mktemp("atari"), engine="inline")


@pytest.mark.slow
def test_the_steps_of_the_full_study_are_played(played):
    assert played.tuned is None and not played.final.failed
    steps = {(e.labels["learner"], e.labels.get("step")) for e in played.final.entries}
    assert steps == {("ftl", None), ("adaftrl", 1e4), ("adaftrl", 1.0), ("ogd", 1.0)}
    one = panels([played])[0]
    assert one.learners == ["ftl", "adaftrl", "adaftrl_untuned", "ogd"]
    assert np.isfinite(one.column("ftl", "agreement")).all()
    # The first policy is uniform, so its mode is action 0; afterwards it has learned from the expert.
    assert one.column("ftl", "agreement")[0, 1] > one.column("ftl", "agreement")[0, 0]


@pytest.mark.slow
def test_claims_and_files(played, tmp_path):
    found = atari_report.judged([played])
    assert {"(1)", "(2)", "lin"} <= {one.claim[:3] for one in found}
    # One seed: no interval, of the agreement neither.
    assert all(one.verdict == "cannot be told" and "no interval" in one.evidence for one in found)
    names = atari_report.write(tmp_path, [played], found)
    assert {"atari.png", "atari.svg", "rounds.csv.gz", "summary.csv", "claims.md", "claims.csv"} <= set(names)


@pytest.mark.slow
def test_networks_learn_end_to_end(tmp_path):
    few = {"networks": ("ftl", "adaftrl"), "iterations": 3, "network_games": 1, "more": {}}
    done = atari.part("pong", "nature_cnn", dataclasses.replace(TINY, **few), tmp_path, engine="inline")
    assert not done.final.failed
    one = panels([done])[0]
    assert one.learners == ["ftl", "adaftrl"] and np.isfinite(one.loss_of("adaftrl")).all()
