"""docs/studies/arena.md: its sentences, made from docs/figures/arena."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from docs.tables import FAILS, FIGURES, HOLDS, OPEN, claims, rows, table, verdicts
from paper import arena_report
from paper.arena_rules import LEARNERS, PUBLISHED, RULES
from paper.arena_worlds import WORLDS

PAGE = "docs/studies/arena.md"
ROBOTS = ["hopper", "walker2d"]
STATED = [
    r"--8<--|Seeds from 101 on|Box2D",
    r"small tasks is 100 or 200 labels|--first-steps 20|ours: labels to 0\.95",
    r"begins with 100 labels on CartPole and 200|with 300\b|With 1,000 expert-driven states",
    r"At 0\.9 ours is shown",
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


def learners() -> str:
    found = pd.concat([claims("arena", f"{RULES[rule].title}, ") for rule in LEARNERS[1:]])
    told = {kind: verdicts(found, kind) for kind in (HOLDS, FAILS, OPEN)}
    return (
        f"Of {len(found)} comparisons a regularised learner is shown to need fewer labels in {told[HOLDS]}, "
        f"as many or more in {told[FAILS]}, and {told[OPEN]} cannot be told."
    )


def best() -> str:
    found = table("arena/labels")
    found = found[(found["wanted"] == 0.95) & (found["done"] > found["seeds"] / 2)]
    each = [f"{group}: {_least(mine)}" for group, mine in found.groupby("group", sort=False)]
    return f"The fewest labels to 0.95 in the median: {'; '.join(each)}."


def _least(found: pd.DataFrame) -> str:
    """The rules with the fewest labels, and how many these are."""
    if not np.isfinite(found["labels"].min()):
        return "no published rule in the median"
    mine = found[found["labels"] == found["labels"].min()]
    return f"{', '.join(RULES[rule].title for rule in mine['rule'])} ({mine['labels'].iloc[0]:,.0f})"


def _labels(row: pd.Series) -> str:
    """The median, and how many runs are done."""
    middle = f"{row['labels']:,.0f}" if np.isfinite(row["labels"]) else "not in the median"
    return f"{middle} ({row['done']} of {row['seeds']})"


def compared() -> Iterator[str]:
    """Ours in every group, beside the best published rule, and what the comparisons with all of them say."""
    found, told = table("arena/labels"), claims("arena", "ours needs fewer labels than")
    found = found[found["wanted"] == 0.95]
    for group, mine in found.groupby("group", sort=False):
        ours, there = mine[mine["rule"] == "ours"], mine[mine["rule"].isin(PUBLISHED)]
        if ours.empty or there.empty:
            continue
        here = told[told["setting"].isin([f"{group}, {wanted}" for wanted in (0.9, 0.95)])]
        counts = " | ".join(str(verdicts(here, kind)) for kind in (HOLDS, FAILS, OPEN))
        yield f"| {group} | {_labels(ours.iloc[0])} | {_least(there)} | {counts} |"


def reached(group: str) -> str:
    """In how many runs of a part each rule is done, those that never are at the end."""
    found = table("arena/labels")
    found = found[(found["wanted"] == 0.95) & (found["group"] == group)].sort_values(
        "done", ascending=False, kind="stable"
    )
    some = found[found["done"] > 0]
    each = [f"{RULES[row['rule']].title} {row['done']} of {row['seeds']}" for _, row in some.iterrows()]
    others = f"none of the other {len(found) - len(some)} rules"
    return f"Runs of {group} that reach 0.95: {', '.join(each)}; {others}."


def held(group: str) -> str:
    """Than which published rules ours is shown to need fewer labels, at both scores."""
    found = claims("arena", "ours needs fewer labels than", f"{group}, 0.9")
    found = found[found["setting"].isin([f"{group}, 0.9", f"{group}, 0.95"])]
    better = [name for name, both in found.groupby("claim", sort=False) if verdicts(both, HOLDS) == 2]
    names = ", ".join(name.removeprefix("ours needs fewer labels than ") for name in better)
    return f"At both scores ours is shown to need fewer labels than {names}."


def stopped() -> str:
    """The labels after which CRSAIL has ended by itself on Hopper, where its runs are not done."""
    found = rows("arena/rounds", part="hopper", expert="clean", protocol="done", rule="crsail")
    labels = found.groupby("seed")["labels"].max()
    assert labels.max() < WORLDS["hopper"].budget
    return f"CRSAIL ends by itself after {labels.min()} to {labels.max()} labels"


def pairs(group: str) -> str:
    """Seed by seed, ours beside every published rule."""
    mine, found = {}, []
    runs = [run for run in arena_report.read(FIGURES / "arena") if arena_report.group_of(run) == group]
    for run in runs:
        labels = run["labels_to"]["0.95"]
        if run["rule"] == "ours":
            mine[run["seed"]] = np.inf if labels is None else labels
        elif run["rule"] in PUBLISHED:
            found.append((run["seed"], np.inf if labels is None else labels))
    both = [(mine[seed], labels) for seed, labels in found if seed in mine]
    fewer = sum(one < other for one, other in both)
    return (
        f"Seed by seed, ours has fewer labels to 0.95 on {group} than a published rule in {fewer} of "
        f"{len(both)} pairs."
    )


def beside() -> str:
    """The medians of few demonstrations beside those of the best published rules."""
    found = table("arena/labels")
    found, each = found[found["wanted"] == 0.95], []
    for _, mine in found[found["rule"] == "early"].iterrows():
        there = found[(found["group"] == mine["group"]) & found["rule"].isin(PUBLISHED)]
        each.append(f"{mine['group']}: {_labels(mine)}, beside {_least(there)}")
    return f"Its labels to 0.95 beside those of the best published rules: {'; '.join(each)}."


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
        name = one["claim"].partition(" need")[0].strip(",")
        yield f"| {name} | {one['setting']} | {value} | {one['verdict']} |"


def _number(value: float) -> str:
    return f"{value:.2f}" if np.isfinite(value) else "∞"


def worlds() -> Iterator[str]:
    for name, world in WORLDS.items():
        yield f"| {name} | {world.budget:,} | {world.portion:,} | {world.first:,} |"


def sentences() -> Iterator[str]:
    yield in_short()
    yield from compared()
    yield best()
    for group in ROBOTS:
        yield reached(group)
        yield pairs(group)
    yield held("hopper")
    yield beside()
    yield learners()
    yield judging()
    yield from played()
    yield from worlds()
    yield stopped()
    yield from ratios("few demonstrations")
    for rule in LEARNERS[1:]:
        yield from ratios(f"{RULES[rule].title}, ")
