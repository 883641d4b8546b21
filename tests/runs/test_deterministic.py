"""Experts that remember what they saw, and experts that are not deterministic."""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np
import pytest

from runs.counting import Counting
from runs.pieces import content, resumed
from understudy import UserError, imitate
from understudy.studies import play

SMALL = {"policy": "linear", "rounds": 2, "steps_per_round": 20, "episodes": 2, "standardise": False}


class Remembers:
    """Answers with the number of states it has seen in the episode, of which Counting has fewer than ten."""

    def __init__(self, most: int = 1000):
        self.since, self.resets, self.calls, self.most = 0, 0, 0, most

    def on_reset(self):
        self.since, self.resets = 0, self.resets + 1

    def predict(self, observations, deterministic=True):
        assert len(observations) == 1
        if self.calls == self.most:
            raise KeyboardInterrupt
        self.since, self.calls = self.since + 1, self.calls + 1
        assert self.since <= 10 and self.since == observations[0, 1] + 1, "it has seen every state once"
        return np.full((1, 1), self.since / 10, np.float32), None


def test_an_expert_that_remembers_is_reset_with_every_episode():
    expert = Remembers()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = imitate(Counting, expert=expert, **SMALL)
    ended = int(run.ledger["episodes"].sum())
    assert expert.resets == ended + 1 + 2  # in collection, and two evaluation episodes
    for setting, value in (("num_envs", 2), ("ask", "random:5")):
        with pytest.raises(UserError, match=f"{setting}: an expert with on_reset remembers"):
            imitate(Counting, expert=expert, **SMALL | {setting: value})


def test_an_expert_that_remembers_is_rebuilt_on_resume(tmp_path):
    """After a round, in the middle of an episode; and after an interrupt in the midst of one."""
    go = partial(imitate, Counting, **SMALL)
    # A new one each time, as in a new process.
    whole, last = resumed(lambda **more: go(expert=Remembers(), **more), tmp_path, 1)
    assert whole.samples("targets").tobytes() == last.samples("targets").tobytes()
    assert last.expert_calls > whole.expert_calls  # states that were shown again are counted

    with pytest.raises(KeyboardInterrupt, match="1 round and 13 labels"):
        go(expert=Remembers(most=33), out=tmp_path / "cut")
    again = go(expert=Remembers(), out=tmp_path / "cut", resume=True)
    assert again.ledger["labels"].tolist() == [20, 40]
    assert content(tmp_path / "whole") == content(tmp_path / "cut")


def test_the_runs_of_a_study_share_an_expert_that_remembers_one_after_another():
    runs = [{"env": Counting, "expert": Remembers(), **SMALL, "episodes": 0, "seed": seed} for seed in (0, 1)]
    assert [one.error for one in play(runs)] == [None, None]


class Moody:
    """Adds `noise` of its own to an answer, or what it remembers of the state before."""

    def __init__(self, noise: float = 0.0, memory: float = 0.0):
        self.noise, self.memory, self.calls, self.last = noise, memory, 0, 0.0
        self.rng = np.random.default_rng(0)

    def __call__(self, observation):
        self.calls, step = self.calls + 1, observation[1] / 10
        answer = step / 2 + self.noise * self.rng.uniform(-1, 1) + self.memory * (step - self.last)
        self.last = step
        return np.clip([answer], -1, 1)


@pytest.mark.parametrize("kind", [{"noise": 0.1}, {"memory": 0.1}, {"noise": 1e-6}, {}])
def test_an_expert_that_is_not_deterministic_is_told_once(kind):
    expert = Moody(**kind)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        run = imitate(Counting, expert=expert, **SMALL | {"rounds": 4})
    said = [str(one.message) for one in told if "asked twice about the same 16 states" in str(one.message)]
    assert len(said) == (max(kind.values(), default=0) > 1e-4)
    assert all("on_reset" in one and "\n" not in one for one in said)
    counted = run.summary()["labels"] + run.summary()["expert_evaluation_calls"]
    assert expert.calls == counted  # in rounds 1, 2 and 4, as long as it is not told
    assert counted - int(run.expert_evaluation.lengths.sum()) - 80 == (16 if said else 48)


def test_an_expert_that_is_not_to_be_measured_is_not_asked_twice():
    expert = Moody(noise=0.1)
    imitate(Counting, expert=expert, **SMALL, expert_episodes=0)
    assert expert.calls == 40
