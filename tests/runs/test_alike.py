"""Experts that are random or remember: noticed by asking twice, told in one line, reset where they say so."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from runs.counting import Counting
from understudy import UserError, imitate
from understudy.envs.vector import Seen
from understudy.experts import resolve
from understudy.runs.questions import CHECKED, Questions

SMALL = {"policy": "linear", "rounds": 2, "interactions": 20, "episodes": 2, "standardise": False}


def asked(expert, puts: int, number: int = 1) -> Questions:
    questions = Questions(resolve(expert), [None])
    questions.begin(number)
    for i in range(puts):
        seen = np.full((1, 2), i, np.float32)
        questions.put(Seen(seen, [{}]), np.zeros(1, int), seen)
    return questions


def test_a_random_expert_is_told_once_with_both_answers():
    rng = np.random.default_rng(0)
    with pytest.warns(
        UserWarning, match=r"asked twice about the same state it answered \[.*\] and \["
    ) as told:
        asked(lambda seen: rng.normal(size=1), puts=10)
    assert len(told) == 1


def test_an_expert_that_answers_alike_is_not_told_and_the_calls_are_counted_apart():
    calls = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        questions = asked(lambda seen: calls.append(1) or seen[:1], puts=10)
    assert questions.again == CHECKED and len(calls) == 10 + CHECKED
    assert asked(lambda seen: seen[:1], puts=10, number=3).again == 0  # now and then: rounds 1, 2, 4, 8, …


def test_an_expert_that_remembers_is_reset_with_every_episode_and_never_asked_twice():
    class Remembers:
        def __init__(self):
            self.since, self.resets = 0, 0

        def on_reset(self):
            self.since, self.resets = 0, self.resets + 1

        def predict(self, observations, deterministic=True):
            self.since += len(observations)
            assert self.since <= 10  # an episode of Counting has fewer steps
            return np.full((len(observations), 1), self.since / 10, np.float32), None

    expert = Remembers()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = imitate(Counting, expert=expert, **SMALL)
    ended = int(run.ledger["episodes"].sum())
    assert expert.resets == ended + 1 + 2  # in collection, and two evaluation episodes
    for setting, value in (("envs", 2), ("ask", "random:5")):
        with pytest.raises(UserError, match=f"{setting}: an expert with on_reset remembers"):
            imitate(Counting, expert=expert, **SMALL | {setting: value})
