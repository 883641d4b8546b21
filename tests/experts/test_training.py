"""Training without what it needs, and recipes: what can be said without SBX."""

from __future__ import annotations

import contextlib
import itertools
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from gymnasium import spaces

from understudy import TrainedPolicy, cli, experts
from understudy.errors import MissingExtra, UserError
from understudy.experts.training import FOR_ENVS, RECIPES, recipe
from understudy.policies import Actions, Linear, Normaliser, Observations


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


class Model:
    """What training sees of a model of SBX; it learns nothing."""

    def __init__(self):
        self.num_timesteps, self.env = 0, contextlib.nullcontext()
        self.env.close = lambda: None

    def learn(self, steps, *, callback, reset_num_timesteps):
        for _ in range(steps):
            self.num_timesteps += 1
            if not callback({}, {}):
                return


def test_it_looks_once_at_a_network_and_the_clock_is_not_in_the_weights(monkeypatch, tmp_path):
    from understudy.experts import training

    seen, acts = Observations.of(spaces.Box(-1, 1, (3,))), Actions.of(spaces.Box(-2, 2, (1,)))
    policy = TrainedPolicy(Linear(), np.zeros((3, 1)), seen, acts, Normaliser.identity(3))
    monkeypatch.setattr(training, "require_sbx", lambda: None)
    monkeypatch.setattr(training, "build", lambda *how: Model())
    monkeypatch.setattr(training, "extract", lambda *how: (policy, {"algorithm": "SAC", "kind": "action"}))
    how = {"steps": 20, "evaluate_every": 8, "episodes": 1, "env_kwargs": {"max_episode_steps": 5}}
    done = experts.train("Pendulum-v1", target=-1e9, out=tmp_path / "a", **how)
    assert done.ended == "target" and [one.steps for one in done.curve] == [8]
    done = experts.train("Pendulum-v1", out=tmp_path / "b", **how)
    assert done.ended == "steps" and [one.steps for one in done.curve] == [8, 16, 20]
    clock = itertools.count(0.0, 60.0)
    monkeypatch.setattr(training, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    slow = experts.train("Pendulum-v1", out=tmp_path / "c", **how)
    assert slow.curve[-1].seconds > 60 and slow.path.read_bytes() == done.path.read_bytes()
    assert done.expert.card["returns"]["Pendulum-v1"]["episodes"] == 20
    measured = iter([np.array([np.nan]), np.array([-5.0]), np.array([np.nan]), np.full(20, -5.0)])
    monkeypatch.setattr(
        training, "play_episodes", lambda *who, **how: next(measured)
    )  # nan is behind every number
    odd = experts.train("Pendulum-v1", out=tmp_path / "d", **how)
    assert odd.expert.card["made"].startswith("16 of 20 environment steps")
    kept = {"curve": [[8, 1.0, np.nan, 0.0]], "seconds": 0.0}
    monkeypatch.setattr(training, "read_checkpoint", lambda *what: kept)
    again = training.Looks(Model(), "sac", SimpleNamespace(name="x"), {}, 0, 1, odd.path, {}, "x")
    again.restore()
    assert again.best is not None and again.best.steps == 16
    done.path.with_suffix(".json").unlink()  # the curve is there alone
    again = training.Looks(Model(), "sac", SimpleNamespace(name="x"), {}, 0, 1, done.path, {}, "x")
    with pytest.raises(UserError, match=r"resume: the card beside .* is damaged \(KeyError: 'training'"):
        again.restore()


def test_a_recipe_is_the_algorithms_then_the_environments_then_the_users():
    assert recipe("sac", "Humanoid-v5")["batch_size"] == 256 != RECIPES["sac"]["batch_size"]
    assert recipe("sac", "Humanoid-v5", {"batch_size": 64})["batch_size"] == 64
    assert recipe("sac", "my_package:Hopper-v7") == recipe("sac", "Hopper-v5")
    assert recipe("sac", "Nobody-v0") == RECIPES["sac"]
    assert type(recipe("sac", "Hopper-v5", {"steps": np.int64(5)})["steps"]) is int  # a card is JSON


def test_what_environments_change_exists_in_the_recipe():
    for algo, environments in FOR_ENVS.items():
        for changes in environments.values():
            recipe(algo, "x", changes)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("gama", 0.9, "did you mean 'gamma'"),
        ("gamma", 1.5, r"gamma = 1.5 is not a number in \(0, 1\]"),
        ("gamma", float("nan"), "gamma = nan"),
        ("learning_rate", "3e-4", "learning_rate = '3e-4' is not a positive number"),
        ("learning_rate", 0, "not a positive number"),
        ("learning_rate", float("inf"), "not a positive number"),
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


def test_what_was_measured_is_told_whatever_the_environment_is_called(monkeypatch, tmp_path, capsys):
    """The card goes by the environment's own name, which may be another than the one that was typed."""
    from understudy.experts import training

    measured = {"mean": 12.5, "std": 1.0, "lowest": 11.0, "episodes": 20}
    card = {"algorithm": "SAC", "returns": {"Pendulum-v1": measured}}
    looks = [training.Evaluated(1000, 2.0, 12.5, 1.0)]
    done = SimpleNamespace(
        expert=SimpleNamespace(card=card), curve=looks, ended="steps", path=tmp_path / "a.safetensors"
    )
    monkeypatch.setattr(training, "require_sbx", lambda: None)
    monkeypatch.setattr(training, "train", lambda env, **how: done)
    assert cli.main(["expert", "train", "--env", "Pendulum"]) == 0
    printed = capsys.readouterr().out
    assert "12.5 (95 % interval 12.0 to 13.0)" in printed and "20 episodes, the least 11.0" in printed
