"""docs/studies/arena.md: its sentences, made from docs/figures/arena."""

from __future__ import annotations

from collections.abc import Iterator

from docs.tables import FAILS, HOLDS, OPEN, claims, table, verdicts
from paper.arena_rules import RULES
from paper.arena_worlds import WORLDS

PAGE = "docs/studies/arena.md"
STATED = [
    r"rule wants|order statistics that hold the true median with 95 %",
    r"look of three episodes|is at most 5 %|when 0\.95 is accepted|then play 20 more",
    r"decided after 40 episodes \(exact tests: 200\)",
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
    each = [f"{one['group']} {RULES[one['rule']].title} ({one['labels']:,.0f})" for one in order]
    return f"The fewest labels to 0.95 in the median: {', '.join(each)}."


def worlds() -> Iterator[str]:
    for name, world in WORLDS.items():
        yield f"| {name} | {world.budget:,} | {world.portion:,} | {world.first:,} |"


def sentences() -> Iterator[str]:
    yield in_short()
    yield best()
    yield from worlds()
