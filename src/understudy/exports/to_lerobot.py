"""The episodes of a run in the layout of LeRobot's datasets, version 2.1.

meta/info.json               features with their types and shapes, numbers of episodes and frames
meta/episodes.jsonl          the length of every episode; meta/tasks.jsonl: the environment's name
meta/episodes_stats.jsonl    least, greatest, mean and deviation of every feature
data/chunk-000/episode_000000.parquet    one row a step
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .. import disk
from ..errors import UserError, import_extra
from ..nested import parts
from ..runs import Record, maker_of
from .episodes import Episode, episodes

VERSION = "v2.1"
CHUNK = 1000
FPS = 30
"""Frames a second, where the environment does not say."""


def write(run: Record, folder: Path) -> int:
    """Writes a new folder and gives the number of episodes.

    A step has `observation.state` (or one `observation.KEY` for each part), `action` (what was played),
    `expert_action`, `by_expert`, `asked`, `next.reward` and `next.done`, and LeRobot's own columns. Parts
    with more than one axis are kept flat, their shape is in info.json.
    """
    pyarrow, parquet = (
        import_extra(one, "export: LeRobot", "tables") for one in ("pyarrow", "pyarrow.parquet")
    )
    fps, task = _fps(run.settings), {"task_index": 0, "task": run.settings["env"]}
    lengths, stats, features, frames = [], [], {}, 0
    with disk.new_folder(folder) as draft:
        for number, one in enumerate(episodes(run)):
            columns = _columns(one, number, frames, fps)
            place = draft / f"data/chunk-{number // CHUNK:03d}"
            place.mkdir(parents=True, exist_ok=True)
            flat = {k: list(v.reshape(len(v), -1)) if v.ndim > 1 else v for k, v in columns.items()}
            parquet.write_table(pyarrow.table(flat), place / f"episode_{number:06d}.parquet")
            features = {
                name: {"dtype": str(part.dtype), "shape": part.shape[1:] or [1], "names": None}
                for name, part in columns.items()
            }
            lengths.append({"episode_index": number, "tasks": [task["task"]], "length": len(one)})
            # Where the expert was not asked its action is none, and counts for nothing.
            asked = columns | {"expert_action": one.expert_actions[one.asked]}
            stats.append({"episode_index": number, "stats": {k: _stats(v) for k, v in asked.items()}})
            frames += len(one)
        info = {
            "codebase_version": VERSION,
            "robot_type": task["task"],
            "total_episodes": len(lengths),
            "total_frames": frames,
            "total_tasks": 1,
            "total_videos": 0,
            "total_chunks": -(-len(lengths) // CHUNK),
            "chunks_size": CHUNK,
            "fps": fps,
            "splits": {"train": f"0:{len(lengths)}"},
            "data_path": "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet",
            "video_path": None,
            "features": features,
        }
        disk.write_file(draft / "meta/info.json", disk.to_json(info, indent=4) + "\n")
        lines = {"tasks": [task], "episodes": lengths, "episodes_stats": stats}
        for name, rows in lines.items():
            disk.write_file(draft / f"meta/{name}.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    return len(lengths)


def _columns(one: Episode, number: int, first: int, fps: int) -> dict[str, np.ndarray]:
    steps = np.arange(len(one))
    last = steps == len(one) - 1
    seen = {".".join(map(str, path)) or "state": part for path, part in parts(one.observations)}
    return {
        **{f"observation.{name}": part for name, part in seen.items()},
        "action": one.actions,
        "expert_action": one.expert_actions,
        "by_expert": one.by_expert,
        "asked": one.asked,
        "next.reward": one.rewards,
        "next.done": last & (one.terminated or one.truncated),
        "timestamp": (steps / fps).astype(np.float32),
        "frame_index": steps,
        "episode_index": np.full(len(one), number),
        "index": first + steps,
        "task_index": np.zeros(len(one), np.int64),
    }


def _stats(values: np.ndarray) -> dict[str, list[Any]]:
    shape = values.shape[1:] or (1,)
    numbers = values.astype(np.float64).reshape(-1, *shape) if len(values) else np.zeros((1, *shape))
    made = {"min": numbers.min(0), "max": numbers.max(0), "mean": numbers.mean(0), "std": numbers.std(0)}
    return {name: one.tolist() for name, one in made.items()} | {"count": [len(values)]}


def _fps(settings: Mapping[str, Any]) -> int:
    """What the environment says of itself; `FPS` where it says nothing, or cannot be made from its name."""
    try:
        env = maker_of(settings)()
    except UserError:
        return FPS
    with contextlib.closing(env), contextlib.suppress(AttributeError, TypeError, ValueError):
        return int(env.metadata.get("render_fps") or FPS)
    return FPS
