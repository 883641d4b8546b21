"""What the Atari study found: claims with verdicts, figures and tables, from the parts that were run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .. import disk
from ..errors import UserError
from ..report import plots
from ..report.style import INK, look, style
from . import claims, reporting
from .atari import UNTUNED

Part = dict[str, Any]
OFFLINE, ONLINE = ("ftl", "ftrl", "adaftrl"), ("ogd", "adagrad")
AGREEMENT = 0.95
TITLES = {"linear": "linear on the expert's features", "nature_cnn": "NatureCNN end to end"}


def read(folder: Path) -> list[Part]:
    """The parts kept in a folder, `GAME-POLICY.json` each."""
    files = sorted(folder.glob("*-*.json")) if folder.is_dir() else []
    if not files:
        raise UserError(f"parts: {str(folder)!r} holds no part of an Atari study (GAME-POLICY.json).")
    try:
        parts = [json.loads(file.read_text()) for file in files]
        order = {"linear": 0, "nature_cnn": 1, "pong": 0, "breakout": 1}
        parts = [part for part in parts if part["rows"] and part["scale"]]
        return sorted(parts, key=lambda part: (order[part["policy"]], order[part["game"]]))
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"parts: {str(folder)!r} is damaged ({type(error).__name__}: {error}).") from None


def column(part: Part, learner: str, name: str, t: int) -> np.ndarray:
    """A column of round t, one number a seed."""
    rows = [row for row in part["rows"] if row["learner"] == learner and row["round"] == t]
    return np.array([row[name] for row in sorted(rows, key=lambda row: row["seed"])], float)


def returns(part: Part, learner: str, t: int) -> np.ndarray:
    """Returns of all evaluation games after round t, in the games' order, seed after seed."""
    some = [one for one in part["played"] if one["learner"] == learner and one["round"] == t]
    return np.array([one["return"] for one in sorted(some, key=lambda one: (one["seed"], one["number"]))])


def _learners(part: Part) -> list[str]:
    return list(dict.fromkeys(row["learner"] for row in part["rows"]))


def _last(part: Part) -> int:
    return max(row["round"] for row in part["rows"])


def judged(parts: Sequence[Part]) -> list[claims.Claim]:
    """The claims that the parts can speak of."""
    found: list[claims.Claim] = []
    for part in parts:
        have, last, where = _learners(part), _last(part), f"{part['game']}, {part['policy']}"

        def loss(name: str, part: Part = part, last: int = last) -> np.ndarray:
            return column(part, name, "average_loss", last)

        if part["policy"] == "linear":
            for name in (one for one in OFFLINE if one in have):
                fresh = column(part, name, "agreement", last)
                told = (float(fresh.mean()), float(fresh.min()), float(fresh.max()))
                claim = "linear FTL, FTRL and AdaFTRL agree with the expert on 95 % of fresh states"
                found.append(claims.judge(claim, f"{where}, {name}", "share", told, above=AGREEMENT))
        for name in (one for one in OFFLINE if one in have):
            for other in (one for one in ONLINE if one in have):
                claim = "(1) offline learners beat OGD and AdaGrad in average loss"
                ratio = claims.ratio(loss(name), loss(other))
                found.append(claims.judge(claim, f"{where}, {name}", f"{name}/{other}", ratio, below=1.0))
        for name in (one for one in ("ftrl", "adaftrl") if one in have and "ftl" in have):
            claim = "(2) regularised learners match or beat FTL in average loss"
            if part["policy"] != "linear":
                claim = "(6) end to end, regularisation helps: a lower average loss than FTL's"
            limit = claims.SLACK if part["policy"] == "linear" else 1.0
            ratio = claims.ratio(loss(name), loss("ftl"))
            found.append(claims.judge(claim, where, f"{name}/ftl", ratio, below=limit))
        if {"adaftrl", "ftrl"} <= set(have):
            ratio = claims.ratio(loss("adaftrl"), loss("ftrl"))
            claim = "(3) AdaFTRL's loss is like FTRL's on Atari"
            found.append(claims.judge(claim, where, "adaftrl/ftrl", ratio, below=claims.SLACK))
        if {UNTUNED, "ftrl"} <= set(have):
            ratio = claims.ratio(loss(UNTUNED), loss("ftrl"))
            claim = "(8) AdaFTRL untuned matches FTRL tuned"
            found.append(claims.judge(claim, where, "untuned/ftrl", ratio, below=claims.SLACK))
        if part["policy"] != "linear" and "ftl" in have and last >= 6:
            early, late = (
                np.mean([column(part, "ftl", "seconds_solve", t) for t in span], axis=0)
                for span in (range(2, last // 2 + 1), range(last // 2 + 1, last + 1))
            )
            claim = "the cost of a round of minibatched FTL does not grow with the rounds"
            found.append(claims.judge(claim, where, "late/early", claims.ratio(late, early), below=1.2))
    return found


def summary(parts: Sequence[Part]) -> list[dict[str, Any]]:
    """A row per game, policy and learner: losses, agreement, and returns beside the expert's."""
    rows = []
    for part in parts:
        last = _last(part)
        theirs = {t: one for t in range(1, last + 1) if len(one := _expert(parts, part["game"], t))}
        for name in _learners(part):
            played = [t for t in range(last, 0, -1) if len(returns(part, name, t))]
            row = {
                "game": part["game"],
                "policy": part["policy"],
                "learner": name,
                "average_loss": float(column(part, name, "average_loss", last).mean()),
                "agreement_least": float(column(part, name, "agreement", last).min()),
                "agreement_mean": float(column(part, name, "agreement", last).mean()),
            }
            if played:
                games = returns(part, name, played[0])
                mean, low, high = claims.mean(games)
                row |= {"evaluated_after_round": played[0], "games": len(games)}
                row |= {"return": mean, "return_low": low, "return_high": high}
                if theirs:
                    # The expert's games are these and, where it played more, the next ones: pairs.
                    share = claims.ratio(games, theirs[max(theirs)][: len(games)])
                    row |= dict(zip(("share_of_expert", "share_low", "share_high"), share, strict=True))
            rows.append(row)
    return rows


def _expert(parts: Sequence[Part], game: str, t: int) -> np.ndarray:
    same = [returns(part, "expert", t) for part in parts if part["game"] == game]
    return max(same, key=len, default=np.empty(0))


def draw(parts: Sequence[Part]) -> Any:
    """Agreement on fresh states, and average cumulative loss; a row per game and policy."""
    with style():
        made, panels = plots.figure(columns=2, rows=len(parts))
        for (left, right), part in zip(panels, parts, strict=True):
            rounds = sorted({row["round"] for row in part["rows"]})
            x = [t * part["scale"]["size"] for t in rounds]
            for name in _learners(part):
                label = {UNTUNED: "AdaFTRL, α = 1", "bc": "BC (on the expert's states)"}.get(name)
                for axes, what in ((left, "agreement"), (right, "average_loss")):
                    runs = np.stack([column(part, name, what, t) for t in rounds], axis=1)
                    plots.band(axes, x, runs, name=name, label=label)
            left.axhline(1.0, color=look("expert").colour, linestyle=":", linewidth=1.2)
            left.set(ylim=(0, 1.03), xlabel="interactions", ylabel="agreement with the expert")
            left.set_title(f"{part['game'].capitalize()}, {TITLES[part['policy']]}")
            top = np.nanquantile([row["average_loss"] for row in part["rows"]], 0.95)
            right.set(xlabel="interactions", ylabel="average cumulative loss", ylim=(None, min(top, 2.2)))
            right.axhline(0, color=INK, linewidth=0)
        plots.legend(made, panels[0][0])
    return made


def write(folder: Path, parts: Sequence[Part], found: list[claims.Claim]) -> list[str]:
    """Figures, every number and the claims; the names of the files."""
    about = [{k: v for k, v in part.items() if k not in ("rows", "played")} for part in parts]
    tables = {
        "rounds.csv": _csv([row for part in parts for row in part["rows"]]),
        "games.csv": _csv([row for part in parts for row in part["played"]]),
        "summary.csv": _csv(summary(parts)),
        "parts.json": disk.to_json(about, indent=2) + "\n",
    }
    return reporting.write(folder, {"atari": draw(parts)}, tables, found)


def _csv(rows: Sequence[dict[str, Any]]) -> str:
    names = dict.fromkeys(name for row in rows for name in row)
    return disk.to_csv(
        {name: [row.get(name, "") for row in rows] for name in names},
        lambda one: f"{one:.6g}" if isinstance(one, float) else str(one),
    )
