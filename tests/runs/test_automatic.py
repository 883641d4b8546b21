"""The scale that a regularised learner finds on a network."""

from __future__ import annotations

import numpy as np
import pytest

from understudy import adaftrl, ftrl
from understudy.automatic import Automatic
from understudy.defaults import Scale
from understudy.losses import Squared
from understudy.online import make_game
from understudy.policies import MLP

RULES = {True: Scale("alpha"), False: Scale("eta")}


@pytest.mark.parametrize(("adaptive", "scale"), [(True, 10.0 * 3.0), (False, 10.0 * 3.0 / 4.0)])
def test_a_step_is_ten_distances_or_ten_distances_over_a_gradient(adaptive, scale):
    learner = adaftrl() if adaptive else ftrl(eta=1.0)
    game = make_game(MLP(), Squared(), learner, "adam", [{"weight": np.zeros((2, 1)), "bias": np.zeros(1)}])
    found = Automatic(RULES[adaptive])
    found.see(1, distance=3.0, gradient=100.0)  # the gradient of an untrained network says nothing
    assert found.settled == adaptive
    found.see(2, distance=50.0, gradient=4.0)
    schedule = found.tuned(game).learner.schedule
    assert float(schedule.adaptive if adaptive else schedule.root) == pytest.approx(1 / scale)
    assert float(schedule.root if adaptive else schedule.adaptive) == 0.0
    again = Automatic(RULES[adaptive])
    again.restore(found.numbers())
    assert again.numbers() == found.numbers() and found.rule.factor == 10.0


@pytest.mark.parametrize("adaptive", [True, False])
def test_a_schedule_counts_from_the_round_after_the_one_that_shows_its_scale(adaptive):
    found, t = Automatic(RULES[adaptive]), 0
    while not found.settled:
        t += 1
        found.see(t, distance=3.0, gradient=4.0)
    assert RULES[adaptive].start == t + 1
