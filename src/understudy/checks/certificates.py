"""Put certificates through a search for streams on which they are false."""

from __future__ import annotations

import itertools
import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from .. import disk
from ..errors import UserError, check_int
from ..learners import LEARNERS, Learner
from ..streams import replay
from .base import CheckError, Report, Row, name_of
from .search import SOLVING, Finding, Search, kinds


def certificate(
    subject: Any = None,
    *,
    minutes: float = 1.0,
    restarts: int | None = None,
    seed: int = 0,
    kind: str | None = None,
    out: Path | None = None,
    progress: Callable[[Finding], None] | None = None,
) -> Report:
    """Searches for streams whose regret is above its certified bound; raises `CheckError` where it finds one.

    Args:
      subject: a learner (an object or a registered name), on all four losses; None stands for every shipped
        learner, exact and inexact solvers, limited memories, with and without a ball, and for losses,
        learners, schedules, solvers and policies as users may make them, honest and false ones.
      minutes: how long to search. Each kind of game is compiled once, which takes some seconds of it.
      restarts: instead of minutes, how many searches of each kind.
      seed: of the first restart. A restart depends on its kind and its seed alone.
      kind: only this kind of game, by the name that the report gives it.
      out: a folder for the streams on which a claim is false, as `understudy replay` reads them.
      progress: called with what each restart found.

    The regret is counted here, against comparators that NumPy and SciPy find, so it is never too large.

    >>> import understudy
    >>> report = understudy.checks.certificate(understudy.ogd(eta=0.1), restarts=1, kind="squared, online")
    >>> report.passed
    True
    """
    check_int("seed", seed, 0)
    if restarts is not None:
        check_int("restarts", restarts)
    elif not minutes > 0:
        raise UserError(f"minutes: {minutes!r} is not a number > 0.")
    searches = _searches(subject)
    if kind is not None:
        if kind not in searches:
            raise UserError(f"kind: there is no {kind!r}; known: {'; '.join(searches)}.")
        searches = {kind: searches[kind]}
    began, found = time.monotonic(), {name: [] for name in searches}
    turns = itertools.count() if restarts is None else range(restarts)
    for turn, name in ((turn, name) for turn in turns for name in searches):
        found[name].append(searches[name].restart(seed + turn))
        if progress is not None:
            progress(found[name][-1])
        if restarts is None and time.monotonic() - began >= 60 * minutes:
            break
    rows = [_row(searches[name], findings, out) for name, findings in found.items()]
    title = "certificates" if subject is None else f"certificate of {name_of(subject)}"
    report = Report(title, rows)
    if any(row.passed is False for row in rows):
        raise CheckError(report)
    return report


def _searches(subject: Any) -> dict[str, Search]:
    if subject is None:
        return {str(kind): Search(kind) for kind in kinds()}
    found = LEARNERS.resolve(subject)
    if not isinstance(found, Learner):
        raise UserError(f"learner: {name_of(subject)!r} is not of the family that the certificate covers.")
    learner: Learner = found
    family = "diagonal" if learner.diagonal else "online" if learner.linear else "offline"
    asked = [one for one in kinds() if one.family == family and not one.own]
    asked = [one for one in asked if one.ball == (learner.radius is not None)]
    if learner.linear:
        asked = [one for one in asked if one.solver == "auto" and one.memory == "all"]
    searches = {str(one): Search(one, (lambda candidate, radius: learner,)) for one in asked}
    if reason := next(iter(searches.values())).uncertified:
        raise UserError(f"learner: nothing is certified of {name_of(subject)!r}: {reason}")
    return searches


def _row(search: Search, findings: list[Finding], out: Path | None) -> Row:
    if not findings:
        return Row(str(search.kind), None, "not reached in the time given")
    if not any(one.evaluations for one in findings):
        return Row(str(search.kind), True, f"claims nothing: {search.uncertified}")
    worst = max(findings, key=lambda one: one.worst)
    plays, seconds = sum(one.evaluations for one in findings), sum(one.seconds for one in findings)
    detail = f"{plays:,} plays in {seconds:.0f} s; worst {worst.worst:+.1e} of the losses, seed {worst.seed}"
    if not worst.false:
        return Row(str(search.kind), True, detail)
    shown, settings = confirm(search, worst)
    where = "" if out is None else f"; {save(search, worst, settings, out)}"
    return Row(str(search.kind), False, f"{detail}: {worst.claim} is false; {shown}{where}")


def confirm(search: Search, finding: Finding) -> tuple[str, dict[str, Any]]:
    """What `replay` prints on the stream, in words, and the settings that it was played with."""
    one, kind = finding.candidate, search.kind
    learner = search.learner(one)
    how: dict[str, Any] = {"memory": kind.memory, "comparator": "last", "solver": search.solver()}
    how |= {"policy": search.own.policy(), "loss": search.loss()}
    result = replay(one.rounds(search.labels), learner=learner, **how)
    made, (name, options) = result.certificate, SOLVING[kind.solver]
    schedule = {part: float(getattr(learner.schedule, part)) for part in ("constant", "root", "adaptive")}
    settings = {
        "kind": str(kind),
        "seed": finding.seed,
        "worst": finding.worst,
        "claim": finding.claim,
        "loss": kind.loss,
        "learner": learner.name,
        "schedule": schedule | {"start": int(learner.schedule.first)},
        "around_last": bool(learner.around_last),
        "diagonal": learner.diagonal,
        "radius": None if learner.radius is None else float(learner.radius),
        "solver": {"name": name} | options,
        "memory": kind.memory,
        "own": kind.own,
    }
    return f"replay prints regret {made.regret:.6g} and bound {made.bound:.6g}", settings


def save(search: Search, finding: Finding, settings: dict[str, Any], out: Path) -> Path:
    """Writes the stream (npz, as `understudy replay` reads it) and its settings (JSON) into a folder."""
    rounds = finding.candidate.rounds(search.labels)
    file = out / f"{re.sub('(, |[ :])', '-', str(finding.kind))}-{finding.seed}.npz"
    X, Y = (np.concatenate([pair[i] for pair in rounds]) for i in (0, 1))
    disk.write_npz(file, {"X": X, "Y": Y, "sizes": np.array([len(x) for x, _ in rounds])})
    disk.write_file(file.with_suffix(".json"), json.dumps(settings, indent=2) + "\n")
    return file
