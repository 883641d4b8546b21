"""A fleet steps as Gymnasium does, bit for bit: observations, rewards, ends and resets."""

from __future__ import annotations

import numpy as np
import pytest

from understudy.envs.fleet import Gymnasiums, fleet
from understudy.envs.gymnasium import maker
from understudy.envs.mujoco import Physics, _rules

KEYWORDS = [
    ("Hopper-v5", {}),
    ("Walker2d-v5", {}),
    ("Hopper-v5", {"max_episode_steps": 7, "terminate_when_unhealthy": False, "frame_skip": 2}),
    ("Walker2d-v5", {"exclude_current_positions_from_observation": False, "ctrl_cost_weight": 0.5}),
]


def _play(make, bodies, steps, seed):
    """The same actions in a fleet of three and in three plain environments; yields both sides' outcome."""
    plain = [make() for _ in range(3)]
    slots, rng, episodes = np.arange(3), np.random.default_rng(seed), [0, 0, 0]
    seen = []
    for slot in slots:
        bodies.begin(slot, 10 * slot)
        seen.append(plain[slot].reset(seed=10 * int(slot))[0])
    for step in range(steps):
        which = slots if step % 3 else slots[::-1][:2]  # any choice, in any order
        # Strong pushes, so that bodies fall, meet the ground and are reset many times.
        actions = np.clip(rng.normal(size=(len(which), plain[0].action_space.shape[0])), -1, 1)
        actions = actions.astype(np.float32)
        rewards, terminated, truncated = bodies.step(which, actions)
        ours = bodies.batch(which).copy()
        theirs = [plain[slot].step(action)[:4] for slot, action in zip(which, actions, strict=True)]
        yield (ours, rewards, terminated, truncated), theirs
        for i, slot in enumerate(which):
            if terminated[i] or truncated[i]:
                episodes[slot] += 1
                bodies.begin(slot, 10 * slot + episodes[slot])
                observation, _ = plain[slot].reset(seed=10 * int(slot) + episodes[slot])
                assert bodies.batch(np.array([slot]))[0].tobytes() == observation.tobytes()
    for env in plain:
        env.close()
    assert sum(episodes) > 3


@pytest.mark.parametrize(("name", "keywords"), KEYWORDS)
def test_physics_equals_gymnasium_bit_for_bit(name, keywords):
    make = maker(name, keywords)
    bodies = fleet(make, 3, threads=2)
    assert isinstance(bodies, Physics)
    for (seen, rewards, terminated, truncated), theirs in _play(make, bodies, 300, 0):
        for i, (observation, reward, over, cut) in enumerate(theirs):
            assert seen[i].tobytes() == observation.tobytes()
            assert rewards[i] == reward and terminated[i] == over and truncated[i] == cut
    bodies.close()


def test_without_the_warm_start_the_bits_differ():
    """Why each slot keeps a simulation of its own: position and velocity alone are not the whole state."""
    make, differ = maker("Hopper-v5"), False
    bodies = fleet(make, 3)
    for (seen, *_), theirs in _play(make, bodies, 200, 1):
        for data in bodies._data:
            data.qacc_warmstart[:] = 0
        differ |= any(seen[i].tobytes() != one[0].tobytes() for i, one in enumerate(theirs))
    assert differ
    bodies.close()


def test_what_is_not_known_is_left_to_gymnasium():
    import gymnasium as gym

    assert isinstance(fleet(maker("Pendulum-v1"), 1), Gymnasiums)
    assert _rules(gym.wrappers.RescaleAction(gym.make("Hopper-v5"), -2, 2)) is None
    assert isinstance(fleet(maker(gym.make("Hopper-v5")), 1), Physics)


def test_gymnasiums_equal_single_environments():
    make = maker("CartPole-v1")
    group, alone = fleet(make, 2), make()
    group.begin(0, 5), group.begin(1, 6)
    seen, _ = alone.reset(seed=6)
    for action in (0, 1, 1, 0, 1):
        rewards, terminated, truncated = group.step(np.array([1]), [action])
        seen, reward, over, cut, _ = alone.step(action)
        assert group.batch(np.array([1]))[0].tobytes() == seen.tobytes()
        assert (rewards[0], terminated[0], truncated[0]) == (reward, over, cut)
    group.close()
