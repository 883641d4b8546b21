"""Where policy and expert disagree: the measure, the moments, and the episodes played again to film them."""

from __future__ import annotations

import dataclasses
import time

import gymnasium as gym
import numpy as np
import pytest
from scipy.special import log_softmax

from understudy import imitate
from understudy.envs.gymnasium import maker
from understudy.policies import Actions
from understudy.report import details
from understudy.report.disagreement import compare, distance, worst


class Walk(gym.Env):
    """A seeded random walk that draws where it is."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012
    observation_space = gym.spaces.Box(-9, 9, (3,), np.float64)
    action_space = gym.spaces.Box(-1, 1, (2,), np.float32)

    def __init__(self, render_mode=None):
        self.render_mode = render_mode

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time, self.state = 0, self.np_random.uniform(-1, 1, 3)
        return self.state.copy(), {}

    def step(self, action):
        self.time += 1
        self.state = np.clip(self.state + 0.1 * self.np_random.normal(size=3) + 0.1 * action.sum(), -9, 9)
        return self.state.copy(), 0.0, False, self.time >= 20, {}

    def render(self):
        return np.full((24, 40, 3), np.uint8(20 * self.time % 255))


def expert(observation):
    return np.tanh(observation[:2] * observation[2]).astype(np.float32)


@pytest.fixture(scope="module")
def run():
    return imitate(
        Walk, expert=expert, policy="linear", rounds=2, interactions=50, envs=2, episodes=0, comparator="none"
    )


def test_the_distance_of_choices_is_the_divergence():
    acts = Actions.of(gym.spaces.MultiDiscrete([2, 3]))
    rng = np.random.default_rng(0)
    outputs = rng.normal(size=(6, 5))
    labels = np.stack([rng.integers(0, 2, 6), rng.integers(0, 3, 6)], axis=1)
    parts = [log_softmax(outputs[:, :2], axis=1), log_softmax(outputs[:, 2:], axis=1)]
    wanted = -sum(part[np.arange(6), labels[:, j]] for j, part in enumerate(parts))
    np.testing.assert_allclose(distance(acts, outputs, acts.targets(labels)), wanted)
    # An expert's distribution is at no distance from itself.
    same = np.concatenate([np.exp(part) for part in parts], axis=1)
    np.testing.assert_allclose(distance(acts, outputs, same), 0, atol=1e-12)


def test_actions_are_compared_as_they_are_played(run):
    acts = run.policy.actions
    assert distance(acts, np.array([[3.0, 0.0]]), np.array([[1.0, 0.0]])).tolist() == [0.0]
    assert distance(acts, np.array([[0.5, 0.0]]), np.array([[-0.5, 0.0]])).tolist() == [1.0]


def test_moments_are_the_farthest_states_and_apart(run):
    found = compare(run)
    assert found is not None and len(found.rows) == 100 and found.by_expert.sum() == 50
    moments = worst(run, found, 5, apart=6)
    assert moments[0].at == found.away.argmax() and len(moments) == 5
    for i, one in enumerate(moments):
        assert one.round == 1 + one.row // 50 and one.slot == one.row % 2
        for other in moments[:i]:
            same = (one.slot, one.episode) == (other.slot, other.episode)
            assert not same or abs(one.step - other.step) >= 6


def test_an_episode_is_filmed_only_where_it_is_the_recorded_one(run):
    moments = worst(run, compare(run), 4, apart=6)
    make, inputs, soon = maker(Walk), run.samples("inputs"), time.monotonic() + 60
    films, missing = details.film(make, run.policy, inputs, moments, until=soon)
    assert sorted(films) == [0, 1, 2, 3] and missing == ""
    for place, clip in films.items():
        # Two seconds at ten pictures a second, less where the episode begins or ends.
        assert clip["at"] <= moments[place].step and clip["image"].startswith("data:image/webp;base64,")
        assert clip["at"] < clip["tiles"] <= 21
    other = [dataclasses.replace(one, seed=one.seed + 1) for one in moments]
    films, missing = details.film(make, run.policy, inputs, other, until=soon)
    assert films == {} and "does not replay" in missing
    films, missing = details.film(make, run.policy, inputs, moments, until=time.monotonic() - 1)
    assert films == {} and "0 of 4 moments" in missing


class Blind(gym.Env):
    """It has no render mode."""

    observation_space, action_space = gym.spaces.Box(-1, 1, (4,)), gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(4, np.float32), {}


def test_an_environment_that_draws_nothing_is_no_error(run):
    inputs = run.samples("inputs")
    films, missing = details.film(maker(Blind), run.policy, inputs, [], until=time.monotonic() + 9)
    assert films == {} and "draws no pictures" in missing
