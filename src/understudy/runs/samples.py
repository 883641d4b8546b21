"""Every sample of a run, appended round by round: in memory while it is small, in flat files otherwise."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import jax
import numpy as np

from ..errors import UserError, among
from ..losses import Absolute, Squared, computes
from ..machine import memory
from ..online import draws
from ..policies import Actions, Normaliser, Seen
from ..spec import FIELDS
from .collected import Round
from .columns import Column, FrameColumn, stack_shape
from .rounds import Sum, Sums

if TYPE_CHECKING:
    from .folder import Folder
    from .parts import Parts


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
        around: Any = None,
    ):
        self.folder, self.rows, self.keeps, self.mapped, self._around = folder, 0, keep, mapped, around
        self.sums = Sums(folder)
        kinds: dict[str, tuple[Any, tuple[int, ...]]] = {
            "inputs": (observations.dtype, (observations.width,)),
            "targets": (np.float32, (actions.outputs,)),
            "executed": (actions.dtype, (actions.size,)),
            "rewards": (np.float32, ()),
            "flags": (np.uint8, ()),
            "slots": (np.int32, ()),
            "weights": (np.float64, ()),
        }
        self._columns: dict[str, Any] = {name: Column(name, *kind, self.sums) for name, kind in kinds.items()}
        self.frames = stack_shape(observations)
        if self.frames is not None:
            self._columns["inputs"] = FrameColumn(self.frames, self.sums)
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)

    def width(self) -> int:
        """Bytes of one sample."""
        return sum(column.width for column in self._columns.values())

    def append(self, round: Round) -> None:
        """Adds a round; in files it is on the disk when this returns. Without `keep` it is counted only."""
        for name, column in self._columns.items() if self.keeps else ():
            column.append(getattr(round, name), round.slots)
        self.rows += len(round)

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
        among("samples column", name, self._columns)
        return self._columns[name].rows(self.rows)


@final
class Reader:
    """Labelled rows of a log as a learner sees them: standardised inputs, targets and weights.

    Asked for by number, in any order, from memory-mapped files; what the machine's memory can hold of them
    stays there.
    """

    def __init__(self, log: SampleLog, dtype: Any):
        self._log, self._dtype, self.normaliser = log, np.dtype(dtype), Normaliser.identity(1)
        self._rows, self._columns, self._labelled = -1, [], np.zeros(0, np.int64)

    def take(self, index: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
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

    def take(self, index: Any) -> Any:
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
    return max(asked, min(there, memory() or there) // 4)


def storage(parts: Parts, within: Folder | None = None, *, keep: bool = True) -> SampleLog:
    """Where a run's samples go; those of a run that has a folder are within it.

    More bytes than there is `room` for are in files, which the learner maps; what reads all of them at once
    is refused then: a solver, or the search for the best in hindsight on the absolute loss. Frames are kept
    once in the log, and minibatches of stacks rebuilt from it; an accelerator, which would wait for every one
    of them, holds the stacks where it has the room. Without `keep` nothing is kept that the
    learner does not read.
    """
    codecs, game, spec = (parts.observations, parts.actions), parts.game, parts.spec
    plan = parts.resolved.plan
    folder = None if within is None else within.path / "samples"
    keep = keep or (plan.rule is not None and plan.rule.reads)
    log, around = SampleLog(*codecs), None
    size, limit = parts.total * log.width(), room(spec.memory_limit)
    # Statistics of linear policies hold no samples, so it does not matter to them how many there are.
    streams = game.policy.linear and computes(game.loss, Squared) and not draws(game.solver)
    large = size > limit and (keep or not streams)
    if large and game.policy.memory:
        raise UserError(
            f"memory_limit: {plan.total} samples need {size} bytes, more than {limit}, and those "
            f"of the policy {game.policy.name!r}, which learns from sequences, are kept in memory; raise it."
        )
    if spec.memory != "all" and not game.policy.linear:
        # The learner has a memory of its own. The search for the best in hindsight reads the log: rows, but
        # not the sequences of a policy with memory, which it has in arrays.
        searched = bool(plan.judged and spec.search)
        keep, mapped = keep or searched, not (searched and game.policy.memory)
    else:
        at_once = bool(plan.judged) and game.policy.linear and computes(game.loss, Absolute)
        if large and not streams and (at_once or not draws(game.solver)):
            reader, other = "this solver", "take one that draws minibatches, as adam does"
            if draws(game.solver):
                reader, other = "the search for the best in hindsight", "take comparator none"
            raise UserError(
                f"memory_limit: {plan.total} samples need {size} bytes, more than {limit}, and {reader} "
                f"reads them all at once; raise the limit or {other}."
            )
        held = jax.default_backend() != "cpu" and parts.total * codecs[0].width <= limit
        frames = log.frames is not None and draws(game.solver) and not held and not at_once
        mapped = (large and not streams) or frames
        keep = keep or mapped
    if large and keep and folder is None:
        around = tempfile.TemporaryDirectory(prefix="understudy-")
        folder = Path(around.name)
    return SampleLog(*codecs, folder=folder, keep=keep, mapped=mapped, around=around)
