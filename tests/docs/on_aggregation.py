"""docs/studies/aggregation.md: its sentences, made from docs/figures/aggregation."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from docs.tables import HOLDS, OPEN, claims, form_of, rows, span, table, verdicts

PAGE = "docs/studies/aggregation.md"
SIZES, SERIES = (10_000, 100_000, 1_000_000, 10_000_000), ("ftl", "window:1", "window:3", "ftrl", "adaftrl")
STATED = [
    r"mean ± 4\.30 standard errors",
    r"10[⁴⁵⁶⁷]|window:[13]|95 %|Claims 7 and 8|in 6 the share|in 8 the difference",
    r"256-256 network and 1,000 steps of Adam|minibatches of 256|rounds of 100 steps|20 episodes",
    r"as the interactions need, 10 to 10,000|at most 65,536 environments",
    r"jax 0\.11\.2|mujoco 3\.17\.0|gymnasium 1\.4\.0|within 0\.005 of the same value",
    r"about 3\.5 a step|after 300 steps has 1,000",
    # Runs of earlier versions, whose tables are not kept.
    r"84, 892 and 278 against 3,436, 3,017 and 1,232|3,168, 3,483 and 3,492 against 3,469, 3,467 and 3,490",
    r"\(earlier: 961 to 2,025 and 751 to 1,824\)",
]


def of(column: str, size: int, series: str) -> pd.Series:
    """One number a seed."""
    found = rows("aggregation/runs", steps=size, series=series).sort_values("seed")[column]
    assert len(found) == 3
    return found.reset_index(drop=True)


def shares(column: str, *series: str) -> list[float]:
    """The medians of some series as shares of FTL's, for every size."""
    return [of(column, n, one).median() / of(column, n, "ftl").median() for one in series for n in SIZES]


def measured() -> Iterator[str]:
    for size in SIZES:
        label = f" {size:,}"
        for column, form in (("average_loss", ".2f"), ("last_loss", ".2f"), ("return", ",.0f")):
            found = [of(column, size, series) for series in SERIES]
            cells = [f"{one.median():{form}} ({span(one, form)})" for one in found]
            yield f"|{label} | {column.replace('_', ' ')} | {' | '.join(cells)} |"
            label = ""
        cells = [f"{of('seconds', size, series).median():.3g}" for series in SERIES]
        yield f"| | seconds a run | {' | '.join(cells)} |"
        cells = [f"{of('memory_bytes', size, series).median() / 1e6:.3g}" for series in SERIES]
        yield f"| | MB learned from | {' | '.join(cells)} |"


def judged() -> Iterator[str]:
    """How each claim went, a column a size."""
    found = table("aggregation/claims")
    assert set(found["setting"]) == {f"mjx:Hopper, {size:,}" for size in SIZES}
    for claim in found["claim"].unique():
        mine = found[found["claim"] == claim].set_index("setting")
        each = [mine.loc[f"mjx:Hopper, {size:,}"] for size in SIZES]
        cells = [f"{one['verdict']} ({form_of(one['value'], '.2f')})" for one in each]
        yield f"| {claim} | {' | '.join(cells)} |"


def forgetting() -> Iterator[str]:
    """What the current round alone costs."""
    found = claims("aggregation", "(1)")
    assert verdicts(found, HOLDS) == 4
    assert all((of("average_loss", n, "window:1") > of("average_loss", n, "ftl")).all() for n in SIZES)
    times = [1 / value for value in found["value"]]
    yield f"costs loss everywhere: {span(times, '.1f')} times that of all rounds"
    yield f"{', '.join(f'{one:.1f}' for one in times[:3])} and {times[3]:.1f} times as much"
    for number in ("(7)", "(8)"):
        assert set(claims("aggregation", number)["verdict"]) == {OPEN}
    yield "in the last round, and of the return, no difference shows"
    pairs = [[of("return", n, one).median() for one in ("window:1", "ftl")] for n in SIZES]
    told = [f"{mine:,.0f} against {other:,.0f}" for mine, other in pairs]
    yield f"Its return is {told[0]} with 10⁴ interactions and {told[1]} with 10⁵"
    yield f"It is {told[2]} with 10⁶ and {told[3]} with 10⁷"
    yield f"its seconds are {span(shares('seconds', 'window:1'), '.2f')} of those with all rounds"
    smaller = [1 / one for one in shares("memory_bytes", "window:1")]
    yield f"needs {span(smaller, '.1f')} times less memory"
    yield f"all rounds of 10⁷ interactions are {of('memory_bytes', SIZES[3], 'ftl').median() / 1e9:.2f} GB"


def others() -> Iterator[str]:
    """Three rounds, FTRL and AdaFTRL, and why more environments do not help."""
    for number, count in (("(2)", 0), ("(3)", 0), ("(4)", 2), ("(5)", 1)):
        assert verdicts(claims("aggregation", number), HOLDS) == count
    three = [span(of("return", size, "window:3"), ",.0f") for size in SIZES[1:]]
    yield f"returns are {three[0]} with 10⁵ and {three[1]} with 10⁶, and {three[2]} with 10⁷"
    best = [max(SERIES, key=lambda one: of("return", n, one).median()) for n in SIZES]
    assert best == ["ftl", "window:3", "window:3", "window:1"]
    yield f"have {span(shares('seconds', 'ftrl', 'adaftrl'), '.2f')} of FTL's seconds"
    ends = [span(rows("aggregation/runs", series=one)["return"], ",.0f") for one in ("adaftrl", "ftrl")]
    yield f"All twelve runs of AdaFTRL end with returns of {ends[0]}, those of FTRL with {ends[1]}"
    assert max(shares("return", "ftrl", "adaftrl")) < 1
    assert (table("aggregation/runs")["expert_return"].round(-1) == 3450).all()
    yield "which returns 3,450"
    many = rows("aggregation/rounds", steps=SIZES[3])
    assert (many[many["round"] <= 3]["episodes"] == 0).all()
    yield "With 10⁷ interactions none of 10,000 fell in the first three rounds of any run"
    fifth = many[(many["series"] == "ftl") & (many["round"] == 5)].sort_values("seed")["episodes"]
    yield "and in round 5 {:,}, {:,} and {:,} episodes ended in the three runs of FTL".format(*fifth)


def sentences() -> Iterator[str]:
    for part in (measured, judged, forgetting, others):
        yield from part()
