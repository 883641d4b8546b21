"""`understudy check`: the conformance suites, for named parts and for your own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import checks
from ..learners import LEARNERS
from ..options import CheckLearner, CheckSolver
from ..report import tables
from ..solvers import SOLVERS


def learner(options: CheckLearner) -> int:
    """0 when the learner passes every check, else 1."""
    return _verdict(options.learner, checks.learner, LEARNERS.make(options.learner, options.learning.given()))


def solver(options: CheckSolver) -> int:
    """0 when the solver passes every check, else 1."""
    return _verdict(options.solver, checks.solver, SOLVERS.make(options.solver, {}))


def _verdict(name: str, suite: Callable[[Any], Any], part: Any) -> int:
    try:
        report, failed = suite(part), False
    except checks.CheckError as error:
        report, failed = error.report, True
    tables.show(tables.verdicts(f"checks of {name}", report.rows))
    return int(failed)
