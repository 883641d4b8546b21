"""Sinks of a study: each run that has ended goes to sinks of its own."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..errors import UserError
from ..sinks import Started
from ..sinks import sinks as made
from ..sinks.base import Watch
from .shard import Result
from .study import Entry


def checked(sinks: Any) -> list[str]:
    """The names of sinks, all of which can be made here."""
    made(sinks)
    if others := [one for one in sinks if not isinstance(one, str)]:
        raise UserError(
            f"sinks: {others[0]!r} is one object, and every run of a study has sinks of its own; name them, "
            "as in 'tensorboard' or 'my_module:MySink'."
        )
    return list(sinks)


def tell(sinks: Iterable[str], folder: Path, entry: Entry, result: Result) -> None:
    """All rounds of a run that has ended, to new sinks: TensorBoard's files are in a folder of the run's
    name, in ``sinks`` of the study's folder or in the place that was given.
    """
    name = run_name(entry)
    places = [f"{one}/{name}" if one.startswith("tensorboard:") else one for one in sinks]
    if not places:
        return
    mine = folder / "sinks" / name
    mine.mkdir(parents=True, exist_ok=True)
    watch = Watch(made(places))
    watch.begin(Started(name, entry.settings, mine))
    for row in result.rows:
        watch.row(row["round"], row)
    watch.summary = None if result.error else result.summary
    watch.end()


def run_name(entry: Entry) -> str:
    """A run's values along the axes, and the beginning of its id: a folder's name.

    >>> from understudy import Study
    >>> run_name(Study("CartPole-v1", grid={"eta": [0.5]}, learner="ftrl").runs[0])[:-6]
    'CartPole-v1-ftrl-eta=0.5-seed=0-'
    """
    given = {name: value for name, value in entry.labels.items() if value is not None}
    words = [str(value) if name in ("env", "learner") else f"{name}={value}" for name, value in given.items()]
    return re.sub(r"[^\w.=+-]+", "_", "-".join([*words, entry.id[:6]]))
