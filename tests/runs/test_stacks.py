"""Runs on stacks of frames: kept once in a run's book, rebuilt for minibatches, resumed byte for byte."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest

from runs.pieces import content, resumed
from understudy import Record, imitate
from understudy.errors import UserError
from understudy.policies import Actions, NatureCNN, Observations
from understudy.samples import Round, SampleLog
from understudy.samples import log as samples
from understudy.samples.records import sum_of

SPACE = gym.spaces.Box(0, 255, (4, 36, 36), np.uint8)
ACTIONS = gym.spaces.Discrete(3)


class Dots(gym.Env):
    """A bright dot moves left or right over a dark field; the last four frames are seen."""

    observation_space, action_space = SPACE, ACTIONS

    def __init__(self, render_mode=None):
        self.render_mode = render_mode

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.age = int(self.np_random.integers(4, 32)), 0
        self.seen = np.zeros(SPACE.shape, np.uint8)
        self._look()
        return self.seen.copy(), {}

    def _look(self):
        frame = np.zeros((36, 36), np.uint8)
        frame[16:20, self.at - 2 : self.at + 2] = 255
        frame[0, self.age % 36] = 1 + self.age  # no two frames of an episode are the same
        self.seen = np.concatenate([self.seen[1:], frame[None]])

    def step(self, action):
        self.at, self.age = int(np.clip(self.at + int(action) - 1, 2, 34)), self.age + 1
        self._look()
        return self.seen.copy(), float(self.at == 18), self.age >= 13, False, {}


def centre(observation):
    """Towards the middle."""
    at = int(observation[-1, 17].argmax()) + 2
    return np.int64(1 + np.sign(18 - at))


def rounds(number, size, seed):
    """Two slots by turns, as they would be collected."""
    envs = [Dots(), Dots()]
    seen = [env.reset(seed=seed + i)[0] for i, env in enumerate(envs)]
    for _ in range(number):
        inputs, owners = [], []
        for row in range(size):
            slot = row % 2
            inputs.append(seen[slot].reshape(-1))
            owners.append(slot)
            seen[slot], _, over, _, _ = envs[slot].step(2)
            if over:
                seen[slot] = envs[slot].reset()[0]
        plain = np.zeros(size, np.float32)
        yield Round(
            inputs=np.stack(inputs),
            targets=np.zeros((size, 3), np.float32),
            executed=np.zeros((size, 1), np.int64),
            rewards=plain,
            flags=plain.astype(np.uint8),
            slots=np.array(owners, np.int32),
            weights=np.full(size, 1 / size),
            labels=size,
        )


def book(folder):
    return SampleLog(Observations.of(SPACE), Actions.of(ACTIONS), folder=folder)


@pytest.mark.parametrize("where", ["memory", "files"])
def test_every_row_comes_back_and_a_frame_is_kept_once(where, tmp_path):
    listed, made = list(rounds(3, 20, 0)), book(tmp_path / "s" if where == "files" else None)
    for one in listed:
        made.append(one)
    whole, kept = np.concatenate([one.inputs for one in listed]), made.column("inputs")
    np.testing.assert_array_equal(kept[:], whole)
    np.testing.assert_array_equal(np.asarray(kept), whole)
    some = np.array([59, 0, 21, 21])
    np.testing.assert_array_equal(kept[some], whole[some])
    assert kept.shape == whole.shape and kept.dtype == np.uint8 and len(kept) == 60
    assert made.width() < whole.shape[1] / 3
    if where == "files":
        # One frame a row, three more where a round begins or an episode does, and the empty one.
        assert (tmp_path / "s" / "frames.bin").stat().st_size <= 36 * 36 * (60 + 3 * 2 * 3 + 10)
        again = book(tmp_path / "s")
        again.rows = 60
        np.testing.assert_array_equal(again.column("inputs")[:], whole)


def test_what_a_killed_process_had_begun_is_cut_off_and_written_again(tmp_path):
    listed = list(rounds(3, 20, 0))
    straight, halting = book(tmp_path / "a"), book(tmp_path / "b")
    for one in listed:
        straight.append(one)
    halting.append(listed[0])
    counted = dict(halting.sums)
    halting.append(listed[2])  # a round that never counted
    (tmp_path / "b" / "frames.bin").open("ab").write(b"half a frame")
    later = book(tmp_path / "b")
    later.back(20, counted)
    for one in listed[1:]:
        later.append(one)
    for file in sorted((tmp_path / "a").iterdir()):
        assert file.read_bytes() == (tmp_path / "b" / file.name).read_bytes(), file.name
    assert later.sums == {file.name: sum_of(file) for file in (tmp_path / "b").iterdir()}
    later.clear()
    assert not list((tmp_path / "b").iterdir())


def test_pictures_that_are_no_stacks_are_kept_as_they_are():
    space = gym.spaces.Box(0, 255, (64, 64, 3), np.uint8)
    assert SampleLog(Observations.of(space), Actions.of(ACTIONS)).frames is None


@pytest.mark.slow
def test_a_network_on_pixels_learns_and_resumes_byte_for_byte(tmp_path, monkeypatch):
    options = {
        "expert": centre,
        "policy": NatureCNN(size=36, width=32, method="matmul"),
        "rounds": 2,
        "steps_per_round": 40,
        "num_envs": 2,
        "episodes": 1,
        "comparator": "none",
        "solver_options": {"max_iterations": 16, "batch_size": 16, "learning_rate": 5e-3},
    }
    straight, _ = resumed(partial(imitate, Dots, **options), tmp_path, 1)
    kept = content(tmp_path / "whole").keys()
    assert kept >= {"samples/frames.bin", "samples/index.bin"} and "samples/inputs.bin" not in kept
    assert straight.ledger["loss"][-1] < 0.8 * straight.ledger["loss"][0]
    loaded = Record.load(tmp_path / "pieces")
    assert loaded.samples("inputs").shape == (80, 4 * 36 * 36)
    inside = imitate(Dots, **options)  # in memory: the same run
    assert inside.ledger["loss"].tolist() == straight.ledger["loss"].tolist()
    device = SimpleNamespace(memory_stats=lambda: None)
    seen = SimpleNamespace(default_backend=lambda: "gpu", devices=lambda: [device])
    monkeypatch.setattr(samples, "jax", seen)
    monkeypatch.setattr(samples.Reader, "take", None)  # an accelerator holds the stacks and calls nobody
    held = imitate(Dots, **options)
    np.testing.assert_allclose(held.ledger["loss"], straight.ledger["loss"], rtol=1e-5)


def test_observations_that_are_no_stacks_are_refused():
    with pytest.raises(UserError, match="'nature_cnn' sees stacks of square frames of bytes"):
        imitate("CartPole-v1", policy="nature_cnn", rounds=1, steps_per_round=10)
