"""Randomness that must not be shared: between purposes, between rounds."""

from __future__ import annotations

import itertools

import jax
import numpy as np
from gymnasium import spaces

from quick import SIZE
from understudy import imitate
from understudy.envs.gymnasium import PURPOSES, derive
from understudy.policies import Actions
from understudy.runs.collected import Driver
from understudy.runs.state import RunState

PUSH, BOX = Actions.of(spaces.Discrete(2)), Actions.of(spaces.Box(-1, 1, (1,), np.float32))


def test_every_purpose_and_every_place_has_a_seed_of_its_own():
    places = list(itertools.product(range(3), PURPOSES, range(3), range(3)))
    assert len({derive(seed, purpose, *path) for seed, purpose, *path in places}) == len(places)


def test_rounds_are_mixed_and_disturbed_apart():
    driver = Driver(seed=3, noise=1.0)
    first, second = (driver.draws(BOX, t, 4000, 0.3) for t in (1, 2))
    assert 0.25 < first[0].mean() < 0.35 and (first[0] != second[0]).mean() > 0.3
    assert abs(np.corrcoef(first[1][:, 0], second[1][:, 0])[0, 1]) < 0.1
    # From one generator the first numbers of both would rise and fall together.
    uniform = np.random.default_rng(derive(3, "mixing", 1)).standard_normal(4000)
    assert abs(np.corrcoef(first[1][:, 0], uniform)[0, 1]) < 0.1
    quiet = Driver(seed=3, noise=0.25).draws(PUSH, 1, 4000, 0.0)[1]
    np.testing.assert_allclose(quiet.std(), 0.25 * np.pi / 6**0.5, rtol=0.05)  # Gumbel


def test_every_round_draws_its_states_and_its_minibatches_anew(monkeypatch):
    keys, own = [], RunState.question

    def listening(self, round):
        found = own(self, round)
        keys.append(tuple(np.ravel(jax.random.key_data(found.key)).tolist()))
        return found

    monkeypatch.setattr(RunState, "question", listening)
    run = imitate("CartPole-v1", policy="linear", ask="random:8", standardise=True, episodes=0, **SIZE)
    assert len(keys) == len(set(keys)) == 3
    asked = [np.flatnonzero(part).tolist() for part in run.samples("weights").reshape(3, 40)]
    assert len(asked[1]) == len(asked[2]) == 8 and asked[1] != asked[2]
    # The scale of the inputs is that of the first round.
    first = run.samples("inputs")[:40].astype(np.float64)
    np.testing.assert_allclose(run.policy.normaliser.mean, first.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(run.policy.normaliser.scale, first.std(axis=0), rtol=1e-5)
