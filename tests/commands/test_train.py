"""`train`, `evaluate`, `play` and `experts list` as typed, on real environments."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from understudy.cli import main
from understudy.options import LearnerOptions, SolverOptions, Train

SMALL = ["--policy", "linear", "--rounds", "2", "--interactions", "60", "--episodes", "1"]
KEYS = [
    "env",
    "learner",
    "seed",
    "rounds",
    "interactions",
    "queries",
    "return_mean",
    "return_std",
    "expert_return_mean",
    "average_loss",
    "regret",
    "seconds_collect",
    "seconds_solve",
    "seconds_evaluate",
    "seconds_total",
    "run",
]


@pytest.fixture(scope="module")
def kept(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "pendulum"
    assert main(["train", "Pendulum-v1", *SMALL, "--out", str(path)]) == 0
    return path


def last_json(text: str) -> dict:
    return json.loads(text.strip().splitlines()[-1])


def test_train_prints_one_last_line_of_json(capsys):
    assert main(["train", "CartPole-v1", *SMALL, "--seed", "3", "--json"]) == 0
    found = last_json(capsys.readouterr().out)
    assert list(found) == KEYS
    assert (found["env"], found["queries"]) == ("CartPole-v1", 120)
    assert (found["seed"], found["rounds"], found["run"]) == (3, 2, None)


def test_a_finished_folder_is_refused_and_with_resume_told_again(kept, capsys):
    typed = ["train", "Pendulum-v1", *SMALL, "--out", str(kept)]
    assert main(typed) == 2
    assert "a finished run" in capsys.readouterr().err
    assert main([*typed, "--resume", "--json"]) == 0
    assert last_json(capsys.readouterr().out)["run"] == str(kept)


def test_evaluate_reads_the_folder(kept, capsys):
    assert main(["evaluate", str(kept), "--episodes", "2", "--json"]) == 0
    first = last_json(capsys.readouterr().out)
    assert main(["evaluate", str(kept), "--episodes", "2", "--json"]) == 0
    assert last_json(capsys.readouterr().out) == first
    assert main(["evaluate", str(kept), "--episodes", "2", "--seed", "9", "--json"]) == 0
    assert last_json(capsys.readouterr().out)["returns"] != first["returns"]


def test_play_makes_a_video_or_says_why_not(kept, tmp_path, capsys):
    """Pendulum draws with pygame, which may not be there; either way there is no traceback."""
    code = main(["play", str(kept), "--video", str(tmp_path / "out.mp4"), "--steps", "12"])
    if code == 0:
        assert (tmp_path / "out.mp4").stat().st_size > 1000
    else:
        assert code == 2 and "cannot be drawn here" in capsys.readouterr().err


def test_mujoco_without_egl_is_a_clear_word(tmp_path):
    """A machine without EGL, played by a library that cannot be found."""
    script = f"""
import os, sys
for name in ("MUJOCO_GL", "PYOPENGL_PLATFORM", "DISPLAY"):
    os.environ.pop(name, None)
import ctypes
real = ctypes.CDLL.__init__
def fail(self, name, *args, **kwargs):
    if name and "EGL" in str(name):
        raise OSError("libEGL.so.1: cannot open shared object file")
    return real(self, name, *args, **kwargs)
ctypes.CDLL.__init__ = fail
import ctypes.util
found = ctypes.util.find_library
ctypes.util.find_library = lambda name: None if name in ("EGL", "OpenGL", "GL") else found(name)
from understudy.cli import main
folder = {str(tmp_path / "run")!r}
typed = "train Hopper-v5 --policy linear --rounds 1 --interactions 30 --episodes 0 --expert-episodes 0"
assert main([*typed.split(), "--out", folder]) == 0
sys.exit(main(["play", folder, "--video", {str(tmp_path / "v.mp4")!r}, "--steps", "3"]))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr and "MuJoCo needs EGL" in done.stderr


def test_experts_list(capsys):
    assert main(["experts", "list", "--json"]) == 0
    found = last_json(capsys.readouterr().out)
    assert {"sac-Hopper-v5", "sac-Walker2d-v5", "ppo-pong", "ppo-breakout"} <= set(found)


# Every option of the command, what it is given, and where in the run's settings that shows.
CHANGES = {
    "learner": (["--learner", "adaftrl"], "name"),
    "eta": (["--learner", "alt_ftrl", "--eta", "0.3"], "learner"),
    "alpha": (["--learner", "adaftrl", "--alpha", "0.3"], "learner"),
    "schedule": (["--learner", "ftrl", "--eta", "0.3", "--schedule", "constant"], "learner"),
    "start": (["--learner", "adaftrl", "--start", "1"], "learner"),
    "radius": (["--learner", "ftl", "--radius", "2"], "learner"),
    "diagonal": (["--learner", "adagrad", "--alpha", "0.1", "--diagonal"], "learner"),
    "policy": (["--policy", "mlp", "--max-iterations", "5"], "policy"),
    "widths": (["--policy", "mlp", "--widths", "8", "8", "--max-iterations", "5"], "policy"),
    "loss": (["--loss", "huber"], "loss"),
    "solver": (["--solver", "lbfgs"], "solver"),
    "learning_rate": (["--policy", "mlp", "--learning-rate", "0.01", "--max-iterations", "5"], "solver"),
    "max_iterations": (["--policy", "mlp", "--max-iterations", "7"], "solver"),
    "batch_size": (["--policy", "mlp", "--max-iterations", "5", "--batch-size", "16"], "solver"),
    "tolerance": (["--loss", "huber", "--tolerance", "1e-3"], "solver"),
    "preset": (["--preset", "paper"], "preset"),
    "rounds": (["--rounds", "3"], "rounds"),
    "interactions": (["--interactions", "33"], "interactions"),
    "envs": (["--envs", "3"], "envs"),
    "budget": (["--budget", "70"], "budget"),
    "beta": (["--beta", "linear:3"], "beta"),
    "first_round": (["--first-round", "agent"], "first_round"),
    "noise": (["--noise", "0.3"], "noise"),
    "standardise": (["--standardise", "no"], "standardise"),
    "squash": (["--policy", "mlp", "--squash", "no", "--max-iterations", "5"], "policy"),
    "env_kwargs": (["--env-kwargs", '{"g": 5.0}'], "env_kwargs"),
    "episodes": (["--episodes", "2"], "episodes"),
    "evaluate_every": (["--evaluate-every", "1"], "evaluate_every"),
    "expert_episodes": (["--expert-episodes", "3"], "expert_episodes"),
    "comparator": (["--comparator", "every"], "comparator"),
    "seed": (["--seed", "5"], "seed"),
    "expert": (["--expert", "tests_expert:act"], "expert"),
}
# Frozen encoders and labels need images and an expert with a distribution: the Atari tests have them.
ELSEWHERE = {"env", "asking", "learning", "solving", "out", "resume", "json", "encoder", "labels"}


def test_every_option_is_in_the_table():
    import dataclasses

    names = {field.name for field in dataclasses.fields(Train)} - ELSEWHERE
    inner = {name for name in CHANGES if name not in names}
    assert names <= set(CHANGES)
    parts = (LearnerOptions, SolverOptions)
    assert inner == {field.name for part in parts for field in dataclasses.fields(part)}


@pytest.mark.parametrize("option", CHANGES)
def test_every_option_reaches_the_run(option, kept, tmp_path, monkeypatch):
    typed, where = CHANGES[option]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tests_expert.py").write_text("def act(observation):\n    return [0.5]\n")
    assert main(["train", "Pendulum-v1", *SMALL, *typed, "--out", "run"]) == 0
    base, found = (
        json.loads((path / "config.json").read_text())["settings"] for path in (kept, tmp_path / "run")
    )
    assert found[where] != base[where]
    assert (tmp_path / "run" / "ledger.csv").read_text() != (
        kept / "ledger.csv"
    ).read_text() or option in QUIET


# These change what is measured or recorded, not what is learnt and written to the ledger.
QUIET = {"expert_episodes"}


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        (["Pendulum-v1", "--learner", "ftll"], "did you mean 'ftl'"),
        (["Pendulum-v1", "--learner", "ftl", "--eta", "1"], "does not take eta"),
        (["Pendulum-v1", "--learner", "bc", "--eta", "1"], "takes no options"),
        (["Pendulum-v1", "--beta", "7"], "number in [0, 1]"),
        (["Pendulum-v1", "--squash", "maybe"], "say yes or no"),
        (["Pendulum-v1", "--env-kwargs", "g=5"], "is not a JSON object"),
        (["Pendulum-v1", "--resume"], "no folder"),
        (["Pendulum-v1", "--activation", "relu"], "is not for"),
        (["Pendulm-v1"], "did you mean 'Pendulum-v1'"),
        (["Pendulum-v1", "--policy", "linear", "--widths", "8"], "has none"),
    ],
)
def test_wrong_options_are_one_sentence(typed, words, capsys):
    assert main(["train", *typed]) == 2
    told = capsys.readouterr().err
    assert words in told and told.count("\n") == 1
