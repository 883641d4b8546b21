"""Archives that Stable-Baselines3 itself wrote, against the predictions that it made for them."""

from __future__ import annotations

import dataclasses
import pickle
import shutil
import sys
import types
from pathlib import Path

import numpy as np
import pytest
from gymnasium import spaces

from recorded import arrays
from understudy import experts
from understudy.errors import UserError
from understudy.experts.sb3 import archive, layout
from understudy.policies import softmax

FIXTURES = Path(__file__).parents[2] / "fixtures" / "sb3"
PLACES = {".common.vec_env.vec_normalize": "VecNormalize", ".common.running_mean_std": "RunningMeanStd"}
NAMES = sorted(path.stem for path in FIXTURES.glob("*.zip"))


def load(name, **options):
    statistics = FIXTURES / f"{name}.pkl"
    if statistics.exists():
        options.setdefault("vec_normalize", statistics)
    return archive.load(FIXTURES / f"{name}.zip", **options)


def test_there_is_an_archive_of_every_algorithm():
    cards = {name: load(name).card for name in NAMES}
    assert {card["algorithm"] for card in cards.values()} == {"PPO", "A2C", "SAC", "TD3", "DQN"}
    assert {card["architecture"]["network"] for card in cards.values()} == {"mlp", "nature-cnn"}
    for name, card in cards.items():
        assert name.startswith(card["algorithm"].lower())


@pytest.mark.parametrize("name", NAMES)
def test_predictions_are_those_of_sb3(name):
    expert = experts.checked(load(name))
    known = arrays(FIXTURES / f"{name}.npz")
    observations, actions = known["observations"], known["actions"]
    if "probabilities" in known:
        assert expert.kind == "distribution"
        np.testing.assert_allclose(expert.label(observations), known["probabilities"], rtol=0, atol=1e-6)
    if actions.dtype.kind == "f":
        np.testing.assert_allclose(expert.act(observations), actions, rtol=0, atol=1e-6)
    else:
        np.testing.assert_array_equal(expert.act(observations), actions)
    assert len(np.unique(actions, axis=0)) > 1
    assert (expert.pure is None) == (name in ("ppo-cnn", "sac-sde"))
    if expert.pure is not None:  # on the device, where thousands of environments are
        np.testing.assert_allclose(expert.pure(observations), expert.label(observations), atol=1e-5)
    one, _ = expert.predict(observations[3])
    np.testing.assert_array_equal(one, expert.act(observations)[3])


@pytest.mark.parametrize("name", NAMES)
def test_an_answer_does_not_depend_on_its_batch(name):
    expert, observations = load(name), arrays(FIXTURES / f"{name}.npz")["observations"]
    alone = np.concatenate([expert.label(observations[i : i + 1]) for i in range(len(observations))])
    np.testing.assert_array_equal(expert.label(observations), alone)


@pytest.mark.parametrize(
    ("name", "activation"),
    [("ppo-discrete", "relu"), ("ppo-separate", "tanh"), ("sac-box", "tanh"), ("dqn-discrete", "tanh")],
)
def test_another_activation_gives_other_answers(name, activation):
    observations = arrays(FIXTURES / f"{name}.npz")["observations"]
    assert (load(name, activation=activation).label(observations) != load(name).label(observations)).any()


def test_pictures_may_have_their_channels_last():
    expert, observations = load("ppo-cnn"), arrays(FIXTURES / "ppo-cnn.npz")["observations"]
    turned = observations.transpose(0, 2, 3, 1)
    np.testing.assert_array_equal(expert.label(turned), expert.label(observations))
    with pytest.raises(UserError, match=r"shape \(36, 36\); \(3, 36, 36\) is expected"):
        expert.label(observations[:, 0])


def test_the_spaces_are_exact():
    expert = load("sac-box")
    np.testing.assert_array_equal(expert.action_space.low, np.array([-1.0, 0.0], np.float32))
    np.testing.assert_array_equal(expert.action_space.high, np.array([3.0, 0.5], np.float32))
    assert load("ppo-multi").action_space == spaces.MultiDiscrete([2, 3])
    assert load("ppo-multi").observation_space == spaces.Discrete(7)
    assert load("ppo-cnn").observation_space.dtype == np.uint8


def tensors_of(*layers, prefix):
    rng = np.random.default_rng(0)
    found = {}
    for number, (inputs, outputs) in enumerate(layers):
        found[f"{prefix}.{2 * number}.weight"] = rng.standard_normal((outputs, inputs)).astype(np.float32)
        found[f"{prefix}.{2 * number}.bias"] = rng.standard_normal(outputs).astype(np.float32)
    return found


SETTINGS = layout.Settings(spaces.Box(-1, 1, (3,)), spaces.Discrete(2), activation="tanh")


def old_actor_critic():
    return {
        **tensors_of((3, 5), prefix="mlp_extractor.shared_net"),
        **tensors_of((5, 4), prefix="mlp_extractor.policy_net"),
        "action_net.weight": np.ones((2, 4), np.float32) * np.array([[1], [-1]], np.float32),
        "action_net.bias": np.zeros(2, np.float32),
    }


def test_shared_layers_of_old_archives_come_first():
    tensors = old_actor_critic()
    net = layout.build(tensors, SETTINGS, "old")
    x = np.array([0.1, -0.2, 0.3], np.float32)
    h = x
    for name in ("mlp_extractor.shared_net.0", "mlp_extractor.policy_net.0"):
        h = np.tanh(tensors[f"{name}.weight"] @ h + tensors[f"{name}.bias"])
    wanted = softmax((tensors["action_net.weight"] @ h)[None])
    np.testing.assert_allclose(net(x[None]), wanted, atol=1e-6)


def test_sac_that_explores_by_state_and_has_no_hidden_layer_is_not_td3():
    box = spaces.Box(-1, 1, (2,))
    settings = dataclasses.replace(SETTINGS, action_space=box, squash_output=True, clip_mean=0.5)
    tensors = tensors_of((3, 2), prefix="actor.mu")
    x = np.array([[3.0, -2.0, 1.0]], np.float32)
    mean = x @ tensors["actor.mu.0.weight"].T + tensors["actor.mu.0.bias"]
    assert np.abs(mean).max() > 0.5
    as_td3 = layout.build(tensors, settings, "it")(x)
    as_sac = layout.build(tensors | {"actor.log_std": np.zeros((3, 2), np.float32)}, settings, "it")(x)
    np.testing.assert_allclose(as_sac, np.tanh(np.clip(mean, -0.5, 0.5)), atol=1e-6)
    np.testing.assert_allclose(as_td3, np.tanh(mean), atol=1e-6)


@pytest.mark.parametrize(("fractions", "scale"), [(True, 255), (False, 1)])
def test_images_without_convolutions_are_rows(fractions, scale):
    tensors = {
        **tensors_of((2 * 5 * 6, 4), prefix="mlp_extractor.policy_net"),
        "action_net.weight": np.eye(2, 4, dtype=np.float32) / 100,
        "action_net.bias": np.zeros(2, np.float32),
    }
    space = spaces.Box(0, 255, (2, 5, 6), np.uint8)
    settings = dataclasses.replace(SETTINGS, observation_space=space, normalize_images=fractions)
    net = layout.build(tensors, dataclasses.replace(settings, activation="relu"), "it")
    images = np.random.default_rng(0).integers(0, 256, (3, 2, 5, 6), dtype=np.uint8)
    weight, bias = (tensors[f"mlp_extractor.policy_net.0.{part}"] for part in ("weight", "bias"))
    hidden = np.maximum(images.reshape(3, -1) / scale @ weight.T + bias, 0)
    wanted = softmax(hidden @ tensors["action_net.weight"].T)
    np.testing.assert_allclose(net(images), wanted, rtol=1e-4)
    np.testing.assert_array_equal(net(images.transpose(0, 2, 3, 1)), net(images))
    assert len(np.unique(wanted, axis=0)) == 3


def without(tensors, *names):
    return {key: value for key, value in tensors.items() if key not in names}


@pytest.mark.parametrize(
    ("change", "settings", "sentence"),
    [
        (
            lambda t: t,
            {"activation": None},
            "which activation its network has; give activation=, one of relu, tanh",
        ),
        (
            lambda t: {"other.weight": t["action_net.weight"]},
            {},
            "is not a policy of PPO, A2C, SAC, TD3 or DQN",
        ),
        (
            lambda t: {**t, "mlp_extractor.policy_net.1.weight": np.ones(4)},
            {},
            r"mlp_extractor\.policy_net\.1.* is not part of a plain network",
        ),
        (lambda t: {**t, "mlp_extractor.policy_net.2.running_mean": np.ones(4)}, {}, "running_mean"),
        (lambda t: without(t, "mlp_extractor.policy_net.0.bias"), {}, r"policy_net\.0\.bias"),
        (lambda t: {**t, "features_extractor.lstm.weight": np.ones(4)}, {}, "is not NatureCNN"),
        (
            lambda t: t,
            {"observation_space": spaces.Box(-1, 1, (4,))},
            "takes 3 numbers, its observations have 4",
        ),
        (lambda t: t, {"observation_space": spaces.Dict({"a": SETTINGS.observation_space})}, "sees Dict"),
        (lambda t: t, {"action_space": spaces.Discrete(3)}, "gives 2 numbers, its actions Discrete"),
        (lambda t: t, {"action_space": spaces.MultiBinary(2)}, "Box, Discrete and MultiDiscrete can be read"),
    ],
)
def test_layouts_that_cannot_be_read_are_told(change, settings, sentence):
    with pytest.raises(UserError, match=sentence):
        layout.build(change(old_actor_critic()), dataclasses.replace(SETTINGS, **settings), "it")


def test_statistics_are_applied_as_sb3_does():
    normalise = archive.normaliser(FIXTURES / "ppo-normalised.pkl", (5,))
    assert normalise is not None
    large = normalise(np.full(5, 1e9))
    np.testing.assert_array_equal(large, np.full(5, 1.5, np.float32))  # clip_obs of the fixture
    with pytest.raises(UserError, match=r"statistics have the shape \(5,\), the observations \(4,\)"):
        archive.normaliser(FIXTURES / "ppo-normalised.pkl", (4,))
    with pytest.raises(UserError, match="cannot be read"):
        archive.normaliser(FIXTURES / "nothing.pkl", (5,))


def test_epsilon_is_added_to_the_variance_and_not_to_its_root(tmp_path, monkeypatch):
    kinds = {}
    for place in ("", ".common", ".common.vec_env", *PLACES):  # pickle looks for classes by their names
        module = types.ModuleType(f"stable_baselines3{place}")
        monkeypatch.setitem(sys.modules, module.__name__, module)
        if name := PLACES.get(place):
            kinds[name] = type(name, (), {"__module__": module.__name__})
            setattr(module, name, kinds[name])
    moments, made = kinds["RunningMeanStd"](), kinds["VecNormalize"]()
    vars(moments).update(mean=np.zeros(2), var=np.array([0.0, 3.0]), count=1.0)
    vars(made).update(obs_rms=moments, norm_obs=True, epsilon=1.0, clip_obs=10.0)
    (tmp_path / "statistics.pkl").write_bytes(pickle.dumps(made))
    normalise = archive.normaliser(tmp_path / "statistics.pkl", (2,))
    assert normalise.scale.tolist() == [1.0, 2.0]  # √(0 + 1) and √(3 + 1)


def test_a_zip_that_is_something_else(tmp_path):
    shutil.make_archive(str(tmp_path / "other"), "zip", FIXTURES, "ppo-multi.npz")
    with pytest.raises(UserError, match="has no member 'data'"):
        archive.load(tmp_path / "other.zip")
    (tmp_path / "text.zip").write_text("not a zip")
    with pytest.raises(UserError, match=r"'text\.zip': is damaged or no zip archive"):
        archive.load(tmp_path / "text.zip")
    with pytest.raises(UserError, match="there is no archive"):
        archive.load(tmp_path / "nothing.zip")
