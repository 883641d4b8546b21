"""What version 1.0 wrote is read: by the library, by the commands, and to go on from."""

from __future__ import annotations

import json
import shutil
import warnings

import pytest

import understudy
from understudy.cli import main
from understudy.report.card import write_card
from written import FOLDER, RUN, SEEN, spaces, write

KNOWN = json.loads((FOLDER / "known.json").read_text())


@pytest.fixture
def copy(tmp_path):
    return shutil.copytree(FOLDER, tmp_path / "old")


def test_a_run_is_what_it_was(copy):
    assert KNOWN["version"].startswith("1.0")
    run = understudy.load(copy / "run")
    assert run.evaluation.returns.tolist() == KNOWN["returns"] and run.settings["eta"] == RUN["eta"]
    assert [int(one) for one in run.policy(SEEN.astype("float32"))] == KNOWN["actions"]
    old, new = (one.splitlines() for one in (KNOWN["ledger"], run.ledger.to_csv()))
    columns = old[0].split(",")
    places = [new[0].split(",").index(name) for name in columns]  # a later ledger may have more columns
    assert [[line.split(",")[place] for place in places] for line in new] == [line.split(",") for line in old]
    assert run.certificate.holds and len(run.samples("targets")) == 90


def test_policies_students_and_studies_are_read(copy):
    policy = understudy.load(copy / "policy")
    assert [int(one) for one in policy(SEEN.astype("float32"))] == KNOWN["actions"]
    student = understudy.Understudy.load(copy / "student", *spaces())
    assert student.ledger["loss"].tolist() == [float(KNOWN["student"].splitlines()[1].split(",")[LOSS])]
    results = understudy.load(copy / "study")
    assert len(results) == 2 and not results.failed
    assert results.results[0].summary["average_loss"] == KNOWN["average_loss"]


LOSS = KNOWN["student"].splitlines()[0].split(",").index("loss")


def test_the_commands_read_it(copy, tmp_path, capsys):
    assert main(["evaluate", str(copy / "run"), "--episodes", "1", "--json"]) == 0
    assert main(["report", str(copy), "-o", str(tmp_path / "r.html"), "--seconds", "0"]) == 0
    page = (tmp_path / "r.html").read_text()
    data = json.loads(page.partition('id="data">')[2].partition("</script>")[0])
    assert data["counts"] == {"finished": 3, "unfinished": 1} and not data["troubles"]
    assert main(["export", str(copy / "run"), "--to", "numpy", "--out", str(tmp_path / "p.npz")]) == 0
    assert "lqr-CartPole-v1" in write_card(copy / "run").read_text()
    assert capsys.readouterr().err.count("error") == 0


def test_a_run_that_was_cut_off_goes_on_and_a_finished_one_is_extended(copy):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # other versions, other cores: its last bits may differ
        done = understudy.imitate(out=copy / "cut", resume="other-machine")
        more = understudy.imitate(out=copy / "run", resume="other-machine", rounds=4)
    assert done.ledger["labels"].tolist() == [30, 60, 90] and more.ledger.rounds == 4
    assert more.ledger["loss"][:3].tolist() == pytest.approx(done.ledger["loss"].tolist(), rel=1e-4)


def test_its_samples_are_demonstrations_for_another_run(copy):
    run = understudy.imitate("CartPole-v1", demos=str(copy / "run"), policy="linear", rounds=0, episodes=0)
    assert run.demos == 90


def test_what_is_written_now_has_the_same_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "new")
    mine, theirs = (
        {str(one.relative_to(root)) for one in root.rglob("*") if one.is_file() and one.name != "lock"}
        for root in (tmp_path / "new", FOLDER)
    )
    assert mine >= theirs, "a file that 1.0 wrote is missing: is this a new format?"
    sizes = sum(one.stat().st_size for one in FOLDER.rglob("*") if one.is_file())
    assert sizes < 150_000
    for one in FOLDER.rglob("*.json"):
        assert "/tmp" not in one.read_text() and "/home" not in one.read_text()
