"""`understudy sweep` as it is typed."""

from __future__ import annotations

import json

import pytest

from understudy.cli import main
from understudy.cli.sweep import Sweep, study_of
from understudy.report.sources import read_folder as read
from understudy.runs import paired

ROOM = ["rooms:Room-v0", "--expert", "rooms:expert", "--policy", "linear"]
SHORT = ["--rounds", "2", "--steps-per-round", "20", "--episodes", "0", "--engine", "inline"]


def test_what_is_typed_becomes_a_study():
    options = Sweep(
        study="CartPole-v1",
        learners=("ftl", "ftrl"),
        grid=("step=0.1:10:log3", "loss=cross-entropy"),
        comparator="none",
        tolerance=1e-6,
        seeds=2,
    )
    study, tuning = study_of(options)
    assert list(study.grid) == ["learner", "step", "loss"] and tuning == {}
    assert study.settings == {"env": "CartPole-v1", "comparator": "none", "tolerance": 1e-6}
    assert len(study.runs) == 2 * (1 + 3)


def test_a_plan_is_printed_and_nothing_is_made(tmp_path, capsys):
    grid = ["--learners", "ftl", "ftrl", "--grid", "step=1e-5:1e5:log11", "--seeds", "3"]
    assert main(["sweep", *ROOM, *SHORT, *grid, "--out", str(tmp_path / "s"), "--plan", "--json"]) == 0
    out, told = capsys.readouterr()
    assert "36" in told and "66 combinations were asked for" in told and "inline" in told
    assert json.loads(out)["plan"]["runs"] == 36
    assert not (tmp_path / "s").exists()


def test_a_sweep_ends_with_its_tables_and_goes_on(tmp_path, capsys):
    line = [
        "sweep",
        *ROOM,
        *SHORT,
        "--learners",
        "ftl",
        "ogd",
        "--grid",
        "step=0.1,1",
        "--out",
        str(tmp_path / "s"),
    ]
    assert main([*line, "--json"]) == 0
    out = capsys.readouterr().out
    assert json.loads(out.splitlines()[-1]) == {"runs": 3, "failed": 0, "out": str(tmp_path / "s")}
    assert (tmp_path / "s" / "results.csv").read_text().count("\n") == 1 + 3 * 2
    assert main([*line, "--seeds", "2"]) == 0
    assert "6, 3 of them finished" in capsys.readouterr().out


def test_cloning_is_not_ranked_by_a_loss_on_the_experts_states(tmp_path, capsys):
    typed = ["sweep", "CartPole-v1", "--policy", "linear", "--rounds", "3", "--steps-per-round", "40"]
    typed += ["--episodes", "3", "--engine", "inline", "--learners", "bc", "ftl"]
    assert main([*typed, "--out", str(tmp_path / "study")]) == 0
    printed = capsys.readouterr().out
    table = printed[printed.index("by average loss") : printed.index("bc stands last")]
    rows = [line.split() for line in table.splitlines() if line.strip()[:3] in ("bc ", "ftl")]
    assert [row[0] for row in rows] == ["ftl", "bc"]
    [expert] = [line.split() for line in table.splitlines() if line.strip().startswith("expert")]
    assert expert[:4] == ["expert", "–", "500.0", "±"] and "average loss" in table
    assert "bc stands last: its loss is on the expert's states, so it is not ranked by it." in printed
    pages = read(tmp_path / "study")  # the episodes are kept, so that a page can pair them
    assert [len(paired(one.evaluation, one.expert_evaluation)[0]) for one in pages] == [3, 3]
    assert (pages[0].evaluation.seeds == pages[1].evaluation.seeds).all()


def test_an_interrupted_sweep_says_how_to_go_on(tmp_path, capsys, monkeypatch):
    def stopped(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("understudy.studies.run", stopped)
    assert main(["sweep", *ROOM, *SHORT, "--out", str(tmp_path / "s")]) == 130
    kept = f"what has ended is kept in {str(tmp_path / 's')!r}; the same command goes on"
    assert capsys.readouterr().err.endswith(f"error: interrupted: {kept}.\n")


def test_a_file_tunes(tmp_path, capsys):
    path = tmp_path / "study.toml"
    path.write_text(
        'env = "rooms:Room-v0"\nexpert = "rooms:expert"\npolicy = "linear"\nrounds = 2\n'
        "steps_per_round = 20\nepisodes = 0\n[grid]\nlearner = ['ogd']\nstep = '0.01:10:log4'\n"
        "[tune]\nover = ['step']\ncandidates = 2\ncoarse = {rounds = 2, steps_per_round = 10}\n"
    )
    assert main(["sweep", str(path), "--engine", "inline", "--out", str(tmp_path / "s")]) == 0
    assert "chosen" in capsys.readouterr().out
    assert (tmp_path / "s" / "choices.csv").is_file()
    assert (tmp_path / "s" / "summary.csv").read_text().count("\n") == 1 + 4 + 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "out: name the folder"),
        (["--grid", "step"], "is not NAME=VALUES"),
        (["--grid", "step=1", "--grid", "step=2"], "there twice"),
        (["--comparator", "never"], "comparator: 'never' is not"),
        (["--candidates", "2"], "they are for tuning"),
        (["--keep", "2"], "keep: 2 is not best or all; --candidates"),
        (["--keep", "none", "--out", "x"], "keep: unknown value 'none'"),
        (["--learners", "ftlr"], "did you mean 'ftl'"),
        (["--engin", "ray"], "did you mean"),
        (["--grid", "step=1,2", "--tune", "etaa", "--learners", "ftrl", "--plan"], "tune: unknown value"),
    ],
)
def test_one_sentence_and_exit_code_two(arguments, said, capsys):
    assert main(["sweep", *ROOM, *arguments]) == 2
    assert said in capsys.readouterr().err
