"""Tables: names and numbers are not broken at 80 columns, and small returns keep their digits."""

from __future__ import annotations

import pytest

from understudy import cli
from understudy.report import tables


@pytest.mark.parametrize(
    ("mean", "std", "shown"),
    [
        (0.7449, 0.43, "0.745 ± 0.430"),
        (3448.27, 5.81, "3448.3 ± 5.8"),
        (-0.5, None, "-0.500"),
        (0.0, 20.0, "0.0 ± 20.0"),
    ],
)
def test_a_return_has_the_digits_it_needs(mean, std, shown):
    assert tables.returned(mean, std) == shown


def test_names_are_whole_at_80_columns(capsys, monkeypatch):
    from understudy import experts

    monkeypatch.setenv("COLUMNS", "80")
    assert cli.main(["experts", "list"]) == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in experts.names())
    assert max(map(len, printed.splitlines())) <= 80


def test_environments_that_are_not_here_are_not_listed(capsys):
    import gymnasium

    cli.main(["experts", "list"])
    printed = capsys.readouterr().out
    assert ("Taxi-v3" in printed) == ("Taxi-v3" in gymnasium.registry) and "Taxi-v4" in printed
