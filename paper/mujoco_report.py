"""What the MuJoCo study found: claims with verdicts, figures laid out like the paper's, tables."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.ticker import LogLocator, StrMethodFormatter

from understudy.report import plots
from understudy.report.style import look, style

from . import claims, host
from .host import Panel, Part, Written, facts, panels, read
from .mujoco import PARTS
from .protocol import UNTUNED

__all__ = ["facts", "judged", "read", "write"]
REGULARISED, ONLINE = ("ftrl", "alt_ftrl", "adaftrl"), ("ogd", "adagrad")
LOW_RETURN = 0.9
""""Well below": nine tenths of the best learner's return."""


def judged(parts: Sequence[Part | Written]) -> list[claims.Claim]:
    """The paper's claims, and ours, in every setting that they are about."""
    every = panels(parts)
    found = [claim for one in every for claim in _within(one)]
    by_key = {(one.part, one.env, one.loss, one.drive): one for one in every}
    for one in every:
        fine = by_key.get(("linear-100", one.env, one.loss, one.drive))
        both = {"adagrad", "ftl"} <= {*one.found} & {*(fine.found if fine else ())}
        if one.part == "linear" and fine is not None and both and one.drive == "agent":
            small, large = (p.loss_of("adagrad") / p.loss_of("ftl") for p in (fine, one))
            claim = "(6) in rounds of 100 AdaGrad is nearer to FTL than in rounds of 1,000"
            measured = claims.ratio(small, large)
            where = f"{one.env}, {one.loss}"
            found.append(claims.judge(claim, where, "ratio of adagrad/ftl", measured, below=1.0))
    return found


def _within(one: Panel) -> Iterator[claims.Claim]:
    have, loss = one.learners, one.loss_of

    def best(names: Iterable[str]) -> str:
        return min((name for name in names if name in have), key=lambda name: loss(name).mean(), default="")

    for name in ("ftl", "ftrl", "adaftrl"):
        claim = "(1) offline learners beat OGD and AdaGrad in average loss"
        yield from one.compare(claim, (name, best(ONLINE)), below=1.0, setting=f"{one.name}, {name}")
    kind = "linear" if one.part.startswith("linear") else "networks"
    who = "(2) agent-driven" if one.drive == "agent" else f"(6) expert-driven, {kind}"
    for name in one.distinct(REGULARISED):
        yield from one.against_ftl(f"{who}: regularised learners", name, setting=f"{one.name}, {name}")
    for other in one.distinct(("ftrl", "alt_ftrl")):
        claim = "(3) AdaFTRL's loss is below FTRL's and Alt-FTRL's"
        yield from one.compare(claim, ("adaftrl", other), below=1.0, setting=f"{one.name}, {other}")
    if one.loss == "absolute" and one.part.startswith("network"):
        claim = (
            "(4) FTL does well on the absolute loss where the class is expressive (within 5 % of the best)"
        )
        yield from one.compare(claim, ("ftl", best(REGULARISED)), below=claims.SLACK)
    whole = [name for name in have if np.isfinite(loss(name)).all()]
    if one.drive == "agent" and whole:
        least, most = best(whole), max(whole, key=lambda name: np.nanmean(one.return_of(name)))
        claim = "(5) the least loss does not mean the highest return (below nine tenths of it)"
        found = claims.ratio(one.return_of(least), one.return_of(most))
        yield claims.judge(claim, one.name, f"return of {least}/{most}", found, below=LOW_RETURN)
    claim = "(8) AdaFTRL untuned (α = 1) matches FTRL tuned (within 5 %)"
    yield from one.compare(claim, (UNTUNED, "ftrl"), below=claims.SLACK)


def draw(mine: Sequence[Panel], title: str) -> Any:
    """Returns on the left, average cumulative loss on the right; a row per environment and loss."""
    with style():
        made, panels = plots.figure(columns=2, rows=len(mine), height=2.9)
        for (left, right), one in zip(panels, mine, strict=True):
            for axes, what in ((left, "return_mean"), (right, "average_loss")):
                one.draw(axes, what, {"ftl": "BC (FTL)"} if one.drive == "expert" else {})
            _expert(left, one)
            left.set(xlabel="environment steps", ylabel="return")
            left.set_title(f"{one.env.partition('-')[0]}, {one.loss} loss")
            right.set(xlabel="environment steps", ylabel="average cumulative loss", yscale="log")
            for place in (right.yaxis.set_major_formatter, right.yaxis.set_minor_formatter):
                place(StrMethodFormatter("{x:g}"))
            right.yaxis.set_minor_locator(LogLocator(subs=(2, 3, 5)))
            _in_sight(right, one)
            right.set_title("on the expert's states" if one.drive == "expert" else "on its own states")
        made.suptitle(title, x=0.01, ha="left", fontweight="bold")
        plots.legend(made, panels[0][0])
    return made


def _in_sight(axes: Any, one: Panel) -> None:
    """Limits the axis where a learner diverges, and names it."""
    tops = {name: float(np.nanmax(one.column(name, "average_loss"))) for name in one.learners}
    limit = 20 * float(np.median([*tops.values()]))
    gone = [look(name).label for name, top in tops.items() if not top <= limit]
    if gone:
        least = min(float(np.nanmin(one.column(name, "average_loss"))) for name in one.learners)
        axes.set_ylim(0.8 * least, limit)
        _write(axes, f"{', '.join(gone)}: diverges")


def _expert(axes: Any, one: Panel) -> None:
    """The expert's return: a dotted line, or a word where it is so far above that nothing else were seen."""
    best = max(np.nanmax(one.column(name, "return_mean"), initial=1.0) for name in one.learners)
    drawn = look("expert")
    if one.expert <= 2 * best:
        axes.axhline(one.expert, color=drawn.colour, linestyle=":", linewidth=1.2)
        return
    axes.set_ylim(top=1.18 * best)
    _write(axes, f"expert: {one.expert:,.0f}, far above", color=drawn.colour)


def _write(axes: Any, text: str, **how: Any) -> None:
    axes.text(0.98, 0.97, text, transform=axes.transAxes, ha="right", va="top", fontsize=9, **how)


def write(folder: Path, parts: Sequence[Part | Written], found: list[claims.Claim]) -> list[str]:
    """Figures, every number and the claims; the names of the files."""
    every, figures = panels(parts), {}
    for part, drive in itertools.product(dict.fromkeys(one.part for one in every), ("agent", "expert")):
        mine = [one for one in every if (one.part, one.drive) == (part, drive)]
        if mine:
            figures[f"{part}-{drive}"] = draw(mine, f"{PARTS[part].title}, {drive}-driven")
    return host.write(folder, figures, parts, found)
