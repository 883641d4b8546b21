"""``python -m paper``: what its studies refuse, print and write."""

from __future__ import annotations

import dataclasses
import functools
import json
import subprocess
import sys
from pathlib import Path

import pytest

from paper import __main__ as paper
from paper import aggregation, atari, mujoco, queries, toy
from understudy import cli

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", ["toy", "gridworld", "questions"])
@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--seeds", "1"], "seeds: 1 is too few"),
        (["--seed", "-1"], "seed: -1 is not a whole number"),
        (["--sedes", "3"], "did you mean '--seeds'"),
    ],
)
def test_bad_input_is_refused_before_any_work(name, options, sentence, capsys):
    assert paper.main([name, *options]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("error: ") and err.count("\n") == 1 and sentence in err


def test_understudy_says_where_the_studies_are(capsys):
    assert cli.main(["paper", "toy", "--quick"]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and "`python -m paper toy --quick` in the repository" in err
    assert cli.main(["--help"]) == 0
    assert "\n  paper " not in capsys.readouterr().out


@pytest.mark.parametrize("study", ["", "toy", "queries"])
def test_the_help_waits_for_nothing_heavy(study):
    asked = [sys.executable, "-X", "importtime", "-m", "paper", *study.split(), "--help"]
    done = subprocess.run(asked, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0 and "usage: python -m paper" in done.stdout
    heavy = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "tempfile" in heavy and not heavy & {"jax", "numpy", "matplotlib"}


def test_a_folder_that_holds_something_is_refused(tmp_path, capsys):
    (tmp_path / "notes.txt").write_text("mine")
    assert paper.main(["toy", "--out", str(tmp_path)]) == 2
    assert "not empty" in capsys.readouterr().err


@pytest.mark.slow
def test_a_small_study_from_the_command_line(monkeypatch, tmp_path, capsys):
    small = functools.partial(toy.study, losses=("squared",))
    monkeypatch.setattr(toy, "study", lambda **given: small(**(given | {"rounds": 12})))
    folder = tmp_path / "toy"
    assert paper.main(["toy", "--quick", "--seeds", "2", "--out", str(folder), "--json"]) == 0
    out, err = capsys.readouterr()
    verdicts = json.loads(out.splitlines()[-1])
    assert set(verdicts.values()) <= {"holds", "does not hold", "cannot be told"}
    assert "by vmap" in err and "tuning" in err
    assert {"regret.png", "regret.svg", "rounds.csv.gz", "claims.md"} <= {
        path.name for path in folder.iterdir()
    }


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--size", "12345"], "size: unknown value '12345'"),
        (["--size", "1000", "--series", "window:2"], "series: unknown value 'window:2'"),
        (["--first-seed", "-1"], "first_seed: -1 is not a whole number"),
        (["--tables", "new"], "tables: the tables of aggregation are not enough"),
        # The folder would hold something when the runs have been played.
        (["--keep", "new", "--out", "new"], "out: it must not be the folder of --keep"),
        (["--keep", "new/runs", "--out", "new"], "out: it must not be the folder of --keep"),
    ],
)
def test_sizes_series_and_seeds_that_a_study_does_not_have_are_refused(options, sentence, capsys):
    assert paper.main(["aggregation", "--scale", "small", *options]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith(f"error: {sentence}")


@pytest.mark.parametrize(
    ("options", "study", "played"),
    [
        ("mujoco --part linear network linear", mujoco, ["linear", "network"]),
        ("aggregation --size 1000 1000", aggregation, [1000]),
        ("queries --env Hopper-v5 Hopper-v5", queries, ["Hopper-v5"]),
        ("atari", atari, ["pong", "breakout", "pong"]),
        ("atari --game breakout", atari, ["breakout", "breakout"]),
    ],
)
def test_what_is_asked_for_twice_is_played_once(options, study, played):
    """Runs that are there twice would make intervals narrower."""
    found = paper.plays(paper.parse(options.split()), study, study.SCALES["small"])
    assert [play.args[0] for play in found] == played


def test_a_series_that_the_scale_lacks_can_be_asked_for():
    options = paper.parse(["aggregation", "--series", "window:3"])
    assert paper.plays(options, aggregation, aggregation.SCALES["small"])[0].args[1].series == ("window:3",)


def test_a_study_whose_runs_all_failed_says_why(monkeypatch, tmp_path, capsys):
    few = {"envs": ("CartPole-v1",), "series": ("all",), "settings": {"expert": "drift:back"}}
    scale = dataclasses.replace(queries.SCALES["small"], budget=40, **few)
    monkeypatch.setitem(queries.SCALES, "small", scale)
    folder = tmp_path / "out"
    asked = ["--engine", "inline", "--env", "CartPole-v1", "--budget", "40", "--out", str(folder)]
    assert paper.main(["queries", *asked]) == 1
    assert "2, the first: " in capsys.readouterr().out and (folder / "claims.md").is_file()
