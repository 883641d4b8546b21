"""A finished run is an expert: it answers with the policy's own bits, and another run learns from it."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

from quick import SIZE
from understudy import TrainedPolicy, UserError, experts, imitate
from understudy.policies import Actions, Linear, Normaliser, Observations, Recalled

SMALL = SIZE | {"episodes": 0, "expert_episodes": 0, "comparator": "none"}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A run on choices and one on continuous actions, each with a normaliser."""
    root = tmp_path_factory.mktemp("runs")
    imitate("CartPole-v1", policy="linear", out=root / "cartpole", **SMALL)
    imitate("Pendulum-v1", widths=(8,), out=root / "pendulum", max_iterations=20, **SMALL)
    return root


def observations(expert, n=5):
    return np.random.default_rng(0).normal(size=(n, *expert.observation_space.shape)).astype(np.float32)


def test_choices_are_answered_with_the_softmax_of_the_policys_outputs(folders):
    expert, policy = (
        experts.resolve(str(folders / "cartpole")),
        TrainedPolicy.load(folders / "cartpole"),
    )
    seen = observations(expert)
    logits = np.stack([policy.outputs(row) for row in seen])
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    np.testing.assert_allclose(expert.label(seen), weights / weights.sum(axis=1, keepdims=True), rtol=1e-6)
    np.testing.assert_array_equal(expert.act(seen), policy(seen))
    assert expert.kind == "distribution" and expert.card["environments"] == ["CartPole-v1"]
    assert expert.name == "cartpole" and "lqr-CartPole-v1 by ftl" in expert.card["algorithm"]


def test_actions_have_the_bits_of_the_policy(folders):
    expert, policy = experts.resolve(folders / "pendulum"), TrainedPolicy.load(folders / "pendulum")
    assert not policy.normaliser.nothing
    seen = observations(expert)
    assert expert.label(seen).tobytes() == policy(seen).tobytes()
    assert np.concatenate([expert.label(row[None]) for row in seen]).tobytes() == policy(seen).tobytes()
    assert expert.action_space.high == [2.0] and expert.kind == "action"


def test_another_run_learns_from_it(folders):
    run = imitate("CartPole-v1", policy="linear", expert=str(folders / "cartpole"), **SMALL)
    assert run.ledger.rounds == 3
    with pytest.raises(UserError, match=r"expert 'pendulum': was made for observations"):
        imitate("CartPole-v1", policy="linear", expert=str(folders / "pendulum"), **SMALL)
    with pytest.raises(UserError, match="the option 'activation' is not for a policy's file or a run"):
        experts.resolve(str(folders / "pendulum"), activation="tanh")


def test_a_policy_that_remembers_is_one_expert_as_an_object_and_as_a_file(tmp_path):
    seen = Recalled(Observations.of(spaces.Box(-1, 1, (2,))), 3)
    params = np.random.default_rng(0).normal(size=(6, 1)).astype(np.float32)
    acts = Actions.of(spaces.Box(-9, 9, (1,)))
    policy = TrainedPolicy(Linear(), params, seen, acts, Normaliser.identity(6))
    policy.save(tmp_path / "policy")
    episode = np.random.default_rng(1).uniform(-1, 1, (4, 2)).astype(np.float32)
    wanted, state = [], None
    for one in episode:
        action, state = policy.predict(one, state)
        wanted.append(action)
    for source in (policy, tmp_path / "policy.safetensors"):
        expert = experts.resolve(source)
        for _ in range(2):
            expert.on_reset()
            assert (
                np.concatenate([expert.label(one[None]) for one in episode]).tolist()
                == np.array(wanted).tolist()
            )


def test_a_damaged_run_is_refused(folders, tmp_path):
    import shutil

    shutil.copytree(folders / "cartpole", tmp_path / "run")
    (tmp_path / "run" / "config.json").write_text("{}")
    with pytest.raises(UserError, match=r"expert: .*config\.json is damaged"):
        experts.resolve(tmp_path / "run")
