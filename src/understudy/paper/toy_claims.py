"""What the paper says of the toy problems, and what we add, as checks."""

from __future__ import annotations

import numpy as np

from ..mapping import Table
from ..report.style import look
from .claims import SLACK, Claim, judge, ratio
from .pure import UNTUNED, Outcome
from .toy import PROBLEMS

ONLINE = ("ogd", "adagrad", "adagrad_norm")


def claims(study: Outcome) -> list[Claim]:
    """Every claim in every setting, in the order of the paper."""
    return [
        *offline_beats_online(study.runs),
        *ftl_is_poor(study.runs),
        *regularised_match(study.runs),
        *untuned_matches(study.runs),
        *interpolation(study.runs),
        *same_learner(study.runs),
    ]


def _losses(runs: Table) -> list[str]:
    return list(dict.fromkeys(runs["loss"].tolist()))


def _end(runs: Table, column: str, **where: str) -> np.ndarray:
    return runs.where(**where)[column][:, -1]


def offline_beats_online(runs: Table) -> list[Claim]:
    claim = "simple: FTL, FTRL and AdaFTRL beat OGD and AdaGrad (final regret)"
    found = []
    for loss in _losses(runs):
        rivals = {name: _end(runs, "regret", problem="simple", loss=loss, learner=name) for name in ONLINE}
        best = min(rivals, key=lambda name: np.nan_to_num(rivals[name].mean(), nan=np.inf))
        for name in ("ftl", "ftrl", "adaftrl"):
            mine = _end(runs, "regret", problem="simple", loss=loss, learner=name)
            measure = f"{look(name).label} / {look(best).label}"
            found.append(
                judge(claim, f"{loss}, {look(name).label}", measure, ratio(mine, rivals[best]), below=1.0)
            )
    return found


def ftl_is_poor(runs: Table) -> list[Claim]:
    claim = "adversarial: FTL is worse than every other learner (final regret)"
    found = []
    for loss in _losses(runs):
        mine = _end(runs, "regret", problem="adversarial", loss=loss, learner="ftl")
        for name in ("ftrl", "adaftrl", "ogd", "adagrad"):
            other = _end(runs, "regret", problem="adversarial", loss=loss, learner=name)
            where = f"{loss}, {look(name).label}"
            found.append(judge(claim, where, f"FTL / {look(name).label}", ratio(mine, other), above=1.0))
    return found


def regularised_match(runs: Table) -> list[Claim]:
    claim = "FTRL and AdaFTRL match or beat FTL (average cumulative loss, within 5 %)"
    found = []
    for problem in PROBLEMS:
        for loss in _losses(runs):
            leader = _end(runs, "cumulative", problem=problem, loss=loss, learner="ftl")
            for name in ("ftrl", "adaftrl"):
                mine = _end(runs, "cumulative", problem=problem, loss=loss, learner=name)
                where = f"{problem}, {loss}, {look(name).label}"
                found.append(
                    judge(claim, where, f"{look(name).label} / FTL", ratio(mine, leader), below=SLACK)
                )
    return found


def untuned_matches(runs: Table) -> list[Claim]:
    claim = "ours: AdaFTRL untuned (α = 1) matches FTRL tuned (final regret, within 5 %)"
    found = []
    for problem in PROBLEMS:
        for loss in _losses(runs):
            tuned = _end(runs, "regret", problem=problem, loss=loss, learner="ftrl")
            mine = _end(runs, "regret", problem=problem, loss=loss, learner=UNTUNED)
            found.append(
                judge(claim, f"{problem}, {loss}", "AdaFTRL α=1 / FTRL", ratio(mine, tuned), below=SLACK)
            )
    return found


def interpolation(runs: Table) -> list[Claim]:
    """The share of FTL's regret that falls in the second half of the rounds."""
    found = []
    for claim, problems, options in (
        (
            "FTL's regret stays constant where the class holds the expert and there is no noise",
            ("interpolated",),
            {"below": 0.01},
        ),
        (
            "… and keeps growing where it does not, or there is noise",
            ("noisy", "adversarial"),
            {"above": 0.01},
        ),
    ):
        for problem in problems:
            for loss in _losses(runs):
                regret = runs.where(problem=problem, loss=loss, learner="ftl")["regret"]
                late = regret[:, -1] - regret[:, regret.shape[1] // 2 - 1]
                share = ratio(late, regret[:, -1])
                found.append(
                    judge(claim, f"{problem}, {loss}", "share of regret in the second half", share, **options)
                )
    return found


def same_learner(runs: Table) -> list[Claim]:
    claim = "FTRL, which stores no past iterate, plays as Alt-FTRL does (cumulative loss)"
    found = []
    for problem in PROBLEMS:
        for loss in _losses(runs):
            pair = [runs.where(problem=problem, loss=loss, learner=name) for name in ("ftrl", "alt_ftrl")]
            if loss == "absolute" or pair[0]["step"][0] != pair[1]["step"][0]:
                continue  # on the absolute loss both take the centre form, so there is nothing to compare
            a, b = (table["cumulative"] for table in pair)
            away = float(np.max(np.abs(a - b) / np.maximum(np.abs(b), 1e-12)))
            found.append(
                judge(
                    claim, f"{problem}, {loss}", "largest relative difference", (away, away, away), below=1e-5
                )
            )
    return found
