"""The statistics that `VecNormalize.save` wrote, read without running anything from the file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import UserError, damaged
from ...policies import Normaliser
from . import pickles, values


def load(path: str | os.PathLike[str], shape: tuple[int, ...]) -> Normaliser | None:
    """The function x ↦ clip((x - mean)/√(var + ε), ±clip) of flattened observations, None if it was off."""
    path = Path(path)
    what = f"VecNormalize file {path.name!r}"
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UserError(f"{what}: cannot be read ({error.strerror or error}).") from None
    tree = pickles.read(data, what)
    found = values.class_of(tree)
    if found is None or not values.is_name(
        found, "stable_baselines3.common.vec_env.vec_normalize.VecNormalize"
    ):
        raise values.refused(what, tree)
    with damaged(what):
        return _normaliser(values.attributes(tree, what), shape, what)


def _normaliser(state: Any, shape: tuple[int, ...], what: str) -> Normaliser | None:
    if not values.number(state.get("norm_obs", True), what):
        return None
    statistics = state["obs_rms"]
    if isinstance(statistics, dict):
        raise UserError(f"{what}: normalises a dict of observations; one array is what can be read.")
    found = values.class_of(statistics)
    if found is None or not values.is_name(found, "stable_baselines3.common.running_mean_std.RunningMeanStd"):
        raise values.refused(what, statistics)
    inner = values.attributes(statistics, what)
    mean, variance = (values.array(inner[key], what).astype(np.float64) for key in ("mean", "var"))
    epsilon, limit = (float(values.number(state[key], what)) for key in ("epsilon", "clip_obs"))
    if mean.shape != shape or variance.shape != shape:
        raise UserError(f"{what}: its statistics have the shape {mean.shape}, the observations {shape}.")
    if not (np.isfinite(mean).all() and np.isfinite(variance).all() and (variance + epsilon > 0).all()):
        raise UserError(f"{what}: its statistics are not finite and positive.")
    deviation = np.sqrt(variance + epsilon)
    return Normaliser(mean.reshape(-1), deviation.reshape(-1), limit, dtype=np.float64)
