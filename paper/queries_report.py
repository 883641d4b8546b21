"""What the study of queries found: labels to nine tenths of the expert's return, claims, a figure, tables."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from understudy import disk
from understudy.intervals import median
from understudy.report import plots
from understudy.report.style import Look, look

from . import claims
from .host import failed, measured
from .queries import DEFAULT, PEER, SERIES, WORLDS, Part

ENOUGH, REACHED, FALLEN = 0.9, 0.95, 0.9
"""Of the expert's score: what is aimed at; what counts as learnt, after which it should not fall below."""
LOOKS = {
    "distance": Look("#0072B2", "-", SERIES["distance"]),
    "random": Look("#E69F00", "-", SERIES["random"]),
    "disagreement": Look("#CC79A7", "-", SERIES["disagreement"]),
    "adaftrl": Look(look("adaftrl").colour, "-", SERIES["adaftrl"]),
    "one": Look("#56B4E9", (0, (5, 2)), SERIES["one"]),
    "all": Look("#D55E00", "-", SERIES["all"]),
    "bc": look("bc"),
    PEER: Look("#555555", (0, (1, 1)), "DAgger of imitation"),
}


class Curve(NamedTuple):
    """A series in an environment: labels (n,) after which the policy was evaluated, its scores (seeds, n), 0
    for random actions and 1 for the expert, and those of the policies that are kept in the end (seeds,), on
    episodes that did not choose them; seeds: which; failed: how many more have failed.
    """

    env: str
    series: str
    labels: np.ndarray
    scores: np.ndarray
    kept: np.ndarray
    seeds: Sequence[int] = ()
    failed: int = 0

    def enough(self) -> np.ndarray:
        """Labels to nine tenths of the expert's score, one number a seed; infinite where never reached, and
        where the run failed.
        """
        reached = self.scores >= ENOUGH
        first = np.where(reached.any(axis=1), self.labels[reached.argmax(axis=1)], np.inf)
        return np.append(first.astype(float), [np.inf] * self.failed)

    def had(self) -> np.ndarray:
        """The fewest labels that a seed can need: as `enough`, and for one that did not get there, one more
        than it had.
        """
        return np.fmin(self.enough(), self.labels[-1] + 1.0)

    def least_after(self) -> np.ndarray:
        """The least score of a policy after one of 0.95, one number a seed that had one."""
        found = [one[np.argmax(one >= REACHED) :].min() for one in self.scores if (one >= REACHED).any()]
        return np.asarray(found)

    def kept_after(self) -> np.ndarray:
        """The score of what is kept, one number a seed that had 0.95."""
        return self.kept[(self.scores >= REACHED).any(axis=1)]


def curves(parts: Sequence[Part]) -> list[Curve]:
    """Every series, in the order of the study."""
    found = []
    for one in parts:
        experts = [result.summary["expert_return"] for result in one.final.results]
        expert, random = measured(experts), WORLDS[one.env].random
        runs: dict[str, list[tuple[int, list[tuple[int, float]], float]]] = {}
        gone = Counter(entry.labels["series"] for entry, result in one.final if result.error is not None)
        for entry, result in one.final:
            seen = [
                (row["labels"], row["return_mean"])
                for row in result.rows
                if math.isfinite(row["return_mean"])
            ]
            if seen and result.error is None:
                mine = (entry.labels["seed"], seen, result.summary["return_mean"])
                runs.setdefault(entry.labels["series"], []).append(mine)
        for series, played in runs.items():
            seeds, points, kept = zip(*played, strict=True)
            count = min(map(len, points))
            queries, returns = np.array([seen[:count] for seen in points]).transpose(2, 0, 1)
            labels = queries.max(axis=0).astype(int)
            scores, last = ((some - random) / (expert - random) for some in (returns, np.array(kept)))
            found.append(Curve(one.env, series, labels, scores, last, seeds, gone[series]))
        for series in gone if runs else ():
            if series not in runs:  # every run of it: none has a score, and all need more than they had
                budget = next(e.plan.budget for e in one.final.entries if e.labels["series"] == series)
                none = np.zeros((0, 1)), np.zeros(0)
                found.append(Curve(one.env, series, np.array([budget]), *none, failed=gone[series]))
        if one.peer:
            found.append(peer(one))
    return found


def peer(part: Part) -> Curve:
    """The peer's runs, whose rounds have labels of their own: at each number that a run was evaluated with,
    every run has the score of its last evaluation.
    """
    random = WORLDS[part.env].random
    runs = [np.array(run["curve"]) for run in part.peer]
    labels = np.unique(np.concatenate([run[:, 0] for run in runs]))
    labels = labels[labels >= max(run[0, 0] for run in runs)]
    scores = [
        (run[np.searchsorted(run[:, 0], labels, "right") - 1, 1] - random) / (mine["expert"] - random)
        for run, mine in zip(runs, part.peer, strict=True)
    ]
    return Curve(part.env, PEER, labels, np.array(scores), np.array(scores)[:, -1])


def judged(parts: Sequence[Part]) -> list[claims.Claim]:
    """What is wanted of the default, and how it compares with the other ways to spend the labels."""
    return list(_judged(curves(parts)))


def _judged(every: Sequence[Curve]) -> Iterator[claims.Claim]:
    by = {(one.env, one.series): one for one in every}
    for env in dict.fromkeys(one.env for one in every):
        mine = by.get((env, DEFAULT))
        if mine is None:
            continue
        enough, world = mine.enough(), WORLDS[env]
        if (target := world.target) and mine.labels[-1] <= world.budget:  # a larger one has larger rounds
            claim = "(1) the default reaches nine tenths of the expert's return with the labels wanted"
            value, _, high, _ = median(enough)
            found = value, median(mine.had()).low, high
            yield claims.judge(claim, env, "median labels", found, below=target + 1)
            claim = "(2) no seed played needs more than twice the median"
            most = float(enough.max() / value) if math.isfinite(value) else math.inf
            # What is not reached needs a label more, or many.
            alone = most if math.isfinite(most) else (most, (mine.labels[-1] + 1) / value, most)
            yield claims.judge(claim, env, "most / median", alone, below=2.0 + 1e-9)
        if len(after := mine.kept_after()):
            claim = "(3) every run played that has reached 0.95 keeps 0.9 or more, on new episodes"
            yield claims.judge(claim, env, "least score kept", float(after.min()), above=FALLEN)
            claim = "(4) after a policy of 0.95 none of a later round played is below 0.9"
            yield claims.judge(claim, env, "least score", float(mine.least_after().min()), above=FALLEN)
        alone = by.get((env, "one"), mine)  # the others have one network too
        for other, claim in (
            ("all", "(5) distance needs fewer labels than asking about every state"),
            ("bc", "(6) distance needs fewer labels than behavioural cloning"),
            ("random", "(7) distance needs fewer labels than asking at random"),
            ("disagreement", "(8) distance needs fewer labels than disagreement"),
            ("adaftrl", "(9) FTL needs fewer labels than AdaFTRL"),
        ):
            if (env, other) in by:
                yield fewer(claim, alone, by[env, other])


def fewer(claim: str, one: Curve, other: Curve) -> claims.Claim:
    """Judges that `one` needs fewer labels than the `other`, by the median of the ratios seed by seed."""
    count = min(len(one.enough()), len(other.enough()))
    mine, theirs, least, most = (
        labels[:count] for labels in (one.enough(), other.enough(), one.had(), other.had())
    )
    value, _, high, _ = median(mine / most)
    measure = f"median of {one.series}/{other.series}" + (", at most" if (most < theirs).any() else "")
    return claims.judge(claim, one.env, measure, (value, median(least / theirs).low, high), below=1.0)


def facts(parts: Sequence[Part]) -> list[tuple[str, str]]:
    """Per environment how many labels each series needed, as the median over seeds."""
    found: dict[str, list[str]] = {one.env: [] for one in parts}
    for one in curves(parts):
        middle = float(np.median(one.enough()))
        found[one.env].append(
            f"{one.series} " + (f"{middle:,.0f}" if math.isfinite(middle) else "not reached")
        )
    listed = [(f"{env}: labels to 90 %", ", ".join(texts)) for env, texts in found.items()]
    return [*listed, ("runs that failed", failed(parts))]


def draw(every: Sequence[Curve]) -> Any:
    """Score of the policy against labels, a panel per environment, and that of the policy which is
    kept, on new episodes, as diamonds; the default is the thick line.
    """
    envs = list(dict.fromkeys(one.env for one in every))
    wide = min(4, len(envs))
    rows = [envs[first : first + wide] for first in range(0, len(envs), wide)]
    shape, names = (range(len(rows)), range(wide)), 1 + len({one.series for one in every})
    tall = 3.1 + 0.22 * math.ceil(names / wide) / len(rows)  # a column of names a panel, below them
    with plots.panels(*shape, size=(3.9, tall), xlabel="labels", ylabel="score", below=wide) as (made, grid):
        for axes, row, column in grid:
            if column >= len(rows[row]):
                axes.set_axis_off()
                continue
            env = rows[row][column]
            mine = [one for one in every if one.env == env]
            for at, one in enumerate(mine, 1):
                width = 2.6 if one.series == DEFAULT else 1.4
                plots.band(axes, one.labels, one.scores, drawn=LOOKS[one.series], linewidth=width)
                if one.series == PEER:
                    axes.set_xscale("log")  # its labels are tens of times as many
                else:
                    _kept(axes, one, 1 + 0.025 * at)
            axes.axhline(ENOUGH, color="#999999", linewidth=0.8, linestyle=":")
            bottom = min(-0.05, max(-0.3, axes.get_ylim()[0]))
            axes.set(title=env.partition("-")[0], ylim=(bottom, 1.1))
    return made


def _kept(axes: Any, one: Curve, right: float) -> None:
    """The mean of what is kept with the range over seeds, `right` of the last label."""
    low, middle, high = one.kept.min(), one.kept.mean(), one.kept.max()
    axes.errorbar(
        one.labels[-1] * right,
        middle,
        yerr=[[middle - low], [high - middle]],
        fmt="D",
        color=LOOKS[one.series].colour,
        markersize=5,
        elinewidth=1.4,
        label="kept, on new episodes (mean, range)" if one.series == DEFAULT else None,
    )


def rows(every: Sequence[Curve]) -> Iterator[dict[str, Any]]:
    """One row per environment and series."""
    for one in every:
        enough, after = one.enough(), one.least_after()
        yield {
            "env": one.env,
            "series": one.series,
            "seeds": len(enough),
            "labels": int(one.labels[-1]),
            "labels_to_90": float(np.median(enough)),
            "labels_to_90_least": enough.min(),
            "labels_to_90_most": enough.max(),
            "kept_score": round(float(one.kept.mean()), 4),
            "kept_score_least": round(float(one.kept.min()), 4),
            "last_score": round(float(one.scores[:, -1].mean()), 4),
            "last_score_least": round(float(one.scores[:, -1].min()), 4),
            "least_after_95": round(float(after.min()), 4) if len(after) else math.nan,
        }


def points(every: Sequence[Curve]) -> Iterator[dict[str, Any]]:
    """One row per point of the figure."""
    for one in every:
        for seed, scores in zip(one.seeds or range(len(one.scores)), one.scores, strict=True):
            for labels, score in zip(one.labels.tolist(), scores.tolist(), strict=True):
                yield {"env": one.env, "series": one.series, "seed": seed, "labels": labels, "score": score}


def write(folder: Path, parts: Sequence[Part], found: list[claims.Claim]) -> list[str]:
    """The figure, every score and the claims; the names of the files."""
    every = [one for one in curves(parts) if len(one.scores)]
    tables = {"scores.csv": disk.to_columns(points(every)), "labels.csv": disk.to_columns(rows(every))}
    figures = {"queries": draw(every)} if every else {}  # every run may have failed
    return claims.write(folder, figures, tables, found, digits={"scores.csv": 5})
