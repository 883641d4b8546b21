"""Event files for TensorBoard, written by its own package; PyTorch and TensorFlow are not needed."""

# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false
# TensorBoard is an extra, which may be absent where types are checked.

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from ..errors import UserError, import_extra
from . import Row, Sink, Started, finite_numbers

if TYPE_CHECKING:
    from ..disk import Json


@final
class TensorBoard(Sink):
    """Every number of a row as a scalar, with the round as its step; the settings as a text.

    place: the folder of the event files; by default ``tensorboard`` in the run's. A run that is resumed
    writes one more file, and what an earlier one held of later rounds is hidden.
    """

    def __init__(self, place: str | None = None):
        module = "tensorboard.summary.writer.event_file_writer"
        self._make = import_extra(module, "sink: 'tensorboard'", "tensorboard").EventFileWriter
        self.place = place
        self._writer: Any = None

    def begin(self, started: Started) -> None:
        if self.place is None and started.folder is None:
            raise UserError(
                "sink: 'tensorboard' has no folder to write to; give the run one (--out FOLDER), or write "
                "tensorboard:FOLDER."
            )
        folder = Path(self.place) if self.place else Path(started.folder or "") / "tensorboard"
        try:
            self._writer = self._make(str(folder))
        except OSError as error:
            raise UserError(f"sink: 'tensorboard' cannot write {str(folder)!r} ({error.strerror}).") from None
        from tensorboard.compat.proto.event_pb2 import SessionLog  # pyright: ignore[reportMissingImports]
        from tensorboard.plugins.text.summary_v2 import text_pb  # pyright: ignore[reportMissingImports]

        if started.round:
            self._add(started.round + 1, session_log=SessionLog(status=SessionLog.START))
        text = json.dumps(dict(started.settings), indent=2, default=str)
        self._add(started.round, summary=text_pb(started.title, f"```\n{text}\n```"))

    def row(self, number: int, row: Row) -> None:
        from tensorboard.compat.proto.summary_pb2 import Summary  # pyright: ignore[reportMissingImports]

        values = [Summary.Value(tag=name, simple_value=n) for name, n in finite_numbers(row).items()]
        self._add(number, summary=Summary(value=values))
        self._writer.flush()

    def end(self, summary: Mapping[str, Json] | None) -> None:
        if self._writer is not None:
            self._writer.close()

    def _add(self, step: int, **content: Any) -> None:
        from tensorboard.compat.proto.event_pb2 import Event  # pyright: ignore[reportMissingImports]

        self._writer.add_event(Event(wall_time=time.time(), step=step, **content))
