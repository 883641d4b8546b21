"""Training without what it needs, and recipes: what can be said without SBX."""

from __future__ import annotations

import sys

import pytest

from understudy import cli, experts
from understudy.errors import MissingExtra, UserError
from understudy.experts.training.recipes import FOR_ENVS, RECIPES, recipe


@pytest.fixture
def without_sbx(monkeypatch):
    monkeypatch.setitem(sys.modules, "sbx", None)  # as if it were not installed


def test_without_sbx_one_sentence_comes_before_anything_else(without_sbx, tmp_path, capsys):
    with pytest.raises(MissingExtra, match=r"pip install 'understudy\[train\]'"):
        experts.train("No-such-env", algo="nonsense", settings={"no": 1}, out=tmp_path / "a")
    assert cli.main(["expert", "train", "--algo", "nonsense", "--env", "No-such-env"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == "error: expert train needs the extra 'train': pip install 'understudy[train]'.\n"
    assert list(tmp_path.iterdir()) == []


def test_a_recipe_is_the_algorithms_then_the_environments_then_the_users():
    assert recipe("sac", "Humanoid-v5")["batch_size"] == 256 != RECIPES["sac"]["batch_size"]
    assert recipe("sac", "Humanoid-v5", {"batch_size": 64})["batch_size"] == 64
    assert recipe("sac", "my_package:Hopper-v7") == recipe("sac", "Hopper-v5")
    assert recipe("sac", "Nobody-v0") == RECIPES["sac"]


def test_what_environments_change_exists_in_the_recipe():
    for (algo, _), changes in FOR_ENVS.items():
        recipe(algo, "x", changes)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("gama", 0.9, "did you mean 'gamma'"),
        ("gamma", 1.5, r"gamma = 1.5 is not a number in \(0, 1\]"),
        ("gamma", float("nan"), "gamma = nan"),
        ("learning_rate", "3e-4", "learning_rate = '3e-4' is not a positive number"),
        ("learning_rate", 0, "not a positive number"),
        ("steps", 2.5, "steps = 2.5 is not a whole number"),
        ("steps", True, "steps = True"),
        ("envs", 0, "not a whole number ≥ 1"),
        ("widths", [64, 0], "not a list of whole numbers"),
        ("widths", [], "not a list of whole numbers"),
    ],
)
def test_wrong_settings_are_told(key, value, said):
    with pytest.raises(UserError, match=said):
        recipe("sac", "Hopper-v5", {key: value})


def test_settings_of_another_algorithm_are_refused():
    recipe("ppo", "CartPole-v1", {"entropy": 0.0, "standardise": False})
    with pytest.raises(UserError, match="settings of sac: unknown value 'entropy'"):
        recipe("sac", "Hopper-v5", {"entropy": 0.0})
    with pytest.raises(UserError, match="algo: unknown value 'sack', did you mean 'sac'"):
        recipe("sack", "Hopper-v5")
