"""docs/studies/atari.md, what was played by the study as it is now: sentences from docs/figures/atari/*."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from docs.on_atari import NAMES, value
from docs.tables import FAILS, OPEN, bounds, cell, claims, form_of, interval, least, rows, verdicts
from understudy import intervals


def env(game: str) -> str:
    return f"ALE/{game.capitalize()}-v5"


def last(here: str, column: str, game: str, learner: str) -> list[float]:
    """A column after round 10, seed by seed, of the study as it is now."""
    found = rows(f"{here}/rounds", env=env(game), learner=learner, round=10)
    return list(found.sort_values("seed")[column])


def shared(here: str, game: str, learner: str) -> intervals.Interval:
    """The share of the expert's return in the same games, with its interval over pairs of games."""
    games = rows(f"{here}/games", game=env(game), learner=learner)
    return intervals.ratio(games["return"], games["expert_return"])


def seeds(here: str, game: str, learner: str) -> str:
    """Two cells: agreement and return of every seed."""
    columns = (("agreement", ".2f"), ("return_mean", ".1f"))
    return " | ".join(
        ", ".join(form_of(one, form) for one in last(here, column, game, learner)) for column, form in columns
    )


def again(here: str, game: str, policy: str, learner: str) -> str:
    """The cells of a learner that was played again: loss (before), those of `seeds`, return, share."""
    now = cell(f"{here}/summary", "average_loss", env=env(game), learner=learner)
    games = rows(f"{here}/games", game=env(game), learner=learner)["return"]
    return (
        f"{now:.3f} ({value('average_loss', game, policy, learner):.3f}) | {seeds(here, game, learner)} | "
        f"{bounds(intervals.mean(games)[:3], '.1f')} | "
        f"{bounds(shared(here, game, learner)[:3], '.2f')} |"
    )


def played(game: str, names: dict[str, str]) -> Iterator[str]:
    """The rows of networks whose games were not kept: loss, the cells of `seeds`, return and share."""
    here = f"atari/{game}-nature_cnn"
    for learner, name in names.items():
        row = rows(f"{here}/summary", learner=learner).iloc[0]
        share = f" {row['return'] / row['expert_return']:.2f}" if row["return"] > 0 else ""
        mean = form_of(row["return"], ".1f")
        yield f"| {name} | {row['average_loss']:.3f} | {seeds(here, game, learner)} | {mean} |{share} |"


def nothing(game: str, actions: int, points: int) -> str:
    """OGD and AdaGrad have the loss of knowing nothing to 2 %, and as many points in every game."""
    here = f"atari/{game}-nature_cnn"
    for learner in ("ogd", "adagrad"):
        loss = cell(f"{here}/summary", "average_loss", learner=learner)
        assert abs(loss / np.log(actions) - 1) < 0.02
        assert set(last(here, "return_mean", game, learner)) == {points}
    return f"log {actions} = {np.log(actions):.3f}"


def breakout() -> Iterator[str]:
    """Networks on Breakout, by the study as it is now."""
    here = "atari/breakout-nature_cnn"
    expert = cell(f"{here}/summary", "expert_return", learner="ftl")
    yield f"share of the expert's {expert:.1f} |"
    slow = {"ogd": "OGD, step 10⁻³", "adagrad": "AdaGrad, step 10⁻⁴"}
    yield from played("breakout", NAMES | {"bc": "BC, on the expert's states"} | slow)
    more = [
        interval(claims(here, "(6)").query("measure == @one"), ".3f") for one in ("ftrl/ftl", "adaftrl/ftl")
    ]
    yield f"FTRL's is {more[0]} and AdaFTRL's {more[1]} times FTL's"
    assert abs(claims(here, "(3)")["value"].iloc[0] - 1) < 1e-3
    yield "AdaFTRL's is FTRL's to 0.1 %"
    (ogd, slow), (adagrad, small) = (
        least(f"{here}/coarse", "average_loss", learner=one) for one in ("ogd", "adagrad")
    )
    assert (slow, small) == (1e-3, 1e-4)
    yield f"OGD 10⁻³ and AdaGrad 10⁻⁴, as before, with losses of {ogd:.3f} and {adagrad:.3f}"
    yield f"costs {nothing('breakout', 4, 1)}"


def online() -> Iterator[str]:
    """OGD, AdaGrad and AdaFTRL untuned, linear, by the study as it is now."""
    here = "atari/linear"
    names = {"adaftrl_untuned": "AdaFTRL, α = 1", "ogd": "OGD", "adagrad": "AdaGrad"}
    experts = [rows(f"{here}/games", game=env(one))["expert_return"].mean() for one in ("pong", "breakout")]
    yield "the expert in the same games: Pong {:.1f}, Breakout {:.1f}".format(*experts)
    change = []
    for game in ("pong", "breakout"):
        for learner, name in names.items():
            yield f"| {game.capitalize()}, {name} | {again(here, game, 'linear', learner)}"
            now = cell(f"{here}/summary", "average_loss", env=env(game), learner=learner)
            change.append(100 * abs(now / value("average_loss", game, "linear", learner) - 1))
        assert shared(here, game, "adaftrl_untuned").low < 1 < shared(here, game, "adaftrl_untuned").high
        assert abs(np.mean(last(here, "agreement", game, "adaftrl_untuned")) - 3 / 4) < 0.03
        ordered = rows(f"{here}/summary", env=env(game)).sort_values("average_loss")["return"]
        assert (ordered.diff().dropna() < (1 if game == "pong" else 0)).all()
    yield "whose loss is {:.0f} and {:.0f} % above that of FTRL tuned".format(
        *(100 * claims("atari", "(8)")["value"] - 100)
    )
    assert abs(np.mean(last(here, "agreement", "pong", "ogd")) - 2 / 3) < 0.02
    assert f"{shared(here, 'pong', 'ogd').middle:.1f}" == "0.9"
    lengths = rows(f"{here}/games", game=env("breakout"), learner="ogd")["length"]
    assert lengths.nunique() == 1
    yield (
        f"in Breakout it has {100 * shared(here, 'breakout', 'ogd').middle:.0f} %, and all its games reach "
        f"the limit of {lengths.iloc[0]:,} steps"
    )
    yield f"The losses are those of before to {max(change):.0f} %"


def pong() -> Iterator[str]:
    """Networks on Pong, by the study as it is now."""
    here = "atari/pong-nature_cnn"
    games = rows(f"{here}/games", learner="ftl")
    yield f"{len(games)} games each, the expert {games['expert_return'].mean():.1f} in the same games"
    for learner in ("ftl", "ftrl", "adaftrl"):
        yield f"| {NAMES[learner]} | {again(here, 'pong', 'nature_cnn', learner)}"
    slow = {"ogd": "OGD, step 0.1", "adagrad": "AdaGrad, step 10⁻³"}
    yield from played("pong", {"bc": "BC, on the expert's states"} | slow)
    assert [least(f"{here}/coarse", "average_loss", learner=one)[1] for one in slow] == [0.1, 1e-3]
    yield nothing("pong", 6, -21)
    more, unclear = (claims(here, "(6)").query("measure == @one") for one in ("ftrl/ftl", "adaftrl/ftl"))
    assert verdicts(more, FAILS) and verdicts(unclear, OPEN)
    yield f"FTRL has more loss than FTL ({interval(more, '.3f')} times)"
    yield f"of AdaFTRL it cannot be told ({interval(unclear, '.3f')})"
    yield f"its loss is FTRL's to {100 * abs(claims(here, '(3)')['value'].iloc[0] - 1):.0f} %"
    got, agreed = (last(here, one, "pong", "ftl") for one in ("return_mean", "agreement"))
    assert abs(got[0]) < 1 < min(got[1:])
    yield f"One seed of FTL only draws although it agrees with the expert in {100 * agreed[0]:.0f} %"


def sentences() -> Iterator[str]:
    for one in (online, breakout, pong):
        yield from one()
