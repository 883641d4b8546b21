"""Short films of moments of a run, drawn when they are asked for: the episode is played again from its seed
with the actions that were played, and what it shows is compared with what was kept.
"""

from __future__ import annotations

import base64
import contextlib
import io
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..envs.gymnasium import Maker
from ..envs.pictures import Camera, opened, picture
from ..errors import UserError, said
from ..policies import TrainedPolicy
from .disagreement import Moment

TILES, COLUMNS, WIDTH = 24, 6, 200
"""Pictures of a clip, how many stand side by side in its image, and the width of one in pixels."""
BEFORE, AFTER = 1.2, 0.8
"""Seconds before and after the moment."""
QUALITY = 42
AWAY = 1e-3
"""An episode counts as played again where its observation is as near as this to the one that was kept."""


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
        env, _, _, camera, _, rate = opened(make)
    except UserError as error:
        return {}, str(error).removeprefix("env: ")
    missing = ""
    with contextlib.closing(env):
        for place, moment in enumerate(moments):
            if time.monotonic() > until:
                missing = f"the time for drawing was over after {place} of {len(moments)} moments."
                break
            try:
                found = _one(env, camera, policy, np.asarray(inputs[moment.row]), moment, rate)
            except Exception as error:  # whatever an environment may raise
                missing = f"an episode could not be drawn ({said(error)})."
                continue
            if found is None:
                missing = "an episode does not replay: it shows something else than when it was recorded."
            else:
                made[place] = found
            if progress is not None:
                progress(place + 1)
    return made, missing


def _one(
    env: Any, camera: Camera, policy: TrainedPolicy, kept: np.ndarray, moment: Moment, rate: float
) -> dict[str, Any] | None:
    skip = max(1, round((BEFORE + AFTER) * rate / TILES))
    before = min(moment.step // skip, round(TILES * BEFORE / (BEFORE + AFTER)))
    first, last = moment.step - before * skip, moment.step + (TILES - before - 1) * skip
    seen, _ = env.reset(seed=moment.seed)
    tiles = []
    for step in range(min(last, len(moment.actions)) + 1):
        if step == moment.step:
            row = np.asarray(policy.observations.row(seen), float)
            if not np.allclose(row, kept.astype(float), rtol=AWAY, atol=AWAY):
                return None
        if step >= first and (step - first) % skip == 0:
            camera.follow()
            tiles.append(_small(picture(env)))
        if step < len(moment.actions):
            seen, *_ = env.step(policy.actions.from_numbers(moment.actions[step]))
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
        "rate": round(rate / skip, 2),
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
