"""``python -m paper.figures`` writes paper/README.md: a row per figure with its command, picture and verdict.

Commands and pictures are listed here; the verdicts are counted in the tables that the studies have written.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from .claims import FAILS, HOLDS, OPEN, Claim, together

ROOT = Path(__file__).resolve().parents[1]
FIGURES = ROOT / "docs" / "figures"


class Figure(NamedTuple):
    """What a row is made of.

    command: what follows ``python -m paper``. folder: where tables and `pictures` are, under docs/figures.
    claims, settings: how the claims and the settings begin that the figure is about; drive: what is in them.
    """

    title: str
    command: str
    folder: str
    pictures: Sequence[str]
    claims: str = ""
    settings: tuple[str, ...] = ("",)
    drive: str = ""

    def about(self, claim: Claim) -> bool:
        # The claim about rounds of 100 is about agent-driven runs, and its settings do not say so.
        setting = claim.setting if "driven" in claim.setting else f"{claim.setting}, agent-driven"
        here = setting.startswith(self.settings) and self.drive in setting
        return here and claim.claim.startswith(self.claims)


FULL, HUNDRED = "--scale full", ("linear-100,", "Hopper-v5,", "Walker2d-v5,")
TWENTY = f"{FULL} --first-seed 20"
ARENA = "--part cartpole acrobot hopper walker2d double-pendulum --seeds 101-106"
EVERY = "distance one random disagreement"
ROWS = [
    Figure("the theorem on FTL", "theorem", "theorem", ["theorem"]),
    Figure("toy: regret and average loss", "toy", "toy", ["regret", "average_loss"]),
    Figure(
        "gridworld: regret, reward, variants",
        "gridworld",
        "gridworld",
        ["regret_reward", "beside", "variants", "experts"],
    ),
    *(
        Figure(
            f"{title}, {drive}-driven",
            f"mujoco {FULL} --part {part}",
            "mujoco",
            [f"{part}-{drive}"],
            settings=settings,
            drive=f"{drive}-driven",
        )
        for title, part, settings in (
            ("linear policies", "linear", ("linear,",)),
            ("linear policies, rounds of 100", "linear-100", HUNDRED),
            ("networks", "network", ("network,",)),
        )
        for drive in ("agent", "expert")
    ),
    Figure(
        "networks by line search",
        f"mujoco {FULL} --part network-sls",
        "mujoco/network-sls",
        ["sls-agent", "sls-expert"],
    ),
    Figure("Pong and Breakout", f"atari {FULL}", "atari", ["atari"]),
    Figure(
        "inexact solves",
        "questions",
        "questions",
        ["inexact_hopper", "inexact_walker2d", "inexact_adversarial_toy"],
        claims="1.",
    ),
    Figure("limited memory", "questions", "questions", ["memory"], claims="2."),
    Figure("parameterisation", "questions", "questions", ["parameterisation"], claims="3."),
    Figure("frozen streams and interactive runs", "questions", "questions", ["interactive"], claims="4."),
    Figure("AdaFTRL untuned", "questions", "questions", ["untuned"], claims="5."),
    Figure(
        "labels, four robots",
        f"queries {TWENTY} --env Hopper-v5 Walker2d-v5 HalfCheetah-v5 Ant-v5 --series distance",
        "queries",
        ["queries"],
    ),
    Figure(
        "labels, classic tasks",
        f"queries {TWENTY} --env CartPole-v1 Pendulum-v1 Acrobot-v1 --series distance",
        "queries/classic",
        ["queries"],
    ),
    Figure(
        "labels on Hopper: rules and learners",
        f"queries {TWENTY} --env Hopper-v5 --series {EVERY} adaftrl bc --peer FOLDER",
        "queries/rules",
        ["queries"],
    ),
    Figure(
        "labels on Walker2d: rules",
        f"queries {TWENTY} --env Walker2d-v5 --series {EVERY}",
        "queries/walker2d",
        ["queries"],
    ),
    Figure("all rounds or the current one", f"aggregation {FULL}", "aggregation", ["aggregation"]),
    Figure("the arena", f"arena {FULL} {ARENA}", "arena", ["labels", "profile"]),
]

HEAD = """\
# The paper's figures

The studies of *Improved Policy Optimization for Online Imitation Learning* (Lavington, Vaswani, Schmidt
2022), and of what it leaves open. They are no part of the package and use only names of its
[reference](../docs/reference.md). From the root of the repository, with understudy installed:

    python -m paper --help
    python -m paper toy --quick
    python -m paper mujoco --scale small

`--out FOLDER` writes figures, tables and claims. A claim *holds* when the whole 95 % interval over seeds is
on the claimed side in all settings of the figure, *does not hold* when in one of them none of it is, and
*cannot be told* otherwise. `claims` has every one with its evidence, [findings](../docs/findings.md) has them
in sentences. `python -m paper.figures` writes this page.

| figure | command, after `python -m paper` | picture | verdict |
|---|---|---|---|
"""


def checks(folder: str) -> list[Claim]:
    """The claims of a folder, setting by setting, from the second table of its claims.md."""
    nan, found = float("nan"), []
    for line in (FIGURES / folder / "claims.md").read_text().split("\n\n")[1].splitlines()[2:]:
        claim, setting, measured, wanted, verdict = (part.strip() for part in line.strip("| ").split(" | "))
        found.append(Claim(claim, setting, measured, nan, nan, nan, wanted, verdict))
    return found


def verdict(figure: Figure) -> str:
    """How many claims of a figure hold, do not, and cannot be told."""
    if figure.folder == "theorem":
        with open(FIGURES / "theorem" / "theorem.csv", newline="") as file:
            rows = list(csv.DictReader(file))
        cases = list(dict.fromkeys(row["case"] for row in rows))
        above = {row["case"] for row in rows if float(row["regret"]) > float(row["bound"]) + 1e-9}
        return "; ".join(f"{one}: {'exceeds the bound' if one in above else 'stays below'}" for one in cases)
    kinds = [kind for _, kind, _ in together([one for one in checks(figure.folder) if figure.about(one)])]
    counts = [f"{kind}: {kinds.count(kind)}" for kind in (HOLDS, FAILS, OPEN) if kind in kinds]
    return f"{', '.join(counts)} ([claims](../docs/figures/{figure.folder}/claims.md))"


def page() -> str:
    """The text of paper/README.md."""
    lines = []
    for one in ROWS:
        paths = (f"../docs/figures/{one.folder}/{name}.png" for name in one.pictures)
        pictures = " ".join(f"![{one.title}]({path})" for path in paths)
        lines.append(f"| {one.title} | `{one.command}` | {pictures} | {verdict(one)} |")
    return HEAD + "\n".join(lines) + "\n"


if __name__ == "__main__":
    (ROOT / "paper" / "README.md").write_text(page())
