"""Where two that choose disagree, the picture is framed; where actions are numbers it is not."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from understudy.envs.gymnasium import maker
from understudy.report import video


class Counting(gym.Env):
    """Counts its steps; ten make an episode."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012
    observation_space = gym.spaces.Box(0, 10, (1,))

    def __init__(self, actions):
        self.action_space = actions

    def reset(self, *, seed=None, options=None):
        self.count = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.count += 1
        return np.full(1, self.count, np.float32), 1.0, self.count == 10, False, {}

    def render(self):
        return np.zeros((40, 40, 3), np.uint8)


def pictures(actions, mine, theirs, monkeypatch):
    make = maker(lambda: Counting(actions))
    monkeypatch.setattr(type(make), "__call__", lambda self, **_: self.make())
    return video.frames(make, mine, seed=0, steps=100, other=theirs)[0]


def test_disagreements_are_framed(monkeypatch):
    def mine(seen, info):
        return np.int64(0)

    def theirs(seen, info):
        return np.int64(seen[0] in (2, 5))

    shown = pictures(gym.spaces.Discrete(2), mine, theirs, monkeypatch)
    assert [k for k, one in enumerate(shown) if one.any()] == [2, 5]
    assert not any(one.any() for one in pictures(gym.spaces.Discrete(2), mine, mine, monkeypatch))


@pytest.mark.parametrize("other", [None, lambda seen, info: np.ones(1, np.float32)])
def test_numbers_are_not_compared(monkeypatch, other):
    shown = pictures(
        gym.spaces.Box(-1, 1, (1,)), lambda seen, info: np.zeros(1, np.float32), other, monkeypatch
    )
    assert not any(one.any() for one in shown)


def test_a_video_is_written_without_a_fork(tmp_path, monkeypatch, recwarn):
    import jax.numpy as jnp

    pytest.importorskip("imageio_ffmpeg")
    jnp.zeros(1).block_until_ready()  # JAX has its threads, and warns where its process forks
    make = maker(lambda: Counting(gym.spaces.Discrete(2)))
    monkeypatch.setattr(type(make), "__call__", lambda self, **_: self.make())
    found = video.record(tmp_path / "one.mp4", make, {"still": lambda seen, info: np.int64(0)}, steps=100)
    assert found == {"still": 10.0} and (tmp_path / "one.mp4").stat().st_size > 500
    assert not [one for one in recwarn if "fork" in str(one.message)]
