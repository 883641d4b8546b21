"""One run, one result: `imitate`, the command line and studies give the same ledger, byte for byte."""

import numpy as np
import pytest

import understudy
from understudy import adaftrl, alt_ftrl, ftrl, linearised, ogd
from understudy.cli import main
from understudy.policies import MLP, Linear
from understudy.runs.choose import choose_learner
from understudy.spec import RunSpec
from understudy.studies import play

SMALL = {"rounds": 3, "interactions": 60, "episodes": 0}


def first(learner, policy, name="practical"):
    """The first round that the learner's schedule counts in a run."""
    spec = RunSpec(env="CartPole-v1", learner=learner, preset=name)
    return int(choose_learner(spec, policy)[0].schedule.start)


@pytest.mark.parametrize("learner", [adaftrl(alpha=1.0), ftrl(eta=0.1), alt_ftrl(eta=1.0), "adaftrl", "ftrl"])
def test_the_schedule_of_a_linear_policy_starts_in_round_one(learner):
    assert first(learner, Linear()) == 1


@pytest.mark.parametrize(
    ("learner", "start"), [(adaftrl(alpha=1.0), 2), (ftrl(eta=0.1), 2), ("adaftrl", 2), ("ftrl", 3)]
)
def test_the_schedule_of_a_network_starts_after_a_round_without_penalty(learner, start):
    assert first(learner, MLP()) == start


@pytest.mark.parametrize("policy", [MLP(), Linear()])
def test_an_explicit_start_is_respected_everywhere(policy):
    assert first(adaftrl(alpha=1.0, start=1), policy) == 1
    assert first(ftrl(eta=1.0, start=7), policy) == 7
    assert first(adaftrl(alpha=1.0), policy, "paper") == 1


def test_linearised_learners_start_in_round_one_on_networks_too():
    assert first(linearised(adaftrl(alpha=1.0)), MLP()) == 1
    assert first(ogd(eta=0.1), MLP()) == 1


def test_a_name_on_a_linear_policy_has_a_scale_of_one():
    for name, maker in (
        ("adaftrl", adaftrl(alpha=1.0)),
        ("ftrl", ftrl(eta=1.0)),
        ("alt-ftrl", alt_ftrl(eta=1.0)),
    ):
        made, automatic = choose_learner(RunSpec(env="CartPole-v1", learner=name), Linear())
        assert automatic is None
        for part in ("root", "adaptive", "constant"):
            assert np.array_equal(getattr(made.schedule, part), getattr(maker.schedule, part))


@pytest.mark.parametrize(("env", "policy"), [("CartPole-v1", "linear")])
def test_adaftrl_has_one_ledger_from_every_door(env, policy, tmp_path):
    made = understudy.imitate(env, learner=adaftrl(alpha=1.0), policy=policy, **SMALL)
    named = understudy.imitate(env, learner="adaftrl", policy=policy, **SMALL)
    run = {"env": env, "learner": "adaftrl", "alpha": 1.0, "policy": policy, **SMALL}
    rows = play([run])[0].rows
    typed = ["train", env, "--learner", "adaftrl", "--alpha", "1", "--policy", policy, "--rounds", "3"]
    assert main([*typed, "--interactions", "60", "--episodes", "0", "--out", str(tmp_path / "run")]) == 0
    asked = made.ledger.to_csv()
    assert named.ledger.to_csv() == asked
    assert (tmp_path / "run" / "ledger.csv").read_text() == asked
    assert understudy.Ledger({name: [row[name] for row in rows] for name in rows[0]}).to_csv() == asked
    assert np.isfinite(made.certificate.bound), "a default run on a linear policy has a finite certificate"
