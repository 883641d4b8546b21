"""Runs whose policy remembers: they learn what needs memory, and resumed they end byte for byte the same."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runs.pieces import content, resumed
from understudy import RunSpec, TrainedPolicy, Understudy, UserError, evaluate, imitate
from understudy.experts import Expert
from understudy.parts import make_parts
from understudy.runs import spaces_of
from understudy.samples import Sequences, count, storage
from understudy.studies import shard

GRU = {"policy": "gru", "policy_options": {"width": 8, "widths": (8,), "length": 4, "burn": 3}}
SMALL = {"rounds": 3, "steps_per_round": 63, "num_envs": 2, "episodes": 4, "expert_episodes": 0, "seed": 3}
SMALL |= {"max_iterations": 300, "learning_rate": 0.02, "comparator": "none"}


class Cue(gym.Env):
    """Shows a sign in the first step of an episode and nothing in the others; the sign is what to play."""

    def __init__(self):
        self.observation_space = gym.spaces.Box(-1, 1, (1,), np.float32)
        self.action_space = gym.spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        self.sign, self.time = np.array([1.0 if seed % 2 else -1.0], np.float32), 0
        return self.sign, {"sign": self.sign}

    def step(self, action):
        self.time += 1
        right = float(abs(action[0] - self.sign[0]) < 0.3)
        return np.zeros(1, np.float32), right, self.time == 5, False, {"sign": self.sign}


def told(observations, infos):
    return np.stack([info["sign"] for info in infos])


def settings_of(**changes):
    space = gym.spaces.Box(-1, 1, (1,), np.float32)
    expert = Expert("told", ask=told, needs_infos=True, action_space=space)
    return {"env": Cue, "expert": expert} | SMALL | changes


EXACT = {"policy": "linear", "max_iterations": None, "learning_rate": None}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return imitate(**settings_of(**GRU), out=tmp_path_factory.mktemp("whole") / "run")


def test_a_policy_that_remembers_learns_what_one_that_does_not_cannot(run):
    assert run.evaluation.mean == 5.0 and run.certificate.kind == "estimate"
    assert "sequences" in run.certificate.reason
    stacked, blind = (imitate(**settings_of(**EXACT, frame_stack=stack)) for stack in (5, None))
    assert stacked.evaluation.mean == 5.0 and stacked.certificate.kind == "certificate"
    assert blind.evaluation.mean < 2.0
    # The policy in the folder, called step by step, is the one that was evaluated.
    kept = TrainedPolicy.load(run.folder)
    assert evaluate(kept, Cue, episodes=4).returns.tolist() == run.evaluation.returns.tolist()
    begins = run.samples("inputs")[:, -1]
    assert begins[:4].tolist() == [1, 1, 0, 0] and begins.sum() >= run.ledger["episodes"].sum()


def stopped(number, row):
    if number == 1:
        raise KeyboardInterrupt


def test_a_run_that_was_stopped_or_is_beside_another_ends_as_the_one_left_alone(run, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        imitate(**settings_of(**GRU), out=tmp_path, progress=stopped)
    imitate(**settings_of(**GRU), out=tmp_path, resume=True)
    assert content(tmp_path) == content(run.folder)
    beside = shard.play([RunSpec(**settings_of(**GRU, seed=seed)) for seed in (4, 3)])[1]
    assert beside.summary["return_mean"] == run.evaluation.mean
    assert [row["loss"] for row in beside.rows] == run.ledger["loss"].tolist()


@pytest.mark.parametrize("memory", ["window:2", "reservoir:30"])
def test_sequences_go_on_from_the_round_before_where_no_sample_is_kept(tmp_path, memory):
    """A learner that forgets reads no samples when it is resumed, nor does a run of a study."""
    changes = GRU | {"max_iterations": 20, "episodes": 0, "memory": memory, "comparator_steps": 0}
    resumed(lambda **where: imitate(**settings_of(**changes), **where), tmp_path, 1, 2)


def test_the_best_in_hindsight_is_searched_for_among_sequences():
    """They are kept beside the learner's own memory: a log of rows has none to read."""
    kept = {}
    for search in (20, 0):
        spec = RunSpec(
            **settings_of(**GRU, memory="window:2") | {"comparator": "last", "comparator_steps": search}
        )
        made = make_parts(spaces_of(spec), spec)
        kept[search] = Understudy.of(made, storage(made)).state.losses.whole.inputs.shape
    assert kept == {20: (64, 7, 3), 0: (0, 7, 3)}


def test_a_stack_is_resumed_too(tmp_path):
    whole = imitate(**settings_of(**EXACT, frame_stack=5), out=tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        imitate(**settings_of(**EXACT, frame_stack=5), out=tmp_path / "parts", progress=stopped)
    imitate(**settings_of(**EXACT, frame_stack=5), out=tmp_path / "parts", resume=True)
    assert content(tmp_path / "parts") == content(tmp_path / "whole")
    assert whole.samples("inputs").shape[1] == 5


@settings(max_examples=40)
@given(
    sizes=st.lists(st.integers(1, 20), min_size=1, max_size=3),
    envs=st.integers(1, 3),
    length=st.integers(1, 6),
    burn=st.integers(0, 4),
)
def test_every_sample_is_in_one_sequence_after_those_before_it(sizes, envs, length, burn):
    cut, played = Sequences(length, burn), {slot: [] for slot in range(envs)}
    number = 1.0
    for size in sizes:
        slots, many = np.arange(size) % envs, count(size, envs, length)
        inputs = np.zeros((size, 2), np.float32)
        inputs[:, 0] = np.arange(number, number + size)
        number += size
        weights = np.arange(1.0, size + 1)
        found, targets, shares = cut.of(inputs, inputs[:, :1], weights, slots)
        assert found.shape == (many, burn + length, 2)
        assert sorted(shares[shares > 0].tolist()) == weights.tolist()
        for slot in range(envs):
            played[slot] += inputs[slots == slot, 0].tolist()
        for one, label, share in zip(found, targets, shares, strict=True):
            real = np.flatnonzero(one[:, 0])
            assert one[real[0], 1] == 1  # the memory is empty there
            mine = next(row for row in played.values() if one[real[0], 0] in row)
            at = mine.index(one[real[0], 0])
            assert one[real, 0].tolist() == mine[at : at + len(real)]
            own = np.flatnonzero(share)
            assert label[own, 0].tolist() == one[own, 0].tolist()
            assert own[0] == burn and len(real) - len(own) == min(burn, mine.index(one[burn, 0]))


def test_what_does_not_fit_a_policy_with_memory_is_refused(tmp_path):
    np.savez(tmp_path / "demos.npz", observations=np.zeros((6, 4)), actions=np.zeros(6, int))
    small = {"env": "CartPole-v1", **GRU, "rounds": 1, "steps_per_round": 20, "episodes": 0}
    with pytest.raises(UserError, match="does not say where they begin"):
        imitate(**small, demos=str(tmp_path / "demos.npz"))
    with pytest.raises(UserError, match=r"^ensemble: 3 is for networks \(mlp\)"):
        imitate(**small, ensemble=3)
    with pytest.raises(UserError, match=r"^memory_limit: .* learns from sequences"):
        imitate(**small, memory_limit=100)
