"""docs/studies/atari.md: its sentences on the first games, made from docs/figures/atari."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from docs.tables import FAILS, FIGURES, HOLDS, OPEN, bounds, cell, claims, rows, span, verdicts

PAGE = "docs/studies/atari.md"
NAMES = {"ftl": "FTL", "ftrl": "FTRL", "adaftrl": "AdaFTRL", "bc": "BC"}
OFFLINE = ["ftl", "ftrl", "alt_ftrl", "adaftrl", "bc", "adaftrl_untuned"]
STATED = [
    r"mean ± 4\.30 standard errors|, the same games",
    r"84 × 84|frame skip 4\b|up to 30 no-ops|\(1 GiB\)",
    r"512 features|513 × 6 numbers|3078 × 3078|minibatches of 64",
    r"2,000 steps of Adam a round \(300 in the small study\)",
    r"10 rounds of 1,000 interactions|2,000 interactions",
    r"eleven decades, 10⁻⁵ to 10⁵|last round's 1,000 states",
    r"round 10, least of three seeds|α = 1\b|10,000 interactions",
    r"60 games \(20 of each seed\)|95 %|30 games",
    r"2,000 steps of Adam a round, three seeds of 10 games each|agreement in round 10 \|",
    r"after 2,500 steps|\(within 5 %\)|rounds 6 to 10|rounds 2 to 5",
    r"60 games, 20 of each seed|run with 20 games of evaluation takes 90 to 280 s of one core",
]


def part(game: str, policy: str) -> dict[str, Any]:
    """What the study kept of its tuning."""
    found = [
        one
        for one in json.loads((FIGURES / "atari" / "parts.json").read_text())
        if (one["game"], one["policy"]) == (game, policy)
    ]
    return found[0]


def value(column: str, game: str, policy: str, learner: str) -> float:
    return cell("atari/summary", column, game=game, policy=policy, learner=learner)


def returns(game: str, policy: str, learner: str, form: str = ".1f") -> str:
    names = ("return", "return_low", "return_high")
    return bounds((value(name, game, policy, learner) for name in names), form)


def share(game: str, policy: str, learner: str, form: str) -> str:
    names = ("share_of_expert", "share_low", "share_high")
    return bounds((value(name, game, policy, learner) for name in names), form)


def solves() -> Iterator[str]:
    bytes_of = 84 * 84 * 10_000
    yield (
        f"{bytes_of / 1e6:.0f} MB for 10,000 interactions where whole stacks would be "
        f"{4 * bytes_of / 1e6:.0f}"
    )
    linear = rows("atari/rounds", policy="linear", learner=OFFLINE)
    steps = linear["solver_iterations"]
    assert linear["solver_grad_norm"].max() < 1e-12
    yield f"{span(steps)} steps ({steps.median():.0f} in the median), gradients of 10⁻¹² and less"
    yield f"a solve takes {linear['seconds_solve'].median():.2f} s in the median"
    networks = (
        rows("atari/rounds", policy="nature_cnn", learner=OFFLINE)
        .groupby(["game", "learner"])["seconds_solve"]
        .median()
    )
    yield f"{span(networks, '.1f')} s a network and round in the median"


def agreement() -> Iterator[str]:
    for policy, name in (("linear", "linear"), ("nature_cnn", "end to end")):
        for game in ("pong", "breakout"):
            cells = []
            for learner in ("ftl", "ftrl", "adaftrl", "adaftrl_untuned", "ogd", "adagrad"):
                absent = policy == "nature_cnn" and learner == "adaftrl_untuned"
                cells.append("–" if absent else f"{value('agreement_least', game, policy, learner):.3f}")
            yield f"| {game.capitalize()}, {name} | {' | '.join(cells)} |"
    chosen = {game: part(game, "linear")["steps"] for game in ("pong", "breakout")}
    assert chosen["pong"] == {"ftrl": 1e5, "alt_ftrl": 1e5, "adaftrl": 1e4, "ogd": 1.0, "adagrad": 0.01}
    assert chosen["breakout"] == {"ftrl": 1e5, "alt_ftrl": 1e5, "adaftrl": 1e3, "ogd": 0.1, "adagrad": 0.01}
    yield (
        "Steps chosen: Pong FTRL 10⁵, AdaFTRL 10⁴, OGD 1, AdaGrad 0.01; Breakout FTRL 10⁵, AdaFTRL 10³, "
        "OGD 0.1, AdaGrad 0.01"
    )
    flat = part("pong", "linear")["tuning"]["ftrl"]
    yield f"(Pong: {flat['1000']:.3f}, {flat['10000']:.3f}, {flat['100000']:.3f} for 10³, 10⁴, 10⁵)"


def played() -> Iterator[str]:
    games = {name: rows("atari/games", game=name, policy="linear") for name in ("pong", "breakout")}
    for learner in ("ftl", "ftrl", "adaftrl", "bc"):
        assert returns("pong", "linear", learner) == returns("pong", "linear", "ftl")
        assert share("pong", "linear", learner, ".6f") == bounds([1, 1, 1], ".6f")  # the same games
    yield f"| Pong: expert, FTL, FTRL, AdaFTRL, BC | {returns('pong', 'linear', 'ftl')} | 1, the same games |"
    expert = games["breakout"][games["breakout"]["learner"] == "expert"]["return"]
    assert np.isclose(expert.mean(), value("return", "breakout", "linear", "ftl"))
    assert share("breakout", "linear", "ftl", ".6f") == bounds([1, 1, 1], ".6f")
    yield f"| Breakout: expert, FTL | {returns('breakout', 'linear', 'ftl')} | 1, the same games |"
    yield (
        f"| Breakout: FTRL | {returns('breakout', 'linear', 'ftrl')} | "
        f"{share('breakout', 'linear', 'ftrl', '.3f')} |"
    )
    yield (
        f"| Breakout: AdaFTRL | {returns('breakout', 'linear', 'adaftrl')} | "
        f"{share('breakout', 'linear', 'adaftrl', '.2f')} |"
    )
    for one in games.values():
        assert (one[one["learner"] == "ftl"]["agreement"] == 1).all()
    assert set(games["pong"]["return"]) == {10, 21} and set(expert) == {134, 290, 304}
    yield "Pong's end 21 or 10 points up, the expert's in Breakout at 134 (an endless rally), 290 or 304"
    pong = ", ".join(
        f"{NAMES[one]} {returns('pong', 'nature_cnn', one)}" for one in ("ftl", "ftrl", "adaftrl", "bc")
    )
    assert (
        value("return", "pong", "nature_cnn", "ogd")
        == value("return", "pong", "nature_cnn", "adagrad")
        == -21
    )
    yield f"Pong {pong}; OGD and AdaGrad −21"
    yield f"That loop's FTL had {returns('breakout', 'nature_cnn', 'ftl', '.0f')} in Breakout"
    same = [100 * value("agreement_mean", "pong", "nature_cnn", one) for one in ("ftl", "ftrl", "adaftrl")]
    yield f"agree with the expert on {span(same)} % of the states"
    assert value("return_low", "pong", "nature_cnn", "ftrl") < value(
        "return_high", "pong", "nature_cnn", "ftl"
    )


def verdict() -> Iterator[str]:
    found = claims("atari", "(1) offline")
    assert verdicts(found, HOLDS) == len(found)
    better, match = (
        claims("atari", f"(2) regularised learners {one} FTL") for one in ("outperform", "match")
    )
    assert verdicts(better, OPEN) == len(better) and not verdicts(match, FAILS)
    yield (
        f"that regularised learners match FTL (within 5 %) with linear policies is shown in "
        f"{verdicts(match, HOLDS)} "
        f"of {len(match)} comparisons, that they outperform it in {verdicts(better, HOLDS)}"
    )
    same = claims("atari", "(3) AdaFTRL's loss")
    assert not verdicts(same, FAILS)
    yield f"AdaFTRL's loss is like FTRL's in {verdicts(same, HOLDS)} of {len(same)}"
    untuned = claims("atari", "(8)")["value"]
    yield "is {:.0f} % and {:.0f} % above FTRL tuned in Pong and Breakout".format(
        *(100 * one - 100 for one in untuned)
    )
    worse = claims("atari", "(6) end to end, regularised learners outperform")
    assert verdicts(worse, FAILS) == len(worse)
    near = claims("atari", "(6) end to end, regularised learners match")
    assert not verdicts(near, FAILS)
    yield f"they match it in {verdicts(near, HOLDS)} of {len(near)}"
    yield f"({span(100 * worse['value'] - 100)} % above FTL's)"
    cost = claims("atari", "the cost of a round")["value"]
    yield f"took {cost.iloc[0]:.2f} (Pong) and {cost.iloc[1]:.2f} (Breakout) times as long"


def sentences() -> Iterator[str]:
    for one in (solves, agreement, played, verdict):
        yield from one()
