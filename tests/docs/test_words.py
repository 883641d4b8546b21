"""Plain prose: phrases that make a reader guess are not in the sources or the documentation."""

from __future__ import annotations

import re

import pytest

from docs.prose import ROOT

# "cannot be told" is the name of a verdict.
RIDDLES = re.compile(
    r"(?<!cannot )(?<!can not )\b(?:is|are|was|were|be|being) told\b|\bgiven away\b|\b(?:has|have) no say\b"
    r"|\bthose of us\b|\bin (?:its|their) stead\b|\bat the wheel\b"
)
FILES = [
    *sorted((ROOT / "src").rglob("*.py")),
    *(path for path in sorted((ROOT / "paper").rglob("*.py")) if "tests" not in path.parts),
    *sorted((ROOT / "docs").rglob("*.md")),
    *(ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")),
]


def riddles(text: str) -> list[str]:
    return RIDDLES.findall(re.sub(r"\s+(?:#\s)?", " ", text))


def test_no_file_has_riddles():
    found = {path.relative_to(ROOT).as_posix(): riddles(path.read_text()) for path in FILES}
    assert {name: words for name, words in found.items() if words} == {}


def test_no_line_stands_for_one_to_come():
    pages = [path for path in FILES if path.suffix == ".md"]
    held = re.compile(r"^(?:TODO|FIXME|XXX|[A-Z]{4,})\b\W*$", re.M)
    assert {path.name: found for path in pages if (found := held.findall(path.read_text()))} == {}


@pytest.mark.parametrize("text", ["The run is\n    told so.", "given away", "of those of us who"])
def test_a_riddle_is_found(text):
    assert riddles(text)


def test_the_verdict_is_none():
    assert riddles("It cannot\n    be told.") == []
