"""`understudy paper theorem`: FTL's regret against its bound, without sampling."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure
from rich.table import Table

from .. import disk
from ..disk import new_folder, refuse_taken
from ..options import PaperTheorem
from ..paper.theorem import Exhibit, exhibits
from ..report import plots, tables
from ..report.style import INK, look, style


def run(options: PaperTheorem) -> int:
    """Prints the three cases, and writes their numbers and figure where asked."""
    refuse_taken(options.out)
    shown = exhibits(gamma=options.gamma, rounds=options.rounds, seed=options.seed)
    tables.show(_table(shown))
    if options.out is not None:
        with new_folder(options.out) as folder:
            disk.write(folder / "theorem.csv", disk.to_csv(_columns(shown)))
            drawn = draw(shown)
            plots.save(drawn, folder / "theorem.png", folder / "theorem.svg")
        print(f"Written to {options.out}: theorem.csv, theorem.png, theorem.svg")
    if options.json:
        print(
            disk.to_json(
                [{"case": one.name, "regret": one.regret[-1], "bound": one.bound[-1]} for one in shown]
            )
        )
    return 0


def _columns(shown: list[Exhibit]) -> dict[str, list[Any]]:
    """One row per case and round."""
    columns: dict[str, list[Any]] = {"case": [one.name for one in shown for _ in one.losses]}
    columns["round"] = [t for one in shown for t in range(1, len(one.losses) + 1)]
    for name, field in (("loss", "losses"), ("regret", "regret"), ("bound", "bound")):
        columns[name] = [value for one in shown for value in getattr(one, field).tolist()]
    return columns


def _table(shown: list[Exhibit]) -> Table:
    table = Table(title="FTL's regret against C(1 − γ^T)/(1 − γ), exact expectations")
    for heading in ("case", "rounds", "regret", "bound", "verdict"):
        table.add_column(heading, justify="left" if heading in ("case", "verdict") else "right")
    for one in shown:
        verdict = "stays below" if one.holds else "exceeds it"
        table.add_row(
            one.name, str(len(one.regret)), f"{one.regret[-1]:.6g}", f"{one.bound[-1]:.6g}", verdict
        )
    return table


def draw(shown: list[Exhibit]) -> Figure:
    """Regret and bound round by round, a panel each."""
    with style():
        made, [row] = plots.figure(columns=len(shown), width=4.3)
        for axes, one in zip(row, shown, strict=True):
            rounds = range(1, len(one.regret) + 1)
            axes.plot(rounds, one.regret, color=look("ftl").colour, linewidth=2.6, label="FTL's regret")
            axes.plot(rounds, one.bound, color=INK, linestyle=":", label="bound  C(1 − γᵀ)/(1 − γ)")
            what, _, where = one.name.partition(", ")
            axes.set_title(f"{what[0].upper()}{what[1:]}\n{where}", fontsize=10)
            axes.set(xlabel="round", ylim=(0, None))
        row[0].legend(loc="lower right")
    return made
