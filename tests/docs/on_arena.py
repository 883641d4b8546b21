"""docs/studies/arena.md: its sentences, made from docs/figures/arena."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from docs.tables import FAILS, HOLDS, OPEN, claims, table, verdicts
from paper.arena_rules import LEARNERS, RULES
from paper.arena_worlds import WORLDS

PAGE = "docs/studies/arena.md"
STATED = [
    r"rule wants|order statistics that hold the true median with 95 %",
    r"look of three episodes|is at most 5 %|when 0\.95 is accepted|then play 20 more",
    r"after 200 episodes \(Pendulum: 500\)|above the wanted score by a quarter of what is missing to 1",
    r"seeds 101 to 106|of 20 episodes of expert and random actions",
    r"1,000 expert-driven states|mean return of 100 episodes is 0\.95",
    r"128 × 128 with 1,500 steps|is 8 × 8|a tenth of half the range|nine tenths of its action",
    r"\((?:Foster|Laskey|Ross|Menda|Li|Hoque|Firouzkouhi)[^)]*\d{4}\)",
    r"\(1 − α\) quantile|K = 1, α = 0\.05|the 90 % quantile|β = 0",
    r"round of 1,000 states|states of 1,000|begins with 1,000 to 20,000 states",
]


def in_short() -> str:
    found = claims("arena", "ours needs fewer labels than")
    told = {kind: verdicts(found, kind) for kind in (HOLDS, FAILS, OPEN)}
    return (
        f"Of {len(found)} comparisons with published rules, ours is shown to need fewer labels in "
        f"{told[HOLDS]}, as many or more in {told[FAILS]}, and {told[OPEN]} cannot be told."
    )


def best() -> str:
    found = table("arena/labels")
    found = found[(found["wanted"] == 0.95) & (found["done"] > found["seeds"] / 2)]
    order = [
        found[found["group"] == group].sort_values("labels").iloc[0] for group in found["group"].unique()
    ]
    each = [f"{one['group']}: {RULES[one['rule']].title} ({one['labels']:,.0f})" for one in order]
    return f"The fewest labels to 0.95 in the median: {'; '.join(each)}."


def played() -> Iterator[str]:
    """What was played, and what was not."""
    found = table("arena/labels")
    groups = found[found["wanted"] == 0.95].groupby("group", sort=False)
    for group, mine in groups:
        yield f"| {group} | {len(mine)} | {span(mine['seeds'])} |"
    parts = {group.partition(",")[0] for group, _ in groups}
    yield f"Not played yet: {', '.join(sorted(set(WORLDS) - parts))}, "


def span(counts: pd.Series) -> str:
    low, high = int(counts.min()), int(counts.max())
    return str(low) if low == high else f"{low} to {high}"


def judging() -> str:
    found = table("arena/tests")
    taken = found[found["state"] == "accepted"]
    wrong = int((taken["after"] < taken["wanted"]).sum())
    return (
        f"Of {len(found):,} tests, each of a policy with three good episodes, {len(taken):,} ended with "
        f"an acceptance; {wrong} of the accepted policies were below the wanted score in the 20 episodes "
        "after it."
    )


def ratios(claim: str) -> Iterator[str]:
    """A row for each setting: the labels by those of the other, and the verdict."""
    for _, one in claims("arena", claim).iterrows():
        bounded = one["low"] > -np.inf
        ends = f" [{_number(one['low'])}, {_number(one['high'])}]" if bounded else ""
        most = "≤ " if "at most" in one["measure"] else ""
        value = f"{most}{_number(one['value'])}{ends}"
        yield f"| {one['claim'].partition(' need')[0]} | {one['setting']} | {value} | {one['verdict']} |"


def _number(value: float) -> str:
    return f"{value:.2f}" if np.isfinite(value) else "∞"


def worlds() -> Iterator[str]:
    for name, world in WORLDS.items():
        yield f"| {name} | {world.budget:,} | {world.portion:,} | {world.first:,} |"


def sentences() -> Iterator[str]:
    yield in_short()
    yield best()
    yield judging()
    yield from played()
    yield from worlds()
    yield from ratios("few demonstrations")
    for rule in LEARNERS[1:]:
        yield from ratios(f"{RULES[rule].title}, ")
