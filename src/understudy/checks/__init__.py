"""Conformance suites, one for each kind of part; users can run them on their own."""

from __future__ import annotations

from .base import CheckError, Report, Row
from .certificates import certificate
from .learners import learner
from .parts import ask, env, expert, loss, policy
from .solvers import solver

__all__ = ["CheckError", "Report", "Row", "ask", "certificate", "env", "expert", "learner", "loss", "policy"]
__all__ += ["solver"]
