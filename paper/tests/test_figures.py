"""paper/README.md: one row per figure, with a command that is read and the verdicts of the tables."""

from __future__ import annotations

import re
import shlex

import pytest

from paper import __main__ as commands
from paper import figures
from paper.claims import together


def test_the_page_is_what_the_tables_give():
    assert (figures.ROOT / "paper" / "README.md").read_text() == figures.page()


def test_another_verdict_is_another_page(monkeypatch):
    """The negative control."""
    checks = figures.checks
    monkeypatch.setattr(
        figures, "checks", lambda folder: [one._replace(verdict="holds") for one in checks(folder)]
    )
    assert "does not hold:" not in figures.page() != (figures.ROOT / "paper" / "README.md").read_text()


@pytest.mark.parametrize("one", figures.ROWS, ids=lambda one: one.title)
def test_a_command_is_read_and_its_pictures_are_there(one):
    assert commands.parse(shlex.split(one.command)).study == one.command.split()[0]
    assert all((figures.FIGURES / one.folder / f"{name}.png").is_file() for name in one.pictures)


@pytest.mark.parametrize("folder", sorted({one.folder for one in figures.ROWS} - {"theorem"}))
def test_no_claim_is_left_out_or_counted_twice(folder):
    rows = [one for one in figures.ROWS if one.folder == folder]
    for check in figures.checks(folder):
        assert sum(one.about(check) for one in rows) == 1, check


@pytest.mark.parametrize("folder", sorted({one.folder for one in figures.ROWS} - {"theorem"}))
def test_the_verdicts_are_those_that_the_study_wrote(folder):
    table = (figures.FIGURES / folder / "claims.md").read_text().split("\n\n")[0]
    written = re.findall(r"^\| (.*) \| \*\*(.*)\*\* \|", table, re.M)
    assert [row[:2] for row in together(figures.checks(folder))] == written
