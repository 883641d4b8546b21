"""What the paper says of the gridworld, and what we add, as checks."""

from __future__ import annotations

from collections.abc import Iterator

from ..mapping import Table
from ..report.style import look
from .claims import SLACK, Claim, compare, judge, ratio, same
from .gridworld import FIXED, VARIANTS
from .pure import UNTUNED, Outcome

MARKS = (100, 1000)
LARGER = {"FTL has larger regret than OGD and FTRL": 1.0, "… substantially larger: more than twice": 2.0}
REWARD = "OGD and FTRL also earn more reward than FTL"
FREE = "ours: AdaFTRL untuned (α = 1) matches FTRL tuned (regret, within 5 %)"
SOLVER = "ours: FTL solved less far (line searches that start at step 1) has less regret"
ONE = "FTRL, which stores no past iterate, plays as Alt-FTRL does (cumulative loss)"


def claims(study: Outcome) -> list[Claim]:
    """Every claim in every setting."""
    marks = [mark for mark in MARKS if mark <= study.rounds]
    half = study.rounds // 2 // 10 * 10  # a round that is judged on the ball, too
    found = [one for variant in VARIANTS for mark in marks for one in _at(study.runs, variant, mark)]
    # R(T)/R(T/2) is 2 for linear regret and 1.41 for √T.
    measure = f"R({study.rounds})/R({half})"
    linear = f"FTL's regret is still linear at the end ({measure} above 1.8; 2 is linear, 1.41 is √T)"
    for variant in VARIANTS:
        regret = study.runs.where(variant=variant, learner="ftl")["regret"]
        grown = ratio(regret[:, -1], regret[:, half - 1])
        found.append(judge(linear, variant, measure.replace("/", " / "), grown, above=1.8))
    last, mean = (study.runs.where(variant="recorded", learner=name) for name in ("ftrl", "alt_ftrl"))
    if last["step"][0] == mean["step"][0]:
        found.append(same(ONE, "recorded", last["cumulative"], mean["cumulative"]))
    order = (*LARGER, REWARD, linear, FREE, SOLVER, ONE)
    return sorted(found, key=lambda one: order.index(one.claim))


def _at(runs: Table, variant: str, mark: int) -> Iterator[Claim]:
    """The claims about one round of one variant."""
    here, where, at = runs.where(variant=variant), f"{variant}, round {mark}", mark - 1
    for name in ("ogd", "ftrl"):
        label = f"{where}, {look(name).label}"
        for claim, least in LARGER.items():
            yield compare(claim, label, here, "regret", ("ftl", name), at=at, above=least)
        yield compare(REWARD, label, here, "cumulative_reward", (name, "ftl"), at=at, above=1.0)
    pair, measure = (UNTUNED, "ftrl"), "AdaFTRL α=1 / FTRL"
    yield compare(FREE, where, here, "regret", pair, at=at, measure=measure, below=SLACK)
    if variant == "own":
        yield compare(SOLVER, where, here, "regret", (FIXED, "ftl"), at=at, below=1.0)
