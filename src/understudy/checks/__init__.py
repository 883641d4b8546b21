"""Conformance suites that any learner or solver must pass; users can run them on their own."""

from __future__ import annotations

from .base import CheckError, Report, Row
from .certificates import certificate
from .learners import learner
from .solvers import solver

__all__ = ["CheckError", "Report", "Row", "certificate", "learner", "solver"]
