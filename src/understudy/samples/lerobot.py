"""Datasets in LeRobot's format 3.0: where everything is in them, and their steps, read a part at a time.

meta/info.json                              features with types and shapes, counts, frames a second
meta/tasks.parquet, meta/stats.json         what was to be done; statistics of every feature
meta/episodes/chunk-000/file-000.parquet    one row an episode: its length, its files, its place in the videos
data/chunk-000/file-000.parquet             one row a step, many episodes a file
videos/KEY/chunk-000/file-000.mp4           frames of many episodes, one after the other
"""

from __future__ import annotations

import contextlib
import io
import math
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NotRequired, TypedDict, final

import numpy as np

from .. import disk
from ..errors import UserError, import_extra

if TYPE_CHECKING:
    from ..policies.codecs import Leaf

    Places = dict[str, list[np.ndarray]]
    """For every video columns by episode: chunk, file, and from which second."""

VERSION = "v3.0"
FILE = "chunk-{chunk_index:03d}/file-{file_index:03d}"
DATA_PATH, EPISODES_PATH = f"data/{FILE}.parquet", f"meta/episodes/{FILE}.parquet"
VIDEO_PATH = f"videos/{{video_key}}/{FILE}.mp4"
PIECE = 2**24
"""Bytes of steps, with their pictures, that are read at once."""
SIDE = 16
"""The least height and width of what is a picture and not an array of bytes."""


class Feature(TypedDict):
    """A column as info.json describes it."""

    dtype: str
    shape: list[int]
    names: list[str] | None
    info: NotRequired[dict[str, str | int | bool]]


class Steps(NamedTuple):
    """Steps in their order: columns (n, …) by name, and where an episode begins, or a part of one (n,)."""

    columns: dict[str, np.ndarray]
    begins: np.ndarray


def column_names(path: Sequence[str | int], *, picture: bool) -> list[str]:
    """What the part of an observation at `path` may be called, the name that is written first.

    >>> column_names(("wrist",), picture=True)
    ['observation.images.wrist', 'observation.wrist']
    >>> column_names((), picture=False)
    ['observation.state', 'observation.environment_state', 'observation']
    """
    if not path:
        plain = ["observation.state", "observation.environment_state", "observation"]
        return ["observation.image"] if picture else plain
    name = ".".join(map(str, path)).replace("/", ".")  # a slash is LeRobot's own in names
    names = [f"observation.images.{name}", f"observation.{name}"]
    return names if picture else names[::-1]


def is_picture(dtype: np.dtype | str, shape: Sequence[int]) -> bool:
    """Whether arrays of this type and shape are pictures: bytes, grey (h, w) or (h, w, 1), or RGB (h, w, 3).

    >>> is_picture("uint8", (64, 64, 3)), is_picture("uint8", (4, 84, 84)), is_picture("float32", (64, 64))
    (True, False, False)
    """
    large = len(shape) > 1 and min(shape[:2]) >= SIDE
    return large and np.dtype(dtype) == np.uint8 and shape[2:] in ((), (1,), (3,))


def as_seen(values: np.ndarray, leaf: Leaf) -> np.ndarray:
    """The values (n, …) of a column as part of an observation; a grey picture is RGB in the column."""
    if values.ndim == 4 and is_picture("uint8", leaf.shape) and leaf.shape[2:] != (3,):
        values = values[..., 0]
    return values.reshape(len(values), *leaf.shape)


def as_rgb(pictures: np.ndarray) -> np.ndarray:
    """Pictures (n, …) as RGB (n, h, w, 3)."""
    grey = pictures[..., None] if pictures.ndim == 3 else pictures
    return np.ascontiguousarray(np.broadcast_to(grey, (*grey.shape[:3], 3)))


@final
class Dataset:
    """A folder in LeRobot's format 3.0."""

    def __init__(self, folder: Path):
        self.folder, self.who = folder, f"demos 'lerobot:{folder}'"
        if not (folder / "meta/info.json").is_file():
            raise UserError(f"{self.who}: there is no dataset of LeRobot, no meta/info.json.")
        info = disk.read_json(folder / "meta/info.json", "demos")
        try:
            version = str(info["codebase_version"])
            self.features: dict[str, Feature] = dict(info["features"])
            self._fps, self._video_path = float(info["fps"]), str(info.get("video_path") or VIDEO_PATH)
        except (TypeError, KeyError, ValueError) as error:
            raise UserError(f"{self.who}: meta/info.json is damaged ({error!r}).") from None
        if not version.startswith("v3."):
            raise UserError(
                f"{self.who}: its format is {version}, and 3.0 is read; lerobot's script "
                "convert_dataset_v21_to_v30 makes one of the other."
            )
        needed = ("pyarrow", "pyarrow.compute", "pyarrow.parquet")
        libraries = (import_extra(name, "demos: LeRobot", "tables") for name in needed)
        self._arrow, self._compute, self._parquet = libraries

    def column_of(self, leaf: Leaf) -> str:
        """The column with this part of an observation."""
        picture = leaf.kind == "byte" and is_picture("uint8", leaf.shape)
        names = column_names(leaf.path, picture=picture)
        cameras = [name for name in self.features if name.startswith("observation.images.")]
        if picture and not leaf.path and len(cameras) == 1:
            names += cameras
        if (name := next(filter(self.features.__contains__, names), None)) is not None:
            return name
        there = ", ".join(name for name in self.features if name.startswith("observation"))
        wanted = " or ".join(names)
        raise UserError(f"{self.who}: it has no column {wanted}; it has {there or 'no observation'}.")

    def labels(self) -> tuple[str, str | None]:
        """The column with the expert's actions, and the one that is true where they are (None: everywhere).

        Datasets of runs have `expert_action` where `asked`; of lerobot's own with people who take over only
        the steps of an `intervention` are the expert's.
        """
        if {"expert_action", "asked"} <= set(self.features):
            return "expert_action", "asked"
        return "action", "intervention" if "intervention" in self.features else None

    def steps(self, names: Sequence[str], *, whole: bool = True) -> Iterator[Steps]:
        """The steps of all episodes in these columns, a few at a time; `whole`: no episode is divided."""
        try:
            yield from self._steps(list(dict.fromkeys(names)), whole)
        except (ValueError, KeyError, OSError, RuntimeError) as error:  # pyarrow's, imageio's and our own
            raise UserError(f"{self.who}: cannot be read ({type(error).__name__}: {error}).") from None

    def _steps(self, names: Sequence[str], whole: bool) -> Iterator[Steps]:
        if missing := [name for name in names if name not in self.features]:
            raise KeyError(missing[0])
        videos = {name: _Frames() for name in names if self.features[name]["dtype"] == "video"}
        plain = [name for name in names if name not in videos] + ["episode_index", "frame_index"]
        width = sum(math.prod(self._shape(name)) * (1 if name in videos else 8) for name in names)
        size, places = max(1, PIECE // max(1, width)), self._places(list(videos))
        rest: Any = None
        with contextlib.ExitStack() as stack:
            for frames in videos.values():
                stack.callback(frames.close)
            for file in sorted((self.folder / "data").glob("*/*.parquet")):
                for batch in self._parquet.ParquetFile(file).iter_batches(size, columns=plain):
                    table = self._arrow.Table.from_batches([batch]).select(plain)
                    table = table if rest is None else self._arrow.concat_tables([rest, table])
                    episode = table["episode_index"].to_numpy()
                    # The last episode may go on in the next rows.
                    last = np.count_nonzero(episode != episode[-1]) if whole else len(table)
                    if last:
                        yield self._read(table.slice(0, last), names, videos, places)
                    rest = table.slice(last) if last < len(table) else None
            if rest is not None:
                yield self._read(rest, names, videos, places)

    def _read(self, table: Any, names: Sequence[str], videos: dict[str, _Frames], places: Places) -> Steps:
        episode, frame = (table[name].to_numpy() for name in ("episode_index", "frame_index"))
        begins = np.diff(episode, prepend=-1) != 0
        columns: dict[str, np.ndarray] = {}
        for name in names:
            shape = self._shape(name)
            if name not in videos:
                columns[name] = self._array(table[name], self.features[name]["dtype"], shape)
                continue
            columns[name] = np.empty((len(table), *shape), np.uint8)
            starts = np.flatnonzero(begins)
            for start, end in zip(starts, [*starts[1:], len(table)], strict=True):
                chunk, number, seconds = (column[episode[start]] for column in places[name])
                path = self._video_path.format(video_key=name, chunk_index=chunk, file_index=number)
                first = round(float(seconds) * self._fps) + int(frame[start])
                videos[name].read(self.folder / path, first, columns[name][start:end])
        return Steps(columns, begins)

    def _shape(self, name: str) -> tuple[int, ...]:
        """The shape of one cell; pictures are read with their channels last."""
        shape = tuple(self.features[name]["shape"])
        if self.features[name]["dtype"] in ("image", "video") and shape[0] == 3 != shape[-1]:
            return (*shape[1:], 3)
        return shape

    def _array(self, column: Any, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
        """A column of the table as an array (n, …)."""
        if dtype == "image":
            imageio = import_extra("imageio.v3", "demos: LeRobot's images", "mujoco")
            cells = column.to_pylist()
            files = (io.BytesIO(c["bytes"]) if c["bytes"] else self.folder / c["path"] for c in cells)
            return np.stack([imageio.imread(file, mode="RGB") for file in files]).reshape(-1, *shape)
        values = column.combine_chunks()
        while self._arrow.types.is_nested(values.type) or hasattr(values, "storage"):
            values = values.storage if hasattr(values, "storage") else self._compute.list_flatten(values)
        array = np.asarray(values.to_numpy(zero_copy_only=False))
        return array.reshape(len(column), *(() if shape == (1,) else shape))

    def _places(self, videos: Sequence[str]) -> Places:
        """For every video the chunk and the file in which each episode is, and from which second."""
        if not videos:
            return {}
        parts = ("chunk_index", "file_index", "from_timestamp")
        names = [f"videos/{video}/{part}" for video in videos for part in parts]
        files = sorted((self.folder / "meta/episodes").glob("*/*.parquet"))
        tables = [self._parquet.read_table(file, columns=["episode_index", *names]) for file in files]
        table = self._arrow.concat_tables(tables).sort_by("episode_index")
        return {video: [table[f"videos/{video}/{part}"].to_numpy() for part in parts] for video in videos}


@final
class _Frames:
    """The frames of videos, read one after the other; a video is begun anew only to go back in it."""

    def __init__(self) -> None:
        self._path, self._next, self._process = Path(), 0, None

    def read(self, path: Path, first: int, into: np.ndarray) -> None:
        """Writes the frames from number `first` on into pictures (n, h, w, 3)."""
        if path != self._path or first < self._next or self._process is None:
            self.close()
            height, width = into.shape[1:3]
            what = ["-fps_mode", "passthrough", "-vf", f"scale={width}:{height}", "-pix_fmt", "rgb24"]
            self._process = ffmpeg("demos", ["-i", str(path), *what, "-f", "rawvideo", "-"])
            self._path, self._next = path, 0
        assert self._process.stdout is not None
        shape, size = into.shape[1:], into[:1].nbytes
        while self._next < first + len(into):
            frame = self._process.stdout.read(size)
            if len(frame) < size:
                raise ValueError(f"{path} has fewer frames than the episodes say")
            if self._next >= first:
                into[self._next - first] = np.frombuffer(frame, np.uint8).reshape(shape)
            self._next += 1

    def close(self) -> None:
        """Ends the program that decodes."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
        self._process = None


def ffmpeg(field: str, arguments: Sequence[str]) -> subprocess.Popen[bytes]:
    """The program ffmpeg under way, with pipes for what goes in and comes out."""
    program = import_extra("imageio_ffmpeg", f"{field}: LeRobot's videos", "mujoco").get_ffmpeg_exe()
    command = [program, "-y", "-loglevel", "error", *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
