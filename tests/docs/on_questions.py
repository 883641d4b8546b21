"""docs/studies/questions.md: its sentences, made from docs/figures/questions."""

from __future__ import annotations

from collections.abc import Iterator

from docs import on_features
from docs.tables import HOLDS, OPEN, cell, claims, interval, least, span, verdict_table, verdicts

PAGE = "docs/studies/questions.md"
ENVS = ("Hopper-v5", "Walker2d-v5")
TOY = "adversarial toy"
SOLVERS = {
    "gd-1": "gradient descent, 1 step",
    "gd-3": "3 steps",
    "gd-10": "10 steps",
    "gd-30": "30 steps",
    "adam": "Adam, 30 minibatches of 32",
    "proximal-sgd": "proximal SGD, 30 of 32",
    "sls": "SLS, 30 of 32",
}
STATED = [
    r"\(100 rounds of 100 interactions|takes step 1 instead|95 %",
    r"rounds 10 to 100|last 20 rounds|sample of 500",
    r"minibatches of 32|30 of 32|of 1,000 of 10,000 samples|a tenth of all",
    r"α = 1\b|D/√2|the 5 % of the claim|question 1  ∎ ",
    r"reservoir of 100 samples|from ½ to 2|after 100 rounds|of the first ten rounds|\b[1-5]\. ",
]


def summary(column: str, stream: str, learner: str, solver: str) -> float:
    return cell("questions/inexact_summary", column, stream=stream, learner=learner, solver=solver)


def power(value: float) -> str:
    """3·10¹¹ where a number is that large, three digits otherwise."""
    if value < 1000:
        return f"{value:.3g}" if value > 10 else f"{value:.2f}"
    digits = f"{value:.0e}".split("e+")
    return f"{digits[0]}·10{digits[1].translate(str.maketrans('0123456789', '⁰¹²³⁴⁵⁶⁷⁸⁹'))}"


def exponent(value: float) -> str:
    return (f"{value:.1f}" if value > 2 else f"{value:.2f}").replace("-", "−")


def inexact() -> Iterator[str]:
    for solver, name in SOLVERS.items():
        cells = []
        for stream in ENVS:
            last, mean = (summary("against_exact", stream, one, solver) for one in ("ftrl", "alt_ftrl"))
            assert mean < last
            cells += [power(last), power(mean)]
        cells += [
            exponent(summary("exponent", stream, one, solver))
            for stream in ENVS
            for one in ("ftrl", "alt_ftrl")
        ]
        yield f"| {name} | {' | '.join(cells)} |"
    found = claims("questions", "1. few GD steps cost", "-v5 by")
    batches = claims("questions", "1. minibatch solves cost", "-v5 by")
    assert verdicts(found, HOLDS) == len(found) == 12 and verdicts(batches, HOLDS) == len(batches) == 12
    smooth = batches[~batches["setting"].str.contains("sls")]
    yield f"costs {span(100 * found['value'] - 100)} % more regret than the mean form"
    yield f"with minibatches of Adam and proximal SGD {span(smooth['value'], '.1f')} times as much"
    yield "in all 24 settings"
    descent = ["gd-1", "gd-3", "gd-10", "gd-30"]
    last, mean = (
        [summary("exponent", stream, one, solver) for stream in ENVS for solver in descent]
        for one in ("ftrl", "alt_ftrl")
    )
    yield f"(FTRL: p from {span(last, '.2f')} against {span(mean, '.2f')})"
    unsure = claims("questions", "1. … and stays in the mean form with gradient descent", "-v5")
    unsure = unsure[unsure["verdict"] == OPEN]
    assert list(unsure["setting"]) == ["AdaFTRL on Hopper-v5 by gd-1", "AdaFTRL on Hopper-v5 by gd-3"]
    yield f"(p = {unsure['value'].iloc[0]:.2f} and {unsure['value'].iloc[1]:.2f})"
    batch = ["adam", "proximal-sgd", "sls"]
    mean = [summary("exponent", stream, "alt_ftrl", solver) for stream in ENVS for solver in batch]
    last = [summary("exponent", stream, "ftrl", solver) for stream in ENVS for solver in batch[:2]]
    yield f"about like t in the mean form (p from {span(mean, '.2f')})"
    yield f"like t^{min(last):.1f} to t^{max(last):.1f} in the reformulation"
    toy = [summary("against_exact", TOY, one, solver) for one in ("ftrl", "alt_ftrl") for solver in batch[:2]]
    ada = [
        summary("against_exact", TOY, one, solver)
        for one in ("adaftrl", "alt_adaftrl")
        for solver in batch[:2]
    ]
    steps = [
        summary("against_exact", TOY, one, solver)
        for one in ("ftrl", "alt_ftrl", "adaftrl", "alt_adaftrl")
        for solver in descent
    ]
    yield f"have {span(toy, '.2f')} of exact FTRL's regret and {span(ada, '.2f')} of exact AdaFTRL's"
    yield f"With gradient descent it is {span(steps, '.2f')} of the exact one's"


def against_all(stream: str, learner: str, memory: str, held: int) -> float:
    alone = least("questions/memory", stream=stream, learner=learner, memory=memory, rounds_held=held)[0]
    return alone / least("questions/steps", stream=stream, learner=learner)[0]


def memory() -> Iterator[str]:
    tenth = claims("questions", "2. a reservoir of a tenth").set_index("setting")
    ftl = [100 * tenth.loc[f"FTL on {stream}", "value"] - 100 for stream in ENVS]
    yield f"A reservoir of 1,000 of 10,000 samples costs FTL {min(ftl):.0f} to {max(ftl):.0f} %"
    both = [100 * tenth.loc[f"FTRL on {stream}", ["value", "low", "high"]] - 100 for stream in ENVS]
    assert all(tenth.loc[f"FTRL on {stream}", "verdict"] == OPEN for stream in ENVS)
    yield "FTRL {:.0f} % on Hopper [{:.0f}, {:.0f}]".format(
        *both[0]
    ) + " and {:.0f} % on Walker2d [{:.0f}, {:.0f}]".format(*both[1])
    small = [
        100 * against_all(stream, one, "reservoir", 1) - 100 for stream in ENVS for one in ("ftl", "ftrl")
    ]
    yield "A tenth of the samples costs little on Hopper and Walker2d"
    yield "On the toy a tenth of the samples is not enough for FTL"
    yield f"a round's worth, {span(small)} %"
    toy = tenth.loc[f"FTL on {TOY}"]
    yield f"{toy['value']:,.0f} times the regret of FTL with all [{toy['low']:,.0f}, {toy['high']:,.0f}]"
    window = claims("questions", "2. a window of a tenth")
    assert verdicts(window, HOLDS) == 4
    yield (
        f"FTRL's regret falls to {interval(window[window['setting'] == 'FTRL on Walker2d-v5'])} of that "
        "with full memory on Walker2d"
    )
    yield f"on Hopper it cannot be told ({interval(window[window['setting'] == 'FTRL on Hopper-v5'])})"
    yield "FTL's falls to {:.2f} and {:.2f} on Hopper and Walker2d".format(
        *(window[window["setting"] == f"FTL on {s}"]["value"].iloc[0] for s in ENVS)
    )
    one = [[against_all(stream, learner, "window", 1) for stream in ENVS] for learner in ("ftl", "ftrl")]
    yield (
        f"(a window of one round costs FTL {span(one[0])} times its regret with full memory, FTRL "
        f"{span(one[1])} times)"
    )
    either = claims("questions", "2. a reservoir beats a window", "-v5")
    first = either[either["setting"].str.contains("(1 ", regex=False)]
    assert verdicts(first, HOLDS) == 4
    three = either[either["setting"].str.contains("(3 ", regex=False)].set_index("setting")["verdict"]
    assert [three.iloc[i] for i in range(4)] == [HOLDS, OPEN, HOLDS, OPEN]
    later = either[either["setting"].str.contains("(10 |(30 ".replace("(", r"\("), regex=True)]
    assert (
        set(later[later["verdict"] == OPEN]["setting"].str[:17]) == {"FTRL on Hopper-v5"}
        and verdicts(later, HOLDS) == 0
    )
    far = window[window["setting"] == f"FTL on {TOY}"].iloc[0]
    yield f"with a window of ten it has {far['value']:,.0f} times"


def verdict_rows() -> Iterator[str]:
    """The page leaves out where a claim does not hold when the list is long."""
    for line in verdict_table("questions", 0):
        claim, verdict, where = (part.strip() for part in line.strip("| ").split(" | "))
        yield f"| {claim} | {verdict} | {where if len(where) < 160 else where.split(';')[0]} |"


def sentences() -> Iterator[str]:
    for part in (inexact, memory, on_features.sentences, verdict_rows):
        yield from part()
