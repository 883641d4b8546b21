"""The checkpoint of a training run: one npz of plain arrays beside the expert, no pickle.

Kept: the networks, their optimisers, the random key, the replay buffer, the statistics of observations, the
curve. Not kept: the episode under way, which begins anew, and NumPy's generator, which draws minibatches. A
resumed run is therefore as good as an uninterrupted one, but not the same number by number.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ... import disk
from ...errors import UserError, damaged

STATES = ("actor_state", "qf_state", "vf_state")
BUFFER = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")


def beside(path: Path) -> Path:
    """Where the checkpoint of the expert in `path` is."""
    return path.with_suffix(".resume.npz")


def refuse_taken(path: Path, resume: bool) -> None:
    """An expert that exists is not written over, unless its own training goes on."""
    if resume:
        if not beside(path).is_file():
            raise UserError(f"resume: there is no checkpoint {beside(path)} to go on from.")
    elif path.exists() or beside(path).exists():
        raise UserError(f"out: {path} or its checkpoint exists; name another file, or resume it.")


def trees(model: Any) -> dict[str, Any]:
    """All that a model learns and draws from, by its holder; what an algorithm lacks is left out."""
    held = {"policy": (*STATES, "key"), "model": ("ent_coef_state", "key")}
    owners = {"policy": model.policy, "model": model}
    return {
        owner: {name: getattr(owners[owner], name) for name in names if hasattr(owners[owner], name)}
        for owner, names in held.items()
    }


def write(path: Path, model: Any, record: dict[str, Any]) -> None:
    """Writes the checkpoint whole and synced."""
    leaves = jax.tree.leaves(trees(model))
    arrays = {f"leaf.{i}": np.asarray(leaf) for i, leaf in enumerate(leaves)}
    counters = {"num_timesteps": model.num_timesteps, "n_updates": model._n_updates}
    buffer = getattr(model, "replay_buffer", None)
    if buffer is not None:
        size = buffer.buffer_size if buffer.full else buffer.pos
        arrays |= {f"buffer.{name}": getattr(buffer, name)[:size] for name in BUFFER}
        counters |= {"pos": buffer.pos, "full": bool(buffer.full)}
    statistics = model.get_vec_normalize_env()
    if statistics is not None:
        for name in ("obs_rms", "ret_rms"):
            rms = getattr(statistics, name)
            arrays |= {f"{name}.{part}": np.asarray(getattr(rms, part)) for part in ("mean", "var", "count")}
    arrays["record"] = np.frombuffer(json.dumps({**record, "counters": counters}).encode(), np.uint8)
    disk.write_npz(beside(path), arrays)


def read(path: Path, model: Any, record: dict[str, Any]) -> dict[str, Any]:
    """Puts a checkpoint into a fresh model; one that was made with other settings is refused."""
    try:
        arrays = disk.read_npz(beside(path), "resume")
    except UserError as error:
        raise UserError(f"{str(error)[:-1]}: the checkpoint is damaged.") from None
    with damaged(f"resume: the checkpoint {beside(path)}"):
        kept = json.loads(arrays.pop("record").tobytes())
        for name in ("algo", "env", "env_kwargs", "recipe", "seed"):
            if kept[name] != json.loads(json.dumps(record[name])):
                raise UserError(f"resume: it was made with {name} {kept[name]!r}, not {record[name]!r}.")
        _restore(model, arrays, kept["counters"])
    return kept


def _restore(model: Any, arrays: dict[str, np.ndarray], counters: dict[str, Any]) -> None:
    leaves, structure = jax.tree.flatten(trees(model))
    fresh = []
    for i, old in enumerate(leaves):
        new = arrays[f"leaf.{i}"]
        if new.shape != np.shape(old):
            raise ValueError(f"array {i} has the shape {new.shape}, not {np.shape(old)}")
        # A step count is a plain int in a fresh model; as an array it would make the program compile again.
        fresh.append(int(new) if isinstance(old, int) else jax.numpy.asarray(new))
    found = jax.tree.unflatten(structure, fresh)
    for owner, holder in (("policy", model.policy), ("model", model)):
        for name, value in found[owner].items():
            setattr(holder, name, value)
    model.num_timesteps, model._n_updates = counters["num_timesteps"], counters["n_updates"]
    if "pos" in counters:
        buffer = model.replay_buffer
        size = len(arrays["buffer.rewards"])
        if size > buffer.buffer_size:
            raise UserError(f"resume: its {size} samples are more than these steps leave room for.")
        for name in BUFFER:
            getattr(buffer, name)[:size] = arrays[f"buffer.{name}"]
        # A buffer that was full has room again where more steps are asked for now.
        grown = counters["full"] and size < buffer.buffer_size
        buffer.pos, buffer.full = (size, False) if grown else (counters["pos"], counters["full"])
    statistics = model.get_vec_normalize_env()
    if statistics is not None:
        for name in ("obs_rms", "ret_rms"):
            rms = getattr(statistics, name)
            rms.mean, rms.var = arrays[f"{name}.mean"], arrays[f"{name}.var"]
            rms.count = float(arrays[f"{name}.count"])


def remove(path: Path) -> None:
    """The checkpoint of a run that has ended is of no more use."""
    beside(path).unlink(missing_ok=True)
