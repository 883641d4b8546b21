"""Tables: names and numbers are not broken at 80 columns, and small returns keep their digits."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from understudy import cli
from understudy.report import tables


@pytest.mark.parametrize(
    ("ends", "shown"),
    [
        ((0.7449, 0.7, 0.79), "0.745 (95 % interval 0.700 to 0.790)"),
        ((3448.27, 3442.46, 3454.08), "3448.3 (95 % interval 3442.5 to 3454.1)"),
        ((-0.5, -20.0, 19.0), "-0.5 (95 % interval -20.0 to 19.0)"),
        ((-0.5, -math.inf, math.inf), "-0.500 (no interval)"),
    ],
)
def test_a_return_has_the_digits_it_needs_and_its_interval(ends, shown):
    assert tables.within(*ends) == shown


def test_no_deviation_stands_where_an_interval_is_expected():
    """What follows ± in a table or on a page is half a 95 % interval, so nothing that is called std does."""
    root = Path(tables.__file__).parent.parent
    files = [one for room in ("report", "cli", "studies", "runs") for one in (root / room).rglob("*.*")]
    lines = [line for one in files if one.suffix in (".py", ".js") for line in one.read_text().splitlines()]
    said = [line for line in lines if "±" in line]
    assert said and not [line for line in said if "std" in line or "deviation" in line]
    assert not [line for line in lines if "bootstrap" in line.lower() and "interval" in line.lower()]


def test_names_are_no_emoji_and_no_markup(capsys):
    tables.show(tables.facts("ftl on five:Five: 2 rounds", [("kept in", "runs/[bold]a")]))
    printed = capsys.readouterr().out
    assert "five:Five: 2 rounds" in printed and "runs/[bold]a" in printed


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
