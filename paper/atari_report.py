"""What the Atari study found: claims with verdicts, figures and tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from understudy.report import plots
from understudy.report.style import INK, look, style

from . import claims, host
from .host import Panel, Part, Written, facts, panels, read
from .protocol import UNTUNED

__all__ = ["facts", "judged", "read", "write"]
OFFLINE, ONLINE = ("ftl", "ftrl", "adaftrl"), ("ogd", "adagrad")
AGREEMENT = 0.95
TITLES = {"linear": "linear on the expert's features", "nature_cnn": "NatureCNN end to end"}


def judged(parts: Sequence[Part | Written]) -> list[claims.Claim]:
    """The claims that are about these parts."""
    return [claim for one in panels(parts) for claim in _within(one)]


def _within(one: Panel) -> Iterator[claims.Claim]:
    have, where = one.learners, one.part.replace("-", ", ")
    linear = one.part.endswith("linear")
    if linear:
        for name in (name for name in OFFLINE if name in have):
            fresh = np.nan_to_num(one.column(name, "agreement")[:, -1])  # a run that failed agrees on none
            claim = "linear FTL, FTRL and AdaFTRL agree with the expert on 95 % of fresh states"
            yield claims.judge(claim, f"{where}, {name}", "share", claims.mean(fresh), above=AGREEMENT)
    for name in OFFLINE:
        for other in ONLINE:
            claim = "(1) offline learners beat OGD and AdaGrad in average loss"
            yield from one.compare(claim, (name, other), below=1.0, setting=f"{where}, {name}")
    for name in ("ftrl", "adaftrl"):
        who = "(2) regularised learners" if linear else "(6) end to end, regularised learners"
        yield from one.against_ftl(who, name, setting=where)
    for name, claim in (
        ("adaftrl", "(3) AdaFTRL's loss is like FTRL's on Atari"),
        (UNTUNED, "(8) AdaFTRL untuned matches FTRL tuned"),
    ):
        yield from one.compare(claim, (name, "ftrl"), below=claims.SLACK, setting=where)


def draw(every: Sequence[Panel]) -> Any:
    """Agreement on fresh states, and average cumulative loss; a row per game and policy."""
    with style():
        made, rows = plots.figure(columns=2, rows=len(every))
        for (left, right), one in zip(rows, every, strict=True):
            game, _, policy = one.part.partition("-")
            for axes, what in ((left, "agreement"), (right, "average_loss")):
                one.draw(axes, what, {"bc": "BC (on the expert's states)"})
            left.axhline(1.0, color=look("expert").colour, linestyle=":", linewidth=1.2)
            left.set(ylim=(0, 1.03), xlabel="environment steps", ylabel="agreement with the expert")
            left.set_title(f"{game.capitalize()}, {TITLES[policy]}")
            losses = np.concatenate([one.column(name, "average_loss").ravel() for name in one.learners])
            top = min(float(np.nanquantile(losses, 0.95)), 2.2)
            right.set(xlabel="environment steps", ylabel="average cumulative loss", ylim=(None, top))
            right.axhline(0, color=INK, linewidth=0)
        plots.legend(made, rows[0][0])
    return made


def write(folder: Path, parts: Sequence[Part | Written], found: list[claims.Claim]) -> list[str]:
    """Figures, every number and the claims; the names of the files."""
    every = panels(parts)
    return host.write(folder, {"atari": draw(every)} if every else {}, parts, found)  # every run may fail
