"""The table of mutants: every line that it makes wrong is there, once, and so are the tests that judge it."""

from __future__ import annotations

import pytest

from mutants.run import Mutant, stale, table


def test_no_entry_is_stale():
    mutants = table()
    assert not stale(mutants)
    rooms = {one.file.partition("/")[0].removesuffix(".py") for one in mutants}
    assert len(mutants) >= 80
    assert rooms >= {"losses", "objectives", "learners", "solvers", "regret", "online", "asking", "runs"}


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("no such line", "", "stands 0 times"),
        ("import", "", "times in the file"),
        ("LEVEL = 0.95", "LEVEL = (", "was never closed"),
    ],
)
def test_an_entry_that_fits_no_more_is_told(old, new, told):
    assert told in stale([Mutant("intervals.py", old, new, "why", ("tests/test_intervals.py",))])[0]
    assert "no tests/x.py" in stale([Mutant("intervals.py", "LEVEL = 0.95", "L = 1", "", ("tests/x.py",))])[0]
