"""Fresh archives of the installed Stable-Baselines3, against what it predicts itself, to 1e-6."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
import stable_baselines3 as sb3
import torch
from gymnasium import spaces
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from recorded import arrays
from sb3.archives import CASES, UNEVEN, VECTOR, Blank, make
from understudy import experts
from understudy.errors import UserError
from understudy.experts.sb3 import archive

FIXTURES = Path(__file__).parents[1] / "fixtures" / "sb3"
SMALL = {"net_arch": [8, 8]}
ACTIVATIONS = ["ReLU", "Tanh", "ELU", "LeakyReLU", "SiLU", "SELU", "Sigmoid"]


def model(algorithm, seen, action, policy="MlpPolicy", env=None, **options):
    torch.manual_seed(0)
    env = env or DummyVecEnv([lambda: Blank(seen, action)])
    options["policy_kwargs"] = dict(options.get("policy_kwargs", {}))  # SB3 writes into it
    if algorithm in (sb3.SAC, sb3.TD3, sb3.DDPG, sb3.DQN):
        options.setdefault("buffer_size", 50)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = algorithm(policy, env, device="cpu", seed=0, **options)
    with torch.no_grad():
        for parameter in made.policy.parameters():
            scale = 0.3 if parameter.ndim == 1 else 0.5 * parameter[0].numel() ** -0.5
            parameter.add_(scale * torch.randn_like(parameter))
    return made


def compare(made, path, seen, samples=16, **options):
    """Saves, loads here, and compares actions (and probabilities, where there are any)."""
    made.save(path / "model")
    expert = experts.checked(archive.load(path / "model.zip", **options))
    seen.seed(1)
    observations = np.stack([seen.sample() for _ in range(samples)])
    expected = made.predict(observations, deterministic=True)[0]
    np.testing.assert_allclose(expert.act(observations), expected, rtol=0, atol=1e-6)
    if expert.kind == "distribution":
        with torch.no_grad():
            tensor, _ = made.policy.obs_to_tensor(observations)
            rows = made.policy.get_distribution(tensor).distribution.probs.numpy()
        np.testing.assert_allclose(expert.label(observations), rows, rtol=0, atol=1e-6)
    return expert


@pytest.mark.parametrize("name", CASES)
def test_fresh_archives_agree(tmp_path, name):
    make(tmp_path, {name: CASES[name]})
    statistics = tmp_path / f"{name}.pkl"
    expert = archive.load(tmp_path / f"{name}.zip", vec_normalize=statistics if statistics.exists() else None)
    known = arrays(tmp_path / f"{name}.npz")
    np.testing.assert_allclose(expert.act(known["observations"]), known["actions"], rtol=0, atol=1e-6)
    if "probabilities" in known:
        np.testing.assert_allclose(
            expert.label(known["observations"]), known["probabilities"], rtol=0, atol=1e-6
        )


@pytest.mark.parametrize("name", CASES)
def test_sb3_agrees_with_the_committed_archives(name):
    """SB3 still reads the fixtures and predicts what is written beside them."""
    algorithm = CASES[name][0]
    made = algorithm.load(
        FIXTURES / f"{name}.zip", device="cpu", custom_objects={"lr_schedule": lambda _: 0.0}
    )
    known = arrays(FIXTURES / f"{name}.npz")
    observations = known["observations"]
    if name.endswith("normalised"):
        env = VecNormalize.load(str(FIXTURES / f"{name}.pkl"), DummyVecEnv([lambda: Blank(VECTOR, UNEVEN)]))
        observations = env.normalize_obs(observations)
    actions = made.predict(observations, deterministic=True)[0]
    np.testing.assert_allclose(actions, known["actions"], rtol=0, atol=1e-6)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations(tmp_path, activation):
    kwargs = {**SMALL, "activation_fn": getattr(torch.nn, activation)}
    compare(model(sb3.PPO, VECTOR, UNEVEN, policy_kwargs=kwargs), tmp_path, VECTOR)


@pytest.mark.parametrize(
    ("algorithm", "action"),
    [
        (sb3.PPO, spaces.Discrete(6)),
        (sb3.A2C, UNEVEN),
        (sb3.DQN, spaces.Discrete(6)),
        (sb3.SAC, UNEVEN),
        (sb3.TD3, UNEVEN),
    ],
)
def test_nature_cnn_at_full_size(tmp_path, algorithm, action):
    image = spaces.Box(0, 255, (4, 84, 84), np.uint8)
    expert = compare(model(algorithm, image, action, "CnnPolicy"), tmp_path, image, samples=4)
    assert expert.card["architecture"]["network"] == "nature-cnn"


def test_pictures_with_channels_last(tmp_path):
    """SB3 turns such pictures around by itself, in training and in predict; so do we."""
    image = spaces.Box(0, 255, (40, 44, 3), np.uint8)
    compare(model(sb3.PPO, image, spaces.Discrete(3), "CnnPolicy"), tmp_path, image, samples=4)


@pytest.mark.parametrize(
    "seen",
    [
        spaces.Discrete(5),
        spaces.MultiDiscrete([3, 4]),
        spaces.MultiBinary(6),
        spaces.Box(-1, 1, (2, 3)),
        spaces.Box(0, 255, (2, 5, 5), np.uint8),
    ],
)
def test_observations_of_every_kind(tmp_path, seen):
    compare(model(sb3.PPO, seen, spaces.Discrete(3), policy_kwargs=SMALL), tmp_path, seen)


def test_trained_models_too(tmp_path):
    """After learning, optimisers have states and the archive holds buffers of episodes."""
    for algorithm, env_id in ((sb3.PPO, "CartPole-v1"), (sb3.SAC, "Pendulum-v1"), (sb3.DQN, "CartPole-v1")):
        options = {"n_steps": 64} if algorithm is sb3.PPO else {"learning_starts": 20, "buffer_size": 200}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = algorithm("MlpPolicy", env_id, policy_kwargs=dict(SMALL), device="cpu", seed=0, **options)
            made.learn(150)
        compare(made, tmp_path, spaces.Box(-1, 1, made.observation_space.shape))


def test_ddpg_is_read_as_td3(tmp_path):
    compare(model(sb3.DDPG, VECTOR, UNEVEN, policy_kwargs=SMALL), tmp_path, VECTOR)


@pytest.mark.parametrize("share", [True, False])
def test_separate_feature_extractors(tmp_path, share):
    image = spaces.Box(0, 255, (3, 36, 36), np.uint8)
    kwargs = {"share_features_extractor": share, "net_arch": {"pi": [8], "vf": [4]}, "normalize_images": True}
    compare(model(sb3.PPO, image, spaces.Discrete(3), "CnnPolicy", policy_kwargs=kwargs), tmp_path, image, 4)


def test_normalised_training_and_statistics(tmp_path):
    env = VecNormalize(DummyVecEnv([lambda: Blank(VECTOR, UNEVEN)]))
    env.reset()
    for _ in range(50):
        env.step(np.array([UNEVEN.sample()]))
    made = model(sb3.PPO, VECTOR, UNEVEN, env=env, policy_kwargs=SMALL)
    made.save(tmp_path / "model")
    env.save(str(tmp_path / "statistics.pkl"))
    observations = np.stack([VECTOR.sample() for _ in range(16)])
    expected = made.predict(env.normalize_obs(observations), deterministic=True)[0]
    expert = experts.resolve(tmp_path / "model.zip", vec_normalize=tmp_path / "statistics.pkl")
    np.testing.assert_allclose(expert.label(observations), expected, rtol=0, atol=1e-6)
    env.norm_obs = False
    env.save(str(tmp_path / "off.pkl"))
    off = experts.resolve(tmp_path / "model.zip", vec_normalize=tmp_path / "off.pkl")
    np.testing.assert_array_equal(
        off.label(observations), experts.resolve(tmp_path / "model.zip").label(observations)
    )


def test_a_model_in_memory_is_an_expert():
    made = model(sb3.SAC, VECTOR, UNEVEN, policy_kwargs=SMALL)
    expert = experts.resolve(made, observation_space=VECTOR, action_space=UNEVEN)
    observations = np.stack([VECTOR.sample() for _ in range(5)])
    np.testing.assert_array_equal(
        expert.label(observations), made.predict(observations, deterministic=True)[0]
    )


class Halved(BaseFeaturesExtractor):
    """An extractor without weights of its own, which no tensor would betray."""

    def __init__(self, space):
        super().__init__(space, features_dim=space.shape[0])

    def forward(self, observations):
        return observations / 2


class OwnPolicy(sb3.common.policies.ActorCriticPolicy):
    pass


def test_what_cannot_be_known_is_asked_or_refused(tmp_path):
    model(sb3.PPO, VECTOR, UNEVEN, policy_kwargs={**SMALL, "features_extractor_class": Halved}).save(
        tmp_path / "a"
    )
    with pytest.raises(UserError, match="uses the extractor"):
        archive.load(tmp_path / "a.zip")
    made = model(sb3.PPO, VECTOR, UNEVEN, policy=OwnPolicy, policy_kwargs=dict(SMALL))
    made.save(tmp_path / "b")
    with pytest.raises(UserError, match="give activation="):
        archive.load(tmp_path / "b.zip")
    compare(made, tmp_path, VECTOR, activation="tanh")
    both = spaces.Dict({"a": VECTOR, "b": spaces.Discrete(3)})
    model(sb3.PPO, both, UNEVEN, "MultiInputPolicy", policy_kwargs=dict(SMALL)).save(tmp_path / "c")
    with pytest.raises(UserError, match="sees Dict observations"):
        archive.load(tmp_path / "c.zip")
