"""Every sample of a run, appended round by round: in memory while it is small, in flat files otherwise.

Of a stack of k frames k − 1 were in the stack before it. So a sample adds one frame of bytes and k numbers
that say which frames it is made of: 7 kB instead of 28 for Atari's four frames of 84 × 84.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, final

import jax
import numpy as np

from ..errors import UserError, check_name
from ..losses import Absolute, Squared, computes
from ..machine import total_memory
from ..policies import Actions, Guest, Normaliser, Observations, Seen, TrainedPolicy
from ..solvers import draws
from ..spec import FIELDS
from .images import ImageRows, Rows, Stacks, in_pieces, split_rows
from .records import Record, Sum, Sums
from .rounds import Round

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, DTypeLike

    from ..parts import Parts

LEAST_PIXELS = 256
"""Pixels of an image whose rows are kept as bytes."""
SMALL = 2**24
"""Bytes up to which the rows of two rounds are joined in memory."""


@final
class Column:
    """Rows of one type and shape: in memory, or one after the other in NAME.bin in the folder of `sums`."""

    def __init__(self, name: str, dtype: DTypeLike, shape: tuple[int, ...], sums: Sums):
        self._file, self._dtype, self._shape, self._sums = f"{name}.bin", np.dtype(dtype), shape, sums
        self.width = self._dtype.itemsize * int(np.prod(shape, dtype=np.int64))
        """Bytes of a row."""
        self._parts: list[np.ndarray] = []  # without a folder

    def append(self, rows: np.ndarray, slots: np.ndarray | None = None) -> None:
        """Adds rows, played in whichever slots; in a file they are on the disk when this returns."""
        if self._sums.folder is None:
            self._parts.append(rows)
        else:
            self._sums.append(self._file, np.ascontiguousarray(rows, self._dtype).tobytes())

    def add(self, rows: np.ndarray) -> None:
        """Adds rows; in memory small ones are joined."""
        if self._sums.folder is not None:
            self.append(rows)
        elif self._parts and self._parts[-1].nbytes + rows.nbytes <= SMALL:
            self._parts[-1] = np.concatenate([self._parts[-1], rows])
        else:
            self._parts.append(rows)

    def __len__(self) -> int:
        """How many rows there are; the last ones may be those of a round that never counted."""
        if self._sums.folder is None:
            return sum(map(len, self._parts))
        file = self._sums.folder / self._file
        return (file.stat().st_size if file.exists() else 0) // self.width

    def rows(self, count: int) -> np.ndarray:
        """The first `count` rows; those in a file are mapped, not read."""
        if count == 0:
            return np.empty((0, *self._shape), self._dtype)
        if self._sums.folder is not None:
            file = self._sums.folder / self._file
            return np.memmap(file, self._dtype, "r", shape=(count, *self._shape))
        self._parts = [np.concatenate(self._parts)]
        return self._parts[0][:count]

    def parts(self) -> list[np.ndarray]:
        """All rows, in the arrays in which they are."""
        return [self.rows(len(self))] if self._sums.folder is not None or not self._parts else self._parts


def distinct(stacks: np.ndarray, slots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct frames (f, height, width) of stacks (m, k, height, width) of bytes, the empty one first,
    and which of them each stack is made of, (m, k): ``frames[index]`` are the stacks, bit for bit.

    Row i is the next observation of slot ``slots[i]``. Frames that the slot's last stack already held, moved
    up by one, are not taken again. Nothing is assumed about episodes: where a stack does not continue the
    last one, all its frames are taken.

    >>> seen = np.array([[0, 7], [7, 8], [8, 9]], np.uint8)[:, :, None, None]
    >>> frames, index = distinct(seen, np.zeros(3, int))
    >>> frames.ravel().tolist(), index.tolist()
    ([0, 7, 8, 9], [[0, 1], [1, 2], [2, 3]])
    """
    frames = [np.zeros(stacks.shape[2:], np.uint8)]
    index = np.zeros(stacks.shape[:2], np.int32)
    last: dict[int, int] = {}

    def number(frame: np.ndarray) -> int:
        if not frame.any():
            return 0
        frames.append(frame)
        return len(frames) - 1

    for row, slot in enumerate(np.asarray(slots).tolist()):
        before, now = last.get(slot), stacks[row]
        if before is not None and np.array_equal(now[:-1], stacks[before, 1:]):
            index[row, :-1], index[row, -1] = index[before, 1:], number(now[-1])
        else:
            index[row] = [number(frame) for frame in now]
        last[slot] = row
    return np.stack(frames), index


def image_columns(observations: Seen) -> slice | None:
    """The columns of the only image of bytes in the rows of these observations; None where there is none.

    >>> from gymnasium.spaces import Box, Dict
    >>> image_columns(Observations.of(Dict(a=Box(-1, 1, (3,)), b=Box(0, 255, (16, 16), np.uint8))))
    slice(3, 259, None)
    """
    if not isinstance(observations, Observations):
        return None
    images = [i for i, leaf in enumerate(observations.leaves) if leaf.kind == "byte"]
    if len(images) != 1 or observations.leaves[images[0]].width < LEAST_PIXELS:
        return None
    first = sum(leaf.width for leaf in observations.leaves[: images[0]])
    return slice(first, first + observations.leaves[images[0]].width)


def stack_shape(observations: Seen) -> tuple[int, int, int] | None:
    """The (k, height, width) of observations that are stacks of frames of bytes; None for all others."""
    leaves = getattr(observations, "leaves", ())
    if len(leaves) != 1 or leaves[0].kind != "byte" or len(leaves[0].shape) != 3:
        return None
    if int(np.prod(leaves[0].shape)) != observations.width:  # seen through a network: features, not frames
        return None
    k, height, width = (int(n) for n in leaves[0].shape)
    return (k, height, width) if 2 <= k <= 16 and min(height, width) >= 16 else None


@final
class FrameColumn:
    """The column of a log that holds stacks: `frames` are frame after frame, the empty one first; `index`
    says for every row which it is made of. A round begins anew, so that a run that was killed and resumed
    writes the same bytes.
    """

    def __init__(self, shape: tuple[int, int, int], sums: Sums):
        self._shape = shape
        self._frames = Column("frames", np.uint8, shape[1:], sums)
        self._index = Column("index", np.int32, shape[:1], sums)
        self.width = self._frames.width + self._index.width
        """Bytes of a row, about: a frame and its numbers."""

    def append(self, rows: Rows, slots: np.ndarray) -> None:
        """Adds a round's rows (m, k · height · width), played in these slots (m,), in order."""
        frames, index = distinct(np.asarray(rows).reshape(-1, *self._shape), slots)
        if before := len(self._frames):
            frames, index = frames[1:], np.where(index == 0, 0, index + before - 1).astype(np.int32)
        self._frames.append(frames)
        self._index.append(index)

    def rows(self, count: int) -> Stacks:
        """The first `count` rows."""
        return Stacks(self._frames.rows(len(self._frames)), self._index.rows(count))


@final
class ImageColumn:
    """The column of a log whose rows hold an image in `columns`; see `ImageRows`."""

    def __init__(self, columns: slice, width: int, sums: Sums):
        self._columns, self._in_files = columns, sums.folder is not None
        size = columns.stop - columns.start
        self._kept = [Column("inputs" if size == width else "images", np.uint8, (size,), sums)]
        if size < width:
            self._kept.append(Column("numbers", np.float32, (width - size,), sums))
        self.width = sum(column.width for column in self._kept)
        """Bytes of a row."""

    def append(self, rows: Rows, slots: np.ndarray | None = None) -> None:
        """Adds rows, played in whichever slots. Those that are bytes already are not copied in memory."""
        if isinstance(rows, ImageRows) and not self._in_files:
            for column, parts in zip(self._kept, (rows.pixels, rows.numbers)):
                for part in parts:
                    column.add(part)
            return
        for piece in in_pieces(rows) if self._in_files or len(self._kept) > 1 else [np.asarray(rows)]:
            for column, part in zip(self._kept, split_rows(piece, self._columns)):
                column.add(part)

    def rows(self, count: int) -> Rows:
        """The first `count` rows."""
        pixels, *numbers = (column.parts() for column in self._kept)
        return ImageRows(pixels, numbers[0] if numbers else [], self._columns, count)


@final
class SampleLog:
    """Append-only columns of samples (see `Round`), one file a column under `folder`, or in memory without
    one.

    A file is rows after rows of one type and width, so reading it is mapping it into memory, and forgetting
    the rows that a killed process had begun to write is cutting it to a length. Stacks of frames are kept
    frame by frame, each once (see `columns`); `frames` is their shape, None where there are none.

    keep: whether the samples are kept, or only counted. mapped: whether the learner reads them from here, and
    holds none itself. around: a temporary folder that must live as long.
    """

    def __init__(
        self,
        observations: Seen,
        actions: Actions,
        *,
        folder: Path | None = None,
        keep: bool = True,
        mapped: bool = False,
        around: tempfile.TemporaryDirectory[str] | None = None,
    ):
        self.folder, self.rows, self.keeps, self.mapped, self._around = folder, 0, keep, mapped, around
        self.sums = Sums(folder)
        kinds: dict[str, tuple[DTypeLike, tuple[int, ...]]] = {
            "inputs": (observations.dtype, (observations.width,)),
            "targets": (np.float32, (actions.outputs,)),
            "executed": (actions.dtype, (actions.size,)),
            "rewards": (np.float32, ()),
            "flags": (np.uint8, ()),
            "slots": (np.int32, ()),
            "weights": (np.float64, ()),
        }
        self._columns: dict[str, Column | FrameColumn | ImageColumn] = {
            name: Column(name, *kind, self.sums) for name, kind in kinds.items()
        }
        self.frames = stack_shape(observations)
        self.images = image_columns(observations)
        if self.frames is not None:
            self._columns["inputs"] = FrameColumn(self.frames, self.sums)
        elif self.images is not None:
            self._columns["inputs"] = ImageColumn(self.images, observations.width, self.sums)
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)

    @classmethod
    def read(cls, folder: Path, record: Record, policy: TrainedPolicy) -> SampleLog | None:
        """The samples in a run's folder, as many as belong to the round of `record`; None where the run was
        saved without them.
        """
        if not any(name.startswith("samples/") for name in record.grown):
            return None
        log = cls(policy.observations, policy.actions, folder=folder / "samples")
        log.rows = record.grown["samples/weights.bin"][0] // 8
        return log

    def width(self) -> int:
        """Bytes of one sample."""
        return sum(column.width for column in self._columns.values())

    def append(self, round: Round) -> None:
        """Adds a round; in files it is on the disk when this returns. Without `keep` it is counted only."""
        for name, column in self._columns.items() if self.keeps else ():
            column.append(getattr(round, name), round.slots)
        self.rows += len(round.inputs)

    def clear(self) -> None:
        """Removes the files."""
        assert self.folder is not None
        for file in self.folder.glob("*.bin"):
            file.unlink()
        self.sums.clear()
        self.rows = 0

    def back(self, rows: int, sums: dict[str, Sum]) -> None:
        """Forgets everything after the first `rows` samples on disk, whose checksums these are."""
        self.sums.back(sums)
        self.rows = rows

    def column(self, name: str) -> Any:
        """All rows of one column; those in files are mapped, not read, and stacks rebuilt when asked for."""
        check_name("samples column", name, self._columns)
        return self._columns[name].rows(self.rows)


@final
class Reader:
    """Labelled rows of a log as a learner sees them: standardised inputs, targets and weights.

    Asked for by number, in any order, from memory-mapped files; what the machine's memory can hold of them
    stays there.
    """

    def __init__(self, log: SampleLog, dtype: DTypeLike):
        self._log, self._dtype, self.normaliser = log, np.dtype(dtype), Normaliser.identity(1)
        self._rows, self._columns, self._labelled = -1, [], np.zeros(0, np.int64)

    def take(self, index: ArrayLike) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Inputs, targets and weights of the labelled rows `index`; rows that are not there weigh nothing."""
        if self._rows != self._log.rows:
            self._columns = [self._log.column(name) for name in ("inputs", "targets", "weights")]
            self._rows, self._labelled = self._log.rows, np.flatnonzero(self._columns[2])
        index, rows = np.asarray(index), len(self._labelled)
        there = self._labelled[np.minimum(index, rows - 1)]
        inputs, targets, weights = (column[there] for column in self._columns)
        inputs, weights = self.normaliser(inputs), np.where(index < rows, weights, 0.0)
        kind = self._dtype if inputs.dtype.kind == "f" else inputs.dtype
        return inputs.astype(kind), targets.astype(self._dtype), weights.astype(self._dtype)


@final
class _Unread:
    """The reader of samples that are neither kept nor read."""

    def take(self, index: ArrayLike) -> NoReturn:
        raise UserError("samples: they were not kept.")


UNREAD = _Unread()
"""One object for all runs, so that they may be solved together."""


def room(asked: int) -> int:
    """Bytes of samples that stay in memory. An accelerator waits long for rows from files, so its limit,
    where none but the default is `asked` for, is a quarter of its memory, or of the machine's if that is
    less.
    """
    if asked != FIELDS["memory_limit"].default or jax.default_backend() == "cpu":
        return asked
    there = (jax.devices()[0].memory_stats() or {}).get("bytes_limit", 0)
    return max(asked, min(there, total_memory() or there) // 4)


def storage(parts: Parts, within: Path | None = None, *, keep: bool = True) -> SampleLog:
    """Where a run's samples go; those of a run that has a folder are `within` it.

    More bytes than there is `room` for are in files, which the learner maps; what reads all of them at once
    is refused then: a solver, or the search for the best in hindsight on the absolute loss. Frames are kept
    once in the log, and minibatches of stacks rebuilt from it; an accelerator, which would wait for every one
    of them, holds the stacks where it has the room. Without `keep` nothing is kept that the
    learner does not read.
    """
    codecs, game, spec = (parts.observations, parts.actions), parts.game, parts.spec
    plan = parts.resolved.plan
    folder = None if within is None else within / "samples"
    keep = keep or (plan.rule is not None and plan.rule.reads)
    log, around = SampleLog(*codecs), None
    size, limit = parts.total * log.width(), room(spec.memory_limit)
    # Statistics of linear policies hold no samples, so it does not matter to them how many there are.
    streams = game.policy.linear and computes(game.loss, Squared) and not draws(game.solver)
    large = size > limit and (keep or not streams)
    too_many = f"memory_limit: {plan.total} samples need {size} bytes, more than {limit}, and"
    own = isinstance(game.policy, Guest)
    if large and own:
        raise UserError(f"{too_many} a student of one's own is fitted to all of them at once; raise it.")
    if large and game.policy.memory:
        learns = f"those of the policy {game.policy.name!r}, which learns from sequences"
        raise UserError(f"{too_many} {learns}, are kept in memory; raise it.")
    if spec.memory != "all" and not game.policy.linear:
        # The learner has a memory of its own. The search for the best in hindsight reads the log: rows, but
        # not the sequences of a policy with memory, which it has in arrays.
        searched = bool(plan.comparator_rounds and spec.comparator_steps)
        keep, mapped = keep or searched, not (searched and game.policy.memory)
    else:
        at_once = bool(plan.comparator_rounds) and game.policy.linear and computes(game.loss, Absolute)
        if large and not streams and (at_once or not draws(game.solver)):
            reader, other = "this solver", "take one that draws minibatches, as adam does"
            if draws(game.solver):
                reader, other = "the search for the best in hindsight", "take comparator none"
            raise UserError(f"{too_many} {reader} reads them all at once; raise the limit or {other}.")
        held = jax.default_backend() != "cpu" and parts.total * codecs[0].width <= limit
        images = log.images is not None and not own and draws(game.solver) and not held and not at_once
        mapped = (large and not streams) or images
        keep = keep or mapped
    if large and keep and folder is None:
        around = tempfile.TemporaryDirectory(prefix="understudy-")
        folder = Path(around.name)
    return SampleLog(*codecs, folder=folder, keep=keep, mapped=mapped, around=around)
