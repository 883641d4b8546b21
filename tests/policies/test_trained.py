"""A trained policy: one path for every observation, predict, and a round trip through the disk."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from gymnasium import spaces

from understudy import TrainedPolicy, UserError
from understudy.policies import MLP, POLICIES, Actions, Linear, Normaliser, Observations, Policy, Tabular
from understudy.policies.acting import ACTIVATIONS, forward

BOX = spaces.Box(-np.inf, np.inf, (5,))


def made(policy, action_space, space=BOX, seed=0, dtype=np.float32) -> TrainedPolicy:
    seen, acts = Observations.of(space, tabular=policy.name == "tabular"), Actions.of(action_space)
    params = jax.tree.map(np.asarray, policy.init(jax.random.key(seed), seen.width, acts.outputs, dtype))
    rng = np.random.default_rng(seed)
    params = jax.tree.map(lambda leaf: rng.standard_normal(leaf.shape).astype(leaf.dtype) / 4, params)
    mean, scale = rng.standard_normal(seen.width), rng.uniform(0.5, 2, seen.width)
    shift = Normaliser.identity(seen.width) if policy.name == "tabular" else Normaliser(mean, scale)
    return TrainedPolicy(policy, params, seen, acts, shift)


CONTINUOUS = spaces.Box(np.array([-1, -3], np.float32), np.array([1, 5], np.float32))
SQUASHED = MLP(widths=(32, 32), head="tanh", low=(-1.0, -3.0), high=(1.0, 5.0))
CASES = [
    (Linear(), CONTINUOUS),
    (Linear(bias=True), spaces.Discrete(3, start=-1)),
    (SQUASHED, CONTINUOUS),
    (MLP(widths=(16,)), spaces.MultiDiscrete([2, 3])),
    *((MLP(widths=(16, 8), activation=name), CONTINUOUS) for name in ACTIVATIONS),
]


@pytest.mark.parametrize(("policy", "action_space"), CASES)
def test_an_action_does_not_depend_on_the_batch_and_agrees_with_the_learner(policy, action_space):
    actor = made(policy, action_space)
    batch = np.random.default_rng(1).standard_normal((257, 5)).astype(np.float32)
    alone = [actor(row) for row in batch]
    together = actor(batch)
    assert np.stack([np.asarray(one) for one in alone]).tobytes() == together.tobytes()
    rows = np.stack([actor.outputs(row) for row in batch])
    learner = np.asarray(policy.apply(actor.params, actor.normaliser(batch)))
    assert np.abs(rows - learner).max() < 2e-5
    assert all(action_space.contains(one) for one in alone)


def test_the_squashed_head_reaches_the_bounds_and_not_beyond():
    actor = made(SQUASHED, CONTINUOUS)
    outputs = np.stack(
        [actor.outputs(row) for row in 1e4 * np.random.default_rng(0).standard_normal((200, 5))]
    )
    assert (outputs >= CONTINUOUS.low).all() and (outputs <= CONTINUOUS.high).all()
    assert (outputs == CONTINUOUS.low).any(axis=0).all() and (outputs == CONTINUOUS.high).any(axis=0).all()


@pytest.mark.parametrize(("policy", "action_space"), CASES[:4])
def test_save_and_load_change_no_bit(policy, action_space, tmp_path):
    actor = made(policy, action_space)
    actor.save(tmp_path / "policy", note="kept")
    back = TrainedPolicy.load(tmp_path)
    batch = np.random.default_rng(2).standard_normal((50, 5)).astype(np.float32)
    assert actor(batch).tobytes() == back(batch).tobytes()
    assert sorted(file.suffix for file in tmp_path.iterdir()) == [".json", ".safetensors"]


def test_tabular_policies_act_by_state():
    actor = made(Tabular(states=6), spaces.Discrete(4), spaces.Discrete(6))
    assert [int(actor(state)) for state in range(6)] == actor.params.argmax(axis=1).tolist()
    assert actor.predict(np.arange(6))[0].tolist() == actor.params.argmax(axis=1).tolist()


def test_a_policy_of_the_users_own_acts_through_one_compiled_row(compilations, tmp_path, monkeypatch):
    class Odd(Policy):
        name = "odd"

        def init(self, key, features, outputs, dtype=None):
            assert np.asarray(jax.random.key_data(key)).size  # NumPy's numbers of it
            return np.float32(2.0)

        def apply(self, params, inputs):
            return inputs * params

    row = np.array([1.0, 3.0], np.float32)
    assert forward(Odd(), np.float32(2.0))(row).tolist() == [2.0, 6.0]
    before = len(compilations)
    assert forward(Odd(), np.float32(3.0))(row).tolist() == [3.0, 9.0]  # the next round's parameters
    assert 0 < before == len(compilations)
    monkeypatch.setitem(POLICIES.makers, "odd", Odd)
    seen, acts = Observations.of(spaces.Box(-9, 9, (2,))), Actions.of(CONTINUOUS)
    TrainedPolicy(Odd(), np.float32(2.0), seen, acts, Normaliser.identity(2)).save(tmp_path / "odd")
    assert TrainedPolicy.load(tmp_path / "odd").params.shape == (), "a number comes back as one"


def test_predict_has_the_usual_signature():
    actor = made(Linear(), CONTINUOUS)
    action, state = actor.predict(np.zeros(5, np.float32), state="mine", deterministic=True)
    assert action.shape == (2,) and state == "mine"
    assert actor.predict(np.zeros((3, 5), np.float32))[0].shape == (3, 2)
    assert actor.predict(np.zeros((0, 5), np.float32))[0].shape == (0, 2)


def test_wrong_observations_are_told():
    actor = made(Linear(), CONTINUOUS)
    with pytest.raises(UserError, match="has 4 numbers"):
        actor(np.zeros(4))
    with pytest.raises(UserError, match="not finite"):
        actor(np.full(5, np.nan))
    with pytest.raises(UserError, match="None is no batch"):
        actor(None)
    with pytest.raises(UserError, match=r"damaged|no file"):
        TrainedPolicy.load("/nowhere/policy")


@pytest.mark.parametrize("policy", [Tabular(states=3), Linear()])
@pytest.mark.parametrize("state", [4, 8, np.array([5, 4])])
def test_a_choice_that_there_is_not_is_told(policy, state):
    actor = made(policy, CONTINUOUS, spaces.Discrete(3, start=5))
    with pytest.raises(UserError, match=r"observation: \d is none of the choices 5 to 7"):
        actor(state)
    assert actor(7).shape == (2,)


def test_standardising_is_fixed_and_leaves_choices_alone():
    space = spaces.Dict(a=spaces.Box(-9, 9, (2,)), b=spaces.Discrete(2))
    seen = Observations.of(space)
    rng = np.random.default_rng(0)
    rows = np.stack(
        [seen.row({"a": rng.normal([3.0, 0.0], [2.0, 0.0]), "b": int(rng.integers(2))}) for _ in range(500)]
    )
    found = Normaliser.fit(rows, seen.measured)
    assert np.allclose(found.mean[:1], rows[:, 0].mean(), rtol=1e-5) and np.allclose(
        found.scale[0], rows[:, 0].std(), rtol=1e-5
    )
    assert found.scale[1] == 1 and found.mean[2:].tolist() == [0, 0] and found.scale[2:].tolist() == [1, 1]


@pytest.mark.parametrize(
    "space", [spaces.Text(5), spaces.Graph(spaces.Box(0, 1), None), spaces.Sequence(spaces.Discrete(3))]
)
def test_spaces_that_are_not_supported_are_told(space):
    with pytest.raises(UserError, match="not supported; accepted: Box, Discrete"):
        Observations.of(space)
    with pytest.raises(UserError, match="not supported; accepted: Box of floats, Discrete"):
        Actions.of(space)
