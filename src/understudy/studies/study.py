"""A study: settings that all runs share, named axes, seeds; and the runs that follow from them."""

from __future__ import annotations

import copy
import functools
import hashlib
import itertools
import json
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast, final

import numpy as np

from .. import disk
from ..defaults import ROUNDS, Timetable, open_ended, plan_of
from ..disk import Json
from ..errors import UserError, unknown
from ..spec import FIELDS, OPTIONS, RunSpec, fits, read_toml, refuse_old_name, registries, stated

if TYPE_CHECKING:
    from .running import Results

Axis: TypeAlias = "Json | np.generic | np.ndarray"
"""The values of an axis as they are given: a sequence, or a text such as "1e-5:1e5:log11"."""
STEP = "step"
"""An axis of its own: η of ftrl, alt_ftrl and ogd, α of adaftrl and adagrad."""
ACCEPTED = (*(name for name in FIELDS if name != "seed"), STEP)
RANGE = re.compile(r"([^:,]+):([^:,]+):(log|lin)(\d+)")
NEARLY = re.compile(r"[-+.\de]+:[^,]*")
"""What begins as a range does: a number and a colon."""
MOST_VALUES = 10_000
"""Most values along one axis; a longer one is a typing error."""


class Entry(NamedTuple):
    """One run: its name, its place along the axes (None where it does not take one), its spec."""

    id: str
    labels: dict[str, Any]
    spec: RunSpec

    @property
    def settings(self) -> dict[str, Json]:
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
        grid: Mapping[str, Axis] | None = None,
        seeds: int | Sequence[int] = 1,
        **settings: Any,
    ):
        axes = grid or {}
        check_table("grid", axes, "axes, as in {'step': [0.1, 1.0]}")
        if env is not None:
            settings = {"env": env, **settings}
        for field, table in (("grid", axes), ("study", settings)):
            for name, value in table.items():
                if name in ("seed", "seeds"):
                    raise UserError(f"{field}: {name} is not set so; seeds says how many, or which.")
                if field == "study":
                    _refuse_several(name, value)
                if name not in ACCEPTED:
                    refuse_old_name(name)
                    raise unknown(field, name, (*ACCEPTED, "seeds", "grid", "tune"))
        if both := [name for name in settings if name in axes]:
            raise UserError(f"grid: {both[0]} is an axis and a setting of all runs; leave one of them.")
        self.settings = stated(settings)
        self.grid = {name: axis_values(name, axis) for name, axis in axes.items()}
        self.seeds = check_seeds(seeds)
        if "env" not in self.settings and "env" not in self.grid:
            raise UserError("env: a study needs an environment, such as 'Hopper-v5'.")
        self.left_out: dict[str, list[str]] = {}
        self.runs = tuple(self._expand())
        # Combinations before those were joined that differ in an axis which their learner does not take.
        self.asked = math.prod(map(len, self.grid.values())) * len(self.seeds)
        for name, learners in self.left_out.items():
            if all(entry.labels["learner"] in learners for entry in self.runs):
                raise UserError(f"{name}: no learner of this study takes it ({', '.join(learners)}).")

    def _expand(self) -> list[Entry]:
        entries: dict[str, Entry] = {}
        for combination in itertools.product(*self.grid.values()):
            asked: dict[str, Json] = self.settings | dict(zip(self.grid, combination, strict=True))
            settings, dropped = _taken_settings(asked)
            specs = [RunSpec.of(settings | {"seed": seed}) for seed in self.seeds]
            # Runs that are compared have equal rounds where nothing is said.
            specs = [spec.replace(rounds=ROUNDS) if open_ended(spec) else spec for spec in specs]
            learner = specs[0].name
            for name in dropped:
                learners = self.left_out.setdefault(name, [])
                learners += [] if learner in learners else [learner]
            labels: dict[str, Any] = {"env": specs[0].env, "learner": learner}
            labels |= {name: None if name in dropped else asked[name] for name in self.grid}
            for spec in specs:
                entry = Entry(digest(spec.changes()), labels | {"seed": spec.seed}, spec)
                _ = entry.plan  # what does not fit is refused now
                entries.setdefault(entry.id, entry)
        return list(entries.values())

    def with_settings(self, **changes: Any) -> Study:
        """The same axes and seeds with other settings for all runs; None takes one away."""
        seeds = changes.pop("seeds", self.seeds)
        grid = {name: axis for name, axis in self.grid.items() if name not in changes}
        return Study(grid=grid, seeds=seeds, **(self.settings | changes))

    def only(self, kept: Callable[[Entry], bool]) -> Study:
        """The study with those of its runs alone for which `kept` is true."""
        fewer = copy.copy(self)
        fewer.runs = tuple(filter(kept, self.runs))
        fewer.asked = len(fewer.runs)
        return fewer

    def described(self) -> dict[str, Json]:
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
    settings = read_toml(path, "study")
    tables = {name: settings.pop(name) for name in ("grid", "tune") if name in settings}
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise UserError(f"{name}: {table!r} is not a table; write [{name}] and its entries below.")
    typed = dict(changes or {})
    axes: dict[str, Axis] = typed.pop("grid", {})
    grid = {name: axis for name, axis in tables.get("grid", {}).items() if name not in typed} | axes
    settings = {name: value for name, value in settings.items() if name not in axes}
    tuning = {"over": [STEP], **tables["tune"]} if "tune" in tables else {}
    return Study(grid=grid, **(settings | typed)), tuning


def check_table(field: str, table: Axis | Mapping[str, Axis], what: str) -> None:
    """Refuses what is no table."""
    if not isinstance(table, Mapping):
        raise UserError(f"{field}: {table!r} is not a table of {what}.")


def _refuse_several(name: str, value: Axis) -> None:
    """Several values, and a plural such as learners, are an axis."""
    axis = name if name in ACCEPTED else name.removesuffix("s")
    lists = axis in ("comparator", "experts") or (axis in FIELDS and "tuple" in str(FIELDS[axis].type))
    if axis in FIELDS and isinstance(value, (list, tuple)) and not lists:
        several = ", ".join(map(repr, cast("Sequence[Json]", value)))
        raise UserError(f"{name}: several values are an axis; write {axis} = [{several}] in the grid.")


def digest(settings: Mapping[str, Json]) -> str:
    """A name for a run that depends on what it is, and not on where it stands.

    >>> digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    True
    """
    text = json.dumps(settings, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _taken_settings(asked: Mapping[str, Json]) -> tuple[dict[str, Json], list[str]]:
    """Settings that the learner takes, and the names of those that it does not."""
    learner = asked.get("learner", "ftl")
    if not isinstance(learner, str):
        raise UserError(f"learner: {learner!r} is not a learner's name.")
    if asked.get(STEP) is not None and (named := [name for name in ("eta", "alpha") if name in asked]):
        raise UserError(f"{STEP}: it is another word for {named[0]}; leave one of them.")
    takes, solves = _accepted(learner)
    step = next((name for name in ("eta", "alpha") if name in takes), None)
    settings: dict[str, Json] = {"learner": learner}
    dropped: list[str] = []
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
    linear = getattr(registry.make(learner, dict.fromkeys(registry.needs(learner), 1.0)), "linear", False)
    return OPTIONS["learner"] if takes is None else takes, not linear


def check_seeds(seeds: int | Sequence[int] | np.ndarray) -> tuple[int, ...]:
    """The seeds: so many from 0, or those listed.

    >>> check_seeds(2), check_seeds([3, 5])
    ((0, 1), (3, 5))
    """
    plain = disk.to_plain(seeds)  # NumPy's numbers and arrays are accepted too
    if type(plain) is int and plain >= 1:
        return tuple(range(plain))
    listed = cast("list[int]", plain) if isinstance(plain, (list, tuple)) else []
    if not listed or any(type(n) is not int or n < 0 for n in listed) or len({*listed}) < len(listed):
        raise UserError(f"seeds: {seeds!r} is neither a whole number ≥ 1 nor a list of different ones ≥ 0.")
    return tuple(listed)


# ------------------------------------------------------------------------------------ values along an axis


def axis_values(field: str, axis: Axis) -> tuple[Json, ...]:
    """The values of an axis: a sequence as it is, a text as it is typed on the command line.

    ``a,b,c`` is a list, ``lo:hi:logN`` are N values with equal factors between, ``lo:hi:linN`` with equal
    distances; both ends are included. Words that read as numbers, true, false or null become those.

    >>> axis_values("step", "1e-2:1e2:log5"), axis_values("loss", "squared,huber")
    ((0.01, 0.1, 1.0, 10.0, 100.0), ('squared', 'huber'))
    """
    if isinstance(axis, str):
        matched = RANGE.fullmatch(axis)
        values = _range(field, matched) if matched else tuple(map(parse_word, axis.split(",")))
        if "" in values or (not matched and NEARLY.fullmatch(axis)):
            raise _not_axis(field, axis)
    elif isinstance(axis, (bool, int, float, np.generic)):
        values = (_plain(axis),)
    elif isinstance(axis, (Sequence, np.ndarray)) and not isinstance(axis, bytes):
        values = tuple(map(_plain, axis))
    else:
        raise _not_axis(field, axis)
    if not values:
        raise UserError(f"{field}: the axis is empty; at least one value is needed.")
    spelt: list[str] = []
    for value in values:
        if isinstance(value, float) and not math.isfinite(value):
            raise UserError(f"{field}: {value!r} is not finite.")
        try:
            text = json.dumps(value, sort_keys=True)
        except TypeError:
            raise UserError(
                f"{field}: {value!r} is not plain: numbers, words, lists and mappings are."
            ) from None
        if text in spelt:
            raise UserError(f"{field}: {text} is there twice; name every value once.")
        spelt.append(text)
    return values


def _plain(value: Axis) -> Json:
    """NumPy's number as Python's, and a list as a tuple: what is tuned is looked up by its values."""
    value = cast("Json", value.tolist()) if isinstance(value, (np.generic, np.ndarray)) else value
    return tuple(value) if isinstance(value, list) else value


def parse_word(text: str) -> bool | int | float | str | None:
    """A typed word as a number, truth value or None where it reads as one.

    >>> parse_word("3"), parse_word("1e-3"), parse_word("true"), parse_word("squared")
    (3, 0.001, True, 'squared')
    """
    text = text.strip()
    if text in ("true", "false", "null"):
        return {"true": True, "false": False}.get(text)
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def parse_axis(text: str) -> tuple[str, tuple[Json, ...]]:
    """``name=values`` as typed.

    >>> parse_axis("eta=0.1,1")
    ('eta', (0.1, 1))
    """
    name, _, values = text.partition("=")
    if not name or not values:
        raise UserError(f"grid: {text!r} is not NAME=VALUES, as step=1e-5:1e5:log11 or loss=squared,huber.")
    return name.replace("-", "_"), axis_values(name, values)


def _range(field: str, matched: re.Match[str]) -> tuple[Json, ...]:
    text = matched[0]
    try:
        low, high = float(matched[1]), float(matched[2])
    except ValueError:
        raise _not_axis(field, text) from None
    count, log = int(matched[4]), matched[3] == "log"
    if not (math.isfinite(low) and math.isfinite(high) and low < high) or not 2 <= count <= MOST_VALUES:
        raise UserError(f"{field}: {text!r} needs finite lo < hi and between 2 and {MOST_VALUES} values.")
    if log and low <= 0:
        raise UserError(f"{field}: {text!r} has equal factors between its values, so lo must be > 0.")
    if log:
        values = 10 ** np.linspace(math.log10(low), math.log10(high), count)
    else:
        values = np.linspace(low, high, count)
    # Twelve digits: 1e-05 is then the very number that one would type.
    return tuple(float(f"{value:.12g}") for value in values.tolist())


def _not_axis(field: str, axis: Axis) -> UserError:
    return UserError(f"{field}: {axis!r} is neither a list (a,b,c) nor a range (lo:hi:logN, lo:hi:linN).")
