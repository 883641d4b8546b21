"""`understudy check`: the conformance suites, for named parts and for your own."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from .. import checks
from ..errors import UserError
from ..learners import LEARNERS
from ..options import CheckCertificate, CheckLearner, CheckSolver
from ..report import tables
from ..solvers import SOLVERS


def learner(options: CheckLearner) -> int:
    """0 when the learner passes every check, else 1."""
    return _verdict(options.learner, checks.learner, LEARNERS.make(options.learner, options.given()))


def solver(options: CheckSolver) -> int:
    """0 when the solver passes every check, else 1."""
    return _verdict(options.solver, checks.solver, SOLVERS.make(options.solver, {}))


def certificate(options: CheckCertificate) -> int:
    """0 when the search finds no false claim, else 1."""
    given = options.given()
    if options.learner == "all" and given:
        raise UserError(f"learner: 'all' takes no options of a learner, such as {next(iter(given))!r}.")
    part = None if options.learner == "all" else LEARNERS.make(options.learner, given)

    def search(part: Any) -> Any:
        return checks.certificate(
            part,
            minutes=options.minutes,
            restarts=None if options.kind is None else 1,
            seed=options.seed,
            kind=options.kind,
            out=options.out,
            progress=_tell,
        )

    return _verdict(options.learner, search, part)


def _tell(found: Any) -> None:
    """One line a restart on the error stream: a long search should not look dead."""
    print(f"{found.kind}: seed {found.seed}, worst {found.worst:+.1e}", file=sys.stderr, flush=True)


def _verdict(name: str, suite: Callable[[Any], Any], part: Any) -> int:
    try:
        report, failed = suite(part), False
    except checks.CheckError as error:
        report, failed = error.report, True
    tables.show(tables.verdicts(f"checks of {name}", report.rows))
    return int(failed)
