"""Recorded demonstrations are a first round that costs nothing: of an archive, of Minari, of another run."""

from __future__ import annotations

import sys
import types
from functools import partial
from pathlib import Path

import gymnasium as gym
import jax
import numpy as np
import pytest

from quick import SIZE
from recorded import arrays
from runs.pieces import resumed
from understudy import UserError, experts, imitate
from understudy.online import LARGE
from understudy.policies import Actions, Observations
from understudy.runs import unmeasured
from understudy.samples.demos import recorded
from understudy.samples.log import ImageColumn
from understudy.samples.records import Sums

SMALL = SIZE | {"policy": "linear", "episodes": 1, "expert_episodes": 0}
CARTPOLE = gym.make("CartPole-v1")


@pytest.fixture(scope="module")
def demos() -> tuple[np.ndarray, np.ndarray]:
    """What the shipped expert does in 40 states of CartPole, as many as a round has."""
    expert, env = experts.resolve("lqr-CartPole-v1"), gym.make("CartPole-v1")
    seen, _ = env.reset(seed=1)
    states = []
    for _ in range(SIZE["steps_per_round"]):
        states.append(seen)
        seen, *_ = env.step(int(expert.act(seen[None])[0]))
    return np.stack(states), expert.label(np.stack(states))


@pytest.fixture
def archive(demos, tmp_path) -> Path:
    np.savez(tmp_path / "demos.npz", observations=demos[0], actions=demos[1])
    return tmp_path / "demos.npz"


def read(source: str | Path, env: gym.Env = CARTPOLE):
    return recorded(str(source), Observations.of(env.observation_space), Actions.of(env.action_space))


def test_demonstrations_alone_are_cloned_without_a_query_and_without_an_expert(archive, demos):
    run = imitate(
        lambda: gym.make("CartPole-v1"),
        demos=archive,
        learner="bc",
        policy="linear",
        episodes=10,
        comparator="none",
    )
    assert run.ledger.rounds == 1 and run.summary()["labels"] == run.summary()["steps"] == 0
    assert run.evaluation.mean > 400 and run.summary()["expert_return_mean"] is None
    assert run.samples("weights").sum() == pytest.approx(1.0)  # one round, whose loss is a mean
    assert run.samples("inputs").tobytes() == demos[0].astype(np.float32).tobytes()
    assert run.settings["resolved"]["loss"]["kind"] == "CrossEntropy"
    assert unmeasured(run.settings) == "there is none, but demonstrations"


@pytest.mark.slow
def test_a_warm_start_goes_on_online_and_is_resumed(archive, tmp_path):
    # Three rounds of 40 samples in all: the program of a run without demonstrations.
    go = partial(imitate, "CartPole-v1", demos=archive, **SMALL | {"rounds": 2})
    whole, _ = resumed(go, tmp_path, 1, 2)
    assert whole.ledger["samples"].tolist() == [40, 40, 40]
    assert whole.ledger["labels"].tolist() == [0, 40, 80] == whole.ledger["steps"].tolist()
    assert whole.ledger["by_expert"].tolist() == [1, 0, 0]  # the agent acts as soon as it can
    other = arrays(archive)
    np.savez(archive, observations=other["observations"], actions=1 - other["actions"])
    with pytest.raises(UserError, match="resume: resolved demos was"):
        go(out=tmp_path / "pieces", resume=True)


def test_the_samples_of_another_run_are_demonstrations(tmp_path):
    first = imitate("CartPole-v1", out=tmp_path / "first", **SMALL)
    again = imitate("CartPole-v1", demos=tmp_path / "first", **SMALL | {"rounds": 0, "loss": "squared"})
    assert again.samples("targets").tobytes() == first.samples("targets").tobytes()
    with pytest.raises(UserError, match="other observations or actions"):
        read(tmp_path / "first", gym.make("Pendulum-v1"))


def test_minari_is_read_by_its_name_and_needs_its_extra(demos, monkeypatch):
    with pytest.raises(UserError, match=r"needs the extra 'minari'"):
        monkeypatch.setitem(sys.modules, "minari", None)
        read("minari:CartPole/expert-v0")
    states = np.concatenate([demos[0], demos[0][:1]])
    episode = types.SimpleNamespace(observations=states, actions=demos[1])
    dataset = types.SimpleNamespace(iterate_episodes=lambda: [episode, episode])
    made = types.SimpleNamespace(load_dataset=lambda name, download: dataset)
    monkeypatch.setitem(sys.modules, "minari", made)
    found = read("minari:CartPole/expert-v0")
    assert len(found) == 80 and found.inputs[40:].tobytes() == demos[0].astype(np.float32).tobytes()


def test_probabilities_and_keys(tmp_path):
    space = gym.spaces.Dict({"a": gym.spaces.Box(-1, 1, (2,)), "b": gym.spaces.Box(-1, 1, (1,))})
    env = types.SimpleNamespace(observation_space=space, action_space=gym.spaces.Discrete(3))
    p = np.array([[0.2, 0.3, 0.5], [1, 0, 0]])
    arrays = {"observations/a": np.ones((2, 2)), "observations/b": np.zeros((2, 1)), "actions": p}
    np.savez(tmp_path / "d.npz", **arrays)
    found = read(tmp_path / "d.npz", env)
    assert found.targets == pytest.approx(p) and found.executed.tolist() == [[2], [0]]
    assert found.inputs.tolist() == [[1, 1, 0], [1, 1, 0]]


@pytest.mark.parametrize(
    ("arrays", "told"),
    [
        ({"observations": np.zeros((3, 4))}, "has no actions, it has observations. Accepted: .*acts"),
        (
            {"observations": np.zeros((3, 4)), "actions": np.zeros(2, int)},
            "3 rows of 4 numbers for 2 actions",
        ),
        ({"obs": np.zeros((2, 5)), "acts": np.zeros(2, int)}, r"2 rows of 5 numbers .* have 4|do not fit"),
        ({"obs": np.zeros((2, 4)), "acts": np.array([0, 7])}, r"its action 7 in row 1 is none of"),
        ({"obs": np.full((2, 4), np.nan), "acts": np.array([0, 1])}, "an observation is not finite"),
        ({"obs": np.zeros((0, 4)), "acts": np.zeros(0, int)}, "there is no demonstration"),
        ({"obs": np.zeros((2, 4)), "acts": np.array(1)}, "there is no demonstration"),
        ({"obs": np.array([object()], object), "acts": np.zeros(1, int)}, "no .npz archive of plain arrays"),
    ],
)
def test_an_archive_that_does_not_fit_is_refused_in_one_sentence(tmp_path, arrays, told):
    np.savez(tmp_path / "d.npz", **arrays)
    with pytest.raises(UserError, match=told):
        read(tmp_path / "d.npz")


def test_what_is_no_archive_is_refused(tmp_path):
    (tmp_path / "d.npz").write_bytes(b"PK")
    with pytest.raises(UserError, match=r"is no \.npz archive of plain arrays \(it is no zip file\)"):
        read(tmp_path / "d.npz")
    with pytest.raises(UserError, match="there is no '"):
        read(tmp_path / "e.npz")
    with pytest.raises(UserError, match="rounds: 0 is not accepted without demonstrations"):
        imitate("CartPole-v1", rounds=0)


class Gauge(gym.Env):
    """A grey image of 16 × 16 with two numbers beside it."""

    observation_space = gym.spaces.Dict(
        joints=gym.spaces.Box(-1, 1, (2,)), view=gym.spaces.Box(0, 255, (1, 16, 16), np.uint8)
    )
    action_space = gym.spaces.Box(-1, 1, (1,))

    def _show(self):
        self.joints = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        view = self.np_random.integers(0, 256, (1, 16, 16), np.uint8)
        return {"joints": self.joints, "view": view}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.age = 0
        return self._show(), {}

    def step(self, action):
        self.age += 1
        return self._show(), 0.0, False, self.age >= 5, {}


def test_images_are_kept_as_bytes_and_learnt_from_to_the_same_bits(tmp_path, monkeypatch):
    """More demonstrations than are measured at once, and a rule that asks, which needs the loss of each."""
    rng, n = np.random.default_rng(0), 2 * LARGE
    joints = rng.uniform(-1, 1, (n, 2)).astype(np.float32)
    arrays = {
        "observations/joints": joints,
        "observations/view": rng.integers(0, 256, (n, 1, 16, 16), np.uint8),
    }
    np.savez(tmp_path / "demos.npz", **arrays, actions=joints[:, :1])
    settings = SIZE | {"demos": str(tmp_path / "demos.npz"), "rounds": 1, "ask": "random:3", "episodes": 1}
    settings |= {"max_iterations": 2, "comparator": "none"}

    def learn(out=None):
        run = imitate(Gauge, expert=lambda seen: seen["joints"][:1], out=out, **settings)
        params = b"".join(np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(run.policy.params))
        return run, params, run.ledger["loss"].tolist(), np.asarray(run.samples("inputs")).tobytes()

    run, *packed = learn()
    assert not isinstance(run.samples("inputs"), np.ndarray)
    saved, *same = learn(tmp_path / "run")
    assert (tmp_path / "run/samples/images.bin").stat().st_size == len(saved.samples("inputs")) * 256
    for module in ("samples.log", "samples.demos"):
        monkeypatch.setattr(f"understudy.{module}.image_columns", lambda observations: None)
    run, *plain = learn()
    assert isinstance(run.samples("inputs"), np.ndarray)
    assert packed == same == plain


@pytest.mark.parametrize("beside", [0, 3])
def test_rows_of_images_are_the_rows_that_were_added(tmp_path, beside):
    rng, columns = np.random.default_rng(0), slice(2 if beside else 0, 302 if beside else 300)
    pixels = rng.integers(0, 256, (700, 300), np.uint8)
    rows = pixels
    if beside:
        left, right = rng.normal(size=(700, 2)), rng.normal(size=(700, 1))
        rows = np.concatenate(
            [left, pixels.astype(np.float32) / np.float32(255), right], axis=1, dtype=np.float32
        )
    for folder in (None, tmp_path):
        column = ImageColumn(columns, rows.shape[1], Sums(folder))
        assert column.rows(0)[:].shape == (0, rows.shape[1])
        for part in (rows[:300], rows[300:301], rows[301:]):
            column.append(part)
        found = column.rows(650)  # the last rows are of a round that never counted
        assert (found.shape, found.dtype) == ((650, rows.shape[1]), rows.dtype)
        for index in (slice(None), slice(-3, None), 7, [649, 0, 300], rows[:650, 0] > 0.5):
            assert found[index].tobytes() == rows[:650][index].tobytes()
    assert column.width == 300 + 4 * beside
