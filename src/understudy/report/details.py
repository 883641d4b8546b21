"""What a page shows of a run from its samples: who acted, where policy and expert disagree, moments."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import UserError
from ..runs import Run, world_of
from ..runs.collected import EXPERT
from . import clips
from .disagreement import Compared, Moment, compare, described, worst

BINS = 240
"""Most steps of the timeline."""
NUMBERS = 6
"""Most dimensions of an action that a moment shows; those that differ most are taken."""


def inspect(
    folder: Path, *, moments: int, seconds: float, progress: Callable[[int], None] | None = None
) -> dict[str, Any]:
    """Timeline, disagreement and moments of the run in `folder`; a sentence `missing` where there are none.

    Clips are drawn for so many `seconds` at most, but for the one that is under way then.
    """
    try:
        run = Run.load(folder)
        made: dict[str, Any] = {"timeline": timeline(run)}
        found = compare(run)
    except UserError as error:
        return {"missing": str(error)}
    if found is None:
        return made | {"missing": "no state of the run has a label."}
    made["compared"] = described(run, found)
    chosen = worst(run, found, moments)
    films: dict[int, dict[str, Any]] = {}
    if chosen and seconds > 0:
        try:
            make = world_of(run.settings)
        except UserError as error:
            made["drawing"] = str(error)
        else:
            films, made["drawing"] = clips.film(
                make,
                run.policy,
                run.samples("inputs"),
                chosen,
                until=time.monotonic() + seconds,
                progress=progress,
            )
    made["moments"] = [
        _plain(found, one) | ({"clip": films[at]} if at in films else {}) for at, one in enumerate(chosen)
    ]
    return made


def timeline(run: Run) -> dict[str, Any]:
    """The shares of steps that the expert acted, and of states it was asked about, along the interactions."""
    flags, weights = (np.asarray(run.samples(name)[run.demos :]) for name in ("flags", "weights"))
    if not len(flags):
        return {"x": [], "acted": [], "asked": []}
    edges = np.unique(np.linspace(0, len(flags), min(BINS, len(flags)) + 1).round().astype(int))
    sizes = np.diff(edges)
    acted = np.add.reduceat((flags & EXPERT > 0).astype(float), edges[:-1]) / sizes
    asked = np.add.reduceat((weights > 0).astype(float), edges[:-1]) / sizes
    return {"x": edges[:-1].tolist(), "acted": acted.round(4).tolist(), "asked": asked.round(4).tolist()}


def _plain(found: Compared, one: Moment) -> dict[str, Any]:
    acts = found.actions
    mine, theirs = found.mine[one.at], found.theirs[one.at]
    made: dict[str, Any] = {
        "round": one.round,
        "slot": one.slot,
        "episode": one.episode,
        "step": one.step,
        "away": float(found.away[one.at]),
        "by_expert": bool(found.by_expert[one.at]),
        "choices": acts.categorical,
    }
    if acts.categorical:
        return made | {"mine": mine[:16].tolist(), "theirs": theirs[:16].tolist()}
    shown = np.sort(np.argsort(-np.abs(mine - theirs), kind="stable")[:NUMBERS])
    edges = [float(edge) for bound in (acts.low, acts.high) for edge in np.asarray(bound).ravel()[shown]]
    if not all(map(math.isfinite, edges)):
        edges = [float(one) for one in (*mine[shown], *theirs[shown])]
    return made | {
        "dimensions": shown.tolist(),
        "mine": [float(f"{value:.6g}") for value in mine[shown]],
        "theirs": [float(f"{value:.6g}") for value in theirs[shown]],
        "range": [min(edges), max(edges)],
    }
