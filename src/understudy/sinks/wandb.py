"""Weights & Biases, through its own client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, final

from ..errors import UserError, import_extra, shorten
from . import Row, Sink, Started, finite_numbers

if TYPE_CHECKING:
    from ..disk import Json


@final
class WeightsAndBiases(Sink):
    """Every number of a row, with the round as its step; settings as the config, the outcome as the summary.

    place: the project; by default "understudy". Where it goes, and whether a network is used, is what the
    client's own settings say: ``WANDB_MODE=offline`` keeps everything here.
    """

    def __init__(self, place: str | None = None):
        self.place, self._client = place or "understudy", import_extra("wandb", "sink: 'wandb'", "wandb")
        self._run: Any = None

    def begin(self, started: Started) -> None:
        try:
            self._run = self._client.init(
                project=self.place,
                name=started.title,
                config=dict(started.settings),
                dir=None if started.folder is None else str(started.folder),
                # What we print is ours: it would read the last line of --json, and write beside it.
                settings=self._client.Settings(console="off", silent=True),
            )
        except Exception as error:
            raise UserError(f"sink: 'wandb' does not begin ({shorten(error)}).") from error

    def row(self, number: int, row: Row) -> None:
        self._run.log(finite_numbers(row), step=number)

    def end(self, summary: Mapping[str, Json] | None) -> None:
        if self._run is None:
            return
        self._run.summary.update({f"final/{name}": value for name, value in (summary or {}).items()})
        self._run.finish(exit_code=0 if summary is not None else 1)
