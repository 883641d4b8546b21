"""docs/studies/mujoco.md, the part on networks: its sentences, made from docs/figures/mujoco."""

from __future__ import annotations

from collections.abc import Iterator

from docs.on_mujoco import NETWORKS, OFFLINE, SETTINGS, back, loss, loss_table, percents, ratios, value
from docs.tables import FAILS, HOLDS, OPEN, claims, interval, least, rows, span, table, verdicts

# FTL's losses with SLS on Hopper as they were on two cores, of which no table was kept.
BEFORE = (0.936, 1.077, 0.062, 0.312)


def networks() -> Iterator[str]:
    yield f"(the experts': {span(rows('mujoco/summary', part='network')['expert_return'], ',.0f', ' and ')})"
    yield from loss_table("network", NETWORKS, returns=True)
    found = claims("mujoco", "(1)", "network")
    assert verdicts(found, HOLDS) == len(found)
    factors = sorted(1 / found["value"])
    yield (
        f"in {verdicts(found, HOLDS)} of {len(found)} comparisons with the better of the two, by factors "
        f"of {factors[0]:.1f} to {factors[-1]:.0f}"
    )
    agent = percents(ratios("alt_ftrl", "ftl", "network", "agent"))
    better, match = (
        claims("mujoco", f"(2) agent-driven: regularised learners {one} FTL", "network").set_index("setting")
        for one in ("outperform", "match")
    )
    at = "network, {}, agent-driven, {}".format  # on the absolute loss Alt-FTRL is FTRL, and is not listed
    alt = [at(f"{env}, {kind}", "alt_ftrl" if kind == "squared" else "ftrl") for env, kind in SETTINGS]
    assert set(better.loc[alt]["verdict"]) == {OPEN} and len(better) == 10 and not verdicts(better, HOLDS)
    assert list(match.loc[alt]["verdict"]) == [OPEN, HOLDS, HOLDS, OPEN]
    yield f"in means Alt-FTRL is on Hopper with the absolute loss {agent[1]:.0f} % below FTL"
    first, second = (interval(better.loc[[one]]) for one in alt[1:3])
    yield f"({first} of its loss), on Walker2d with the squared loss {agent[2]:.0f} % ({second})"
    yield "it matches FTL in both, and that it outperforms it cannot be told"
    yield f"nothing shows on Walker2d with the absolute loss ({interval(better.loc[alt[3:]])})"
    yield f"on Hopper with the squared one ({interval(better.loc[alt[:1]])})"
    assert list(match.index[match["verdict"] == HOLDS]) == alt[1:3]
    failed = list(match.index[match["verdict"] == FAILS])
    assert failed == [at("Hopper-v5, squared", one) for one in ("ftrl", "adaftrl")]
    yield f"outperforming FTL is shown in {verdicts(better, HOLDS)} of {len(better)} comparisons"
    yield f"matching it in {verdicts(match, HOLDS)}"
    driven = [
        loss("network", *one, "expert", "ftl")
        / min(loss("network", *one, "expert", other) for other in OFFLINE)
        for one in SETTINGS
    ]
    yield f"Expert-driven, FTL has the least loss or is within {100 * (max(driven) - 1):.0f} % of it"
    chosen = rows("mujoco/summary", part="network", learner="alt_ftrl")["step"]
    assert (chosen.min(), chosen.max()) == (1e3, 1e5)
    yield "Alt-FTRL's chosen steps are 10³ to 10⁵"
    inner = rows("mujoco/summary", part="network", loss_setting="squared", learner=["ftrl", "adaftrl"])[
        "learning_rate"
    ]
    assert set(inner) == {1e-4, 1e-5}
    yield "Tuning answers with tiny inner steps (10⁻⁴, 10⁻⁵)"
    assert all(
        back("network", env, "absolute", drive, "ftrl") == back("network", env, "absolute", drive, "alt_ftrl")
        for env in ("Hopper-v5", "Walker2d-v5")
        for drive in ("agent", "expert")
    )
    below = claims("mujoco", "(3)", "network")
    yield (
        f"it is shown in {verdicts(below, HOLDS)} of {len(below)} comparisons, refuted in "
        f"{verdicts(below, FAILS)} and cannot be told in {verdicts(below, OPEN)}"
    )
    absolute = [back("network", "Hopper-v5", "absolute", "agent", one) for one in OFFLINE]
    squared = [back("network", "Hopper-v5", "squared", "agent", one) for one in OFFLINE]
    yield (
        f"({min(absolute):,.0f} and more of 3,450), the squared one none of them (at most "
        f"{max(squared):,.0f})"
    )
    factor = [
        loss("network", *one, "agent", "ftl") / loss("network", *one, "expert", "ftl") for one in SETTINGS
    ]
    pairs = [[back("network", *one, drive, "ftl") for drive in ("expert", "agent")] for one in SETTINGS]
    assert all(a < b for a, b in pairs)
    yield f"FTL's loss is {span(factor)} times smaller"
    yield "(" + ", ".join(f"{a:,.0f} against {b:,.0f}" for a, b in pairs) + ")"
    yield from line_search()


def line_search() -> Iterator[str]:
    """Networks by SLS: the coarse half of the tuning, then everything in full."""
    coarse, here, part = "mujoco/sls-coarse", "mujoco/network-sls", "network-sls"
    yield f"{table(coarse)['step'].nunique()} steps, {len(table(coarse))} runs"
    yield from loss_table(part, OFFLINE, returns=True, steps=True)
    for env, kind in SETTINGS:  # the steps in brackets are those of the coarse half, on Hopper
        for drive in ("agent", "expert"):
            for learner in OFFLINE[1:]:
                best = least(coarse, "average_loss", loss=kind, drive=drive, learner=learner)[1]
                assert value("step", part, env, kind, drive, learner) == best

    driven = claims(here, "(6) expert-driven, networks: regularised learners outperform FTL")
    alike = claims(here, "(6) expert-driven, networks: regularised learners match FTL", "absolute")
    assert verdicts(alike, HOLDS) == len(alike) == 4
    more, same = (driven[driven["setting"].str.contains(kind)] for kind in ("squared", "absolute"))
    assert verdicts(more, FAILS) == 5 and len(more) == 6
    yield (
        f"more on the squared loss ({span(more['value'], '.1f')} times as much, shown in five of six "
        f"comparisons)"
    )
    yield f"the same on the absolute one (to {max(percents(list(same['value']))):.1f} %)"
    better, match = (
        claims(here, f"(2) agent-driven: regularised learners {one} FTL").set_index("setting")
        for one in ("outperform", "match")
    )
    walker = "network-sls, Walker2d-v5, {}, agent-driven, {}".format
    assert list(match.index[match["verdict"] == HOLDS]) == [walker("absolute", "adaftrl")]
    assert list(match.index[match["verdict"] == FAILS]) == [walker("squared", "adaftrl")]
    hopper = "network-sls, Hopper-v5, absolute, agent-driven, adaftrl"
    assert list(better.index[better["verdict"] == FAILS]) == [hopper, walker("squared", "adaftrl")]
    yield (
        f"AdaFTRL matches FTL on Walker2d with the absolute loss "
        f"({interval(match.loc[[walker('absolute', 'adaftrl')]])})"
    )
    assert (verdicts(match, OPEN), len(match)) == (8, 10)
    yield (
        f"on the squared loss it has {match['value'][walker('squared', 'adaftrl')]:.1f} times FTL's; "
        "in the other eight of ten comparisons three seeds cannot tell"
    )
    below = claims(here, "(3)")
    yield (
        f"shown in {verdicts(below, HOLDS)} of {len(below)} comparisons, refuted in "
        f"{verdicts(below, FAILS)}, and "
        f"cannot be told in {verdicts(below, OPEN)}"
    )
    edge = value("step", part, "Hopper-v5", "absolute", "agent", "adaftrl")
    assert edge == table(coarse)["step"].max()
    squared = [one for one in SETTINGS if "squared" in one]
    times = {
        name: [one for drive in ("agent", "expert") for one in ratios(name, "alt_ftrl", part, drive, squared)]
        for name in ("ftrl", "adaftrl")
    }
    last = rows(
        f"{here}/rounds", env="Walker2d-v5", loss_setting="squared", drive="agent", learner="ftrl", round=25
    )["average_loss"]
    *others, apart = (f"{one:.1f}" for one in sorted(last))
    assert len(set(others)) == 1
    yield (
        f"FTRL around the last iterate has {span(times['ftrl'], '.1f')} times the loss of Alt-FTRL (in one "
        f"seed of Walker2d a loss of {apart}, where the others have {others[0]}), AdaFTRL "
        f"{span(times['adaftrl'], '.1f')} times"
    )
    well = claims(here, "(4)")
    assert set(well["wanted"]) == {"< 1.05"}
    yield f"(within 5 % of the best, in {verdicts(well, HOLDS)} of {len(well)})"
    pairs = [(*one, drive, "ftl") for drive in ("agent", "expert") for one in SETTINGS]
    assert all(back(part, *one) < back("network", *one) for one in pairs) and len(pairs) == 8
    larger = [loss(part, *one) / loss("network", *one) for one in pairs]
    seen = [back(one, "Hopper-v5", "absolute", "agent", "ftl") for one in (part, "network")]
    yield (
        f"FTL's loss is {span(larger, '.1f')} times as large, its return lower in all eight (Hopper, "
        f"absolute, agent-driven: {seen[0]:,.0f} of Adam's {seen[1]:,.0f})"
    )
    hopper = [one for one in pairs if one[0] == "Hopper-v5"]
    apart = percents([loss(part, *one) / was for one, was in zip(hopper, BEFORE, strict=True)])
    yield "its losses were {}, {}, {} and {}, the same to {:.0f} %".format(*BEFORE, max(apart))
    runs = table(f"{here}/rounds").drop_duplicates(["env", "loss_setting", "drive", "learner", "seed"])
    yield f"The {len(runs)} runs in full"
