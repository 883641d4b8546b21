"""`understudy doctor`, `understudy completion`, and the wheel in an environment of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from understudy import __version__, cli
from understudy.cli import completion, demo, doctor
from understudy.defaults import plan_of
from understudy.runs import FORMAT

ROOT = Path(__file__).parents[2]


def test_the_doctor_says_what_is_there(capsys, monkeypatch, tmp_path):
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    monkeypatch.setenv("UNDERSTUDY_CACHE", "off")
    assert cli.main(["doctor", "--json"]) == 0
    out = capsys.readouterr().out
    found = json.loads(out.splitlines()[-1])
    assert found["understudy"].startswith(__version__) and found["works"]
    assert "cpu:0" in found["devices"] and "off" in found["cache"]
    assert "numpy" in found["libraries"] and "UNDERSTUDY_CACHE=off" in found["settings"]


def test_a_jax_that_does_not_compute_is_said(monkeypatch, capsys):
    monkeypatch.setattr("jax.devices", lambda: (_ for _ in ()).throw(RuntimeError("no such driver")))
    assert cli.main(["doctor"]) == 1
    assert "no such driver" in capsys.readouterr().out


def test_extras_are_those_of_the_package():
    assert doctor.extras_of("a package that nobody has") == {}
    assert doctor._extra(["numpy"]).startswith("numpy ")
    assert doctor._extra(["numpy", "nobody-has-this"]) == "not installed: nobody-has-this"


def completed(script: str, *words: str) -> list[str]:
    """What bash offers after these words."""
    ask = 'COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _understudy; printf "%s\\n" "${COMPREPLY[@]}"'
    call = ["bash", "-c", f"{script}\n{ask}", "bash", "understudy", *words]
    return subprocess.run(call, capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_completes_commands_and_options(capsys):
    assert cli.main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    assert completed(script, "tr") == ["train"]
    assert completed(script, "check", "l") == ["learner", "loss"]
    assert completed(script, "train", "Hopper-v5", "--env-") == ["--env-kwargs"]
    assert completed(script, "check", "learner", "--et") == ["--eta"]
    assert completed(script, "nobody", "--e") == []


def test_every_option_is_offered_and_other_shells_have_scripts(capsys):
    assert {"export", "doctor"} <= set(completion.words()[""])
    assert "--out" in completion.words()["export"] and "--run" not in completion.words()["export"]
    assert "--env" in completion.words()["play"] and "--env" not in completion.words()["train"]
    for command, place in (("train", "--env"), ("check certificate", "--learner"), ("completion", "--shell")):
        assert place not in completion.words()[command]  # it has no name, though it need not be given
    for shell in completion.SHELLS:
        assert cli.main(["completion", shell]) == 0
        assert "complete" in capsys.readouterr().out
    assert cli.main(["completion", "csh"]) == 2


def test_a_demo_replaces_nothing_but_a_demo(tmp_path, capsys):
    (tmp_path / "file").write_text("mine")
    for taken in (tmp_path, tmp_path / "file"):
        assert cli.main(["demo", "--out", str(taken)]) == 2
        assert capsys.readouterr().err.startswith("error: out: ")
    assert (tmp_path / "file").read_text() == "mine"
    config = tmp_path / "runs" / "default" / "config.json"
    config.parent.mkdir(parents=True)
    told = {
        "format": FORMAT,
        "cores": 1,
        "versions": {},
        "settings": {"env": demo.ENV, "comparator": "last"},
    }

    def refused(*more: str) -> str:
        config.write_text(json.dumps(told))
        assert cli.main(["demo", "--out", str(tmp_path / "runs"), *more]) == 2
        assert config.is_file()
        return capsys.readouterr().err

    assert "is not empty" in refused()  # a run of somebody's own that is called default
    told["settings"]["comparator"] = "none"
    assert "budget: 0" in refused("--budget", "0") and "episodes: 0" in refused("--episodes", "0")
    (tmp_path / "runs" / "mine").mkdir()
    assert "is not empty" in refused()


def test_every_cell_of_the_demo_stands_below_a_heading():
    got = {
        "labels": 1000,
        "return_mean": 3000.0,
        "return_high": 3005.0,
        "return_least": 2990.0,
        "seconds_total": 12.0,
    }
    ledger = {"labels": np.array([900, 1000]), "return_mean": np.array([np.nan, 3000.0])}
    made = demo._table({"dagger": SimpleNamespace(summary=lambda: got, ledger=ledger)}, 3200.0)
    cells = {column.header: str(next(iter(column.cells))) for column in made.columns}
    assert len(cells) == len(made.columns) == 7 and cells["to 90 %"] == "1,000"
    assert cells["return"] == "3000 ± 5" and cells["share"] == "0.94" and cells["seconds"] == "12"


def test_the_three_ways_of_the_demo_have_equal_labels_round_by_round():
    planned = demo.specs(demo.Demo(budget=600))
    labels = {name: [most for _, most in plan_of(spec).rounds] for name, spec in planned.items()}
    assert set(planned) == set(demo.WAYS) and sum(labels["default"]) == 600
    assert labels["cloning"] == labels["dagger"] == labels["default"]
    assert planned["cloning"].name == "bc" and planned["dagger"].ask == "all"
    assert planned["default"].unsaid("ask") and planned["default"].unsaid("first_steps")


@pytest.mark.slow
def test_the_wheel_runs_the_demo_from_an_empty_folder(tmp_path):
    """Built without a network, installed beside what is installed here, and run where no source is."""
    build = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--wheel-dir",
        tmp_path / "dist",
        ROOT,
    ]
    subprocess.run(build, check=True)
    (wheel,) = (tmp_path / "dist").glob("understudy-*.whl")
    assert wheel.stat().st_size < 10e6
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", f"{wheel}[mujoco]"], check=True)
    empty = tmp_path / "empty"
    empty.mkdir()
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    where = "import understudy; print(understudy.__file__)"
    found = subprocess.run(
        [python, "-c", where], cwd=empty, env=env, capture_output=True, text=True, check=True
    )
    assert str(tmp_path / "venv") in found.stdout
    demo = [tmp_path / "venv" / "bin" / "understudy", "demo", "--budget", "60", "--episodes", "1"]
    subprocess.run(demo, cwd=empty, env=env, check=True)
    assert {"demo.png", "cloning", "dagger", "default"} <= {
        one.name for one in (empty / "demo-out").iterdir()
    }
