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
from understudy.envs.pictures import Stage
from understudy.policies import Actions
from understudy.report import details
from understudy.report.details import compare, distance, entropy, worst
from understudy.samples import BREAK


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
        Walk,
        expert=expert,
        policy="linear",
        rounds=2,
        steps_per_round=50,
        num_envs=2,
        episodes=0,
        comparator="none",
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


def test_where_choices_agree_the_farthest_come_first_too(run):
    found = compare(run)
    same = dataclasses.replace(found, mine=found.theirs, actions=Actions.of(gym.spaces.MultiDiscrete([2, 2])))
    away = [found.away[one.at] for one in worst(run, same, 9, apart=1)]
    assert not same.differs.any() and away == sorted(found.away, reverse=True)[:9]


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


def test_moments_after_a_break_are_of_the_episodes_that_were_played(tmp_path):
    """A break ends the episodes under way, and the labels from before it are no steps of any."""
    asked = []

    def act(observation):
        asked.append(1)
        if len(asked) == 69:  # in the second round, after nine steps of both environments
            raise KeyboardInterrupt
        return expert(observation)

    how = {"policy": "linear", "rounds": 3, "steps_per_round": 50, "num_envs": 2, "expert_episodes": 0}
    how |= {"episodes": 0, "comparator": "none", "out": tmp_path / "run"}
    with pytest.raises(KeyboardInterrupt, match="1 round and 18 labels"):
        imitate(Walk, expert=act, **how)
    run = imitate(Walk, expert=act, resume="new-episode", **how)
    assert run.ledger["breaks"].tolist() == [0, 1, 1]
    assert np.flatnonzero(run.samples("flags") & BREAK).tolist() == list(range(50, 68))
    moments = worst(run, compare(run), 60, apart=1)
    # 25 steps before the break are one whole episode and five steps of another.
    assert {one.episode for one in moments if one.row < 50} == {0, 1}
    assert min(one.episode for one in moments if one.row >= 68) == 2
    inputs = run.samples("inputs")
    films, missing = details.film(maker(Walk), run.policy, inputs, moments, until=time.monotonic() + 60)
    assert len(films) == len(moments) == 60 and missing == ""


def test_a_policy_that_looks_back_is_filmed():
    """What is compared with the kept row has the past of the episode in it."""
    how = {"rounds": 1, "steps_per_round": 40, "episodes": 0, "comparator": "none"}
    run = imitate(Walk, expert=expert, policy="linear", frame_stack=3, **how)
    moments = worst(run, compare(run), 4, apart=6)
    soon = time.monotonic() + 60
    films, missing = details.film(maker(Walk), run.policy, run.samples("inputs"), moments, until=soon)
    assert len(films) == len(moments) == 4 and missing == ""


class Blind(gym.Env):
    """It has no render mode."""

    observation_space, action_space = gym.spaces.Box(-1, 1, (4,)), gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(4, np.float32), {}


def test_a_slow_environment_has_one_step_a_second():
    class Slow(Walk):
        metadata = {"render_modes": ["rgb_array"], "render_fps": 0.5}  # noqa: RUF012

    assert Stage(maker(Slow)).rate == 1


def test_an_environment_that_draws_nothing_is_no_error(run):
    inputs = run.samples("inputs")
    films, missing = details.film(maker(Blind), run.policy, inputs, [], until=time.monotonic() + 9)
    assert films == {} and "draws no pictures" in missing


def test_the_loss_on_soft_labels_stands_above_the_experts_entropy():
    def soft(seen):
        p = 1.0 / (1.0 + np.exp(-40.0 * (seen[2] + 0.2 * seen[3])))
        return np.array([1.0 - p, p])

    soft.kind = "distribution"
    how = {"policy": "linear", "rounds": 3, "steps_per_round": 40, "episodes": 0}
    run = imitate("CartPole-v1", expert=soft, **how)
    found = entropy(run)
    targets = np.asarray(run.samples("targets"), float).reshape(3, 40, 2)
    wanted = -(targets * np.log(targets)).sum(axis=2).mean(axis=1)
    assert found["x"] == [1.0, 2.0, 3.0]
    np.testing.assert_allclose(found["y"], wanted, atol=1e-6)
    assert (run.ledger["loss"] > np.array(found["y"]) - 1e-5).all() and found["y"][0] < 0.6
    assert entropy(imitate("CartPole-v1", **how)) is None  # a single action has none
