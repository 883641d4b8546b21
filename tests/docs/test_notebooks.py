"""The notebooks run, their cells one after another, and show numbers and a picture."""

from __future__ import annotations

import json

import pytest

from docs.notebooks import NOTEBOOKS, run


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_says_what_it_shows(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    notebook = json.loads(path.read_text())
    outputs = run(notebook)
    kept = [cell["outputs"] for cell in notebook["cells"] if cell["cell_type"] == "code"]
    kinds = [[one["output_type"] for one in each] for each in outputs]
    assert kinds == [[one["output_type"] for one in each] for each in kept], "python tests/docs/notebooks.py"
    said = "".join("".join(one.get("text", ())) for each in outputs for one in each)
    assert "regret" in said and "return" in said
    # What is printed is as long as what is kept: numbers may differ in their last digits elsewhere.
    assert said.count("\n") == sum(len(one.get("text", ())) for each in kept for one in each)
    first = notebook["cells"][0]
    assert first["cell_type"] == "markdown" and "After this notebook you can" in "".join(first["source"])


def test_there_are_two_and_one_has_a_picture():
    text = [path.read_text() for path in NOTEBOOKS]
    assert len(text) == 2 and sum('"image/png"' in each for each in text) == 1
    assert all(len(each) < 120_000 and "/work" not in each and "/tmp" not in each for each in text)
