"""The report as a file: what it says, what it holds, and that names of runs stay text."""

from __future__ import annotations

import base64
import dataclasses
import gzip
import hashlib
import json
import os
import re
import shlex
import shutil
import time
from importlib import resources
from pathlib import Path

import numpy as np
import pytest

import invented
from quick import SIZE
from understudy import Record, UserError, disk, imitate, write_report
from understudy.cli import main
from understudy.report import page, sources
from understudy.report.account import account, command, describe_run
from understudy.report.page import Live
from understudy.report.sources import Source, _changes
from understudy.report.sources import read_folder as read

EVIL = "</script><script>window.evil = 1</script><img src=x onerror='window.evil = 1'>"


def inside(text: str, name: str = "data"):
    return json.loads(re.search(rf'id="{name}">(.*?)</script>', text, re.S)[1])


def unpacked(text: str, name: str) -> str:
    return gzip.decompress(base64.b64decode(inside(text, "packed")[name])).decode()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "cart"
    imitate("CartPole-v1", policy="linear", episodes=2, out=folder, **SIZE)
    return folder


def test_a_page_has_the_verdict_and_everything_inside(run, tmp_path):
    file = write_report(run, out=tmp_path / "report.html", seconds=0)
    text = file.read_text()
    found = inside(text)
    assert found["verdicts"][0]["text"] in text.replace("&#x27;", "'")
    assert "FTL" in found["verdicts"][0]["text"] and "CartPole-v1" in found["verdicts"][0]["text"]
    [one] = found["runs"]
    assert one["state"] == "finished" and one["certificate"]["kind"] == "certificate"
    assert one["certificate"]["low"] <= one["certificate"]["regret"] <= one["certificate"]["high"]
    assert one["compared"]["sides"]["own"]["states"] + one["compared"]["sides"]["expert"]["states"] == 120
    # The expert drives the first round and the policy the others; all states are asked about.
    shares = np.array(one["timeline"]["acted"])
    assert one["timeline"]["end"] == 120 and len(shares) == 120
    assert (shares[:40] == 1).all() and (shares[40:] == 0).all() and set(one["timeline"]["asked"]) == {1.0}
    # Nothing is loaded: no address outside the texts, and the policy names the hashes of the two scripts.
    assert not re.search(r'(?:src|href)="(?!data:|#)', text)
    scripts = re.findall(r"<script>(.*?)</script>", text, re.S)
    policy = re.search(r'Content-Security-Policy" content="(.*?)"', text)[1]
    for script in scripts:
        assert base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() in policy
    assert len(scripts) == 2 and "connect-src &#x27;none&#x27;" in policy


def test_the_tables_inside_are_the_ledgers(run, tmp_path):
    text = write_report(run, out=tmp_path / "report.html", seconds=0, moments=0).read_text()
    ledger = (run / "ledger.csv").read_text().splitlines()
    rows = unpacked(text, "rounds.csv").splitlines()
    assert rows[0].split(",")[4:] == ledger[0].split(",")
    assert [row.split(",", 4)[4] for row in rows[1:]] == ledger[1:]
    assert unpacked(text, "runs.csv").count("\n") == 2
    assert json.loads(unpacked(text, "specs.json"))[0]["settings"]["rounds"] == 3


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"budget": 300},  # which sets `keep_best`
        {"keep_best": False, "squash": False, "standardise": False, "learner": "ogd", "eta": 0.5},
        {"comparator": (1, 3), "rounds": 3, "learner": "adagrad", "diagonal": True, "alpha": 2.0},
        {"policy": "mlp", "widths": (8, 8), "env_kwargs": {"max_episode_steps": 50}, "beta": "linear:3"},
    ],
)
def test_the_command_of_a_run_makes_the_same_run(more):
    from understudy.cli import _find, parse
    from understudy.cli.train import asked
    from understudy.spec import RunSpec

    spec = RunSpec(env="CartPole-v1", **more)
    source = Source("run", Path("-run"), "finished", settings=_changes(json.loads(json.dumps(spec.plain()))))
    found, rest = _find(shlex.split(command(source))[1:])
    typed = parse(found, rest)
    assert asked(typed).changes() == spec.changes() and str(typed.out) == "-run"


def test_what_is_said_of_a_long_run_is_of_all_its_rounds():
    """Its columns are at some hundred rounds only, and what is proved is of the round of its regret."""
    columns = {"round": np.arange(1, 1002), "loss": np.arange(1001) % 2.0}
    for name in ("regret", "regret_low", "regret_high", "bound", "norm"):
        columns[name] = np.where(np.arange(1001) == 500, 2.0, np.nan)
    columns["regret"] = np.where(np.arange(1001) == 900, 3.0, columns["regret"])
    run = describe_run(Source("run", Path("run"), "unfinished", columns=columns), 0)
    assert run["rises"] == 500 and len(run["columns"]["loss"]) == 300
    assert np.isnan([run["certificate"][name] for name in ("low", "high", "bound", "norm")]).all()


def test_what_a_script_gave_to_a_run_cannot_be_typed(run, tmp_path):
    one = Record.load(run)

    def own(**settings):
        saved = dataclasses.replace(one, settings=one.settings | settings)
        [found] = account(read(saved.save(tmp_path / str(len(list(tmp_path.iterdir()))))))["runs"]
        return found["own"]

    assert own() == own(expert="my_module:act") == own(expert="org/repo") == own(expert="sac.zip") == []
    assert own(expert="__main__:act") == own(expert="PPO") == own(expert="m:f.<locals>.act") == ["expert"]
    assert own(env="make", learner={"kind": "Learner", "name": "ftrl"}) == ["env", "learner"]


def test_a_run_that_was_saved_is_on_the_page_without_its_rounds_seconds(run, tmp_path):
    saved = Record.load(run).save(tmp_path / "run")
    [one] = inside(write_report(saved, out=tmp_path / "report.html", seconds=0).read_text())["runs"]
    assert one["state"] == "finished" and "samples" in one["missing"]


def test_names_stay_text(tmp_path):
    study = invented.study(tmp_path / "<img src=x onerror=alert(1)>", env=EVIL, errors={0: EVIL})
    text = write_report(study, out=tmp_path / "report.html").read_text()
    assert "<img src=x" not in text and "window.evil = 1</script>" not in text
    assert text.count("<script") == 4 and inside(text)["envs"] == [EVIL]


@pytest.mark.parametrize("study", ['{"for', '{"versions": {}, "runs": []}', '{"versions": {}, "runs": 3}'])
def test_a_study_that_cannot_be_read_leaves_the_others_their_page(tmp_path, study):
    invented.study(tmp_path / "fine")
    odd = os.fsdecode(b"odd \xff")  # a name that is no text
    (tmp_path / odd).mkdir()
    (tmp_path / odd / "study.json").write_text(study)
    text = write_report(tmp_path, out=tmp_path / "report.html", seconds=0).read_text()
    assert inside(text)["counts"] == {"finished": 6, "unreadable": 1} and "odd ?" in unpacked(
        text, "runs.csv"
    )
    assert "study" in inside(text)["troubles"][0]["trouble"]


def test_damaged_failed_and_unfinished_runs_are_on_the_page(run, tmp_path):
    hurt = tmp_path / "hurt"
    for file in (one for one in run.rglob("*") if one.is_file()):
        (hurt / file.relative_to(run)).parent.mkdir(parents=True, exist_ok=True)
        (hurt / file.relative_to(run)).write_bytes(file.read_bytes())
    (hurt / "ledger.csv").write_bytes(b"round\n1\n")
    study = invented.study(tmp_path / "study", errors={0: "round 2: the floor gave way."}, missing=[5])
    found = account([*read(hurt), *read(study)])
    assert found["counts"] == {"unreadable": 1, "failed": 1, "finished": 4, "unfinished": 1}
    assert [one["trouble"] for one in found["troubles"]][1:] == ["round 2: the floor gave way."]
    assert "ledger.csv is damaged" in found["troubles"][0]["trouble"]
    (hurt / "ledger.csv").write_bytes((run / "ledger.csv").read_bytes())
    (hurt / "times.csv").write_bytes(b"round\n1\n")
    [unchecked] = read(hurt, check=False)
    assert unchecked.state == "unreadable" and "is damaged (KeyError" in unchecked.trouble
    # The failed run counts in no number of its group.
    ftl = next(one for one in found["groups"] if one["labels"]["learner"] == "ftl" and one["runs"] == 3)
    assert ftl["states"] == {"failed": 1, "finished": 2} and ftl["curves"]["loss"]["rounds"]["runs"] == 2


def test_what_is_no_run_is_refused(tmp_path, capsys):
    for paths, told in (
        ((), "at least one folder"),
        (("nowhere",), "no folder"),
        ((tmp_path,), "neither a run"),
    ):
        with pytest.raises(UserError, match=told):
            write_report(*paths, out=tmp_path / "x.html")
    assert main(["report", str(tmp_path)]) == 2 and "neither a run" in capsys.readouterr().err


def test_the_command_writes_the_page_and_says_so(tmp_path, capsys):
    study = invented.study(tmp_path / "study")
    out = tmp_path / "page.html"
    assert main(["report", str(study), "-o", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == {
        "file": str(out),
        "bytes": out.stat().st_size,
    }


def test_a_page_of_runs_that_go_on_changes_with_them(tmp_path):
    study = invented.study(tmp_path / "study", missing=[5])
    live = Live([tmp_path], seconds=0)
    try:
        first = live.data()
        assert first["live"] and first["counts"] == {"finished": 5, "unfinished": 1}
        assert live.mark() == first["mark"] and first["going"] == 0, "nobody plays it: it has stopped"
        assert "1 run of 6 is not finished, 1 of them stopped." in first["verdicts"][0]["note"]
        with disk.lock(study):
            assert live.mark() != first["mark"] and live.data()["going"] == 1
            with pytest.raises(UserError, match="another process is writing"):
                disk.lock(study)
        assert live.data()["going"] == 0
        invented.study(study)
        assert live.mark() != first["mark"] and live.data()["counts"] == {"finished": 6}
        assert not page.document(live.data(), {}).count("connect-src &#x27;none")
    finally:
        live.close()


def test_a_page_of_runs_that_go_on_looks_into_as_many_as_a_file_does(run, tmp_path, monkeypatch):
    monkeypatch.setattr(page, "LOOKED_INTO", 1)
    for name in ("a", "b"):
        shutil.copytree(run, tmp_path / name)
    live = Live([tmp_path], seconds=0)
    try:
        live.data()
        until = time.monotonic() + 60
        while "compared" not in (found := live.data()["runs"])[0]:
            assert time.monotonic() < until
            time.sleep(0.05)
        assert "for 1 runs of a page" in found[1]["missing"]
    finally:
        live.close()


def test_the_library_inside_is_the_one_that_was_published():
    assets = resources.files("understudy.report").joinpath("assets")
    listed = re.findall(r"^    ([0-9a-f]{64})  (\S+)$", assets.joinpath("README.md").read_text(), re.M)
    assert [name for _, name in listed] == ["uPlot.iife.min.js", "uPlot.min.css"]
    for crc, name in listed:
        assert hashlib.sha256(assets.joinpath(name).read_bytes()).hexdigest() == crc


def test_a_run_that_was_played_again_is_no_further_evidence(tmp_path):
    once = [
        one
        for path in sources.find_folders([invented.study(tmp_path / "a")])
        for one in sources.read_folder(path)
    ]
    invented.study(tmp_path / "b")
    invented.study(tmp_path / "c", returns=70.0, rounds=7)  # other runs, of the same seeds
    twice = [
        one
        for path in sources.find_folders([tmp_path / "a", tmp_path / "b"])
        for one in sources.read_folder(path)
    ]
    first, again = account(once), account(twice)
    assert [one["counted"] for one in again["groups"]] == [3, 3] and again["groups"][0]["runs"] == 6
    assert [one["return"] for one in again["groups"]] == [one["return"] for one in first["groups"]]
    assert "6 runs are 3" in again["verdicts"][0]["note"] and "runs are" not in first["verdicts"][0]["note"]
    note = "Student's 95 % intervals over 3 runs of 10 episodes each, the expert's over the episodes;"
    assert note in first["verdicts"][0]["note"]
    both = [
        dataclasses.replace(one, settings={**one.settings, "rounds": 6})
        for path in sources.find_folders([tmp_path / "a", tmp_path / "c"])
        for one in sources.read_folder(path)
    ]
    assert [one["counted"] for one in account(both)["groups"]] == [6, 6]
    assert "too few" not in account(both)["verdicts"][0]["note"]
