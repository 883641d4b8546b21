"""docs/studies/mujoco.md, the part on networks: its sentences, made from docs/figures/mujoco."""

from __future__ import annotations

from collections.abc import Iterator

from docs.on_mujoco import NETWORKS, OFFLINE, SETTINGS, back, loss, loss_table, percents, ratios
from docs.tables import FAILS, HOLDS, OPEN, cell, claims, interval, least, rows, span, table, verdicts


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
    alt = claims("mujoco", "(2)", "network", "alt_ftrl")
    yield (
        f"on Hopper with the absolute loss {agent[1]:.0f} % below FTL, on Walker2d with the squared loss "
        f"{agent[2]:.0f} %"
    )
    yield (
        "on Walker2d with the absolute loss the two are alike "
        f"({interval(alt[alt['setting'].str.contains('Walker2d-v5, absolute')])})"
    )
    yield (
        "on Hopper with the squared loss FTL is ahead "
        f"({interval(alt[alt['setting'].str.contains('Hopper-v5, squared')])})"
    )
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
    tuned = [
        ("network", "Hopper-v5", kind, drive, "ftl")
        for drive in ("agent", "expert")
        for kind in ("squared", "absolute")
    ]
    adam = [f"{loss(*one):.3f}, {back(*one):,.0f}" for one in tuned]
    yield f"| Adam, its step tuned | {' | '.join(adam)} |"
    yield from line_search()


def line_search() -> Iterator[str]:
    """The coarse half of the tuning with SLS."""
    here = "mujoco/sls-coarse"
    yield f"11 steps, {len(table(here))} runs"
    powers = {1e-2: "0.01", 1.0: "1", 10.0: "10", 1e3: "10³", 1e4: "10⁴", 1e5: "10⁵"}
    for drive in ("agent", "expert"):
        for loss_setting in ("squared", "absolute"):
            cells = []
            for learner in ("ftrl", "alt_ftrl", "adaftrl"):
                value, step = least(here, "average_loss", loss=loss_setting, drive=drive, learner=learner)
                cells.append(f"{value:.3f} ({powers[step]})")
            yield f"| {loss_setting}, {drive}-driven | {' | '.join(cells)} |"
    ours, other = (
        least(here, "average_loss", loss="squared", drive="expert", learner=one)[0]
        for one in ("alt_ftrl", "ftrl")
    )
    yield f"(Alt-FTRL has {ours / other:.2f} of its loss)"
    one = {"loss": "squared", "drive": "agent", "learner": "ftrl"}
    jumps = [cell(here, "average_loss", step=step, **one) for step in (0.1, 10.0, 1e5)]
    yield "(FTRL squared: {:.2f} at 0.1, {:.2f} at 10, {:.0f} at 10⁵)".format(*jumps)
