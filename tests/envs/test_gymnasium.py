"""Environments by name: modules of the current folder, functions that make one, episodes without an end."""

from __future__ import annotations

import sys
import warnings

import gymnasium as gym
import pytest

from understudy import TrainedPolicy, UserError, cli, evaluate, imitate
from understudy.envs.gymnasium import maker
from understudy.registry import load_named

WORLD = """
import gymnasium as gym
import numpy as np

class Tiny(gym.Env):
    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}
    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self, length=5, render_mode=None):
        self.length = length

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return self._seen(), {}

    def step(self, action):
        self.count += 1
        return self._seen(), 1.0, self.count == self.length, False, {}

    def _seen(self):
        return self.np_random.uniform(-1, 1, 2).astype(np.float32)

gym.register("Tiny-v0", entry_point=Tiny)

def make(length=5):
    return Tiny(length)

def act(observation):
    return observation[:1]
"""
SMALL = ["--policy", "linear", "--rounds", "2", "--steps-per-round", "20", "--episodes", "2"]


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with the module `tiny_world` in it, which is not on the path, as for an installed command."""
    (tmp_path / "tiny_world.py").write_text(WORLD)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [one for one in sys.path if one])
    yield tmp_path
    sys.modules.pop("tiny_world", None)
    gym.registry.pop("Tiny-v0", None)


@pytest.mark.parametrize("name", ["tiny_world:Tiny-v0", "tiny_world:make"])
def test_a_module_of_the_current_folder_is_found(here, name, capsys):
    line = [
        "train",
        name,
        "--expert",
        "tiny_world:act",
        *SMALL,
        "--env-kwargs",
        '{"length": 7}',
        "--out",
        "run",
    ]
    assert cli.main(line) == 0
    assert cli.main(["evaluate", "run", "--episodes", "2"]) == 0
    assert "7.000 (each time)" in capsys.readouterr().out
    assert cli.main(["evaluate", "run", "--episodes", "2", "--env-kwargs", '{"length": 4}']) == 0
    assert "4.000 (each time)" in capsys.readouterr().out


def test_a_missing_module_is_one_sentence(here, capsys):
    assert cli.main(["train", "tiny_wrld:Tiny-v0"]) == 2
    assert "env: no module 'tiny_wrld' is installed or in" in capsys.readouterr().err


def test_an_environment_made_in_python_is_asked_for(here, capsys):
    Tiny, act = load_named("env", "tiny_world:Tiny"), load_named("env", "tiny_world:act")

    run = imitate(
        lambda: Tiny(6), expert=act, policy="linear", rounds=1, steps_per_round=20, episodes=0, out="run"
    )
    assert cli.main(["evaluate", "run"]) == 2
    assert (
        "made by a function in Python; name that function, as in --env module:make."
        in capsys.readouterr().err
    )
    assert cli.main(["play", "run"]) == 2
    assert cli.main(["evaluate", "run", "--env", "tiny_world:make", "--episodes", "3"]) == 0
    for player in (
        run,
        run.policy,
        TrainedPolicy.load("run"),
        lambda seen: seen[:1],
        lambda seen, info: seen[:1],
    ):
        found = evaluate(player, lambda: Tiny(6), episodes=2)
        assert found.lengths.tolist() == [6, 6] and found.mean == 6.0
    with pytest.raises(UserError, match="policy: int is no policy"):
        evaluate(3, Tiny)


def test_what_a_function_raises_comes_with_its_line(here):
    def broken():
        raise RuntimeError("no motor")

    with pytest.raises(
        UserError, match=r"cannot be made \(RuntimeError: no motor, at .*test_gymnasium.py:\d+ in broken"
    ):
        maker(broken)()


def test_an_extra_is_named_only_where_it_helps():
    def missing(what):
        raise gym.error.DependencyNotInstalled(f'{what} is not installed, run `pip install "gymnasium[x]"`')

    with pytest.raises(UserError, match=r"pip install 'understudy\[mujoco\]'"):
        maker(missing, {"what": "MuJoCo"})()
    with pytest.raises(UserError, match=r"cannot be made .*Box2D is not installed, run `pip install \"gymn"):
        maker(missing, {"what": "Box2D"})()


def test_episodes_without_an_end_are_noticed_early_and_the_remedy_is_taken_on_resume(here, monkeypatch):
    Tiny, act = load_named("env", "tiny_world:Tiny"), load_named("env", "tiny_world:act")

    monkeypatch.setattr("understudy.runs.evaluate.STEP_LIMIT", 60)
    monkeypatch.setattr("understudy.runs.imitate.LONG", 20)
    how = {"expert": act, "policy": "linear", "rounds": 2, "steps_per_round": 20, "episodes": 2, "out": "run"}

    def endless():
        return Tiny(length=-1)

    seen, failed = [], pytest.raises(UserError, match=r"lasted 60 steps .* --episode-limit 1000")
    with pytest.warns(UserWarning, match="no episode of .* ended in the first 20 steps") as told, failed:
        imitate(endless, **how, progress=lambda number, row: seen.append((number, len(told))))
    assert len(told) == 1 and seen == [(1, 0)]  # in round 1, and the last round has no evaluation
    with pytest.warns(UserWarning, match=r"20 steps, and episode_limit \(9\) ends .* one start"):
        imitate(endless, **how | {"out": None}, episode_limit=9)
    done = imitate(endless, **how, resume=True, episode_limit=9)
    assert done.evaluation.lengths.tolist() == [9, 9] and done.ledger.rounds == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        imitate(lambda: Tiny(length=9), **how | {"out": None})  # those that end are not warned of
        imitate(lambda: Tiny(length=9), **how | {"out": None}, episode_limit=8)
        imitate("CartPole-v1", **how | {"expert": "lqr-CartPole-v1", "out": None}, episode_limit=8)  # nor 500
        monkeypatch.setattr("understudy.runs.imitate.LONG", 41)  # nor those of which too little was seen
        imitate(lambda: Tiny(length=45), **how | {"out": None})
