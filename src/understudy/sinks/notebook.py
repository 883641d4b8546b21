"""A plot in a notebook that grows with the run."""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, final

from ..errors import import_extra
from . import Row, Sink, Started, finite_numbers

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PANELS = {
    "loss": {"loss": "of the round, before learning from it", "average_loss": "average"},
    "return": {"return_mean": "of the policy"},
    "regret": {"regret": "measured", "bound": "certified bound"},
}
"""What is drawn, by panel: columns of the ledger and what they are called."""


@final
class Notebook(Sink):
    """Loss, return and regret against the round, drawn again after each. Below what is not measured in every
    round the last value stays.
    """

    def __init__(self):
        self._display = import_extra("IPython.display", "sink: 'notebook'", "notebook").display
        self._title = ""
        self._handle: Any = None
        """What IPython's `display` returned, which draws again."""
        self._rows: list[dict[str, float]] = []

    def begin(self, started: Started) -> None:
        self._title, self._rows, self._handle = started.title, [], None

    def row(self, number: int, row: Row) -> None:
        self._rows.append({**finite_numbers(row), "round": number})
        picture = self.figure()
        if self._handle is None:
            self._handle = self._display(picture, display_id=True)
        else:
            self._handle.update(picture)

    def figure(self) -> Figure:
        """The plot of the rows so far, as a figure of matplotlib."""
        return draw(self._title, self._rows)


def draw(title: str, rows: Sequence[Mapping[str, float]], against: str = "round") -> Figure:
    """Loss, return and regret of these rows against one of their columns, as a figure of matplotlib that a
    notebook shows. Numbers that are not finite are left out.
    """
    from matplotlib.figure import Figure

    class Picture(Figure):
        """A figure without a window, which a notebook shows as it is."""

        def _repr_png_(self) -> bytes:
            file = io.BytesIO()
            self.savefig(file, format="png")
            return file.getvalue()

    figure = Picture(figsize=(10, 2.8), layout="constrained")
    figure.suptitle(title, x=0.01, ha="left", fontweight="bold")
    for axes, (panel, columns) in zip(figure.subplots(1, len(PANELS)), PANELS.items(), strict=True):
        for name, label in columns.items():
            points = [(row[against], row[name]) for row in rows if math.isfinite(row.get(name, math.nan))]
            if points:
                axes.plot(*zip(*points, strict=True), marker="o", markersize=3, label=label)
        axes.set(title=panel, xlabel=against)
        if against == "round" and rows:
            first, last = rows[0]["round"], rows[-1]["round"]
            axes.set_xlim(first - 0.5, max(last, first + 1) + 0.5)
        axes.spines[["top", "right"]].set_visible(False)
        if len(axes.lines) > 1:
            axes.legend(frameon=False, fontsize=8)
    return figure
