"""Experts that remember what they saw: reset with every episode, and asked state after state."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from runs.counting import Counting
from understudy import UserError, imitate

SMALL = {"policy": "linear", "rounds": 2, "interactions": 20, "episodes": 2, "standardise": False}


def test_an_expert_that_remembers_is_reset_with_every_episode():
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
