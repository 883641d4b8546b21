"""What is handed out, and what is said of it in several places: versions, verbs, Pythons."""

from __future__ import annotations

import re
import tarfile
import tomllib
import zipfile
from pathlib import Path

import package
import understudy

ROOT = Path(__file__).parent.parent
VERBS = set(re.findall(r"^([a-z0-9-]+):.*## ", (ROOT / "Makefile").read_text(), re.M))


def archives(folder: Path, *, wheel: str = "", sdist: str = "", without: str = "") -> list[str]:
    """Two files with what is wanted, perhaps one more or one less, and what is said of them."""
    folder.mkdir(parents=True)
    with zipfile.ZipFile(folder / "understudy-9.9-py3-none-any.whl", "w") as made:
        for name in [f"understudy/{name}" for name in package.NEEDED if name != without]:
            made.writestr(name, "")
        made.writestr(wheel or "understudy-9.9.dist-info/METADATA", "")
    with tarfile.open(folder / "understudy-9.9.tar.gz", "w:gz") as made:
        for name in [*package.TOP, *([sdist] if sdist else [])]:
            made.addfile(tarfile.TarInfo(f"understudy-9.9/{name}"))
    return package.wrong(folder)


def test_what_is_missing_or_too_much_is_named(tmp_path, monkeypatch):
    whl, tar = "understudy-9.9-py3-none-any.whl", "understudy-9.9.tar.gz"
    assert archives(tmp_path / "good") == []
    assert package.wrong(tmp_path) == [f"there are 0 wheels and 0 sdists in {tmp_path}."]
    assert archives(tmp_path / "a", wheel="tests/test_a.py") == [f"{whl} has tests/test_a.py."]
    assert archives(tmp_path / "b", sdist="paper/results.csv") == [f"{tar} has paper."]
    assert archives(tmp_path / "c", without="py.typed") == [f"{whl} lacks py.typed."]
    monkeypatch.setattr(package, "SDIST", 10)
    assert " MB; 0 are the most." in archives(tmp_path / "d")[0]


def test_the_version_is_the_same_everywhere():
    version = understudy.__version__
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    text = (ROOT / "CHANGELOG.md").read_text()
    sections = re.findall(r"^## (.*)$", text, re.M)
    assert sections[0] == "[Unreleased]" and len(set(sections)) == len(sections)
    released = re.fullmatch(rf"\[{re.escape(version)}\] - (\d{{4}}-\d\d-\d\d)", sections[1])
    assert f"\ndate-released: {released[1]}\n" in (ROOT / "CITATION.cff").read_text()
    entries = [line for line in text.splitlines() if line.startswith(("- ", "  "))]
    assert [line for line in entries if not line.startswith("- ") or len(line) > 160] == []


def test_workflows_call_verbs_that_there_are_on_the_pythons_that_are_named():
    flows = "".join(one.read_text() for one in (ROOT / ".github" / "workflows").iterdir())
    called = set(re.findall(r"make ([a-z0-9-]+)", flows))
    called |= set(re.search(r"verb: \[([^]]*)\]", flows)[1].replace(" ", "").split(","))
    assert {"test", "lint", "package"} <= called <= VERBS
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = [one.rpartition(" ")[2] for one in project["classifiers"] if re.search(r":: 3\.\d+$", one)]
    [tested] = re.findall(r"python: \[([^]]*)\]", flows)
    assert tested.replace('"', "").split(", ") == named == ["3.11", "3.12", "3.13", "3.14"]


def test_contributing_has_a_row_for_every_verb():
    told = set(re.findall(r"^\| `make ([a-z0-9-]+)", (ROOT / "CONTRIBUTING.md").read_text(), re.M))
    assert told >= VERBS - {"help", "demo"}, VERBS - told
