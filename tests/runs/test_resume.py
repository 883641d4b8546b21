"""A run that is killed at any moment and resumed ends as the one that was left alone, byte for byte."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from quick import SIZE
from runs.pieces import content, resumed, stopping
from understudy import UserError, imitate
from understudy.runs import FORMAT
from understudy.runs import merge_settings as settings_of

SMALL = SIZE | {"num_envs": 2, "episodes": 2, "expert_episodes": 0, "seed": 3}
MLP = {"solver_options": {"max_iterations": 20}, "comparator": "none"}

# What a process runs: it says when a round has counted, so that kills can be aimed at whatever follows.
SCRIPT = """
import sys, time, understudy
env, policy, learner, out = sys.argv[1:5]
options = {"solver_options": {"max_iterations": 20}, "comparator": "none"} if policy == "mlp" else {}

def progress(t, row):
    print(t, flush=True)
    time.sleep(0.05)

understudy.imitate(
    env, policy=policy, learner=learner, rounds=3, steps_per_round=40, num_envs=2, episodes=2,
    expert_episodes=0, seed=3, out=out, resume=True, progress=progress, **options,
)
print("done", flush=True)
"""


def start(env: str, policy: str, learner: str, out: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", SCRIPT, env, policy, learner, str(out)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ)
    )


def killed(env: str, policy: str, learner: str, out: Path, kills: int, rng: random.Random) -> int:
    """Runs with resume, killing after random delays `kills` times; the number of kills that hit a living
    process.
    """
    hits = 0
    for _ in range(kills):
        process = start(env, policy, learner, out)
        # Importing takes most of a process's life, so the delay counts from its first sign of life where
        # there is one.
        if rng.random() < 0.7:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(rng.random() * 0.15)
        else:
            time.sleep(rng.random() * 4)
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            hits += 1
        process.communicate()
    return hits


def ended(env: str, policy: str, learner: str, out: Path) -> None:
    process = start(env, policy, learner, out)
    output, error = process.communicate(timeout=300)
    assert process.returncode == 0, error
    assert output.endswith("done\n")


CASES = [("CartPole-v1", "linear", "ftl"), ("Hopper-v5", "mlp", "ftl"), ("Hopper-v5", "mlp", "adaftrl")]


def test_a_few_kills_change_nothing(tmp_path):
    env, policy, learner = "Pendulum-v1", "linear", "ftl"  # of which the program is small
    imitate(env, policy=policy, learner=learner, out=tmp_path / "alone", **SMALL)
    assert killed(env, policy, learner, tmp_path / "killed", 2, random.Random(1)) > 0
    imitate(env, policy=policy, learner=learner, out=tmp_path / "killed", resume=True, **SMALL)
    one, other = content(tmp_path / "alone"), content(tmp_path / "killed")
    assert [name for name in {*one, *other} if one.get(name) != other.get(name)] == []


@pytest.mark.slow
@pytest.mark.parametrize("kills", [50])
def test_fifty_kills_change_nothing(tmp_path, kills):
    rng = random.Random(0)
    for number, (env, policy, learner) in enumerate(CASES):
        alone = start(env, policy, learner, tmp_path / f"alone{number}")
        _, error = alone.communicate(timeout=300)
        assert alone.returncode == 0, error
    hits, runs = 0, 0
    while hits < kills:
        number = runs % len(CASES)
        folder = tmp_path / f"killed{runs}"
        hits += killed(*CASES[number], folder, 4, rng)
        ended(*CASES[number], folder)
        assert content(tmp_path / f"alone{number}") == content(folder)
        runs += 1


@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
def test_interrupted_in_every_round_it_ends_the_same(tmp_path, env):
    """Every round is the last of one process here: stop after each, in this process, and go on from the
    folder. CartPole keeps its samples, Pendulum (squared loss) their factor and its rounding.
    """

    go = partial(imitate, env, policy="linear", learner="adaftrl", **SMALL)
    whole, last = resumed(go, tmp_path, *range(1, SMALL["rounds"] + 1))
    assert last.summary()["return_mean"] == whole.summary()["return_mean"]
    again = go(out=tmp_path / "pieces", resume=True, progress=stopping())
    assert again.summary() == last.summary()
    assert again.samples("inputs").tobytes() == whole.samples("inputs").tobytes()


def test_the_state_in_the_middle_of_an_episode_matters(tmp_path):
    """Negative control: a resume that began a new episode instead of rebuilding the old one would be
    noticed.
    """
    from understudy.runs.collect import HostCollector

    go = partial(imitate, "CartPole-v1", policy="linear", **SMALL)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HostCollector, "restore", lambda self, snapshot: 0)
        with pytest.raises(AssertionError, match="ledger"):
            resumed(go, tmp_path, 2)


def test_an_environment_that_does_not_replay_is_refused(tmp_path):
    import gymnasium as gym

    class Forgetful(gym.Wrapper):
        """Its first step depends on how many of it have been made: not a function of seed and actions."""

        made = 0

        def __init__(self, env):
            super().__init__(env)
            Forgetful.made += 1
            self.mine = Forgetful.made

        def step(self, action):
            observation, *rest = self.env.step(action)
            return observation + 1e-6 * self.mine, *rest

    def make():
        return Forgetful(gym.make("CartPole-v1"))

    def stop(t: int, row: dict) -> None:
        raise KeyboardInterrupt

    options = {
        "expert": lambda observation: int(observation[2] > 0),
        "policy": "linear",
        "out": tmp_path / "run",
    }
    with pytest.raises(KeyboardInterrupt):
        imitate(make, **options, **SMALL, progress=stop)
    with pytest.raises(UserError, match="does not replay"):
        imitate(make, **options, **SMALL, resume=True)


def test_a_setting_of_none_is_that_of_the_run(tmp_path):
    """It counts as not given: the run would have 25 rounds."""
    kept = {"env": "CartPole-v1", "rounds": 3, "encoder": "auto"}
    written = {"format": FORMAT, "cores": 1, "versions": {}, "settings": kept}
    (tmp_path / "config.json").write_text(json.dumps(written))
    found = settings_of(tmp_path, {"env": None, "rounds": None, "encoder": None, "episodes": 2})
    assert found == {"env": "CartPole-v1", "rounds": 3, "encoder": None, "episodes": 2}
