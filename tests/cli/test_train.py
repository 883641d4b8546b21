"""`train`, `evaluate`, `play` and `experts list` as typed, on real environments."""

from __future__ import annotations

import contextlib
import functools
import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from scipy import stats

from understudy import Record, UserError, cli
from understudy.cli import main
from understudy.cli.train import asked, outcome
from understudy.defaults import plan_of
from understudy.parts import make_parts
from understudy.regret import Ledger
from understudy.report import tables, video
from understudy.runs import World
from understudy.runs.imitate import _warn_spent
from understudy.runs.statement import Statement
from understudy.spec import FIELDS, RunSpec

SMALL = ["--policy", "linear", "--rounds", "3", "--steps-per-round", "40", "--episodes", "1"]
KEYS = [
    "env",
    "learner",
    "seed",
    "rounds",
    "kept_round",
    "steps",
    "labels",
    "expert_evaluation_calls",
    "return_mean",
    "return_std",
    "return_low",
    "return_high",
    "return_least",
    "episodes",
    "expert_return_low",
    "expert_return_high",
    "difference",
    "difference_low",
    "difference_high",
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
    [line] = text.splitlines()  # and nothing else: `--json | jq` works
    return json.loads(line)


def test_the_outcome_has_no_broken_line_at_80_columns(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    names = ("round", "steps", "labels", "unanswered", "asked")
    ledger = Ledger({name: [1_000_000] for name in names} | {"average_loss": [1 / 3]})
    summary = dict.fromkeys(("env", "learner", "regret", "expert_return_mean"), None)
    summary |= {"labels": 10**7, "expert_evaluation_calls": 10**7, "return_mean": 1e4, "return_least": -9e3}
    summary |= {"return_low": -1e4, "return_high": 3e4, "episodes": 1000, "expert_return_mean": 1e4}
    summary |= {"expert_return_low": -1e4, "expert_return_high": 3e4}
    summary |= {"difference": -1e4, "difference_low": -1e4, "difference_high": 3e4}
    run = SimpleNamespace(
        summary=lambda: summary | {"average_loss": 1 / 3, "rounds": 9, "kept_round": 8},
        certificate=None,
        ledger=ledger,
        settings={"expert_episodes": 0, "episodes": 1, "resolved": {"ensemble": 5}},
        seconds=dict.fromkeys(("collect", "solve", "comparator", "evaluate"), 1234.56),
        folder=None,
        expert_evaluation=True,
        policy=SimpleNamespace(policy=SimpleNamespace(members=5)),
        statement=None,
    )
    tables.show(outcome(run))
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if line.strip()]
    names = " ".join(line[0] for line in lines[1:])
    assert names == "labels other unanswered return over of of expert's difference average seconds"
    told = vars(run) | {"expert_evaluation": None}
    tables.show(outcome(SimpleNamespace(**told)))
    assert "expert's return 10000.0 (its card, other episodes" in " ".join(capsys.readouterr().out.split())
    sentence = "not reached with 1,500 labels: 0.93, below 0.95 " * 3
    about = {"until": "agreement:0.98", "reached": False, "labels": 1, "candidates": 1, "exact": True}
    said = Statement(episodes=30, text=sentence.strip(), **about)
    tables.show(outcome(SimpleNamespace(**vars(run) | {"statement": said})))
    out = capsys.readouterr().out
    begun = [line for line in out.splitlines() if line.startswith(" " * 20) or "until" in line]
    assert " ".join(" ".join(begun).split()[1:]) == f"agreement:0.98 {sentence.strip()}"
    assert all(len(line.split()) > 2 for line in begun), "no word stands alone on a line"


def test_train_prints_one_line_of_json(capsys):
    assert main(["train", "CartPole-v1", *SMALL, "--seed", "3", "--json"]) == 0
    found = last_json(capsys.readouterr().out)
    assert list(found) == KEYS
    assert (found["env"], found["labels"]) == ("CartPole-v1", 120)
    assert (found["seed"], found["rounds"], found["run"]) == (3, 3, None)


def test_a_budget_that_is_spent_too_soon_and_a_folder_without_a_run_are_told(tmp_path, capsys):
    with pytest.warns(
        UserWarning, match=r"budget: 40 labels are spent in 1 of 3 rounds.*--steps-per-round 13"
    ):
        spec = RunSpec(env="CartPole-v1", rounds=3, budget=40)
        _warn_spent(spec, plan_of(spec))
    assert main(["train", "--out", str(tmp_path / "none"), "--resume"]) == 2
    assert "resume: there is no folder" in capsys.readouterr().err


def test_a_finished_folder_is_refused_and_with_resume_told_again(kept, capsys):
    typed = ["train", "Pendulum-v1", *SMALL, "--out", str(kept)]
    assert main(typed) == 2
    assert "a finished run" in capsys.readouterr().err
    assert main([*typed, "--resume", "--json"]) == 0
    assert last_json(capsys.readouterr().out)["run"] == str(kept)


def test_runs_are_compared_on_the_same_episodes(kept, tmp_path, capsys):
    other = str(tmp_path / "other")
    assert main(["train", "Pendulum-v1", *SMALL, "--seed", "5", "--out", other]) == 0
    capsys.readouterr()
    assert main(["evaluate", str(kept), other, "--episodes", "3", "--json"]) == 0
    printed = capsys.readouterr()
    first, second = last_json(printed.out)["runs"]
    gaps = np.array(second["returns"]) - first["returns"]
    half = stats.t.ppf(0.975, 2) * gaps.std(ddof=1) / 3**0.5
    ends = [second[name] for name in ("difference", "difference_low", "difference_high")]
    assert np.allclose(ends, [gaps.mean(), gaps.mean() - half, gaps.mean() + half])
    assert f"difference from {kept}, over 3 common episodes" in " ".join(printed.err.split())
    # Of the one episode that it has played.
    assert "difference from the expert's" in printed.err and "1 pair" in printed.err
    assert Record.load(other).evaluation.returns.tolist() == second["returns"][:1]
    assert main(["evaluate"]) == 2 and "name the folder of a run" in capsys.readouterr().err


def test_evaluate_reads_the_folder(kept, capsys):
    assert main(["evaluate", str(kept), "--episodes", "2", "--json"]) == 0
    first = last_json(capsys.readouterr().out)
    assert main(["evaluate", str(kept), "--episodes", "2", "--json"]) == 0
    assert last_json(capsys.readouterr().out) == first
    assert main(["evaluate", str(kept), "--episodes", "2", "--seed", "9", "--json"]) == 0
    assert last_json(capsys.readouterr().out)["returns"] != first["returns"]


def test_a_policy_whose_bytes_have_changed_is_not_played(kept, tmp_path, capsys):
    """What else is damaged does not matter here: a run whose samples are lost still has its policy."""
    folder = Path(shutil.copytree(kept, tmp_path / "run"))
    (folder / "samples" / "weights.bin").unlink()
    assert main(["evaluate", str(folder), "--episodes", "1"]) == 0
    file = folder / "policy.safetensors"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    capsys.readouterr()
    for command in (["evaluate", str(folder)], ["play", str(folder), "--video", str(tmp_path / "p.mp4")]):
        assert main(command) == 2
        assert "policy.safetensors is damaged" in capsys.readouterr().err


def test_episodes_end_where_those_of_the_run_did(tmp_path, capsys):
    folder = str(tmp_path / "run")
    assert main(["train", "CartPole-v1", *SMALL, "--episode-limit", "5", "--out", folder]) == 0
    capsys.readouterr()

    def steps(*more: str) -> float:
        assert main(["evaluate", folder, "--episodes", "1", "--json", *more]) == 0
        return last_json(capsys.readouterr().out)["return_mean"]

    assert steps() == 5 and steps("--episode-limit", "7") == 7
    assert steps("--env", "CartPole-v1") > 7  # of another environment it is not known


def test_play_makes_a_video_or_says_why_not(kept, tmp_path, capsys):
    """Pendulum draws with pygame, which may not be there; either way there is no traceback."""
    code = main(["play", str(kept), "--video", str(tmp_path / "out.mp4"), "--steps", "12"])
    if code == 0:
        assert (tmp_path / "out.mp4").stat().st_size > 1000
    else:
        assert code == 2 and "cannot be drawn here" in capsys.readouterr().err


def test_play_begins_an_episode_with_an_expert_that_remembers(tmp_path, monkeypatch):
    """Asked about the policy's states too, it would forget its own."""
    (tmp_path / "turning.py").write_text(
        "seen = []\n"
        "def act(observation):\n    seen.append(1)\n    return len(seen) % 2\n"
        "act.on_reset = seen.clear\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    played = {}
    monkeypatch.setattr(video, "record", lambda path, make, acts, **how: played.update(acts) or {})
    folder = str(tmp_path / "run")
    typed = ["--expert", "turning:act", "--expert-episodes", "0", "--out", folder]
    assert main(["train", "CartPole-v1", *SMALL, *typed]) == 0
    assert main(["play", folder]) == 0
    assert played["expert"].remembers and not getattr(played["ftl"], "remembers", False)
    assert played["expert"]([0.0] * 4, {}) == 1  # the first of an episode
    assert main(["play", folder, "--seed", "-1"]) == 2


def test_mujoco_without_egl_is_a_clear_word(tmp_path):
    """A machine without EGL, played by a library that cannot be found."""
    folder = str(tmp_path / "run")
    typed = ["train", "Hopper-v5", *SMALL[:-1], "0", "--expert-episodes", "0", "--out", folder]
    assert main(typed) == 0
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
sys.exit(main(["play", {folder!r}, "--video", {str(tmp_path / "v.mp4")!r}, "--steps", "3"]))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr and "MuJoCo needs EGL" in done.stderr


def test_experts_list(capsys):
    assert main(["experts", "list", "--json"]) == 0
    found = last_json(capsys.readouterr().out)
    assert {"sac-Hopper-v5", "sac-Walker2d-v5", "ppo-pong", "ppo-breakout"} <= set(found)


# Every setting of a run as it is typed, with what else it needs; plan, parts or world must differ.
SETTINGS = {
    "expert": ["--expert", "tests_expert:act"],
    "expert_sees": ["--expert", "tests_expert:act", "--expert-sees", "[:2]"],
    "student_sees": ["--student-sees", "[:2]"],
    "learner": ["--learner", "adaftrl"],
    "eta": ["--learner", "alt_ftrl", "--eta", "0.3"],
    "alpha": ["--learner", "adaftrl", "--alpha", "0.3"],
    "schedule": ["--learner", "ftrl", "--eta", "0.3", "--schedule", "constant"],
    "start": ["--learner", "adaftrl", "--start", "4"],
    "radius": ["--radius", "2"],
    "diagonal": ["--learner", "adagrad", "--alpha", "0.1", "--diagonal"],
    "policy": ["--policy", "mlp"],
    "widths": ["--policy", "mlp", "--widths", "8", "8"],
    "loss": ["--loss", "huber"],
    "solver": ["--solver", "lbfgs"],
    "learning_rate": ["--policy", "mlp", "--learning-rate", "0.01"],
    "max_iterations": ["--policy", "mlp", "--max-iterations", "7"],
    "batch_size": ["--policy", "mlp", "--batch-size", "16"],
    "weight_decay": ["--policy", "mlp", "--weight-decay", "0.1"],
    "lasso": ["--policy", "mlp", "--lasso", "0.1"],
    "ensemble": ["--policy", "mlp", "--ensemble", "2"],
    "weigh": ["--policy", "mlp", "--weigh", "labels"],
    "frame_stack": ["--frame-stack", "2"],
    "tolerance": ["--loss", "huber", "--tolerance", "1e-3"],
    "preset": ["--preset", "paper"],
    "rounds": ["--rounds", "5"],
    "steps_per_round": ["--steps-per-round", "33"],
    "budget": ["--budget", "70"],
    "until": ["--until", "0.9"],
    "beta": ["--beta", "linear:3"],
    "first_round": ["--first-round", "agent"],
    "noise": ["--noise", "0.3"],
    "standardise": ["--standardise", "no"],
    "squash": ["--policy", "mlp", "--squash", "no"],
    "env_kwargs": ["--env-kwargs", '{"g": 5.0}'],
    "learner_options": ["--learner", "ftrl", "--learner-options", '{"eta": 2}'],
    "policy_options": ["--policy-options", '{"bias": false}'],
    "loss_options": ["--loss", "huber", "--loss-options", '{"delta": 0.5}'],
    "solver_options": ["--policy", "mlp", "--solver-options", '{"decay": "linear"}'],
    "episodes": ["--episodes", "2"],
    "keep_best": ["--keep-best", "yes"],
    "evaluate_every": ["--evaluate-every", "1"],
    "comparator": ["--comparator", "1,2"],
    "episode_limit": ["--episode-limit", "50"],
    "comparator_steps": ["--comparator-steps", "5"],
    "seed": ["--seed", "5"],
}
# Those that need an archive, a hub or images have their tests with them; the others are read by `imitate`.
ELSEWHERE = {
    "env",
    "stagger",
    "activation",
    "vec_normalize",
    "revision",
    "encoder",
    "label_kind",
    "expert_options",
}
ELSEWHERE |= {"num_envs", "expert_card", "init", "memory", "memory_limit", "expert_episodes"}
ELSEWHERE |= {"ask", "ask_options", "average", "first_steps", "random_share", "moment"}
ELSEWHERE |= {
    "return_limits",
    "demos",
    "experts",
    "route",
    "expert_workers",
    "expert_timeout",
    "expert_retries",
}


def spec_of(*typed: str) -> RunSpec:
    """The spec of a typed line."""
    command, rest = cli._find(["train", *typed])
    assert command is not None
    return asked(cli.parse(command, rest))


@functools.cache  # reading a line takes longer than all else here, and most cases have the same base
def typed_once(*typed: str) -> RunSpec:
    return spec_of("Pendulum-v1", "--policy", "linear", *SMALL[2:], *typed)


@functools.cache
def decided(spec: RunSpec) -> tuple:
    """Everything that the settings of a run decide before it begins."""
    with contextlib.closing(World(spec)) as world:
        made, gravity = make_parts(world.spaces, spec), getattr(world.first.unwrapped, "g", None)
    params = [leaf.tolist() for leaf in jax.tree.leaves(made.params)]
    resolved, seen = made.resolved, (spec.episodes, spec.seed, spec.comparator_steps)
    seen += resolved.plan, resolved.standardise, resolved.ordinary, resolved.noise
    return seen, made.settings["resolved"], gravity, params


def test_every_setting_is_in_the_table():
    assert set(SETTINGS) | ELSEWHERE == set(FIELDS)


@pytest.mark.parametrize("name", SETTINGS)
def test_every_option_reaches_the_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tests_expert.py").write_text("def act(observation):\n    return [0.5]\n")
    option, typed = f"--{name.replace('_', '-')}", SETTINGS[name]
    place = typed.index(option)
    upto = next((i for i in range(place + 1, len(typed)) if typed[i].startswith("--")), len(typed))
    base, changed = typed_once(*typed[:place], *typed[upto:]), typed_once(*typed)
    assert changed != base
    if name not in ("expert_sees", "episode_limit"):  # which no part shows
        assert decided(changed) != decided(base)


def test_what_is_typed_wins_over_the_file(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text('env = "Pendulum-v1"\nlearner = "ftrl"\neta = 1\nrounds = 4\n[env_kwargs]\ng = 5.0\n')
    made = spec_of("--config", str(path), "--rounds", "25", "--eta", "0.5")
    told = {"env": "Pendulum-v1", "learner": "ftrl", "eta": 0.5, "rounds": 25, "env_kwargs": {"g": 5.0}}
    assert made == RunSpec.of(told)
    with pytest.raises(UserError, match="did you mean 'rounds'"):
        path.write_text("rouns = 4")
        spec_of("--config", str(path))


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
        (["Pendulum-v1", "--policy", "linear", "--widths", "8"], "does not take widths"),
        (["Pendulum-v1", "--widths", "wide"], "--widths: 'wide' is not a whole number"),
        (["Pendulum-v1", "--ask", "leverage:0.1"], "linear in their parameters, and 'mlp' is not"),
        (["gymnasium.envs.classic_control:PendulmEnv"], "did you mean 'PendulumEnv'"),
        (["gymnasium.envs.classic_control:PendulumEnv"], "none comes with the package for an environment"),
    ],
)
def test_wrong_options_are_one_sentence(typed, words, capsys):
    assert main(["train", *typed]) == 2
    told = capsys.readouterr().err
    assert words in told and told.count("\n") == 1
