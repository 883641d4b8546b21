"""What the paper says of the gridworld, and what we add, as checks."""

from __future__ import annotations

import numpy as np

from ..mapping import Table
from ..report.style import look
from .claims import SLACK, Claim, judge, ratio
from .gridworld import FIXED, VARIANTS
from .pure import UNTUNED, Outcome

MARKS = (100, 1000)


def claims(study: Outcome) -> list[Claim]:
    """Every claim in every setting."""
    marks = [mark for mark in MARKS if mark <= study.rounds]
    runs = study.runs
    return [
        *larger_regret(runs, marks),
        *rewards(runs, marks),
        *growth(runs, study.rounds),
        *untuned_matches(runs, marks),
        *solver_matters(runs, marks),
        *same_learner(runs),
    ]


def _at(runs: Table, column: str, mark: int, **where: str) -> np.ndarray:
    return runs.where(**where)[column][:, mark - 1]


def larger_regret(runs: Table, marks: list[int]) -> list[Claim]:
    claims = {"FTL has larger regret than OGD and FTRL": 1.0, "… substantially larger: more than twice": 2.0}
    return [
        judge(
            claim,
            f"{variant}, round {mark}, {look(name).label}",
            f"FTL / {look(name).label}",
            ratio(
                _at(runs, "regret", mark, variant=variant, learner="ftl"),
                _at(runs, "regret", mark, variant=variant, learner=name),
            ),
            above=least,
        )
        for claim, least in claims.items()
        for variant in VARIANTS
        for mark in marks
        for name in ("ogd", "ftrl")
    ]


def rewards(runs: Table, marks: list[int]) -> list[Claim]:
    claim = "OGD and FTRL also earn more reward than FTL"
    return [
        judge(
            claim,
            f"{variant}, round {mark}, {look(name).label}",
            f"{look(name).label} / FTL",
            ratio(
                _at(runs, "cumulative_reward", mark, variant=variant, learner=name),
                _at(runs, "cumulative_reward", mark, variant=variant, learner="ftl"),
            ),
            above=1.0,
        )
        for variant in VARIANTS
        for mark in marks
        for name in ("ogd", "ftrl")
    ]


def growth(runs: Table, rounds: int) -> list[Claim]:
    """R(T)/R(T/2) is 2 for linear regret and 1.41 for √T."""
    half = rounds // 2 // 10 * 10  # a round that is judged on the ball, too
    claim = (
        f"FTL's regret is still linear at the end (R({rounds})/R({half}) above 1.8; 2 is linear, 1.41 is √T)"
    )
    found = []
    for variant in VARIANTS:
        regret = runs.where(variant=variant, learner="ftl")["regret"]
        measure = f"R({rounds}) / R({half})"
        found.append(judge(claim, variant, measure, ratio(regret[:, -1], regret[:, half - 1]), above=1.8))
    return found


def untuned_matches(runs: Table, marks: list[int]) -> list[Claim]:
    claim = "ours: AdaFTRL untuned (α = 1) matches FTRL tuned (regret, within 5 %)"
    return [
        judge(
            claim,
            f"{variant}, round {mark}",
            "AdaFTRL α=1 / FTRL",
            ratio(
                _at(runs, "regret", mark, variant=variant, learner=UNTUNED),
                _at(runs, "regret", mark, variant=variant, learner="ftrl"),
            ),
            below=SLACK,
        )
        for variant in VARIANTS
        for mark in marks
    ]


def solver_matters(runs: Table, marks: list[int]) -> list[Claim]:
    claim = "ours: FTL solved less far (line searches that start at step 1) has less regret"
    return [
        judge(
            claim,
            f"own, round {mark}",
            "FTL, first step 1 / FTL",
            ratio(
                _at(runs, "regret", mark, variant="own", learner=FIXED),
                _at(runs, "regret", mark, variant="own", learner="ftl"),
            ),
            below=1.0,
        )
        for mark in marks
    ]


def same_learner(runs: Table) -> list[Claim]:
    claim = "FTRL, which stores no past iterate, plays as Alt-FTRL does (cumulative loss)"
    a, b = (runs.where(variant="recorded", learner=name) for name in ("ftrl", "alt_ftrl"))
    if a["step"][0] != b["step"][0]:
        return []
    away = float(np.max(np.abs(a["cumulative"] - b["cumulative"]) / b["cumulative"]))
    return [judge(claim, "recorded", "largest relative difference", (away, away, away), below=1e-5)]
