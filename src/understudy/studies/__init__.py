"""Studies in host environments: many runs of `imitate`, planned, played on every core, kept and resumed."""

from __future__ import annotations

from .running import Plan, Results, best_folder, plan, run, run_folders
from .shard import Result, play
from .study import Entry, Study, read
from .tuning import Choice, Tuned, plans, tune

__all__ = ["Choice", "Entry", "Plan", "Result", "Results", "Study", "Tuned", "plan", "plans", "play", "read"]
__all__ += ["best_folder", "run", "run_folders", "tune"]
