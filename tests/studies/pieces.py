"""Small studies in the room, and what is looked at when they have ended."""

from __future__ import annotations

from pathlib import Path

from rooms import EXPERT, ROOM
from understudy import Study

SMALL = {"expert": EXPERT, "policy": "linear", "rounds": 2, "steps_per_round": 30, "episodes": 0}
TABLES = ("results.csv", "summary.csv")


def small(log: Path | None = None, seeds: int = 2, **more) -> Study:
    room = {"log": str(log)} if log else {}
    grid = {"learner": ["ftl", "ftrl"], "step": [0.1, 1.0]}
    return Study(ROOM, grid=grid, seeds=seeds, env_kwargs=room | more.pop("room", {}), **SMALL, **more)


def tables(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in TABLES}


def lines(log: Path) -> int:
    return len(log.read_text().splitlines()) if log.exists() else 0
