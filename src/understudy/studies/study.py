"""A study: settings that all runs share, named axes, seeds; and the runs that follow from them."""

from __future__ import annotations

import copy
import functools
import hashlib
import itertools
import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, final

from .. import disk
from ..defaults import Timetable, plan_of
from ..errors import UserError, unknown
from ..spec import FIELDS, OPTIONS, RunSpec, fits, read_toml, refuse_old_name, registries, stated
from .grids import values

if TYPE_CHECKING:
    from .running import Results

STEP = "step"
"""An axis of its own: η of ftrl, alt_ftrl and ogd, α of adaftrl and adagrad."""
ACCEPTED = (*(name for name in FIELDS if name != "seed"), STEP)


class Entry(NamedTuple):
    """One run: its name, its place along the axes (None where it does not take one), its spec."""

    id: str
    labels: dict[str, Any]
    spec: RunSpec

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that differ from their defaults, as plain data."""
        return self.spec.changes()

    @property
    def plan(self) -> Timetable:
        """Its rounds."""
        return plan_of(self.spec)


@final
class Study:
    """Every combination of the axes of a grid, for every seed; the seed changes fastest.

    Args:
      env: the id of an environment, unless it is an axis.
      grid: axes by name: a sequence of values, or a text such as "1e-5:1e5:log11". An axis is any setting, or
        "step", which is η or α, whichever the learner has. A learner that does not take an
        axis (FTL has no step) runs once without it.
      seeds: how many seeds, or which.
      settings: what all runs share: any field of `understudy.RunSpec` but the seed.

    >>> study = Study("CartPole-v1", grid={"learner": ["ftl", "ftrl"], "step": [0.1, 1.0]}, seeds=2, rounds=3)
    >>> len(study.runs), study.left_out
    (6, {'step': ['ftl']})
    >>> study.runs[2].labels
    {'env': 'CartPole-v1', 'learner': 'ftrl', 'step': 0.1, 'seed': 0}
    """

    def __init__(
        self,
        env: str | None = None,
        *,
        grid: Mapping[str, Any] | None = None,
        seeds: int | Sequence[int] = 1,
        **settings: Any,
    ):
        if grid is not None and not isinstance(grid, Mapping):
            raise UserError(f"grid: {grid!r} is not a table of axes, as in {{'step': [0.1, 1.0]}}.")
        if env is not None:
            settings = {"env": env, **settings}
        for field, given in (("grid", grid or {}), ("study", settings)):
            for name, value in given.items():
                if name in ("seed", "seeds"):
                    raise UserError(f"{field}: {name} is not set so; seeds says how many, or which.")
                if field == "study":
                    _refuse_several(name, value)
                if name not in ACCEPTED:
                    refuse_old_name(name)
                    raise unknown(field, name, (*ACCEPTED, "seeds", "grid", "tune"))
        if both := [name for name in settings if name in (grid or {})]:
            raise UserError(f"grid: {both[0]} is an axis and a setting of all runs; leave one of them.")
        self.settings = stated(settings)
        self.grid = {name: values(name, axis) for name, axis in (grid or {}).items()}
        self.seeds = seeds_of(seeds)
        if "env" not in self.settings and "env" not in self.grid:
            raise UserError("env: a study needs an environment, such as 'Hopper-v5'.")
        self.left_out: dict[str, list[str]] = {}
        self.runs = tuple(self._expand())
        # Combinations before those were joined that differ in an axis which their learner does not take.
        self.asked = math.prod(map(len, self.grid.values())) * len(self.seeds)
        for name, learners in self.left_out.items():
            if set(learners) == {entry.labels["learner"] for entry in self.runs}:
                raise UserError(f"{name}: no learner of this study takes it ({', '.join(learners)}).")

    def _expand(self) -> list[Entry]:
        found: dict[str, Entry] = {}
        for chosen in itertools.product(*self.grid.values()):
            asked = self.settings | dict(zip(self.grid, chosen, strict=True))
            settings, dropped = _resolved(asked)
            specs = [RunSpec.of(settings | {"seed": seed}) for seed in self.seeds]
            learner = specs[0].name
            for name in dropped:
                learners = self.left_out.setdefault(name, [])
                learners += [] if learner in learners else [learner]
            labels = {"env": specs[0].env, "learner": learner}
            labels |= {name: None if name in dropped else asked[name] for name in self.grid}
            for spec in specs:
                entry = Entry(digest(spec.changes()), labels | {"seed": spec.seed}, spec)
                _ = entry.plan  # what does not fit is refused now
                found.setdefault(entry.id, entry)
        return list(found.values())

    def with_settings(self, **changes: Any) -> Study:
        """The same axes and seeds with other settings for all runs; None takes one away."""
        seeds = changes.pop("seeds", self.seeds)
        grid = {name: axis for name, axis in self.grid.items() if name not in changes}
        return Study(grid=grid, seeds=seeds, **(self.settings | changes))

    def only(self, kept: Callable[[Entry], bool]) -> Study:
        """The study with those of its runs alone for which `kept` is true."""
        fewer = copy.copy(self)
        fewer.runs = tuple(entry for entry in self.runs if kept(entry))
        fewer.asked = len(fewer.runs)
        return fewer

    def described(self) -> dict[str, Any]:
        """The study as plain data, as a file would say it."""
        grid = {name: list(axis) for name, axis in self.grid.items()}
        return {**self.settings, "seeds": list(self.seeds), "grid": grid}

    def run(self, out: str | os.PathLike[str] | None = None, **options: Any) -> Results:
        """Plays every run that is not in the folder `out` yet; see `understudy.studies.run`."""
        from .running import run

        return run(self, out, **options)

    def __repr__(self) -> str:
        axes = " × ".join(f"{len(axis)} {name}" for name, axis in {**self.grid, "seeds": self.seeds}.items())
        return f"Study({len(self.runs)} runs: {axes})"


def read(path: str | Path, changes: Mapping[str, Any] | None = None) -> tuple[Study, dict[str, Any]]:
    """A study from a TOML file, with `changes` that win over it, and its table [tune] (or nothing), which
    tunes the step where it says nothing else.

    Settings stand at the top, axes in [grid]::

        env = "Hopper-v5"
        policy = "linear"
        seeds = 3
        [grid]
        learner = ["ftl", "ftrl", "adaftrl"]
        step = "1e-5:1e5:log11"
    """
    found = read_toml(path, "study")
    tables = {name: found.pop(name) for name in ("grid", "tune") if name in found}
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise UserError(f"{name}: {table!r} is not a table; write [{name}] and its entries below.")
    given = dict(changes or {})
    axes = given.pop("grid", {})
    kept = {name: axis for name, axis in tables.get("grid", {}).items() if name not in given}
    settings = {name: value for name, value in found.items() if name not in axes}
    tuning = {"over": [STEP], **tables["tune"]} if "tune" in tables else {}
    return Study(grid=kept | axes, **(settings | given)), tuning


def _refuse_several(name: str, value: Any) -> None:
    """Several values, and a plural such as learners, are an axis."""
    axis = name if name in ACCEPTED else name.removesuffix("s")
    lists = axis == "comparator" or (axis in FIELDS and "tuple" in str(FIELDS[axis].type))
    if axis in FIELDS and isinstance(value, (list, tuple)) and not lists:
        several = ", ".join(map(repr, value))
        raise UserError(f"{name}: several values are an axis; write {axis} = [{several}] in the grid.")


def digest(settings: Mapping[str, Any]) -> str:
    """A name for a run that depends on what it is, and not on where it stands.

    >>> digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    True
    """
    text = json.dumps(settings, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _resolved(asked: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Settings that the learner takes, and the names of those that it does not."""
    learner = asked.get("learner", "ftl")
    if not isinstance(learner, str):
        raise UserError(f"learner: {learner!r} is not a learner's name.")
    if asked.get(STEP) is not None and (named := [name for name in ("eta", "alpha") if name in asked]):
        raise UserError(f"{STEP}: it is another word for {named[0]}; leave one of them.")
    takes, solves = _accepted(learner)
    step = next((name for name in ("eta", "alpha") if name in takes), None)
    settings: dict[str, Any] = {"learner": learner}
    dropped = []
    for name, value in asked.items():
        wanted = step if name == STEP else name
        foreign = wanted in OPTIONS["learner"] and wanted not in takes
        if wanted is None or foreign or (wanted in OPTIONS["solver"] and not solves):
            dropped.append(name)
        else:
            settings[wanted] = value
    return settings, dropped


@functools.cache
def _accepted(learner: str) -> tuple[tuple[str, ...], bool]:
    """The options that a learner takes, and whether it has a solver, or else takes a formula's step."""
    if learner == "bc":
        return (), True
    fits("learner", learner, {})  # an unknown name is refused as a run refuses it
    registry = registries()["learner"]
    takes = registry.takes(learner)
    made = registry.make(learner, dict.fromkeys(registry.needs(learner), 1.0))
    return OPTIONS["learner"] if takes is None else takes, not getattr(made, "linear", False)


def seeds_of(seeds: Any) -> tuple[int, ...]:
    """The seeds: so many from 0, or those listed."""
    seeds = disk.to_plain(seeds)  # NumPy's numbers and arrays are accepted too
    if isinstance(seeds, int) and not isinstance(seeds, bool) and seeds >= 1:
        return tuple(range(seeds))
    listed = list(seeds) if isinstance(seeds, Sequence) and not isinstance(seeds, str) else []
    whole = all(isinstance(one, int) and not isinstance(one, bool) and one >= 0 for one in listed)
    if not listed or not whole or len(set(listed)) < len(listed):
        raise UserError(f"seeds: {seeds!r} is neither a whole number ≥ 1 nor a list of different ones ≥ 0.")
    return tuple(listed)
