"""What a page shows of a run from its samples: who acted, where policy and expert disagree, and moments of it
as short films: the episode is played again from its seed with the actions that were played, and what it shows
is compared with what was kept.
"""

from __future__ import annotations

import base64
import contextlib
import io
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..envs.gymnasium import Maker
from ..envs.pictures import Stage
from ..errors import UserError, shorten
from ..nested import stack
from ..policies import History, Recalled, TrainedPolicy
from ..runs import Record, maker_of
from ..samples import EXPERT
from .disagreement import Compared, Moment, compare, described, worst

BINS = 240
"""Most steps of the timeline."""
NUMBERS = 6
"""Most dimensions of an action that a moment shows; those that differ most are taken."""
TILES, COLUMNS, WIDTH = 24, 6, 200
"""Pictures of a clip, how many stand side by side in its image, and the width of one in pixels."""
BEFORE, AFTER = 1.2, 0.8
"""Seconds before and after the moment."""
QUALITY = 42
AWAY = 1e-3
"""An episode counts as played again where its observation is as near as this to the one that was kept."""


def inspect(
    folder: Path, *, moments: int, seconds: float, progress: Callable[[int], None] | None = None
) -> dict[str, Any]:
    """Timeline, disagreement and moments of the run in `folder`; a sentence `missing` where there are none.

    Clips are drawn for so many `seconds` at most, but for the one that is under way then.
    """
    try:
        run = Record.load(folder)
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
            make = maker_of(run.settings)
        except UserError as error:
            made["drawing"] = str(error)
        else:
            inputs, until = run.samples("inputs"), time.monotonic() + seconds
            films, made["drawing"] = film(make, run.policy, inputs, chosen, until=until, progress=progress)
    made["moments"] = [_plain(found, one) for one in chosen]
    for at, clip in films.items():
        made["moments"][at]["clip"] = clip
    return made


def timeline(run: Record) -> dict[str, Any]:
    """The shares of steps that the expert acted, and of states it was asked about, along the steps."""
    flags, weights = (np.asarray(run.samples(name)[run.demos :]) for name in ("flags", "weights"))
    if not len(flags):
        return {"x": [], "end": 0, "acted": [], "asked": []}
    edges = np.unique(np.linspace(0, len(flags), min(BINS, len(flags)) + 1).round().astype(int))
    sizes = np.diff(edges)
    acted = np.add.reduceat((flags & EXPERT > 0).astype(float), edges[:-1]) / sizes
    asked = np.add.reduceat((weights > 0).astype(float), edges[:-1]) / sizes
    shares = {"acted": acted.round(4).tolist(), "asked": asked.round(4).tolist()}
    return {"x": edges[:-1].tolist(), "end": len(flags), **shares}


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


def film(
    make: Maker,
    policy: TrainedPolicy,
    inputs: Any,
    moments: Sequence[Moment],
    *,
    until: float,
    progress: Callable[[int], None] | None = None,
) -> tuple[dict[int, dict[str, Any]], str]:
    """Clips by the place of their moment in `moments`, and why some are missing (empty: none is).

    A clip is one WebP image of tiles: {image, columns, lines, tiles, at (the tile of the moment), width,
    height, rate}. `inputs` are the rows that were kept. Drawing ends at `until`, a time of `time.monotonic`.
    """
    made: dict[int, dict[str, Any]] = {}
    try:
        stage = Stage(make)
    except UserError as error:
        return {}, str(error).removeprefix("env: ")
    missing = ""
    with contextlib.closing(stage):
        for place, moment in enumerate(moments):
            if time.monotonic() > until:
                missing = f"the time for drawing was over after {place} of {len(moments)} moments."
                break
            try:
                found = _one(stage, policy, np.asarray(inputs[moment.row]), moment)
            except Exception as error:  # whatever an environment may raise
                missing = f"an episode could not be drawn ({shorten(error)})."
                continue
            if found is None:
                missing = "an episode does not replay: it shows something else than when it was recorded."
            else:
                made[place] = found
            if progress is not None:
                progress(place + 1)
    return made, missing


def _one(stage: Stage, policy: TrainedPolicy, kept: np.ndarray, moment: Moment) -> dict[str, Any] | None:
    skip = max(1, round((BEFORE + AFTER) * stage.rate / TILES))
    before = min(moment.step // skip, round(TILES * BEFORE / (BEFORE + AFTER)))
    first, last = moment.step - before * skip, moment.step + (TILES - before - 1) * skip
    seen, _ = stage.env.reset(seed=moment.seed)
    tiles, past = [], History(policy.observations, 1)
    recalls = isinstance(policy.observations, Recalled)
    for step in range(min(last, len(moment.actions)) + 1):
        if step == moment.step or (recalls and step < moment.step):
            rows = past.see([0], stack([seen]))
            past.advance([0], rows)
            if step == moment.step and not np.allclose(rows[0], kept, rtol=AWAY, atol=AWAY):
                return None
        if step >= first and (step - first) % skip == 0:
            tiles.append(_small(stage.draw()))
        if step < len(moment.actions):
            seen, *_ = stage.env.step(policy.actions.from_numbers(moment.actions[step]))
    if len(tiles) <= before:
        return None
    height, width = tiles[0].shape[:2]
    lines = -(-len(tiles) // COLUMNS)
    sheet = np.full((lines * height, min(COLUMNS, len(tiles)) * width, 3), 255, np.uint8)
    for number, tile in enumerate(tiles):
        top, left = number // COLUMNS * height, number % COLUMNS * width
        sheet[top : top + height, left : left + width] = tile
    return {
        "image": _webp(sheet),
        "columns": min(COLUMNS, len(tiles)),
        "lines": lines,
        "tiles": len(tiles),
        "at": before,
        "width": width,
        "height": height,
        "rate": round(stage.rate / skip, 2),
    }


def _small(frame: np.ndarray) -> np.ndarray:
    from PIL import Image

    height, width = frame.shape[:2]
    size = WIDTH, max(1, round(height * WIDTH / width))
    return np.asarray(Image.fromarray(frame).convert("RGB").resize(size, Image.Resampling.LANCZOS))


def _webp(sheet: np.ndarray) -> str:
    from PIL import Image

    kept = io.BytesIO()
    Image.fromarray(sheet).save(kept, "WEBP", quality=QUALITY, method=4)
    return "data:image/webp;base64," + base64.b64encode(kept.getvalue()).decode()
