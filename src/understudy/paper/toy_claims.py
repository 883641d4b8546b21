"""What the paper says of the toy problems, and what we add, as checks."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..mapping import Table
from ..report.style import look
from .claims import SLACK, Claim, compare, judge, ratio, same
from .pure import UNTUNED, Outcome
from .toy import PROBLEMS

ONLINE = ("ogd", "adagrad", "adagrad_norm")
BEATS = "simple: FTL, FTRL and AdaFTRL beat OGD and AdaGrad (final regret)"
POOR = "adversarial: FTL is worse than every other learner (final regret)"
MATCH = "FTRL and AdaFTRL match or beat FTL (average cumulative loss, within 5 %)"
FREE = "ours: AdaFTRL untuned (α = 1) matches FTRL tuned (final regret, within 5 %)"
CONSTANT = "FTL's regret stays constant where the class holds the expert and there is no noise"
GROWS = "… and keeps growing where it does not, or there is noise"
ONE = "FTRL, which stores no past iterate, plays as Alt-FTRL does (cumulative loss)"
ORDER = (BEATS, POOR, MATCH, FREE, CONSTANT, GROWS, ONE)


def claims(study: Outcome) -> list[Claim]:
    """Every claim in every setting, in the order of the paper."""
    runs = study.runs
    losses = list(dict.fromkeys(runs["loss"].tolist()))
    found = [one for loss in losses for one in _alone(runs, loss)]
    found += [one for problem in PROBLEMS for loss in losses for one in _both(runs, problem, loss)]
    for claim, problems, wanted in (
        (CONSTANT, ("interpolated",), {"below": 0.01}),
        (GROWS, ("noisy", "adversarial"), {"above": 0.01}),
    ):
        for problem in problems:
            for loss in losses:
                regret = runs.where(problem=problem, loss=loss, learner="ftl")["regret"]
                late = regret[:, -1] - regret[:, regret.shape[1] // 2 - 1]
                share, measure = ratio(late, regret[:, -1]), "share of regret in the second half"
                found.append(judge(claim, f"{problem}, {loss}", measure, share, **wanted))
    return sorted(found, key=lambda one: ORDER.index(one.claim))


def _alone(runs: Table, loss: str) -> Iterator[Claim]:
    """What is said of one of the two problems."""
    simple, adversarial = (runs.where(problem=problem, loss=loss) for problem in PROBLEMS)
    ends = {name: simple.where(learner=name)["regret"][:, -1].mean() for name in ONLINE}
    best = min(ends, key=lambda name: np.nan_to_num(ends[name], nan=np.inf))
    for name in ("ftl", "ftrl", "adaftrl"):
        yield compare(BEATS, f"{loss}, {look(name).label}", simple, "regret", (name, best), below=1.0)
    for name in ("ftrl", "adaftrl", "ogd", "adagrad"):
        yield compare(POOR, f"{loss}, {look(name).label}", adversarial, "regret", ("ftl", name), above=1.0)


def _both(runs: Table, problem: str, loss: str) -> Iterator[Claim]:
    """What is said of both problems."""
    here, where = runs.where(problem=problem, loss=loss), f"{problem}, {loss}"
    for name in ("ftrl", "adaftrl"):
        label = f"{where}, {look(name).label}"
        yield compare(MATCH, label, here, "cumulative", (name, "ftl"), below=SLACK)
    pair, measure = (UNTUNED, "ftrl"), "AdaFTRL α=1 / FTRL"
    yield compare(FREE, where, here, "regret", pair, measure=measure, below=SLACK)
    last, mean = (here.where(learner=name) for name in ("ftrl", "alt_ftrl"))
    # On the absolute loss both take the centre form, so there is nothing to compare.
    if loss != "absolute" and last["step"][0] == mean["step"][0]:
        yield same(ONE, where, last["cumulative"], mean["cumulative"])
