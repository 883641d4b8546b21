"""docs/studies/toy-gridworld.md: its sentences, made from docs/figures/toy and docs/figures/gridworld."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from docs.tables import FAILS, HOLDS, cell, claims, rows, span, table, verdict_table, verdicts

PAGE = "docs/studies/toy-gridworld.md"
REGRESSION = ["squared", "absolute", "huber"]
STATED = [
    r"250 rounds;|1,000 rounds\)|95 %|seeds 0 to 9|ten seeds 101 to 110|mean ± 2\.26 standard errors",
    r"α = 1\b|the paper's hundred rounds|a hundred rounds",
    r"L2 ball of radius 20|ball of radius 20",
    r"linear growth is 2, √T is 1\.41|start at step 1 |limit of 1,000 iterations",
    r"between rounds 500 and 1,000|has seen ten independent states",
    r"ten rounds of tuning|visited twice",
]


def steps(problem: str, loss: list[str], learner: str) -> list[float]:
    return sorted(set(rows("toy/steps", problem=problem, loss=loss, learner=learner)["step"]))


def toy() -> Iterator[str]:
    tuning, final = table("toy/tuning"), table("toy/runs")
    yield f"(toy: {len(tuning):,} tuning runs and {len(final):,} runs of"
    assert final["seed"].unique().tolist() == [*range(101, 111)] and rows("toy/curves")["round"].max() == 250
    better = claims("toy", "simple: FTL, FTRL and AdaFTRL beat")
    regression = better[~better["setting"].str.startswith("logistic")]
    ftl = [float(better[better["setting"] == f"{loss}, FTL"]["value"].iloc[0]) for loss in REGRESSION]
    assert verdicts(regression, HOLDS) == len(regression) == 9
    yield f"have {span(regression['value'], '.2f')} of the regret of the best online learner"
    yield f"(squared {ftl[0]:.2f}, absolute {ftl[1]:.2f}, Huber {ftl[2]:.2f} for FTL)"
    for (
        loss
    ) in REGRESSION:  # no loss any more: the cumulative loss stands still from round 11 on, beside rounding
        curve = rows("toy/curves", problem="simple", loss=loss, learner="ftl").sort_values("round")[
            "cumulative_mean"
        ]
        assert curve.iloc[-1] - curve.iloc[10] < 1e-6 * curve.iloc[-1]
    logistic = {
        name: float(better[better["setting"] == f"logistic, {name}"]["value"].iloc[0])
        for name in ("FTL", "FTRL", "AdaFTRL")
    }
    assert better[better["setting"] == "logistic, FTL"]["measure"].iloc[0] == "median FTL / AdaGrad (norm)"
    yield f"it ends with {logistic['FTL']:.0f} times the regret of AdaGrad (norm form)"
    yield f"FTRL has {logistic['FTRL']:.2f} and AdaFTRL {logistic['AdaFTRL']:.2f} of AdaGrad's"
    worse = claims("toy", "adversarial: FTL is worse")
    assert verdicts(worse, HOLDS) == 16
    yield f"its regret is {worse['value'].min():.1f} to {worse['value'].max():.0f} times that of any other"
    means = rows("toy/runs", problem="adversarial", loss="squared", learner="ftl")["regret"]
    yield f"(one seed of ten has {100 * means.max() / means.sum():.0f} % of the squared loss's regret of FTL"
    out, match = (claims("toy", f"FTRL and AdaFTRL {one}") for one in ("outperform", "match"))
    shown, wrong = (verdicts(out, one) for one in (HOLDS, FAILS))
    yield f"is shown in {shown} of {len(out)} comparisons and is wrong in {wrong}"
    regression = out[out["setting"].str.startswith(tuple(f"simple, {loss}" for loss in REGRESSION))]
    assert list(regression.index) == list(out.index[out["verdict"] == FAILS])
    assert verdicts(out, HOLDS) + verdicts(out, FAILS) == len(out)
    yield f"where their loss is {span(100 * regression['value'] - 100)} % above"
    yield f"at most 5 % above, is shown in {verdicts(match, HOLDS)} and refuted in {verdicts(match, FAILS)}"
    eta, alpha = steps("simple", REGRESSION, "ftrl"), steps("simple", REGRESSION, "adaftrl")
    assert (eta, alpha) == ([10, 100], [100])
    yield "On simple regression it nearly does (η = 10 to 100, α = 100)"
    assert steps("simple", ["logistic"], "ftrl") == steps("simple", ["logistic"], "adaftrl") == [1]
    simple = match[match["setting"].str.startswith("simple, logistic")]["value"]
    yield f"it chooses η = 1 and α = 1, and their average loss is {span(simple, '.2f', ' and ')} of FTL's"
    assert steps("adversarial", REGRESSION, "ftrl") == [0.01, 0.1]
    assert steps("adversarial", ["logistic"], "ftrl") == [0.1]
    yield "very short steps (η = 0.01 and 0.1)"
    untuned = claims("toy", "ours: AdaFTRL untuned")
    fixed = untuned["setting"].isin([f"simple, {loss}" for loss in REGRESSION])
    yield (
        f"it has {span(untuned[fixed]['value'])} times the regret of tuned FTRL on simple regression and "
        f"{span(untuned[~fixed]['value'], '.1f')} times elsewhere"
    )
    late = claims("toy", "FTL's regret stays constant", "logistic")["value"].iloc[0]
    yield f"({100 * late:.0f} % of it falls in the second half)"
    share = cell("toy/solves", "rounds", loss="logistic", learner="ftl", status="no_minimiser") / 10_000
    yield f"had no minimiser in {100 * share:.0f} % of its rounds"
    assert set(table("toy/solves")["status"]) <= {"converged", "stalled", "no_minimiser"}
    curves = table("toy/curves")
    assert curves["regret_05"].min() > -1e-6 and not curves["regret_mean"].isna().any()
    yield "No solve was given up, and no learner's regret is below zero in any round"
    yield from verdict_table("toy")


def ratio(setting: str, form: str = ".1f") -> str:
    return format(float(claims("gridworld", "FTL has larger regret", setting)["value"].iloc[0]), form)


def growth(learner: str, variant: str) -> float:
    curve = rows("gridworld/curves", learner=learner, variant=variant).set_index("round")["regret_mean"]
    return float(curve[1000] / curve[500])


def overtaken() -> int:
    """From which round on FTL's mean regret on the ball is below every other learner's."""
    curves = {
        name: one.sort_values("round")["regret_mean"].to_numpy()
        for name, one in rows("gridworld/curves", variant="ball").groupby("learner")
    }
    behind = np.any([curves["ftl"] >= other for name, other in curves.items() if name != "ftl"], axis=0)
    return int(np.flatnonzero(behind)[-1]) + 2


def gridworld() -> Iterator[str]:
    yield f"gridworld: {len(table('gridworld/tuning')):,} and {len(table('gridworld/runs')):,} runs of"
    own, recorded, ball = (ratio(f"{variant}, round 100, FTRL") for variant in ("own", "recorded", "ball"))
    assert (own, recorded, ball) == tuple(
        ratio(f"{variant}, round 100, OGD") for variant in ("own", "recorded", "ball")
    )
    yield f"FTL has {own} times the regret of FTRL and OGD, on the recorded stream {recorded} times"
    yield f"radius 20 {ball} times"
    grown = claims("gridworld", "FTL's regret is still linear").set_index("setting")["value"]
    assert f"{grown['own']:.2f}" == f"{grown['recorded']:.2f}"
    yield f"it gains {100 * grown['own'] - 100:.0f} %, on the ball {100 * grown['ball'] - 100:.0f} %"
    others = [
        growth(name, variant)
        for name in ("ftrl", "adaftrl", "ogd")
        for variant in ("own", "recorded", "ball")
    ]
    yield f"grows {span(others, '.2f')} times"
    ends = [ratio(f"{one}, round 1000, FTRL") for one in ("own", "recorded")]
    yield "shrinks to {} times FTRL's regret at round 1,000, {} on the recorded stream".format(*ends)
    yield f"from round {overtaken()} on"
    rewards = claims("gridworld", "OGD and FTRL also earn")["value"]
    yield f"FTL also earns {span(100 / rewards - 100)} % more reward than FTRL and OGD in every variant"
    assert set(rows("gridworld/steps", variant="recorded")["edge"]) == {"no", "low"}
    assert set(rows("gridworld/steps", variant="recorded", edge="no")["learner"]) == {"ftl"}
    yield f"has {span(claims('gridworld', 'ours: AdaFTRL untuned')['value'], '.2f')} of tuned FTRL's regret"
    less = claims("gridworld", "ours: FTL solved less far").set_index("setting")["value"]
    yield (
        f"regret is {100 - 100 * less['own, round 1000']:.0f} % lower after 1,000 rounds and "
        f"{100 - 100 * less['own, round 100']:.0f} % lower after 100"
    )
    yield from verdict_table("gridworld")


def sentences() -> Iterator[str]:
    yield from toy()
    yield from gridworld()
