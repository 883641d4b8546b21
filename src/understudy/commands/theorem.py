"""`understudy paper theorem`: FTL's regret against its bound, without sampling."""

from __future__ import annotations

import csv
import json

from matplotlib.figure import Figure
from rich.table import Table

from ..options import PaperTheorem
from ..paper.theorem import Exhibit, exhibits
from ..report import plots, tables
from ..report.style import INK, look, style
from .folder import new_folder, refuse_taken


def run(options: PaperTheorem) -> int:
    """Prints the three cases, and writes their numbers and figure where asked."""
    refuse_taken(options.out)
    shown = exhibits(gamma=options.gamma, rounds=options.rounds, seed=options.seed)
    tables.show(_table(shown))
    if options.out is not None:
        with new_folder(options.out) as folder:
            with open(folder / "theorem.csv", "w", newline="") as file:
                writer = csv.writer(file, lineterminator="\n")
                writer.writerow(["case", "round", "loss", "regret", "bound"])
                for one in shown:
                    rows = zip(one.losses.tolist(), one.regret.tolist(), one.bound.tolist(), strict=True)
                    writer.writerows([one.name, t, *row] for t, row in enumerate(rows, 1))
            drawn = draw(shown)
            plots.save(drawn, folder / "theorem.png", folder / "theorem.svg")
        print(f"Written to {options.out}: theorem.csv, theorem.png, theorem.svg")
    if options.json:
        print(
            json.dumps(
                [{"case": one.name, "regret": one.regret[-1], "bound": one.bound[-1]} for one in shown]
            )
        )
    return 0


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
