"""Randomness that must not be shared: between purposes, between rounds."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import jax
import numpy as np
from gymnasium import spaces

from quick import SIZE
from understudy import imitate, student
from understudy.envs.gymnasium import PURPOSES, derive
from understudy.policies import Actions
from understudy.runs import run as running
from understudy.runs.collect import draw_expert_steps, draw_noise
from understudy.student import Plan

PUSH, BOX = Actions.of(spaces.Discrete(2)), Actions.of(spaces.Box(-1, 1, (1,), np.float32))


def test_every_purpose_and_every_place_has_a_seed_of_its_own():
    places = list(itertools.product(range(3), PURPOSES, range(3), range(3)))
    assert len({derive(seed, purpose, *path) for seed, purpose, *path in places}) == len(places)


def noise(actions, size, number, seed=3):
    about = {"parts": SimpleNamespace(actions=actions), "resolved": SimpleNamespace(noise=size)}
    student = SimpleNamespace(spec=SimpleNamespace(seed=seed), **about)
    return draw_noise(student, Plan(number, 4000, 0.0, 0))


def test_rounds_are_mixed_and_disturbed_apart():
    first, second = (draw_expert_steps(Plan(t, 4000, 0.3, 0), 3) for t in (1, 2))
    assert 0.25 < first.mean() < 0.35 and (first != second).mean() > 0.3
    loud, other = (noise(BOX, 1.0, t)[:, 0] for t in (1, 2))
    assert abs(np.corrcoef(loud, other)[0, 1]) < 0.1
    # From one generator the first numbers of both would rise and fall together.
    uniform = np.random.default_rng(derive(3, "mixing", 1)).standard_normal(4000)
    assert abs(np.corrcoef(loud, uniform)[0, 1]) < 0.1
    np.testing.assert_allclose(noise(PUSH, 0.25, 1).std(), 0.25 * np.pi / 6**0.5, rtol=0.05)  # Gumbel


def test_every_round_draws_its_states_and_its_minibatches_anew(monkeypatch):
    keys, own = [], student.alone

    def listening(game, state, one, key, judge):
        keys.append(tuple(np.ravel(jax.random.key_data(key)).tolist()))
        return own(game, state, one, key, judge)

    monkeypatch.setattr(running, "alone", listening)
    run = imitate("CartPole-v1", policy="linear", ask="random:8", standardise=True, episodes=0, **SIZE)
    assert len(keys) == len(set(keys)) == 3
    asked = [np.flatnonzero(part).tolist() for part in run.samples("weights").reshape(3, 40)]
    assert len(asked[1]) == len(asked[2]) == 8 and asked[1] != asked[2]
    # The scale of the inputs is that of the first round.
    first = run.samples("inputs")[:40].astype(np.float64)
    np.testing.assert_allclose(run.policy.normaliser.mean, first.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(run.policy.normaliser.scale, first.std(axis=0), rtol=1e-5)
