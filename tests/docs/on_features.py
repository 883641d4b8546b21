"""docs/studies/questions.md, questions 3 to 5: features, interactive runs, AdaFTRL untuned."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from docs.tables import HOLDS, OPEN, claims, interval, least, rows, span

ENVS = ("Hopper-v5", "Walker2d-v5")
TOY = "adversarial toy"


def views() -> Iterator[str]:
    same = claims("questions", "3. FTL is indifferent")
    assert same["value"].max() < 1e-12
    yield "outputs agree to 10⁻¹² in every round"
    early = claims("questions", "3. … and before that")
    yield (
        f"(the toy's first ten rounds: {span(100 * early[early['verdict'] != HOLDS]['value'])} % of the "
        "targets' size)"
    )
    apart = []
    for stream in ENVS:
        step = least("questions/parameterisation", stream=stream, learner="ftrl", view="as recorded")[1]
        for view in ("random", "scaled", "whitened"):
            apart.append(
                100
                * rows("questions/parameterisation", stream=stream, learner="ftrl", view=view, step=step)[
                    "apart"
                ].mean()
            )
    yield (
        f"at the same step, outputs still differ by {span(apart)} % of the targets' size after 100 rounds "
        "on Hopper and Walker2d"
    )
    change = (
        claims("questions", "3. FTRL is indifferent to other").set_index("setting")[["value", "low", "high"]]
        * 100
        - 100
    )
    gain = (
        claims("questions", "3. scaling the features").set_index("setting")[["value", "low", "high"]] * 100
        - 100
    )
    yield "random A {:.0f} % [{:.0f}, {:.0f}]".format(
        *change.loc["Hopper-v5 random"]
    ) + " and {:.0f} % [{:.0f}, {:.0f}] more".format(*change.loc["Walker2d-v5 random"])
    yield "whitening {:.0f} % [{:.0f}, {:.0f}]".format(
        *change.loc["Hopper-v5 whitened"]
    ) + " and {:.0f} % [{:.0f}, {:.0f}] more".format(*change.loc["Walker2d-v5 whitened"])
    yield "{:.0f} % more regret on Hopper [{:.0f}, {:.0f}]".format(*gain.loc["Hopper-v5 scaled"]).replace(
        "[-", "[−"
    )
    yield (
        "{:.0f} % less on Walker2d [{:.0f}, {:+.0f}]".format(*gain.loc["Walker2d-v5 scaled"])
        .replace("-1 %", "1 %")
        .replace("-", "−")
    )
    for stream in ENVS:
        plain, scaled = (
            least("questions/parameterisation", stream=stream, learner="ftrl", view=view)[1]
            for view in ("as recorded", "scaled")
        )
        assert np.isclose(plain / scaled, 10)


def interactive() -> Iterator[str]:
    learners = ("ftl", "ftrl", "adaftrl", "ogd")
    orders = []
    for stream in ENVS:
        means = [
            rows("questions/interactive", stream=stream, learner=one)[
                ["average_loss_frozen", "average_loss_interactive"]
            ].mean()
            for one in learners
        ]
        yield f"| {stream[:-3]} | " + " | ".join(f"{frozen:.2f} / {own:.2f}" for frozen, own in means) + " |"
        orders.append([np.argsort([pair.iloc[i] for pair in means]).tolist() for i in (0, 1)])
    assert all(frozen == own for frozen, own in orders)
    ftl = rows("questions/interactive", learner="ftl")
    assert (ftl["average_loss_frozen"] == ftl["average_loss_interactive"]).all()
    yield (
        "The others are within "
        f"{100 * claims('questions', '4. the frozen stream')['value'].max() - 100:.0f} % of what the "
        "frozen stream said"
    )
    order = claims("questions", "4. who beats FTL")
    unsure = order[order["verdict"] == OPEN]
    assert list(unsure["setting"]) == [f"OGD on {stream}" for stream in ENVS]
    yield f"({interval(unsure[:1])} on Hopper, {interval(unsure[1:])} on Walker2d)"


def untuned() -> Iterator[str]:
    plain = claims("questions", "5. AdaFTRL untuned").set_index("setting")
    shares, worse = [], []
    for stream, name in zip((*ENVS, TOY), ("Hopper", "Walker2d", "toy"), strict=True):
        ftl, ftrl, ada = (
            least("questions/steps", stream=stream, learner=one) for one in ("ftl", "ftrl", "adaftrl")
        )
        mine = rows("questions/untuned", stream=stream, rule="α = 1")["regret"].mean()
        means = rows("questions/steps", stream=stream, learner="ftrl").groupby("step")["regret"].mean()
        hindsight = claims("questions", "5. AdaFTRL with α = D/√2", stream)
        assert np.isclose(mine / ftrl[0], plain.loc[stream, "value"], rtol=1e-6)
        of = " times FTRL" if name == "Hopper" else ""
        shares.append(mine / ftl[0])
        worse.append(int((means > mine).sum()))
        digits = [
            f"{one / 100:.3g}" if one >= 100 else f"{one / 100:.3f}"
            for one in (ftl[0], ftrl[0], ada[0], mine)
        ]
        yield (
            f"| {name} | {digits[0]} | {digits[1]} (η = {plain_power(ftrl[1])}) "
            f"| {digits[2]} (α = {plain_power(ada[1])}) "
            f"| {digits[3]}: {interval(claims('questions', '5. AdaFTRL untuned', stream))}{of} "
            f"| {interval(hindsight)} | {worse[-1]} of 11{' steps' if of else ''} |"
        )
    more = 100 * plain["value"] - 100
    yield f"({span(more)} % more regret)"
    yield (
        f"it has {span(shares, '.2f')} of FTL's regret, and less than FTRL has at {span(worse)} of the 11 "
        "step sizes"
    )
    distance = rows("questions/untuned", stream="Walker2d-v5", rule="α = D/√2")["step"].mean()
    yield (
        "on Walker2d it is "
        f"{least('questions/steps', stream='Walker2d-v5', learner='adaftrl')[1] / distance:.0f} times "
        "smaller than the best"
    )


def plain_power(value: float) -> str:
    digits = int(np.rint(np.log10(value)))
    return (
        f"{value:g}"
        if 0 <= digits <= 2
        else "10" + str(digits).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    )


def sentences() -> Iterator[str]:
    for part in (views, interactive, untuned):
        yield from part()
