"""A plot in a notebook that grows with the run."""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

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
        from matplotlib.figure import Figure

        figure = Figure(figsize=(10, 2.8), layout="constrained")
        figure.suptitle(self._title, x=0.01, ha="left", fontweight="bold")
        for axes, (title, columns) in zip(figure.subplots(1, len(PANELS)), PANELS.items(), strict=True):
            for name, label in columns.items():
                points = [(row["round"], row[name]) for row in self._rows if name in row]
                if points:
                    axes.plot(*zip(*points, strict=True), marker="o", markersize=3, label=label)
            first, last = self._rows[0]["round"], self._rows[-1]["round"]
            axes.set(title=title, xlabel="round", xlim=(first - 0.5, max(last, first + 1) + 0.5))
            axes.spines[["top", "right"]].set_visible(False)
            if len(axes.lines) > 1:
                axes.legend(frameon=False, fontsize=8)
        return figure
