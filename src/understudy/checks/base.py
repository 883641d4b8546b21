"""A report of named checks, and the error that carries one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

from ..errors import ContractError, UserError


class Row(NamedTuple):
    """One check: its name, whether it passed (None: it does not apply here) and what was seen."""

    name: str
    passed: bool | None
    detail: str


class Report:
    """The rows of a conformance run; prints as a small table."""

    def __init__(self, subject: str, rows: Iterable[Row]):
        self.subject, self.rows = subject, list(rows)

    @property
    def passed(self) -> bool:
        applied = [row.passed for row in self.rows if row.passed is not None]
        return bool(applied) and all(applied)

    def __str__(self) -> str:
        marks = {True: "pass", False: "FAIL", None: "   –"}
        lines = [f"{marks[row.passed]}  {row.name}: {row.detail}" for row in self.rows]
        return "\n".join([f"{self.subject}: {'passed' if self.passed else 'FAILED'}", *lines])


def name_of(subject: Any) -> str:
    """What a learner or a solver, an object or a registered name, is called."""
    return subject if isinstance(subject, str) else getattr(subject, "name", type(subject).__name__)


def equal(one: Any, other: Any) -> bool:
    """Whether two trees have the same numbers, to the bit."""
    leaves = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return all(np.array_equal(a, b) for a, b in leaves)


class CheckError(AssertionError):
    """Raised when a check fails; `report` holds every row."""

    def __init__(self, report: Report):
        super().__init__(str(report))
        self.report = report


Progress = Callable[[int, int, str], None]
"""Called before each check: how many are done, of how many, and the name of the next."""


def run(
    subject: str,
    thing: Any,
    checks: Mapping[str, Callable[[Any], tuple[bool | None, str]]],
    progress: Progress | None = None,
) -> Report:
    """Runs every check on `thing`; a check that raises has failed, and the rest still run."""
    rows = []
    for name, check in checks.items():
        if progress is not None:
            progress(len(rows), len(checks), name)
        try:
            passed, detail = check(thing)
        except Exception as error:  # a foreign object may fail in any way: that is what is being found out
            passed, detail = False, f"raised {type(error).__name__}: {error}"
            if isinstance(error, UserError) and not isinstance(error, ContractError):
                passed, detail = None, f"does not apply ({error})"
        rows.append(Row(name, passed, detail))
    report = Report(subject, rows)
    if not report.passed:
        raise CheckError(report)
    return report
