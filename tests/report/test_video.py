"""Videos: only kept pictures are drawn, robots are followed, disagreements framed, failures reported."""

from __future__ import annotations

import signal
import subprocess
import sys

import gymnasium as gym
import numpy as np
import pytest

from understudy import PureEnv, UserError
from understudy.envs.gymnasium import maker
from understudy.report import video


class Counting(gym.Env):
    """Counts its steps, of which ten make an episode, and its pictures."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012
    observation_space = gym.spaces.Box(0, 10, (1,))
    drawn = 0

    def __init__(self, actions=None, render_mode=None):
        self.action_space = actions or gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        self.count = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.count += 1
        return np.full(1, self.count, np.float32), 1.0, self.count == 10, False, {}

    def render(self):
        Counting.drawn += 1
        return np.zeros((40, 40, 3), np.uint8)


def still(seen, info):
    return np.int64(0)


def framed(actions, mine, theirs):
    """The states whose picture gets a frame, drawn state by state."""
    panel, found = video.Panel(maker(lambda: Counting(actions)), "mine", mine, seed=0, other=theirs), []
    while not panel.over:
        panel.look()
        panel.step()
        found += [panel.stage.env.count - 1] if panel.shown()[-1, -1].tolist() == [213, 94, 0] else []
    return found


def test_disagreements_are_framed():
    def theirs(seen, info):
        return np.int64(seen[0] in (2, 5))

    assert framed(gym.spaces.Discrete(2), still, theirs) == [2, 5]
    assert framed(gym.spaces.Discrete(2), still, still) == []


@pytest.mark.parametrize("other", [None, lambda seen, info: np.ones(1, np.float32)])
def test_numbers_are_not_compared(other):
    assert framed(gym.spaces.Box(-1, 1, (1,)), lambda seen, info: np.zeros(1, np.float32), other) == []


def test_only_kept_pictures_are_drawn_and_a_disagreement_between_two_is_seen(monkeypatch, tmp_path):
    written, told = [], []

    class Film:
        def __enter__(self):
            return written.append

        def __exit__(self, *_):
            pass

    monkeypatch.setattr(video, "film", lambda path, rate: Film() if rate == 10 / 4 else None)
    monkeypatch.setattr(video, "RATE", 2.5)
    monkeypatch.setattr(Counting, "drawn", 0)
    acts = {"a": still, "b": lambda seen, info: np.int64(seen[0] == 5)}
    found = video.record(tmp_path / "x.mp4", maker(Counting), acts, steps=100, progress=told.append)
    assert found == {"a": 10.0, "b": 10.0}
    # Of the states 0 to 10 those of 0, 4, 8 and the last are shown; each panel also drew one to begin with.
    assert len(written) == 4 and Counting.drawn == 2 * 5 and told == [0, 4, 8, 12]
    assert [bool((one[-1, -1] == (213, 94, 0)).all()) for one in written] == [False, True, False, False]
    assert [one.shape for one in written] == [(240, 480, 3)] * 4
    assert (written[-1][-1, -1] == 127).all() and (written[0][-1, -1] == 0).all()  # the end is faded


def test_a_video_is_written_without_a_fork(tmp_path, recwarn):
    import jax.numpy as jnp

    pytest.importorskip("imageio_ffmpeg")
    jnp.zeros(1).block_until_ready()  # JAX has its threads, and warns where its process forks
    found = video.record(tmp_path / "one.mp4", maker(Counting), {"still": still}, steps=100)
    assert found == {"still": 10.0} and (tmp_path / "one.mp4").stat().st_size > 500
    assert [one.name for one in tmp_path.iterdir()] == ["one.mp4"]
    assert not [one for one in recwarn if "fork" in str(one.message)]


@pytest.mark.parametrize("name", ["folder.mp4", "file/one.mp4"])
def test_a_video_that_ffmpeg_cannot_write_is_an_error_and_leaves_nothing(tmp_path, name):
    pytest.importorskip("imageio_ffmpeg")
    (tmp_path / "folder.mp4").mkdir()
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="video: cannot write"):
        video.record(tmp_path / name, maker(Counting), {"still": still}, steps=100)
    assert {one.name for one in tmp_path.iterdir()} == {"folder.mp4", "file"}


def test_an_environment_that_draws_nothing_is_refused(tmp_path):
    class Blind(Counting):
        def render(self):
            return None

    class Unfinished(Counting):
        def render(self):
            raise NotImplementedError

    class Unaware(Counting):
        def __init__(self):
            super().__init__()

    gym.register("Unaware-v0", entry_point=Unaware)
    try:
        for env in (Blind, Unfinished, "Unaware-v0"):
            with pytest.raises(UserError, match=r"draws no pictures; .* needs the parameter render_mode"):
                video.record(tmp_path / "one.mp4", maker(env), {"still": still}, steps=100)
    finally:
        gym.registry.pop("Unaware-v0")
    acts = gym.spaces.Discrete(2)
    line = PureEnv("line", lambda key: (key, key), lambda state, action: (state,), acts, acts)
    with pytest.raises(UserError, match=r"line draws no pictures; name another .* --env"):
        video.record(tmp_path / "one.mp4", maker(line), {"still": still}, steps=9)


@pytest.mark.parametrize("env, moves", [("Hopper-v5", True), ("Reacher-v5", False)])
def test_a_robot_that_walks_stays_in_the_picture(env, moves):
    """The camera's point of view is as far from the robot after it has moved as before."""
    pytest.importorskip("mujoco")
    try:
        panel = video.Panel(maker(env), "still", still, seed=0)
    except UserError as error:
        pytest.skip(str(error))
    world, camera = panel.stage.env.unwrapped, panel.stage._camera._camera
    before, position = np.array(camera.lookat), world.data.qpos.copy()
    position[0] += 3.0
    world.set_state(position, world.data.qvel)
    panel.look()
    np.testing.assert_allclose(camera.lookat - before, [3.0 if moves else 0, 0, 0], atol=1e-9)
    panel.close()


def test_a_chosen_camera_is_left_alone():
    pytest.importorskip("mujoco")
    try:
        panel = video.Panel(
            maker("Hopper-v5", {"camera_name": "track", "width": 64, "height": 64}), "a", still, seed=0
        )
    except UserError as error:
        pytest.skip(str(error))
    panel.look()
    assert panel.stage._camera._from is None and panel.shown().shape == (256, 256, 3)
    panel.close()


def test_small_pictures_are_enlarged_and_odd_ones_are_written(tmp_path):
    panel = video.Panel(maker(Counting), "mine", still, seed=0)
    panel.look()
    assert panel.shown().shape == (240, 240, 3) and not panel.shown()[60:].any()
    with pytest.raises(UserError, match=r"'.*x.txt' must end in .mp4, .mkv, .mov, .webm or .gif"):
        video.record(tmp_path / "x.txt", maker(Counting), {"a": still})
    pytest.importorskip("imageio_ffmpeg")
    with video.film(tmp_path / "x.mp4", 10) as write:
        write(np.zeros((41, 43, 3), np.uint8))
    assert (tmp_path / "x.mp4").stat().st_size


def test_a_process_that_drew_can_still_be_ended():
    """SDL, which pygame loads, would take SIGTERM and go on."""
    pytest.importorskip("pygame")
    script = "import os, signal; from understudy.envs.gymnasium import maker\n"
    script += "from understudy.envs.pictures import Pictures\n"
    script += (
        "Pictures(maker('CartPole-v1')); os.kill(os.getpid(), signal.SIGTERM); import time; time.sleep(20)"
    )
    ended = subprocess.run([sys.executable, "-c", script], check=False, timeout=60)
    assert ended.returncode == -signal.SIGTERM
