"""The episodes of a run as a dataset in LeRobot's format 3.0, whose files `samples.lerobot` describes."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, final

import numpy as np

from .. import disk
from ..errors import UserError, import_extra
from ..nested import parts
from ..runs import Record, maker_of
from ..samples.lerobot import (
    DATA_PATH,
    EPISODES_PATH,
    VERSION,
    VIDEO_PATH,
    Feature,
    as_rgb,
    column_names,
    ffmpeg,
    is_picture,
)
from .episodes import Episode, episodes

FILES_A_FOLDER = 1000
"""Files of a folder."""
DATA_SIZE, VIDEO_SIZE = 100, 200
"""Megabytes of a file of Parquet and of one of video, about."""
SHRINKS = 10
"""How much smaller pictures become in a video, about: by the pixels, another file begins in the same place
whatever ffmpeg has written by then."""
FPS = 30
"""Frames a second, where the environment does not say."""
QUANTILES = {"q01": 0.01, "q10": 0.1, "q50": 0.5, "q90": 0.9, "q99": 0.99}
LOOKED_AT = 50, 64
"""Frames of an episode, and rows and columns of pixels, by which statistics of pictures are measured."""
LOSSLESS = ["-c:v", "libx264rgb", "-crf", "0", "-g", "10", "-bf", "0"]
"""RGB without loss, so that what is read is what was seen; at most ten frames are decoded to see one."""

Statistics = dict[str, np.ndarray]
"""min, max, mean, std and quantiles of a feature, each of its shape, and count (1,)."""


def write(run: Record, folder: Path) -> int:
    """Writes a new folder and returns the number of episodes.

    A step has `observation.state` (or `observation.KEY` for each part; pictures are videos, and called
    `observation.image` or `observation.images.KEY`), `action` (what was played), `expert_action`, `asked`,
    `intervention` (the expert acted), `next.reward` and `next.done`, and LeRobot's own columns.
    """
    with disk.new_folder(folder) as draft, _Writer(draft, run.settings["env"], _fps(run.settings)) as writer:
        for episode in episodes(run):
            writer.add(episode)
    return writer.count


@final
class _Writer:
    """Writes episodes to a folder, one after the other; the files are whole when its block ends."""

    def __init__(self, folder: Path, task: str, fps: int):
        names = ("pyarrow", "pyarrow.parquet", "pandas")
        libraries = (import_extra(name, "export: LeRobot", "tables") for name in names)
        self._arrow, self._parquet, self._pandas = libraries
        self._folder, self._task, self._fps = folder, task, fps
        self._data = _Files(folder, DATA_PATH, DATA_SIZE)
        self._episodes = _Files(folder, EPISODES_PATH, DATA_SIZE)
        self._videos: dict[str, _Files] = {}
        self._features: dict[str, Feature] = {}
        self._statistics: dict[str, Statistics] = {}
        self._rows: list[dict[str, disk.Json]] = []
        self.count = self._frames = 0

    def __enter__(self) -> _Writer:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        with contextlib.ExitStack() as stack:
            for files in (self._data, self._episodes, *self._videos.values()):
                stack.callback(files.close)
            if kind is None:
                self._write_episodes()
                self._write_meta()

    def add(self, episode: Episode) -> None:
        """Writes the steps of one more episode."""
        columns = self._columns(episode)
        shown = {name: part for name, part in columns.items() if is_picture(part.dtype, part.shape[1:])}
        pictures, count = {name: as_rgb(part) for name, part in shown.items()}, len(episode)
        row: dict[str, disk.Json] = {"episode_index": self.count, "tasks": [self._task], "length": count}
        row |= {"dataset_from_index": self._frames, "dataset_to_index": self._frames + count}
        for name, frames in pictures.items():
            row |= self._add_video(name, frames)
        cells = {name: _cells(self._arrow, part) for name, part in columns.items() if name not in pictures}
        row |= {f"data/{key}": number for key, number in self._data.place.items()}
        self._add_table(self._data, self._arrow.table(cells))
        # Where the expert was not asked its action is none, and counts for nothing.
        measured = columns | {"expert_action": episode.expert_actions[episode.asked]}
        for name, part in measured.items():
            of = _picture_statistics(pictures[name]) if name in pictures else _statistics(part)
            self._statistics[name] = _joined(self._statistics[name], of) if self.count else of
            row |= {f"stats/{name}/{key}": value.tolist() for key, value in of.items()}
        if not self.count:
            self._features = {name: self._feature(part, name in pictures) for name, part in columns.items()}
        self._rows.append(row)
        self.count, self._frames = self.count + 1, self._frames + count
        if len(self._rows) == FILES_A_FOLDER:
            self._write_episodes()

    def _columns(self, episode: Episode) -> dict[str, np.ndarray]:
        steps = np.arange(len(episode))
        seen = {
            column_names(path, picture=is_picture(part.dtype, part.shape[1:]))[0]: part
            for path, part in parts(episode.observations)
        }
        return seen | {
            "action": episode.actions,
            "expert_action": episode.expert_actions,
            "asked": episode.asked,
            "intervention": episode.by_expert,
            "next.reward": episode.rewards,
            "next.done": (steps == len(episode) - 1) & (episode.terminated or episode.truncated),
            "timestamp": (steps / self._fps).astype(np.float32),
            "frame_index": steps,
            "episode_index": np.full(len(episode), self.count),
            "index": self._frames + steps,
            "task_index": np.zeros(len(episode), np.int64),
        }

    def _feature(self, part: np.ndarray, picture: bool) -> Feature:
        if not picture:
            return Feature(dtype=str(part.dtype), shape=list(part.shape[1:]) or [1], names=None)
        height, width = part.shape[1:3]
        info: dict[str, str | int | bool] = {
            "video.height": height,
            "video.width": width,
            "video.codec": "h264",
            "video.pix_fmt": "gbrp",
            "video.is_depth_map": False,
            "video.fps": self._fps,
            "video.channels": 3,
            "has_audio": False,
        }
        names = ["height", "width", "channels"]
        return Feature(dtype="video", shape=[height, width, 3], names=names, info=info)

    def _add_video(self, name: str, frames: np.ndarray) -> dict[str, float]:
        """Appends frames (T, h, w, 3) to a video, and returns where they are."""
        if name not in self._videos:
            self._videos[name] = _Files(self._folder, VIDEO_PATH, SHRINKS * VIDEO_SIZE, video_key=name)
        files, count = self._videos[name], len(frames)
        if files.stream is None:
            size = f"{frames.shape[2]}x{frames.shape[1]}"
            raw = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", size, "-r", str(self._fps), "-i", "-"]
            files.stream = _Video(ffmpeg("export", [*raw, *LOSSLESS, str(files.path)]))
        files.stream.write(frames)
        first, last = files.count / self._fps, (files.count + count) / self._fps
        place = {"from_timestamp": first, "to_timestamp": last, **files.place}
        files.grow(count, frames.nbytes)
        return {f"videos/{name}/{key}": value for key, value in place.items()}

    def _add_table(self, files: _Files, table: Any) -> None:
        """Appends rows to a file of Parquet."""
        if files.stream is None:
            files.stream = self._parquet.ParquetWriter(files.path, table.schema)
        files.stream.write_table(table)
        files.grow(len(table), table.nbytes)

    def _write_episodes(self) -> None:
        place = {f"meta/episodes/{key}": number for key, number in self._episodes.place.items()}
        if self._rows:
            table = self._arrow.table(disk.to_columns([row | place for row in self._rows]))
            self._add_table(self._episodes, table)
        self._rows = []

    def _write_meta(self) -> None:
        info = {
            "codebase_version": VERSION,
            "robot_type": self._task,
            "total_episodes": self.count,
            "total_frames": self._frames,
            "total_tasks": 1,
            "chunks_size": FILES_A_FOLDER,
            "data_files_size_in_mb": DATA_SIZE,
            "video_files_size_in_mb": VIDEO_SIZE,
            "fps": self._fps,
            "splits": {"train": f"0:{self.count}"},
            "data_path": DATA_PATH,
            "video_path": VIDEO_PATH if self._videos else None,
            "features": self._features,
        }
        for name, content in {"info": info, "stats": self._statistics}.items():
            disk.write_file(self._folder / f"meta/{name}.json", disk.to_json(content, indent=4) + "\n")
        tasks = self._pandas.DataFrame({"task_index": [0]}, index=[self._task])
        tasks.to_parquet(self._folder / "meta/tasks.parquet")


@final
class _Files:
    """Numbered files that are written one after the other, each of about `size` megabytes of data.

    stream: what the present file is written with, None before its first row; count: rows or frames in it.
    """

    def __init__(self, folder: Path, pattern: str, size: int, **names: str):
        self._folder, self._pattern, self._size, self._names = folder, pattern, size, names
        self._number = self._bytes = self.count = 0
        self.stream: Any = None

    @property
    def place(self) -> dict[str, int]:
        """The number of the present file."""
        return {"chunk_index": self._number // FILES_A_FOLDER, "file_index": self._number % FILES_A_FOLDER}

    @property
    def path(self) -> Path:
        """The present file, whose folder is there."""
        path = self._folder / self._pattern.format(**self.place, **self._names)
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def grow(self, count: int, size: int) -> None:
        """The present file has so many more rows and bytes; once it is large enough it is the last one."""
        self.count, self._bytes = self.count + count, self._bytes + size
        if self._bytes >= self._size * 2**20:
            self.close()
            self._number += 1

    def close(self) -> None:
        """Ends the present file."""
        if self.stream is not None:
            self.stream.close()
        self.stream, self.count, self._bytes = None, 0, 0


@final
class _Video:
    """A video that ffmpeg writes."""

    def __init__(self, process: subprocess.Popen[bytes]):
        self._process = process

    def write(self, frames: np.ndarray) -> None:
        """Appends frames (n, h, w, 3)."""
        assert self._process.stdin is not None
        self._process.stdin.write(frames.data)

    def close(self) -> None:
        """Ends the file."""
        self._process.communicate()
        if self._process.returncode:
            raise OSError(f"ffmpeg ended with code {self._process.returncode}")


def _cells(arrow: ModuleType, part: np.ndarray) -> Any:
    """An array (T, …) as a column of Parquet: numbers, or lists of lists; a single number is no list."""
    shape = part.shape[1:]
    column = arrow.array(part.reshape(-1))
    for size in () if shape == (1,) else reversed(shape):
        column = arrow.FixedSizeListArray.from_arrays(column, size)
    return column


def _statistics(values: np.ndarray) -> Statistics:
    """Statistics of values (n, …); zeros, which count for nothing, where n = 0."""
    shape = values.shape[1:] or (1,)
    numbers = values.astype(np.float64).reshape(-1, *shape) if len(values) else np.zeros((1, *shape))
    measured = {name: getattr(numbers, name)(axis=0) for name in ("min", "max", "mean", "std")}
    if values.dtype != np.uint8:  # of arrays of bytes, which are large, nobody wants quantiles
        quantiles = np.quantile(numbers, list(QUANTILES.values()), axis=0)
        measured |= dict(zip(QUANTILES, quantiles, strict=True))
    return measured | {"count": np.array([len(values)])}


def _picture_statistics(frames: np.ndarray) -> Statistics:
    """Statistics (3, 1, 1) of the channels of frames (T, h, w, 3), from 0 to 1, by some of their pixels."""
    most, side = LOOKED_AT
    every = [-(-size // limit) for size, limit in zip(frames.shape, (most, side, side), strict=False)]
    some = frames[:: every[0], :: every[1], :: every[2]]
    measured = _statistics(some.reshape(-1, 3) / 255) | {"count": np.array([len(some)])}
    return {name: value if name == "count" else value.reshape(3, 1, 1) for name, value in measured.items()}


def _joined(a: Statistics, b: Statistics) -> Statistics:
    """Statistics of the values of both. Quantiles are means of the episodes', as LeRobot has them."""
    n, m = a["count"], b["count"]
    if not n or not m:
        return a if n else b
    share = m / (n + m)
    joined = {name: value + share * (b[name] - value) for name, value in a.items()}
    within, between = (1 - share) * a["std"] ** 2 + share * b["std"] ** 2, (b["mean"] - a["mean"]) ** 2
    joined["std"] = np.sqrt(within + share * (1 - share) * between)
    joined |= {"min": np.minimum(a["min"], b["min"]), "max": np.maximum(a["max"], b["max"])}
    return joined | {"count": n + m}


def _fps(settings: Mapping[str, disk.Json]) -> int:
    """What the environment says of itself; `FPS` where it says nothing, or cannot be made from its name."""
    try:
        env = maker_of(settings)()
    except UserError:
        return FPS
    with contextlib.closing(env), contextlib.suppress(AttributeError, TypeError, ValueError):
        return int(env.metadata.get("render_fps") or FPS)
    return FPS
