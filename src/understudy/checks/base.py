"""A report of named checks, and the error that carries one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeVar

import jax
import numpy as np

from ..errors import ContractError, UserError

Subject = TypeVar("Subject")
Tree = TypeVar("Tree")


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


def name_of(subject: object) -> str:
    """What a part, an object or a registered name, is called."""
    return subject if isinstance(subject, str) else str(getattr(subject, "name", type(subject).__name__))


def equal(first: Tree, second: Tree) -> bool:
    """Whether two trees have the same numbers, to the bit."""
    leaves = zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True)
    return all(np.array_equal(a, b) for a, b in leaves)


class CheckError(AssertionError):
    """Raised when a check fails; `report` holds every row."""

    def __init__(self, report: Report):
        super().__init__(str(report))
        self.report = report


Progress = Callable[[int, int, str], None]
"""Called before each check: how many are done, of how many, and the name of the next."""


Check = Callable[[Subject], tuple[bool | None, str]]
"""A check of one suite: whether its subject passed (None: it does not apply), and what was seen."""


def run_checks(
    title: str, subject: Subject, checks: Mapping[str, Check[Subject]], progress: Progress | None = None
) -> Report:
    """Runs every check on the subject; a check that raises has failed, and the rest still run."""
    rows: list[Row] = []
    for name, check in checks.items():
        if progress is not None:
            progress(len(rows), len(checks), name)
        try:
            passed, detail = check(subject)
        except Exception as error:  # a foreign object may fail in any way: that is what is being found out
            passed, detail = False, f"raised {type(error).__name__}: {error}"
            if isinstance(error, UserError) and not isinstance(error, ContractError):
                passed, detail = None, f"does not apply ({error})"
        rows.append(Row(name, passed, detail))
    report = Report(title, rows)
    if not report.passed:
        raise CheckError(report)
    return report
