"""The experts in the package: complete cards, the right networks, and as good as the cards say."""

from __future__ import annotations

import json

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from playing import head, play
from understudy import experts
from understudy.errors import UserError
from understudy.experts import networks, shipped
from understudy.experts.networks import find_encoder
from understudy.policies import MLP, Actions, Normaliser, Observations, TrainedPolicy
from understudy.policies.acting import features

NETWORKS = (
    "ppo-breakout",
    "ppo-pong",
    "sac-Ant-v5",
    "sac-HalfCheetah-v5",
    "sac-Hopper-v5",
    "sac-Walker2d-v5",
)


def test_every_name_has_a_complete_card():
    planned = {"dp-FrozenLake-v1", "dp-FrozenLake8x8-v1", "dp-Taxi-v4"}
    assert {*NETWORKS, *shipped.LAWS, *planned} == set(experts.names())
    for name in experts.names():
        card = experts.card(name)
        assert card["name"] == name
        assert card["kind"] in ("action", "distribution")
        for field in ("algorithm", "environments", "settings", "returns", "made"):
            assert card[field], (name, field)
        for result in card["returns"].values():
            assert result["episodes"] >= 8
        assert set(card["returns"]) <= set(card["environments"])


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_load_as_their_cards_say(name):
    expert, card = experts.get(name), experts.card(name)
    assert (expert.name, expert.kind) == (name, card["kind"])
    expert.observation_space.seed(0)
    observations = np.stack([expert.observation_space.sample() for _ in range(3)])
    labels = experts.checked(expert).label(observations)
    assert len(labels) == 3
    weight, _ = head(expert) if expert.kind == "distribution" else (expert.network.params[-1]["weight"], None)
    wide = card["width"] if card["policy"] == "nature_cnn" else card["widths"][-1]
    assert weight.shape == (wide, labels.shape[1])


def test_hopper_scores_what_its_card_says():
    pytest.importorskip("mujoco")
    expert = experts.get("sac-Hopper-v5")
    returns = play(expert, "Hopper-v5", 2)
    assert returns.min() > 3300, returns
    card = experts.card("sac-Hopper-v5")["returns"]["Hopper-v5"]
    assert abs(returns.mean() - card["mean"]) < 6 * card["std"]


@pytest.mark.parametrize(
    ("env", "least"), [("Walker2d-v5", 4900), ("HalfCheetah-v5", 11_200), ("Ant-v5", 4200)]
)
def test_the_others_score_what_their_cards_say(env, least):
    pytest.importorskip("mujoco")
    assert play(experts.for_env(env), env, 1).min() > least


@pytest.mark.filterwarnings("ignore:.*out of date")  # the older version is what is asked for
def test_one_network_serves_both_versions_and_refuses_other_robots():
    pytest.importorskip("mujoco")
    assert experts.for_env("Hopper-v4").name == "sac-Hopper-v5"
    for env_id in ("Hopper-v4", "Hopper-v5"):
        env = gymnasium.make(env_id)
        experts.resolve(
            None, env_id=env_id, observation_space=env.observation_space, action_space=env.action_space
        )
    walker = gymnasium.make("Walker2d-v5")
    with pytest.raises(UserError, match=r"sac-Hopper-v5.*made for observations"):
        experts.resolve("sac-Hopper-v5", observation_space=walker.observation_space)


def test_frames_of_a_game_are_answered_with_distributions():
    expert = experts.get("ppo-pong")
    frames = np.random.default_rng(0).integers(0, 256, (5, 4, 84, 84), dtype=np.uint8)
    rows = experts.checked(expert).label(frames)
    assert rows.shape == (5, 6)
    np.testing.assert_array_equal(np.concatenate([expert.label(frames[i : i + 1]) for i in range(5)]), rows)
    found = find_encoder(expert)
    assert features(found.network, found.params)(frames[0]).shape == (512,)
    assert len(np.unique(rows, axis=0)) == 5


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: experts.get("sac-Hoper-v5"), "did you mean 'sac-Hopper-v5'"),
        (lambda: experts.card("nobody"), "unknown value 'nobody'"),
        (lambda: experts.for_env("Hoper-v5"), "did you mean 'Hopper-v5'"),
        (lambda: experts.get("dp-Taxi-v4", env_id="FrozenLake-v1"), "plans in Taxi-v4, Taxi-v3, not in"),
    ],
)
def test_wrong_names_are_told_the_nearest(make, sentence):
    with pytest.raises(UserError, match=sentence):
        make()


def mine(**changes) -> TrainedPolicy:
    """A policy from three numbers to two actions within bounds."""
    rng = np.random.default_rng(0)
    params = [
        {"weight": rng.standard_normal(shape).astype(np.float32), "bias": np.full(shape[1], i, np.float32)}
        for i, shape in enumerate([(3, 4), (4, 2)])
    ]
    parts = {
        "policy": MLP(widths=(4,), activation="tanh", head="tanh", low=(-2.0, 0.0), high=(2.0, 1.0)),
        "params": params,
        "observations": Observations.of(spaces.Box(-1, 1, (3,))),
        "actions": Actions.of(spaces.Box(np.float32([-2, 0]), np.float32([2, 1]))),
        "normaliser": Normaliser.identity(3),
    }
    return TrainedPolicy(**{**parts, **changes})


def test_saved_and_loaded_is_the_same(tmp_path):
    policy = mine()
    path = experts.save(tmp_path / "folder" / "mine", policy, {"kind": "action", "algorithm": "by hand"})
    loaded = experts.resolve(str(path))
    x = np.random.default_rng(1).standard_normal((4, 3))
    hidden = np.tanh(x @ policy.params[0]["weight"]) @ policy.params[1]["weight"] + 1
    expected = np.array([-2, 0]) + (np.tanh(hidden) + 1) * np.array([2, 0.5])
    np.testing.assert_allclose(loaded.label(x), expected, atol=1e-5)
    assert loaded.card["name"] == loaded.name == "mine" and loaded.card["algorithm"] == "by hand"
    assert loaded.action_space == policy.actions.space() and loaded.observation_space.shape == (3,)
    assert sorted(file.name for file in path.parent.iterdir()) == ["mine.json", "mine.safetensors"]
    np.testing.assert_array_equal(TrainedPolicy.load(path)(x), loaded.label(x))


def test_standardised_observations_are_standardised_and_clipped(tmp_path):
    mean, std = np.array([1.0, 2.0, 3.0], np.float32), np.array([0.5, 1.0, 2.0], np.float32)
    path = experts.save(tmp_path / "n", mine(normaliser=Normaliser(mean, std, 1.0)), {"kind": "action"})
    x = np.array([[1.2, 2.0, 30.0]])
    seen = np.clip((x - mean) / std, -1, 1)
    np.testing.assert_allclose(
        networks.load(path).label(x), networks.from_policy(mine(), {}).label(seen), atol=1e-6
    )


@pytest.mark.parametrize("kind", ["sound", "distribution"])
def test_a_kind_that_does_not_fit_is_not_written(tmp_path, kind):
    with pytest.raises(UserError, match=r"^kind: "):
        experts.save(tmp_path / "mine", mine(), {"kind": kind})
    assert not list(tmp_path.iterdir())


def test_damaged_and_newer_files_are_refused(tmp_path):
    path, card = experts.save(tmp_path / "mine", mine(), {}), {"policy": "mlp"}
    beside = path.with_suffix(".json")
    whole = path.read_bytes()
    path.write_bytes(whole[:-7])
    with pytest.raises(UserError, match="damaged"):
        experts.resolve(path)
    path.write_bytes(whole)
    for text, sentence in (
        (json.dumps({**card, "format": 99}), "newer than"),
        ("{", "not JSON"),
        ("[]", "not the card"),
    ):
        beside.write_text(text)
        with pytest.raises(UserError, match=sentence):
            networks.load(path)
    beside.unlink()
    assert networks.load(path).kind == "action"  # the header says it all
    beside.write_text(json.dumps({**card, "format": 1}))
    path.unlink()
    with pytest.raises(UserError, match="no file"):
        networks.load(path)
