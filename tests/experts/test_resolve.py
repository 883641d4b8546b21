"""One door for everything that is or names an expert."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import understudy
from quick import SIZE
from recorded import arrays
from understudy import disk, experts
from understudy.errors import UserError
from understudy.experts import Expert
from understudy.policies import Actions, Observations

FIXTURES = Path(__file__).parents[1] / "fixtures" / "sb3"


def test_every_public_name_is_there_twice():
    for _ in range(2):  # a module of the same name must not take the place of a function once it is imported
        for name in experts.__all__:
            assert callable(getattr(experts, name)), name
    assert set(dir(experts)) == set(experts.__all__)
    with pytest.raises(AttributeError):
        experts.nobody  # noqa: B018


def test_importing_the_room_is_cheap():
    heavy = "('jax', 'gymnasium', 'safetensors')"
    program = f"import sys, understudy.experts; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_nothing_named_means_the_shipped_one():
    env = gymnasium.make("CartPole-v1")
    expert = experts.resolve(
        env_id="CartPole-v1", observation_space=env.observation_space, action_space=env.action_space
    )
    assert expert.name == "lqr-CartPole-v1"
    assert experts.resolve(env_id="FrozenLake-v1", env_kwargs={"is_slippery": False}).label([0]) == [1]
    with pytest.raises(UserError, match="none was named"):
        experts.resolve()


def test_an_expert_stays_itself_but_is_checked():
    out = Expert("out", ask=lambda o, i: np.full((len(o), 1), 9.0))
    with pytest.raises(UserError, match="outside the bounds"):
        experts.resolve(out, action_space=spaces.Box(-1, 1, (1,))).label(np.zeros((1, 2)))
    assert experts.resolve(out) is out


@pytest.mark.parametrize("how", [str, Path, lambda p: str(p).removesuffix(".zip")])
def test_archives_by_path(how):
    expert = experts.resolve(how(FIXTURES / "sac-box.zip"))
    assert expert.card["algorithm"] == "SAC"


def test_an_archive_by_another_name(tmp_path):
    shutil.copy(FIXTURES / "sac-box.zip", tmp_path / "best_model")
    assert experts.resolve(tmp_path / "best_model").card["algorithm"] == "SAC"


def test_archives_take_their_options():
    path = FIXTURES / "ppo-normalised.zip"
    known = arrays(FIXTURES / "ppo-normalised.npz")
    expert = experts.resolve(path, vec_normalize=FIXTURES / "ppo-normalised.pkl", name="n", activation=None)
    np.testing.assert_allclose(expert.label(known["observations"]), known["actions"], atol=1e-6)
    assert expert.name == "n"
    plain = experts.resolve(path)
    assert np.abs(plain.label(known["observations"]) - known["actions"]).max() > 0.01
    other = experts.resolve(path, vec_normalize=FIXTURES / "ppo-normalised.pkl", activation="relu")
    assert np.abs(other.label(known["observations"]) - known["actions"]).max() > 0.01


def test_distributions_of_callables_are_found_and_checked():
    spaces_ = {"observation_space": spaces.Box(-1, 1, (2,)), "action_space": spaces.Discrete(3)}
    soft = experts.resolve(lambda o: [0.2, 0.3, 0.5], **spaces_)
    assert soft.kind == "distribution"
    assert soft.act(np.zeros((1, 2))) == [2]
    with pytest.raises(UserError, match="no distribution"):
        experts.resolve(lambda o: [0.2, 0.3, 0.6], **spaces_).label(np.zeros((1, 2)))


@pytest.mark.parametrize(
    ("spec", "options", "sentence"),
    [
        ("sac-Hoper-v5", {}, "did you mean 'sac-Hopper-v5'"),
        ("nothing.zip", {}, "there is no archive nothing.zip"),
        ("nothing.safetensors", {}, "there is no file nothing.safetensors"),
        (3, {}, "int is not accepted"),
        (Expert, {}, "Expert is a class"),
        (
            "sac-Hopper-v5",
            {"activation": "relu"},
            "'activation' is not for a shipped expert; it uses env_kwargs",
        ),
        (lambda o: o, {"filename": "x"}, "'filename' is not for a callable; it uses batched, kind, name"),
        (Expert("e", ask=lambda o, i: o), {"name": "x"}, "'name' is not for an expert that is already made"),
        (str(FIXTURES / "sac-box.zip"), {"kind": "action"}, "not for an archive"),
        (lambda o: o, {"kind": "soft"}, "kind: 'soft'"),
    ],
)
def test_what_is_none_is_one_sentence(spec, options, sentence):
    with pytest.raises(UserError, match=sentence):
        experts.resolve(spec, **options)


@pytest.fixture
def registered():
    """An expert of one's own under a name, for a while."""
    understudy.register("expert", "steady", lambda *, action=1: lambda observation: action)
    yield "steady"
    del experts.EXPERTS.makers["steady"]


def test_a_registered_expert_is_found_by_its_name_with_its_options(registered):
    assert experts.resolve(registered).label(np.zeros((2, 4))).tolist() == [1, 1]
    expert = experts.resolve(registered, action=0)
    assert expert.label(np.zeros((2, 4))).tolist() == [0, 0] and expert.name == "steady"
    with pytest.raises(UserError, match="'steady' does not take wings; it takes action"):
        experts.resolve(registered, wings=2)
    with pytest.raises(UserError, match="did you mean 'steady'"):
        experts.resolve("stedy")
    made = experts.EXPERTS.makers
    for maker, told in ((lambda: 1 / 0, "'steady' cannot be made"), (lambda: None, "NoneType is not acc")):
        made["steady"] = maker  # one that makes nothing does not stand for the shipped expert
        with pytest.raises(UserError, match=told):
            experts.resolve(registered, env_id="CartPole-v1")
    for taken in ("steady", "sac-Hopper-v5"):
        with pytest.raises(UserError, match="is taken"):
            understudy.register("expert", taken, lambda: None)


def test_a_registered_expert_reaches_a_run(registered):
    how = {"episodes": 0, "expert_episodes": 0, "comparator": "none", **SIZE}  # the program of `test_runs`
    run = understudy.imitate("CartPole-v1", expert=registered, policy="linear", **how)
    assert run.samples("targets").argmax(axis=1).tolist() == [1] * 120


def test_a_file_of_other_origin_needs_a_card(tmp_path):
    """A network of another library, one linear layer, with the names its tensors have there."""
    weight = np.array([[2.0], [0.0], [1.0]], np.float32)
    disk.write_tensors(tmp_path / "net.safetensors", {"0.W": weight})
    seen, acts = spaces.Box(-9, 9, (3,)), spaces.Box(-9, 9, (1,))
    card = {"policy": "linear", "bias": False, "params": {"network": "0.W"}}
    card |= {"observations": Observations.of(seen).config(), "actions": Actions.of(acts).config()}
    (tmp_path / "about.json").write_text(json.dumps(card))
    path, given = str(tmp_path / "net.safetensors"), str(tmp_path / "about.json")
    with pytest.raises(UserError, match=r"nothing says what is in .*--expert-card"):
        experts.resolve(path)
    expert = experts.resolve(path, observation_space=seen, action_space=acts, expert_card=given)
    np.testing.assert_allclose(expert.label(np.array([[1.0, 5.0, 0.5]], np.float32)), [[2.5]])
    with pytest.raises(UserError, match="the option 'expert_card' is not for a callable"):
        experts.resolve(lambda observation: 0, expert_card=given)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"actions": {"kind": "x"}}, "unknown value 'x'"),
        ({"actions": {"low": [50.0]}}, "is damaged"),
        ({"actions": {"dtype": "#inf"}}, "is damaged"),
        ({"actions": {"shape": [2]}}, "does not go from 3 to 2 numbers"),
        ({"observations": {"shape": [10**12]}}, "does not go from 1000000000000 to 1"),
        ({"observations": {"path": [[]]}}, "is damaged"),
        ({"params": {"network": None}}, "does not go from 3 to 1 numbers"),
        (
            {"params": {"network": "0.W", "mean": "0.W", "scale": "0.W"}},
            "its normaliser is not for 3 numbers",
        ),
    ],
)
def test_a_card_that_does_not_fit_is_refused_when_it_is_read(tmp_path, changes, told):
    """And not when a run first asks, in NumPy's words."""
    seen, acts = spaces.Box(-9, 9, (3,)), spaces.Box(-9, 9, (1,))
    disk.write_tensors(tmp_path / "net.safetensors", {"0.W": np.ones((3, 1), np.float32)})
    card = {"format": 1, "policy": "linear", "bias": False, "params": {"network": "0.W"}}
    card |= {"observations": Observations.of(seen).config(), "actions": Actions.of(acts).config()}
    for name, change in changes.items():
        if name == "observations":
            card[name][0] |= change
        else:
            card[name] |= change
    (tmp_path / "net.json").write_text(json.dumps(card))
    with pytest.raises(UserError, match=told):
        experts.resolve(str(tmp_path / "net.safetensors"))


def test_a_person_has_a_door_wherever_an_expert_is_named():
    made = experts.resolve("person:terminal")
    assert made.person is not None and made.name == "person"
    with pytest.raises(UserError, match="page, terminal"):
        experts.resolve("person:window")
    with pytest.raises(UserError, match="expert_sees: a person is shown the whole state"):
        experts.resolve("person", expert_sees="[0:2]")  # it was taken, and did nothing
