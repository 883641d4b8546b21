"""`understudy check`: exit codes and the table, for parts that pass and for parts that are broken."""

from __future__ import annotations

import sys

import pytest

from understudy import checks
from understudy.checks.learners import CHECKS
from understudy.cli import main
from understudy.learners import LEARNERS, Learner
from understudy.solvers import SOLVERS

PARTS = """
import equinox as eqx
import jax
import understudy


class Fragile:
    '''Divides by the length of the gradient, which may be zero.'''

    def init(self, params):
        return understudy.ogd(eta=0.1).init(params)

    def update(self, state, losses, gradient, solve):
        new, solution = understudy.ogd(eta=0.1).update(state, losses, gradient, solve)
        length = sum((leaf**2).sum() for leaf in jax.tree.leaves(gradient)) ** 0.5
        params = jax.tree.map(lambda w, g: w - 0.1 * g / length, state.params, gradient)
        return new._replace(params=params), solution


def boaster(*, max_iterations=50):
    '''Solves, returns the start all the same, and calls it converged.'''
    honest = understudy.solvers.newton(max_iterations=max_iterations)

    def solve(objective, params, key=None):
        return eqx.tree_at(lambda s: s.params, honest(objective, params, key), params)

    return solve


def plain(objective, params, key=None):
    return understudy.solvers.newton()(objective, params, key)


number = 3
"""


@pytest.fixture
def parts(tmp_path, monkeypatch):
    (tmp_path / "parts_of_mine.py").write_text(PARTS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])  # the command adds the current folder
    yield
    sys.modules.pop("parts_of_mine", None)


@pytest.mark.parametrize(
    ("kind", "args"),
    [("learner", ["ftrl", "--eta", "0.1"]), ("solver", ["newton"]), ("certificate", ["ogd", "--eta", "0.1"])],
    ids=["learner", "solver", "certificate"],
)
def test_exit_codes_and_rows(kind, args, monkeypatch, capsys):
    rows = [checks.Row("one", True, "fine"), checks.Row("two", None, "does not apply")]
    tested = []

    def suite(part, **options):
        tested.append(part)
        report = checks.Report("a part", rows)
        if not report.passed:
            raise checks.CheckError(report)
        return report

    monkeypatch.setattr(checks, kind, suite)
    assert main(["check", kind, *args]) == 0
    out = capsys.readouterr().out
    assert "passed" in out and "does not apply" in out and "FAILED" not in out
    rows.append(checks.Row("three", False, "off by one"))
    assert main(["check", kind, *args]) == 1
    out = capsys.readouterr().out
    assert "FAILED" in out and "off by one" in out
    assert isinstance(tested[0], type(SOLVERS.resolve("newton")) if kind == "solver" else Learner)


@pytest.mark.slow
def test_a_learner_that_conforms_and_one_that_does_not(parts, capsys, monkeypatch):
    # The certificate, with its programs of another loss, is left to the tests of the suite itself.
    kept = {name: check for name, check in CHECKS.items() if "certificate" not in name}
    assert len(kept) == len(CHECKS) - 1
    monkeypatch.setattr("understudy.checks.learners.CHECKS", kept)
    assert main(["check", "learner", "ftrl", "--eta", "0.1"]) == 0
    assert "FAILED" not in capsys.readouterr().out
    assert main(["check", "learner", "parts_of_mine:Fragile"]) == 1
    assert "FAILED" in capsys.readouterr().out


@pytest.mark.slow
def test_a_solver_that_conforms_and_one_that_does_not(parts, capsys):
    assert main(["check", "solver", "parts_of_mine:plain"]) == 0
    assert "FAILED" not in capsys.readouterr().out
    assert main(["check", "solver", "parts_of_mine:boaster"]) == 1
    assert "FAILED" in capsys.readouterr().out


def test_what_makes_a_part_is_called_and_a_part_is_taken(parts):
    taken = SOLVERS.make("parts_of_mine:plain", {})
    parts_of_mine = sys.modules["parts_of_mine"]
    assert taken is parts_of_mine.plain
    assert SOLVERS.make("parts_of_mine:boaster", {"max_iterations": 3}) is not parts_of_mine.boaster
    assert isinstance(LEARNERS.make("parts_of_mine:Fragile", {}), parts_of_mine.Fragile)


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["learner", "ftrl"], "learner: 'ftrl' needs eta."),
        (["learner", "ftl", "--eta", "1"], "does not take eta"),
        (["learner", "parts_of_mine:number"], "is a int, not a function that makes one"),
        (["learner", "parts_of_mine:boaster"], "learner: expected a name"),
        (["solver", "newtn"], "did you mean 'newton'?"),
        (["solver", "parts_of_mine:boster"], "did you mean 'boaster'?"),
    ],
)
def test_bad_names_are_refused(args, sentence, parts, capsys):
    assert main(["check", *args]) == 2
    assert sentence in capsys.readouterr().err
