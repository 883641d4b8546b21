"""The comparison of golden runs finds what differs, and leaves out what may. The runs are not played here."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def goldens():
    """The modules beside this file, which are scripts and not on the path of other tests."""
    sys.path.insert(0, str(HERE))
    try:
        import compare
        import files
        import golden_runs as runs

        yield compare, files, runs
    finally:
        sys.path.remove(str(HERE))
        for name in ("compare", "files", "golden_runs"):
            sys.modules.pop(name, None)


RECORD = {"round": 1, "whole": {"config.json": [9, 1]}, "grown": {"ledger.csv": [20, 2], "times.csv": [8, 3]}}
HEAD = b"understudy labels 1 <f4 1 <f4 0 00000000\n"
LABEL = b"\1\0\0\0" + b"k" * 16 + np.float32(0.5).tobytes() + b"sum!"


def write(folder: Path) -> Path:
    """A folder with a file of each kind."""
    (folder / "run/samples").mkdir(parents=True)
    (folder / "run/rounds").mkdir()
    (folder / ".root").write_text(f"{folder}\n/goldens of {folder.name}\n/tree/{folder.name}/src\n")
    told = f"at /goldens of {folder.name}/world.py, called by /tree/{folder.name}/src/understudy/a.py"
    (folder / "raised-1.txt").write_text(told)
    run = folder / "run"
    (run / "ledger.csv").write_text("round,loss,regret\n1,0.5,0.25\n2,0.125,nan\n")
    (run / "times.csv").write_text("round,solve\n1,0.1\n2,0.2\n")
    (run / "config.json").write_text(json.dumps({"cores": 2, "settings": {"seed": 0, "widths": [8]}}))
    (run / "summary.json").write_text(
        json.dumps({"seconds": {"solve": 1.0}, "summary": {"run": str(folder)}})
    )
    (run / "samples/weights.bin").write_bytes(np.array([0.5, 0.25]).tobytes())
    (run / "labels.bin").write_bytes(HEAD + LABEL + LABEL.replace(b"k", b"j"))
    (run / "rounds/000001.json").write_text(json.dumps({"crc": "1", "record": RECORD}))
    save_file({"a": np.arange(3.0)}, run / "policy.safetensors", {"run": json.dumps({"rows": 2})})
    return folder


def differences(goldens, one: Path, other: Path) -> list[tuple]:
    _, files, _ = goldens
    return files.compared(files.read(one), files.read(other))


def test_times_paths_and_the_order_of_labels_may_differ(tmp_path, goldens):
    one, other = write(tmp_path / "one"), write(tmp_path / "other")
    run = other / "run"
    (run / "times.csv").write_text("round,solve\n1,0.3\n2,0.4\n")
    (run / "config.json").write_text(json.dumps({"cores": 9, "settings": {"seed": 0, "widths": [8]}}))
    (run / "summary.json").write_text(json.dumps({"seconds": {"solve": 2.0}, "summary": {"run": str(other)}}))
    head, body = (run / "labels.bin").read_bytes().split(b"\n", 1)
    (run / "labels.bin").write_bytes(head + b"\n" + body[len(body) // 2 :] + body[: len(body) // 2])
    record = RECORD | {"grown": {"ledger.csv": [20, 2], "times.csv": [9, 5]}}
    (run / "rounds/000001.json").write_text(json.dumps({"crc": "2", "record": record}))
    (run / "lock").touch()
    assert differences(goldens, one, other) == []


CHANGES = {
    "run/ledger.csv": ("0.125", "0.1250000001", ("row 2, loss", "0.125", "0.1250000001")),
    "run/times.csv": ("2,0.2\n", "", ("row 2", "2", "(nothing)")),
    "run/config.json": ('"seed": 0', '"seed": 1', ("settings, seed", 0, 1)),
    "run/rounds/000001.json": ("[20,", "[21,", ("grown, ledger.csv", 20, 21)),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_number_that_differs_is_named_with_its_place(tmp_path, goldens, name):
    one, other = write(tmp_path / "one"), write(tmp_path / "other")
    old, new, found = CHANGES[name]
    text = (other / name).read_text()
    assert text.count(old) == 1
    (other / name).write_text(text.replace(old, new))
    assert differences(goldens, one, other) == [(name, *found)]


def test_a_bit_of_an_array_a_label_and_a_file_that_is_missing_are_found(tmp_path, goldens):
    one, other = write(tmp_path / "one"), write(tmp_path / "other")
    (other / "run/samples/weights.bin").write_bytes(np.array([0.5, np.nextafter(0.25, 1)]).tobytes())
    save_file({"a": np.array([0.0, -0.0, 2.0])}, other / "run/policy.safetensors", {"run": '{"rows": 3}'})
    data = (other / "run/labels.bin").read_bytes()
    (other / "run/labels.bin").write_bytes(data.replace(b"sum!", b"sum?"))
    (other / "run/ledger.csv").unlink()
    found = {name: rest for name, *rest in differences(goldens, one, other)}
    assert found.pop("run/samples/weights.bin") == ["[1] and 0 more", 0.25, np.nextafter(0.25, 1)]
    assert found.pop("run/policy.safetensors") == ["metadata, run, rows", 2, 3]
    assert found.pop("run/labels.bin")[0] == "records, row 1"
    assert found == {"run/ledger.csv": ["file", "there", "(nothing)"]}


def test_runs_of_a_study_are_named_by_their_place(tmp_path, goldens):
    for name, digest in (("one", "aaaa1111"), ("other", "bbbb2222")):
        (tmp_path / name / "study/runs").mkdir(parents=True)
        (tmp_path / name / "study/study.json").write_text(json.dumps({"runs": [{"id": digest}]}))
        (tmp_path / name / f"study/runs/{digest}.json").write_text('{"seconds": 1, "summary": {"loss": 1}}')
        (tmp_path / name / "study/results.csv").write_text(f"run,loss\n{digest},1\n")
    assert differences(goldens, tmp_path / "one", tmp_path / "other") == []
    shutil.rmtree(tmp_path / "other/study/runs")
    assert [one[0] for one in differences(goldens, tmp_path / "one", tmp_path / "other")] == [
        "study/runs/run-000.json"
    ]


def test_the_runs_have_names_and_enough_of_each_kind(goldens):
    _, _, runs = goldens
    names = [run.name for run in runs.RUNS]
    assert len(names) == len(set(names)) >= 40
    networks = ("mlp", "gru", "nature_cnn", "camera")
    steps = [step for run in runs.RUNS for step in run.steps if isinstance(step, dict)]
    assert sum(step.get("policy") in networks for step in steps) >= 15
    assert sum(bool(run.dies) for run in runs.RUNS) >= 5


def test_a_run_that_did_not_end_as_it_should_is_not_equal(tmp_path, goldens):
    compare, _, runs = goldens
    one = write(tmp_path / "one")
    refused = runs.Run("refused", "x", [{}], fails={1: "learner"})
    killed = runs.Run("killed", "x", [{}], {"step": (3,)})
    (one / "raised-1.txt").unlink()
    assert "and was 0 times" in (compare.wrong(killed, one) or "")
    assert "it was not" in (compare.wrong(refused, one) or "")
    (one / "raised-1.txt").write_text("UserError: learner: unknown\n")
    assert compare.wrong(refused, one) is None
    plain = runs.Run("plain", "x", [{}])
    broken = compare.Played(one, compare.wrong(plain, one), 1.0)
    text, well = compare.report(plain, broken, broken, None)
    assert not well and "BROKEN" in text
