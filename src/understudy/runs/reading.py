"""Reading the folder of a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, TypeGuard

import numpy as np

from .. import disk
from ..errors import UserError, damaged
from ..policies import POLICIES, TrainedPolicy
from ..regret import Ledger
from ..samples.records import verified
from ..spec import is_mapping
from ..student import BY_EXPERT, NAMES

if TYPE_CHECKING:
    from ..spec import Setting
    from ..student import Row

FORMAT = 5
"""1: before runs had one spec and intervals of the regret. 2: before ask rules and the journal. 3: before
options and columns had the words of the field. 4: before goals and their tests."""
POLICY = ("policy.safetensors", "policy.json")
WORDS = {"solver_status", "comparator_status", "expert"}
WHOLE = {"round", "samples", "steps", "labels", "unanswered", "breaks", "handovers", "episodes"} | {
    "solver_iterations",
    "solver_evaluations",
}


class Config(TypedDict):
    """What config.json holds: the settings with what was resolved from them, and where the run was begun."""

    format: int
    cores: int
    versions: dict[str, str]
    settings: dict[str, Any]


def _is_config(value: Setting) -> TypeGuard[Config]:
    return is_mapping(value) and {"format", "settings", "cores", "versions"} <= set(value)


def read_config(path: Path) -> Config:
    """config.json of a run's folder; a newer or damaged one is refused."""
    file = Path(path) / "config.json"
    if not file.is_file():
        if file.with_name("study.json").is_file():
            raise UserError(
                f"run: {str(path)!r} is the folder of a study; the runs that it kept (sweep --keep best, or "
                "all) are in its runs/."
            )
        raise UserError(f"run: {str(path)!r} is not the folder of a run (it has no config.json).")
    config = disk.read_json(file, "run")
    if not _is_config(config):
        raise UserError(f"run: {file} is damaged.")
    _check_format(config["format"], file)
    return config


def read_policy(path: Path, student: str | None = None) -> TrainedPolicy:
    """The policy of a run's folder, after its files were compared with their checksums. student:
    ``module:function`` that makes the student of one's own that it is of.
    """
    verified(Path(path), POLICY)
    return TrainedPolicy.load(path, policy=None if student is None else POLICIES.make(student, {}))


def read_summary(path: Path) -> dict[str, Any] | None:
    """summary.json of a finished run, None for one that is not."""
    file = Path(path) / "summary.json"
    return disk.read_json(file, "run") if file.is_file() else None


def read_rows(path: Path, size: int | None = None) -> list[Row]:
    """ledger.csv as one dict a round, or its first `size` bytes."""
    rows = disk.read_csv(Path(path) / "ledger.csv", "run", size)
    if rows and list(rows[0]) != NAMES:
        raise UserError(f"run: {path}/ledger.csv is damaged: its columns are not those of a run.")
    with damaged(f"run: {path}/ledger.csv"):
        return [{name: _value(name, row[name]) for name in NAMES} for row in rows]


def read_ledger(path: Path, size: int | None = None) -> Ledger:
    """The same as columns."""
    rows = read_rows(path, size)
    return Ledger({name: [row[name] for row in rows] for name in NAMES})


def read_experts(path: Path, size: int | None = None) -> Ledger:
    """experts.csv, or its first `size` bytes, as columns; empty of a single expert."""
    file = Path(path) / "experts.csv"
    rows = disk.read_csv(file, "run", size) if file.is_file() else []
    with damaged(f"run: {file}"):
        return Ledger({name: [_value(name, row[name]) for row in rows] for name in BY_EXPERT})


def _value(name: str, text: str) -> float | str:
    return text if name in WORDS else int(text) if name in WHOLE else float(text)


def _check_format(number: int | None, file: Path) -> None:
    if number != FORMAT:
        raise UserError(f"run: {file} has format {number!r} of another version; {FORMAT} is read here.")


def read_checkpoint(file: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays and the plain data of a round from which a run goes on."""
    arrays, metadata = disk.read_tensors(file, "run")
    with damaged(f"run: {file}"):
        plain = json.loads(metadata["run"])
    _check_format(plain.get("format"), file)
    return arrays, plain
