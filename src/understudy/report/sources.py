"""Runs as a report reads them, whatever folder they are in: one of a run, one of a study, or one of many."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, final

import numpy as np

from .. import disk
from ..defaults import plan_of
from ..disk import Json
from ..errors import UserError, damaged
from ..experts import EXPERTS
from ..regret import Certificate
from ..runs import (
    NAMES,
    TIMES,
    Evaluation,
    last_of_experts,
    read_config,
    read_experts,
    read_ledger,
    read_summary,
)
from ..runs.resuming import FREE
from ..samples import records
from ..spec import FIELDS, PARTS, RunSpec, default
from ..studies import Result
from ..studies.folder import read_file

DEEP = 3
"""How many folders below a named one are looked into for runs and studies."""
APART = ("env", "learner")
Labels: TypeAlias = dict[str, Json]
"""What sets a run apart: its environment, its learner, and settings."""


UNKNOWN = "?"
"""The environment and the learner of a run whose settings cannot be read."""
OF_EXPERT = ("labels", "loss", "agreement")
"""What the summary of a study's run says of each of several experts."""
SAME = {*APART, *FREE, "seed", "revision", "expert_card"}
"""Settings that do not set groups of runs apart, or do so anyway."""


@final
@dataclasses.dataclass(frozen=True)
class Source:
    """One run. Columns and numbers are empty, or nan, where the run has none.

    state: finished, unfinished, failed or unreadable; `trouble` is the sentence of the last two. going:
    whether a process writes to its folder; none does where it was killed.
    columns: of the ledger, by name. seconds: per round, by part (None: only `spent`, the sums, are kept).
    evaluation, expert_evaluation: the episodes of the last evaluations. expert: the expert's mean return, or
    what its card says. settings: those that are not defaults.
    own: those of them that were objects or functions of a script, which cannot be typed.
    experts: of several experts by name, labels, loss and agreement.
    summary: more of a finished run by name, such as whether its goal was `reached`, and its `statement`.
    """

    name: str
    folder: Path
    state: str
    trouble: str = ""
    settings: Mapping[str, Json] = dataclasses.field(default_factory=dict[str, Json])
    columns: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict[str, np.ndarray])
    seconds: Mapping[str, np.ndarray] | None = None
    spent: Mapping[str, float] = dataclasses.field(default_factory=dict[str, float])
    evaluation: Evaluation | None = None
    expert_evaluation: Evaluation | None = None
    expert: float = math.nan
    certificate: Mapping[str, Json] = dataclasses.field(default_factory=dict[str, Json])
    resolved: Mapping[str, Json] = dataclasses.field(default_factory=dict[str, Json])
    versions: Mapping[str, str] = dataclasses.field(default_factory=dict[str, str])
    own: tuple[str, ...] = ()
    experts: Mapping[str, Mapping[str, Json]] = dataclasses.field(
        default_factory=dict[str, Mapping[str, Json]]
    )
    planned: int | None = None
    study: Path | None = None
    going: bool = False
    summary: Mapping[str, Json] = dataclasses.field(default_factory=dict[str, Json])

    @property
    def env(self) -> str:
        return str(self.settings.get("env", UNKNOWN))

    @property
    def learner(self) -> str:
        return str(self.settings.get("learner", UNKNOWN))

    @property
    def rounds(self) -> int:
        """Rounds that are done."""
        return len(self.columns.get("round", ()))

    def last(self, name: str) -> float:
        """The last finite number of a column; nan where there is none."""
        values = np.asarray(self.columns.get(name, ()), float)
        values = values[np.isfinite(values)]
        return float(values[-1]) if len(values) else math.nan

    @property
    def score(self) -> float:
        """The mean return of the last evaluation."""
        return self.evaluation.mean if self.evaluation is not None else self.last("return_mean")

    @property
    def by_expert(self) -> bool:
        """Whether the expert alone has driven, as for cloning, so that losses are on its states."""
        shares = np.asarray(self.columns.get("by_expert", ()), float)
        return len(shares) > 0 and bool((shares == 1.0).all())

    @property
    def certified(self) -> bool:
        """Whether the regret is proved: as the certificate says, or before there is one, the ledger."""
        kind = self.certificate.get("kind")
        return kind == "certificate" if kind else math.isfinite(self.last("regret_high"))

    @property
    def total(self) -> float:
        """Seconds that the run took so far."""
        return float(self.spent.get("total", math.nan))


def find_folders(paths: Iterable[str | os.PathLike[str]], who: str = "report") -> list[Path]:
    """The folders of runs and studies at and below `paths`, each once; errors begin with `who`."""
    known: dict[Path, Path] = {}
    for given in paths:
        path = Path(given)
        if not path.is_dir():
            raise UserError(f"{who}: there is no folder {str(given)!r}.")
        below = list(_below(path, DEEP))
        if not below:
            raise UserError(f"{who}: {str(given)!r} holds neither a run nor a study.")
        for folder in below:
            known.setdefault(folder.resolve(), folder)
    return list(known.values())


def _below(path: Path, deep: int) -> Iterable[Path]:
    if (path / "config.json").is_file() or (path / "study.json").is_file():
        yield path
    elif deep:
        for folder in sorted(path.iterdir()):
            if folder.is_dir() and not folder.name.startswith("."):
                yield from _below(folder, deep - 1)


def read_folder(path: Path, *, check: bool = True) -> list[Source]:
    """What a folder holds: one run, or all runs of a study. A run that cannot be read is one with trouble.

    With `check` the files of a run are compared with their checksums; a page of runs that go on does without.
    """
    study = (path / "study.json").is_file()
    try:
        with damaged(f"{'study' if study else 'run'}: {str(path)!r}"):
            return _study(path) if study else [_run(path, check=check)]
    except (UserError, OSError) as error:
        settings: Mapping[str, Json] = {}
        with contextlib.suppress(UserError), damaged("settings"):
            settings = _changes(read_config(path)["settings"])
        return [Source(path.name, path, "unreadable", str(error), settings)]


def _run(path: Path, *, check: bool) -> Source:
    config = read_config(path)
    kept = config["settings"]
    about: dict[str, Any] = {
        "settings": _changes(kept),
        "resolved": kept.get("resolved", {}),
        "versions": config["versions"],
        "own": tuple(name for name in ("env", *PARTS) if _is_own(name, kept.get(name))),
        "planned": _planned(kept),
        "going": disk.is_locked(path),
    }
    numbers = records.numbers(path)
    if not numbers or not (numbers[0] or len(numbers) > 1):
        return Source(path.name, path, "unfinished", "no round is finished yet.", **about)
    if check:
        record = records.verified(path)
    else:
        record = records.read(path / f"{records.name_of(numbers[0])}.json")
    ledger = read_ledger(path, record.grown.get("ledger.csv", (None,))[0])
    # A run that `Run.save` wrote has no seconds of single rounds.
    length = record.grown.get("times.csv", (None,))[0]
    times = [] if length is None else disk.read_csv(path / "times.csv", "run", length)
    with np.errstate(all="ignore"):
        seconds = {name: np.array([float(row[name]) for row in times]) for name in TIMES}
    outcome = (read_summary(path) if record.finished else None) or {}
    spent = outcome.get("seconds") or {name: float(one.sum()) for name, one in seconds.items()}
    spent = {"total": sum(one for name, one in spent.items() if name != "total")} | dict(spent)
    mine, theirs = (Evaluation.read(outcome.get(name)) for name in ("evaluation", "expert_evaluation"))
    card, proof = about["resolved"].get("card_return"), outcome.get("certificate")
    return Source(
        path.name,
        path,
        "finished" if record.finished else "unfinished",
        columns={name: ledger[name] for name in ledger},
        seconds=seconds if len(times) == ledger.rounds else None,
        spent=spent,
        evaluation=mine,
        expert_evaluation=theirs,
        expert=theirs.mean if theirs is not None else math.nan if card is None else float(card),
        certificate={} if proof is None else Certificate.read(proof)._asdict(),
        summary=outcome.get("summary", {}),
        experts=last_of_experts(read_experts(path, record.grown.get("experts.csv", (None,))[0])),
        **about,
    )


def _study(path: Path) -> list[Source]:
    kept = disk.read_json(path / "study.json", "study")
    runs = [_entry(path, one["id"], dict(one["settings"]), kept["versions"]) for one in kept["runs"]]
    if not runs:
        raise UserError(f"study: {str(path)!r} holds no run.")
    return runs


def _entry(path: Path, name: str, settings: Mapping[str, Json], versions: Mapping[str, str]) -> Source:
    """One run of a study."""
    file = path / "runs" / f"{name}.json"
    about: dict[str, Any] = {"settings": settings, "versions": versions, "study": path}
    shown = f"{path.name}/{name[:8]}"
    under_way = path / "runs" / f"{name}.partial"
    if not file.is_file() and (under_way / "config.json").is_file():
        # Its files are ahead of its last round, or go when it ends, while it is read.
        return dataclasses.replace(read_folder(under_way, check=False)[0], name=shown, folder=path, **about)
    if (path / "runs" / name / "config.json").is_file():
        kept_run = read_folder(path / "runs" / name)[0]
        if kept_run.state == "finished":
            return dataclasses.replace(kept_run, name=shown, **about)
    if not file.is_file():
        going = disk.is_locked(path)
        return Source(shown, path, "unfinished", "it has not been played yet.", going=going, **about)
    try:
        with damaged(str(file)):
            return read_result(shown, path, read_file(file)[0].result, **about)
    except UserError as error:
        return Source(shown, path, "unreadable", str(error), **about)


def read_result(name: str, path: Path, result: Result, **about: Any) -> Source:
    """The run of a study of which this came; `about` are more fields of it, the settings among them."""
    error, summary = result.error, result.summary
    others = [key.removeprefix("labels_of_") for key in summary if key.startswith("labels_of_")]
    experts = {who: {what: summary[f"{what}_of_{who}"] for what in OF_EXPERT} for who in others}
    return Source(
        name,
        path,
        "finished" if error is None else "failed",
        error or "",
        columns={column: np.array([row[column] for row in result.rows]) for column in NAMES},
        spent=result.seconds,
        evaluation=Evaluation.read(result.evaluation),
        expert_evaluation=Evaluation.read(result.expert_evaluation),
        expert=float(summary.get("expert_return", math.nan)),
        certificate={"kind": summary.get("certificate", ""), "regret": summary.get("regret", math.nan)},
        experts={who: {w: v if v == v else None for w, v in said.items()} for who, said in experts.items()},
        planned=None if error is None else _planned(about["settings"]),
        summary=summary,
        **about,
    )


def _changes(settings: Mapping[str, Json]) -> dict[str, Json]:
    """The settings of a config that are not defaults, learner and seed always."""
    named = (*APART, "seed")
    given = {name: settings.get(name) for name in FIELDS}
    changes = {n: v for n, v in given.items() if n in named or (v is not None and v != default(n))}
    # A learner that is an object has its name beside it.
    if not isinstance(changes["learner"], str):
        changes["learner"] = settings.get("name", UNKNOWN)
    return changes


def _is_own(name: str, kept: Json) -> bool:
    """Whether a part of a run was an object or a function of a script or a notebook.

    >>> _is_own("expert", "__main__:act"), _is_own("expert", "my_module:act"), _is_own("expert", "PPO")
    (True, False, True)
    """
    if not isinstance(kept, str):
        return kept is not None
    if kept.startswith("__main__:") or "<" in kept:
        return True
    if name == "expert" and (kept == "person" or kept in EXPERTS):
        return False
    # Kept by a bare name: an object with `predict` and a function that makes environments. So is a file.
    bare = name in ("env", "expert") and kept.isidentifier()
    return bare and not any(Path(file).exists() for file in (kept, f"{kept}.zip"))


def _planned(settings: Mapping[str, Json]) -> int | None:
    """How many rounds were asked for, where that is known before."""
    try:
        spec = RunSpec.of({name: settings[name] for name in FIELDS if name in settings})
        plan = plan_of(spec)
        return None if plan.budget is not None else len(plan.rounds)
    except (UserError, TypeError):
        return None


def labels(sources: Sequence[Source]) -> list[Labels]:
    """What sets each run apart from the others, but for its seed: environment, learner, and the settings that
    differ among runs of its environment.

    >>> both = [{"env": "E", "learner": "ftrl", "eta": eta, "seed": 0} for eta in (0.1, 1.0)]
    >>> labels([Source("a", Path("a"), "finished", settings=one) for one in both])
    [{'env': 'E', 'learner': 'ftrl', 'eta': 0.1}, {'env': 'E', 'learner': 'ftrl', 'eta': 1.0}]
    """
    seen: dict[tuple[str, str], str] = {}
    differ: dict[str, set[str]] = {}
    for one in sources:
        for name in FIELDS:
            if name in SAME:
                continue
            value = json.dumps(one.settings.get(name), sort_keys=True, default=str)
            if seen.setdefault((one.env, name), value) != value:
                differ.setdefault(one.env, set()).add(name)
    return [
        {"env": one.env, "learner": one.learner}
        | {n: one.settings[n] for n in FIELDS if n in differ.get(one.env, ()) and n in one.settings}
        for one in sources
    ]
