"""What a run, its record, its policy and its certificate say when they are printed, and what is said of an
environment of the old gym.
"""

from __future__ import annotations

import math

import gymnasium as gym
import numpy as np
import pytest

from understudy import Certificate, Run, UserError, imitate

SMALL = {"policy": "linear", "learner": "ftrl", "rounds": 3, "steps_per_round": 40, "episodes": 2}


def test_a_record_its_policy_and_its_certificate_say_what_they_are(tmp_path):
    run = imitate("CartPole-v1", out=tmp_path / "run", **SMALL)
    lines = str(run).splitlines()
    assert lines[0] == "ftrl on CartPole-v1: 3 rounds, 120 labels, seed 0"
    assert lines[1].startswith(f"  return       {run.evaluation.mean:.5g} (2 episodes")
    assert f"  the expert's {run.expert_evaluation.mean:.5g}" in lines
    assert lines[-2:] == ["  policy       that of round 3 of 3, linear", f"  kept in      {tmp_path / 'run'}"]
    said = str(run.policy).splitlines()
    assert said[0] == "Policy linear, 10 parameters" and said[2] == "  acts  Discrete(2)"
    assert "action = policy(observation)" in said[3] and "reset" not in said[3]
    assert repr(run.policy).startswith("TrainedPolicy(linear, Box(") and "\n" not in repr(run)
    proof = str(run.certificate).splitlines()
    assert proof[0] == f"Certificate: measured regret {run.certificate.regret:.6g}"
    assert f"  bound   {run.certificate.bound:.6g}, certified for every round so far" in proof


def test_a_certificate_without_a_proof_says_why():
    said = str(Certificate(1.5, math.inf, {}, "estimate", reason="the losses are not convex."))
    assert said == "Estimate of the regret: 1.5; nothing is proved\n  reason  the losses are not convex."
    said = str(Certificate(1.5, math.inf, {}, "certificate", 1.0, 2.0, 3.0, reason="no penalty."))
    assert "from 1 to 2, against policies of norm at most 3" in said and "bound" not in said


def test_a_run_says_how_far_it_is():
    with Run("CartPole-v1", **SMALL) as run:
        assert str(run).splitlines()[:2] == [
            "ftrl on CartPole-v1: 0 of 3 rounds, 0 labels",
            "  last round  iterate over it to play it",
        ]
        run.step()
        assert "1 of 3 rounds, 40 labels" in str(run) and "last round  loss 0.6931" in str(run)
        for _ in run:
            pass
        done = run.finish()
        assert str(run) == str(done) and "kept in      no folder: save(path)" in str(run)


class Old(gym.Env):
    """An environment as the old gym had them, where `kind` says."""

    observation_space = gym.spaces.Box(-1, 1, (2,))
    action_space = gym.spaces.Discrete(2)

    def __init__(self, kind):
        self.kind = kind

    def reset(self, *, seed=None, options=None):
        seen = np.zeros(2, np.float32)
        return seen if self.kind == "reset" else (seen, {})

    def step(self, action):
        seen = np.zeros(2, np.float32)
        return (seen, 0.0, False, {}) if self.kind == "step" else seen


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("step", "its step returned 4 values, as the old gym did, and Gymnasium's step returns five: observ"),
        ("reset", "its reset returned ndarray, and Gymnasium's reset returns two: observation, info"),
        ("", "its step returned ndarray, and Gymnasium's step returns five"),
    ],
)
def test_an_environment_of_the_old_gym_is_told_what_a_step_returns(kind, told):
    with pytest.raises(UserError, match=told):
        imitate(lambda: Old(kind), expert=lambda seen: 0, rounds=1, steps_per_round=5, policy="linear")
