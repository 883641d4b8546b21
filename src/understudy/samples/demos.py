"""Recorded demonstrations: the first round of a run, which costs neither labels nor steps."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .. import disk
from ..errors import UserError, import_extra
from ..experts import Expert
from ..experts.answers import checked
from ..nested import join, take
from ..policies import Actions, Recalled, Seen, TrainedPolicy
from .log import SampleLog
from .records import verified
from .rounds import EXPERT, Round, not_finite_rows

NAMES = {
    "observations": ("observations", "obs", "states", "X"),
    "actions": ("actions", "acts", "labels", "Y"),
}
"""What the arrays of an archive may be called."""


class Demos(NamedTuple):
    """What an expert did or would have done in n states: observations with n in front, and labels (n, …)."""

    observations: Any
    labels: np.ndarray
    begins: np.ndarray | None = None
    """Where an episode begins (n,), if that is known."""


def recorded(source: str, observations: Seen, actions: Actions, spaces: Any) -> Round:
    """The demonstrations that `source` names, as a round.

    An .npz archive has `observations` (n, …), or `observations/KEY` for each key of a dict, and `actions`
    (n, …), which for Discrete actions may be rows of probabilities (n, k); a policy with memory needs
    `begins` (n,) too, true where an episode begins. "minari:ID" is a dataset of Minari. A folder is another
    run, whose labelled samples are taken. `spaces` has the environment's two.
    """
    if (Path(source) / "config.json").is_file():
        return _of_run(source, observations, actions)
    found = _minari(source) if source.startswith("minari:") else _archive(source)
    labels, who = found.labels, f"demos {source!r}"
    if labels.ndim == 0 or labels.size == 0:
        raise UserError(f"{who}: there is no demonstration in it, its actions have no rows.")
    n, kind = len(labels), "action"
    if actions.kind == "discrete" and labels.ndim == 2 and labels.shape[1:] == actions.counts:
        kind = "distribution"
    one = Expert(who, ask=lambda seen, infos: labels, kind=kind)
    try:
        labels = checked(one, spaces.action_space).label(np.zeros(n))
    except UserError as error:
        text = str(error).replace(f"expert {who!r}", who)
        raise UserError(text.replace("in environment", "in row")) from None
    try:
        rows = _rows(observations, found, who)
    except (ValueError, TypeError, KeyError, IndexError) as error:
        raise UserError(f"{who}: its observations do not fit the environment ({error}).") from None
    if len(rows) != n or rows.shape[1] != observations.width:
        raise UserError(
            f"{who}: observations make {len(rows)} rows of {rows.shape[1]} numbers for {n} actions; the "
            f"environment's have {observations.width}."
        )
    played = actions.plays(labels) if kind == "distribution" else labels
    return _round(rows, actions.targets(labels, kind), np.asarray(played).reshape(n, -1), who)


def _rows(observations: Seen, found: Demos, who: str) -> np.ndarray:
    if not isinstance(observations, Recalled):
        return observations.rows(found.observations)
    begins = found.begins
    if begins is None or begins.shape != (len(found.labels),):
        raise UserError(
            f"{who}: a policy with memory learns from episodes, and it does not say where they begin; give "
            "an array begins, true in every first row."
        )
    return observations.along(found.observations, begins.astype(bool))


def _round(inputs: np.ndarray, targets: np.ndarray, executed: np.ndarray, who: str) -> Round:
    n = len(inputs)
    if len(not_finite_rows(inputs)):
        raise UserError(f"{who}: an observation is not finite.")
    return Round(
        inputs=inputs,
        targets=np.asarray(targets, np.float32),
        executed=executed,
        rewards=np.full(n, np.nan, np.float32),
        flags=np.full(n, EXPERT, np.uint8),
        slots=np.zeros(n, np.int32),
        weights=np.full(n, 1.0 / n),
        labels=0,
        recorded=True,
    )


def checksum(round: Round) -> str:
    """A few letters that other demonstrations would not have."""
    crc = zlib.crc32(np.ascontiguousarray(round.inputs).tobytes())
    return f"{zlib.crc32(np.ascontiguousarray(round.targets).tobytes(), crc):08x}"


def _archive(source: str) -> Demos:
    path = Path(source)
    if not path.is_file():
        raise UserError(f"demos: there is no {source!r}; an .npz, a run's folder or minari:ID is read.")
    arrays = disk.read_npz(source, "demos")
    found = {}
    for wanted, names in NAMES.items():
        inner = {name.partition("/")[2]: arrays[name] for name in arrays if name.startswith(f"{wanted}/")}
        name = next((name for name in names if name in arrays), None)
        if name is None and not inner:
            there = ", ".join(arrays) or "no array"
            raise UserError(f"demos: {source} has no {wanted}, it has {there}. Accepted: {', '.join(names)}.")
        found[wanted] = inner or arrays[name or ""]
    return Demos(found["observations"], np.asarray(found["actions"]), arrays.get("begins"))


def _minari(source: str) -> Demos:
    minari = import_extra("minari", "demos: minari", "minari")
    name = source.removeprefix("minari:")
    try:
        episodes = list(minari.load_dataset(name, download=True).iterate_episodes())
    except Exception as error:
        raise UserError(f"demos: Minari cannot load {name!r} ({type(error).__name__}: {error}).") from None
    # An episode of T actions has T + 1 observations, the last of which has no action.
    seen = [take(one.observations, slice(len(one.actions))) for one in episodes]
    begins = [np.arange(len(one.actions)) == 0 for one in episodes]
    labels = np.concatenate([np.asarray(one.actions) for one in episodes])
    return Demos(join(seen), labels, np.concatenate(begins))


def _of_run(source: str, observations: Seen, actions: Actions) -> Round:
    policy, record = TrainedPolicy.load(source), verified(Path(source))
    if policy.observations.config() != observations.config() or policy.actions.config() != actions.config():
        raise UserError(f"demos: the run {source!r} has other observations or actions than this one.")
    samples = SampleLog.read(Path(source), record, policy)
    if samples is None:
        raise UserError(f"demos: the run {source!r} was saved without its samples.")
    has, slots = np.flatnonzero(samples.column("weights") > 0), samples.column("slots")
    if getattr(observations, "mark", False) and (len(has) < len(slots) or np.any(slots)):
        raise UserError(
            f"demos: the run {source!r} has states without a label, or several environments; a policy with "
            "memory learns from whole episodes of one."
        )
    inputs, targets = samples.column("inputs")[has], samples.column("targets")[has]
    played = actions.plays(targets).reshape(len(has), -1)
    return _round(np.asarray(inputs), targets, played, f"demos {source!r}")
