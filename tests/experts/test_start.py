"""A student that starts where an expert is agrees with it at once; without that it does not."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from gymnasium import spaces

from playing import head
from quick import SIZE
from understudy import TrainedPolicy, UserError, experts, imitate
from understudy.experts.networks import require_encoder, start
from understudy.policies import (
    GRU,
    MLP,
    Actions,
    Encoded,
    Linear,
    NatureCNN,
    Normaliser,
    Observations,
    Recalled,
)

SMALL = SIZE | {"episodes": 0, "expert_episodes": 0, "comparator": "none"}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    imitate("CartPole-v1", policy="linear", out=root / "cartpole", **SMALL)
    imitate("Pendulum-v1", widths=(8,), max_iterations=20, out=root / "pendulum", **SMALL)
    return root


@pytest.mark.parametrize(
    ("env", "source", "options"),
    [
        ("Pendulum-v1", "pendulum", {"widths": (8,), "max_iterations": 1}),
        ("CartPole-v1", "cartpole", {"policy": "linear"}),
    ],
)
def test_a_student_of_a_run_that_starts_from_it_has_nothing_to_learn(folders, env, source, options):
    path = str(folders / source)
    first = {
        init: imitate(env, expert=path, init=init, **options, **SMALL).ledger["gradient_norm"][0]
        for init in (path, None)
    }
    assert first[path] < 1e-5 < 1e-2 < first[None]


def test_a_shipped_network_is_a_start():
    pytest.importorskip("mujoco")
    options = {"max_iterations": 1, "first_round": "agent", **SMALL}
    run = imitate("Hopper-v5", init="sac-Hopper-v5", **options)
    assert run.ledger["loss"][0] < 1e-10  # the rounding of two forms of one function
    assert run.settings["resolved"]["standardise"] is False
    assert imitate("Hopper-v5", **options).ledger["loss"][0] > 0.1


def test_the_object_is_a_start_too(folders):
    policy = TrainedPolicy.load(folders / "cartpole")
    options = {"policy": "linear", "expert": str(folders / "cartpole"), **SMALL}
    assert imitate("CartPole-v1", init=policy, **options).ledger["gradient_norm"][0] < 1e-5


def test_a_policy_with_memory_is_a_start_as_an_object_and_as_a_file(tmp_path):
    space = {"observation_space": spaces.Box(-1, 1, (2,)), "action_space": spaces.Box(-1, 1, (1,))}
    seen = Recalled(Observations.of(space["observation_space"]), 2, mark=True)
    policy, acts = GRU(width=3, widths=()), Actions.of(space["action_space"])
    own, fresh = (policy.init(jax.random.key(i), seen.width, 1) for i in range(2))
    made = TrainedPolicy(policy, own, seen, acts, Normaliser.identity(seen.width))
    made.save(tmp_path / "policy")
    for source in (made, str(tmp_path / "policy.safetensors")):
        params, _ = start(source, policy, fresh, seen, 1, **space)
        assert np.array_equal(params["state"]["weight"], own["state"]["weight"])


def test_an_image_network_is_a_start_for_pixels_and_for_its_features():
    expert = experts.get("ppo-pong")
    both = {"observation_space": expert.observation_space, "action_space": expert.action_space}
    seen = Observations.of(expert.observation_space)
    policy = NatureCNN(method="matmul")
    fresh = policy.init(jax.random.key(0), seen.width, 6)
    params, normaliser = start("ppo-pong", policy, fresh, seen, 6, **both)
    weight, _ = head(expert)
    np.testing.assert_array_equal(params["head"]["weight"], weight)
    assert normaliser.nothing
    with pytest.raises(UserError, match=r"'ppo-pong' is the policy nature_cnn and the student is linear"):
        encoded = Encoded(seen, require_encoder(expert))
        start("ppo-pong", Linear(), np.zeros((512, 6)), encoded, 6, **both)


@pytest.mark.parametrize(
    ("env", "init", "options", "sentence"),
    [
        ("CartPole-v1", "lqr-CartPole-v1", {}, "init: 'lqr-CartPole-v1' is no network"),
        (
            "Pendulum-v1",
            "pendulum",
            {},
            r"'pendulum' has the widths \[8\], the student \[256, 256\]; give",
        ),
        ("Pendulum-v1", "pendulum", {"policy": "linear"}, "is the policy mlp and the student is linear"),
        (
            "Pendulum-v1",
            "pendulum",
            {"policy": MLP(widths=(8,), activation="tanh")},
            "the activation relu, the student tanh",
        ),
        ("Pendulum-v1", "pendulum", {"widths": (8,), "squash": False}, "the head tanh, the student identity"),
        ("CartPole-v1", "pendulum", {}, "expert 'pendulum': was made for observations"),
        ("Pendulum-v1", "pendulum", {"widths": (8,), "standardise": True}, "^standardise: with init"),
        ("Pendulum-v1", "no-such-thing", {}, "^init: unknown value 'no-such-thing'"),
    ],
)
def test_what_cannot_be_a_start_is_one_sentence(folders, env, init, options, sentence):
    path = str(folders / init) if (folders / init).is_dir() else init
    with pytest.raises(UserError, match=sentence):
        imitate(env, init=path, **options, **SMALL)
