"""Recorded demonstrations: the first round of a run, which costs neither labels nor steps."""

from __future__ import annotations

import math
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np

from .. import disk
from ..errors import UserError, import_extra
from ..experts import Expert
from ..experts.answers import checked
from ..nested import batch_size, nest, take
from ..policies import Actions, Observations, Recalled, Seen, TrainedPolicy, not_finite_rows
from . import lerobot
from .images import TOGETHER, ImageRows, in_pieces, split_rows
from .log import SampleLog, image_columns
from .records import verified
from .rounds import EXPERT, Round

if TYPE_CHECKING:
    from ..nested import Nested

NAMES = {
    "observations": ("observations", "obs", "states", "X"),
    "actions": ("actions", "acts", "labels", "Y"),
}
"""What the arrays of an archive may be called."""
HELD = 2**28
"""Bytes of a column of demonstrations that stay in memory."""
Piece = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Rows of a round: inputs (n, width), targets (n, k), and the actions executed (n, a)."""


class Demos(NamedTuple):
    """What an expert did or would have done: observations with n in front, and labels (n, …)."""

    observations: Nested
    labels: np.ndarray
    begins: np.ndarray | None = None
    """Where an episode begins (n,), if that is known."""
    has: np.ndarray | None = None
    """Which observations have a label (n,), where not all have one; the labels are those of them alone."""


def recorded(source: str, observations: Seen, actions: Actions, limit: float = math.inf) -> Round:
    """The demonstrations that `source` names, as a round.

    An .npz archive has `observations` (n, …), or `observations/KEY` for each key of a dict, and `actions`
    (n, …), which for Discrete actions may be rows of probabilities (n, k); a policy with memory needs
    `begins` (n,) too, true where an episode begins. "minari:ID" is a dataset of Minari, "lerobot:FOLDER" one
    of LeRobot; both are read a few episodes at a time. A folder is another run, whose labelled samples are
    taken. Columns of more than `HELD` bytes, or `limit`, stay on disk.
    """
    who, image, most = f"demos {source!r}", image_columns(observations), min(HELD, limit)
    columns = pixels, targets, executed, numbers = Rows(most), Rows(most), Rows(most), Rows(most)
    if (Path(source) / "config.json").is_file():
        pieces: Iterable[Piece] = _of_run(source, observations, actions)
    else:
        if source.startswith("minari:"):
            found = _minari(source)
        else:
            by_name = source.startswith("lerobot:")
            found = _lerobot(source, observations, actions) if by_name else [_archive(source, image)]
        pieces = (piece for demos in found for piece in _encoded(demos, observations, actions, who))
    for rows, *more in pieces:
        if len(not_finite_rows(rows)):
            raise UserError(f"{who}: an observation is not finite.")
        split = (rows, None) if image is None or rows.dtype == np.uint8 else split_rows(rows, image)
        for column, part in zip(columns, (split[0], *more, split[1]), strict=True):
            if part is not None:
                column.add(part)
    inputs: ImageRows | np.ndarray = pixels.all()
    if not len(inputs):
        raise UserError(f"{who}: there is no demonstration in it.")
    if image is not None and len(beside := numbers.all()):
        inputs = ImageRows([inputs], [beside], image)
    n = len(inputs)
    return Round(
        inputs=inputs,
        targets=targets.all(),
        executed=executed.all(),
        rewards=np.full(n, np.nan, np.float32),
        flags=np.full(n, EXPERT, np.uint8),
        slots=np.zeros(n, np.int32),
        weights=np.full(n, 1.0 / n),
        labels=0,
        recorded=True,
    )


@final
class Rows:
    """Rows (n, …) that come in parts: in memory, and beyond `held` bytes in a file without a name. They are
    never there twice: what is in memory grows where it is.

    >>> rows = Rows()
    >>> rows.add(np.zeros((2, 3)))
    >>> rows.add(np.ones((1, 3)))
    >>> rows.all().shape
    (3, 3)
    """

    def __init__(self, held: float = HELD) -> None:
        self._rows, self._own, self._held = np.empty(0), False, held
        self._bytes, self._file = 0, None

    def add(self, rows: np.ndarray) -> None:
        """Adds rows at the end."""
        before, self._bytes = self._bytes, self._bytes + rows.nbytes
        if self._bytes > self._held:
            self._file = self._file or tempfile.TemporaryFile()  # noqa: SIM115
            for part in (self._rows, rows):
                self._file.write(np.ascontiguousarray(part).data)
            self._rows = rows[:0]
        elif not before:
            self._rows, self._own = rows, False
        elif not self._own or rows.dtype != self._rows.dtype:
            # In C's order, whatever that of the parts: only then rows are added where the array ends.
            self._rows, self._own = np.ascontiguousarray(np.concatenate([self._rows, rows])), True
        else:
            count = len(self._rows)
            self._rows.resize((count + len(rows), *rows.shape[1:]), refcheck=False)  # nobody has it yet
            self._rows[count:] = rows

    def all(self) -> np.ndarray:
        """All rows; those in a file are mapped, not read."""
        if self._file is None:
            return self._rows
        each = self._rows.dtype.itemsize * math.prod(self._rows.shape[1:])
        self._file.flush()
        return np.memmap(
            self._file, self._rows.dtype, "r", shape=(self._bytes // each, *self._rows.shape[1:])
        )


def _encoded(found: Demos, observations: Seen, actions: Actions, who: str) -> Iterator[Piece]:
    """Demonstrations as rows; images some at a time."""
    labels = found.labels
    if labels.ndim == 0 or (labels.size == 0 and found.has is None):
        raise UserError(f"{who}: there is no demonstration in it, its actions have no rows.")
    n, kind = len(labels), "action"
    if actions.kind == "discrete" and labels.ndim == 2 and labels.shape[1:] == actions.counts:
        kind = "distribution"
    one = Expert(who, ask=lambda seen, infos: labels, kind=kind)
    try:
        labels = checked(one, actions.space()).label(np.zeros(n))
    except UserError as error:
        text = str(error).replace(f"expert {who!r}", who)
        raise UserError(text.replace("in environment", "in row")) from None
    played = actions.plays(labels) if kind == "distribution" else labels
    targets = np.asarray(actions.targets(labels, kind), np.float32)
    executed, total, width = np.asarray(played).reshape(n, -1), 0, observations.width
    try:
        for rows in _rows(observations, found, who):
            here, total, width = slice(total, total + len(rows)), total + len(rows), rows.shape[1]
            if total <= n and width == observations.width:  # else refused below
                yield rows, targets[here], executed[here]
    except disk.Unreadable:
        raise
    except (ValueError, TypeError, KeyError, IndexError) as error:
        raise UserError(f"{who}: its observations do not fit the environment ({error}).") from None
    if total != n or width != observations.width:
        raise UserError(
            f"{who}: observations make {total} rows of {width} numbers for {n} actions; the "
            f"environment's have {observations.width}."
        )


def _rows(observations: Seen, found: Demos, who: str) -> Iterator[np.ndarray]:
    has = slice(None) if found.has is None else found.has
    if found.has is None and image_columns(observations) is not None:
        for first in range(0, batch_size(found.observations), TOGETHER):
            yield observations.rows(take(found.observations, slice(first, first + TOGETHER)))
        return
    if not isinstance(observations, Recalled):
        yield observations.rows(take(found.observations, has))
        return
    begins, steps = found.begins, len(found.labels if found.has is None else found.has)
    if begins is None or begins.shape != (steps,):
        raise UserError(
            f"{who}: a policy with memory learns from episodes, and it does not say where they begin; give "
            "an array begins, true in every first row."
        )
    if observations.mark and found.has is not None and not found.has.all():
        told = "it has states without a label; a policy with memory learns from whole episodes"
        raise UserError(f"{who}: {told}.")
    yield observations.along(found.observations, begins.astype(bool))[has]


def checksum(round: Round) -> str:
    """A few letters that other demonstrations would not have."""
    crc = 0
    for rows in in_pieces(round.inputs):
        crc = zlib.crc32(np.ascontiguousarray(rows).data, crc)
    return f"{zlib.crc32(np.ascontiguousarray(round.targets).data, crc):08x}"


def _archive(source: str, image: slice | None) -> Demos:
    """The demonstrations in an archive; those that hold an image are read when they are asked for."""
    path = Path(source)
    if not path.is_file():
        raise UserError(
            f"demos: there is no {source!r}; an .npz, a run's folder, minari:ID or lerobot:FOLDER is read."
        )
    arrays = disk.read_npz(source, "demos") if image is None else disk.open_npz(source, "demos")
    found = {}
    for wanted, names in NAMES.items():
        inner = {name.partition("/")[2]: arrays[name] for name in arrays if name.startswith(f"{wanted}/")}
        name = next((name for name in names if name in arrays), None)
        if name is None and not inner:
            there = ", ".join(arrays) or "no array"
            raise UserError(f"demos: {source} has no {wanted}, it has {there}. Accepted: {', '.join(names)}.")
        found[wanted] = inner or arrays[name or ""]
    begins = np.asarray(arrays["begins"]) if "begins" in arrays else None
    return Demos(found["observations"], np.asarray(found["actions"]), begins)


def _minari(source: str) -> Iterator[Demos]:
    minari = import_extra("minari", "demos: minari", "minari")
    name = source.removeprefix("minari:")
    try:
        for episode in minari.load_dataset(name, download=True).iterate_episodes():
            # An episode of T actions has T + 1 observations, the last of which has no action.
            labels = np.asarray(episode.actions)
            seen = take(episode.observations, slice(len(labels)))
            yield Demos(seen, labels, np.arange(len(labels)) == 0)
    except Exception as error:
        raise UserError(f"demos: Minari cannot load {name!r} ({type(error).__name__}: {error}).") from None


def _lerobot(source: str, observations: Seen, actions: Actions) -> Iterator[Demos]:
    dataset, inner = lerobot.Dataset(Path(source.removeprefix("lerobot:"))), observations
    while not isinstance(inner, Observations):
        inner = inner.inner
    columns = {leaf: dataset.column_of(leaf) for leaf in inner.leaves}
    label, asked = dataset.labels()
    names = [*columns.values(), label, *([asked] if asked else [])]
    for steps in dataset.steps(names, whole=isinstance(observations, Recalled)):
        parts = [(leaf.path, lerobot.as_seen(steps.columns[name], leaf)) for leaf, name in columns.items()]
        has = steps.columns[asked].astype(bool) if asked else None
        labels = steps.columns[label] if has is None else steps.columns[label][has]
        if labels.ndim == 1 and actions.shape == (1,):  # LeRobot has no arrays of one number
            labels = labels[:, None]
        if len(labels):
            yield Demos(nest(parts), labels, steps.begins, has)


def _of_run(source: str, observations: Seen, actions: Actions) -> Iterator[Piece]:
    policy, record = TrainedPolicy.load(source), verified(Path(source))
    if policy.observations.config() != observations.config() or policy.actions.config() != actions.config():
        raise UserError(f"demos: the run {source!r} has other observations or actions than this one.")
    samples = SampleLog.read(Path(source), record, policy)
    if samples is None:
        raise UserError(f"demos: the run {source!r} was saved without its samples.")
    has, slots = np.flatnonzero(samples.column("weights") > 0), samples.column("slots")
    if getattr(observations, "mark", False) and (len(has) < len(slots) or np.any(slots)):
        raise UserError(
            f"demos: the run {source!r} has states without a label, or several environments; a policy with "
            "memory learns from whole episodes of one."
        )
    inputs, targets = samples.column("inputs"), samples.column("targets")
    for rows in np.split(has, range(TOGETHER, len(has), TOGETHER)):
        played = actions.plays(targets[rows]).reshape(len(rows), -1)
        yield np.asarray(inputs[rows]), np.asarray(targets[rows]), played
