"""What the studies in host environments share: a part is tuned, what was chosen is played; panels of figures.

A part is a `Study` of all candidates. Tuning is the paper's (`understudy.tune`): a coarse pass of 2,000
interactions in rounds of 100, the best few by average loss in full, the best of them with every seed.
"""

from __future__ import annotations

import csv
import functools
import gzip
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from understudy import disk
from understudy.errors import UserError
from understudy.report import plots
from understudy.studies import Entry, Results, Study, Tuned, run, tune
from understudy.studies.folder import to_csv
from understudy.studies.tuning import setting_of

from . import claims
from .claims import Claim, judge, ratio
from .protocol import UNTUNED, Progress, silent

ORDER = ("ftl", "ftrl", "alt_ftrl", "adaftrl", UNTUNED, "ogd", "adagrad", "bc")
"""In which learners are drawn and listed."""
WHERE = ("part", "env", "loss_setting", "drive", "learner", "step", "learning_rate")
"""What the rows of a learner in a panel share."""
KEPT = ("round", "steps", "loss", "average_loss", "return_mean", "residual", "regret", "bound")
KEPT += ("solver_status", "agreement")


class Part(NamedTuple):
    """What came of a part: the tuning (None where the steps were given) and the runs with what was chosen.

    chosen: the labels of the settings with the steps they got. untuned: whether AdaFTRL with α = 1 is
    reported whatever tuning chose.
    """

    name: str
    tuned: Tuned | None
    final: Results
    chosen: list[dict[str, Any]]
    untuned: bool


class Written(NamedTuple):
    """The runs of all parts as a report wrote them, to be judged again without being played.

    runs: what every run is called, and its rounds; choices: the text of choices.csv.
    """

    runs: list[tuple[dict[str, Any], list[dict[str, Any]]]]
    choices: str | None


TEXT, COUNTS = ("part", "env", "loss_setting", "drive", "learner", "solver_status"), ("seed", "round")


def read(folder: Path) -> Written:
    """What `write` wrote into a folder. A run that failed before its first round has left nothing there."""
    if not (table := folder / "rounds.csv.gz").is_file():
        raise UserError(f"tables: {folder} has no rounds.csv.gz; name a folder that --out has written.")
    found: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    with gzip.open(table, "rt", newline="") as file:
        for texts in csv.DictReader(file):
            row: dict[str, Any] = {
                name: text if name in TEXT else int(text) if name in COUNTS else float(text)
                for name, text in texts.items()
            }
            found.setdefault(tuple(row[name] for name in (*WHERE[:5], "seed")), []).append(row)
    kept = folder / "choices.csv"
    choices = kept.read_text() if kept.exists() else None
    return Written([(rows[0], rows) for rows in found.values()], choices)


def measured(values: Any) -> float:
    """The mean of what was measured; nan where nothing was.

    >>> measured([1.0, math.nan, 3.0]), measured([])
    (2.0, nan)
    """
    found = np.asarray(values, float)
    return float(np.nanmean(found)) if np.isfinite(found).any() else math.nan


def is_untuned(entry: Entry) -> bool:
    """Whether this is AdaFTRL with α = 1."""
    return entry.labels["learner"] == "adaftrl" and entry.labels.get("step") == 1.0


def by_series(studies: Mapping[str, Study]) -> Study:
    """The runs of several studies of one environment as one, each labelled by the name of its own."""
    *_, one = studies.values()
    one.runs = tuple(
        Entry(entry.id, {"series": series, **entry.labels}, entry.spec)
        for series, some in studies.items()
        for entry in some.runs
    )
    return one


def played(stage: str, some: Study, home: Path, progress: Progress, **options: Any) -> Results:
    """Plays the runs of a study that are not in `home` yet, and reports them as a stage."""
    return run(some, home, progress=functools.partial(progress, stage), **options)


def play_part(
    name: str,
    whole: Study,
    folder: str | os.PathLike[str],
    *,
    candidates: Study | None = None,
    keep: int = 1,
    untuned: bool = False,
    coarse: Mapping[str, Any] | None = None,
    seeds: int | Sequence[int] = 1,
    progress: Progress = silent,
    **options: Any,
) -> Part:
    """Tunes a part and plays what was chosen, in `folder`; run again into it, it goes on where it was.

    Args:
      whole: every candidate with every seed and its evaluation.
      candidates: what the full pass of tuning plays of it, by default `whole` itself: then the runs of tuning
        are the final ones.
      keep, coarse, seeds: as for `understudy.tune`.
    """
    home = Path(folder, name)

    def report(stage: str, done: int, total: int) -> None:
        progress(f"{name}: {stage}", done, total)

    over = [axis for axis in ("step", "learning_rate") if axis in whole.grid]
    how: dict[str, Any] = {"coarse": coarse, "seeds": seeds, "progress": report}
    tuned = tune(candidates or whole, over, home / "tuning", candidates=keep, **how, **options)
    best = [one.labels for one in tuned.choices]

    def wanted(entry: Entry) -> bool:
        return setting_of(entry.labels, ()) in best or (untuned and is_untuned(entry))

    if candidates is not None:
        final = played("final", whole.only(wanted), home / "final", report, **options)
        return Part(name, tuned, final, best, untuned)
    done = tuned.full
    before = [entry.id for entry in done.entries]
    more = whole.only(lambda entry: wanted(entry) and entry.id not in before)
    if more.runs:
        done += played("untuned", more, home / "untuned", report, **options)
    return Part(name, tuned, done, best, untuned)


def _runs(parts: Iterable[Part | Written]) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """What every final run is called, and its rounds with what a figure or a claim reads of them.

    A run of AdaFTRL with α = 1 is there as the untuned one, and as the tuned one where that was chosen.
    """
    for one in parts:
        if isinstance(one, Written):
            yield from one.runs
            continue
        for entry, result in one.final:
            labels = entry.labels
            names = [labels["learner"]] if setting_of(labels, ()) in one.chosen else []
            names += [UNTUNED] if one.untuned and is_untuned(entry) else []
            for learner in names:
                where = {
                    "part": one.name,
                    "env": labels["env"],
                    "loss_setting": labels.get("loss", ""),
                    "drive": "expert" if labels.get("beta") == 1.0 or learner == "bc" else "agent",
                    "learner": learner,
                    "step": labels.get("step") or math.nan,
                    "learning_rate": labels.get("learning_rate") or math.nan,
                    "seed": labels["seed"],
                }
                last = {"expert_return": result.summary["expert_return"]}
                yield (
                    where,
                    [where | {name: row.get(name, math.nan) for name in KEPT} | last for row in result.rows],
                )


def rows(parts: Iterable[Part | Written]) -> list[dict[str, Any]]:
    """Every round of every final run."""
    return [row for _, each in _runs(parts) for row in each]


class Panel(NamedTuple):
    """One panel of a figure: all learners' final runs in one part, environment, loss and drive."""

    part: str
    env: str
    loss: str
    drive: str
    found: dict[str, dict[int, list[dict[str, Any]]]]
    """Rows of rounds by learner and seed; a run that failed before its first round has none."""

    @property
    def name(self) -> str:
        where = [one for one in (self.part, self.env, self.loss) if one]
        return ", ".join([*where, f"{self.drive}-driven"])

    @property
    def learners(self) -> list[str]:
        """Those of which some run has a round."""
        return [name for name in ORDER if any(self.found.get(name, {}).values())]

    def column(self, learner: str, name: str) -> np.ndarray:
        """(seeds, rounds); a run that failed is nan after its last round."""
        runs = self.found[learner].values()
        length = max(len(one) for mine in self.found.values() for one in mine.values())
        padded = [[row[name] for row in one] + [math.nan] * (length - len(one)) for one in runs]
        return np.asarray(padded, float)

    def loss_of(self, learner: str) -> np.ndarray:
        """Average cumulative loss after the last round, one number a seed; infinite where a run failed."""
        last = self.column(learner, "average_loss")[:, -1]
        return np.where(np.isfinite(last), last, np.inf)

    def return_of(self, learner: str) -> np.ndarray:
        """The last return that was measured, one number a seed."""
        found = self.column(learner, "return_mean")
        return np.array([one[np.isfinite(one)][-1] if np.isfinite(one).any() else np.nan for one in found])

    def compare(
        self, claim: str, pair: tuple[str, str], *, below: float, setting: str = ""
    ) -> Iterator[Claim]:
        """Judges the ratio of two learners' average losses, where both have been played."""
        if set(pair) <= set(self.found):
            measure = "/".join(pair).replace(UNTUNED, "untuned")
            found = ratio(self.loss_of(pair[0]), self.loss_of(pair[1]))
            yield judge(claim, setting or self.name, measure, found, below=below)

    def against_ftl(self, who: str, learner: str, *, setting: str) -> Iterator[Claim]:
        """The paper's claim that regularised learners outperform FTL, and the weaker one that they match."""
        for claim, below in (
            (f"{who} outperform FTL in average loss", 1.0),
            (f"{who} match FTL: at most 5 % above", claims.SLACK),
        ):
            yield from self.compare(claim, (learner, "ftl"), below=below, setting=setting)

    def distinct(self, learners: Iterable[str]) -> list[str]:
        """Those of the learners that were played, without one that plays as another before it: where every
        round is solved exactly Alt-FTRL is FTRL, and is not counted twice.
        """
        kept: dict[str, np.ndarray] = {}
        for name in (name for name in learners if name in self.found):
            mine = self.column(name, "average_loss")
            if not any(np.allclose(mine, one, rtol=1e-5, atol=0, equal_nan=True) for one in kept.values()):
                kept[name] = mine
        return list(kept)

    def draw(self, axes: Axes, name: str, labels: Mapping[str, str]) -> None:
        """One column of every learner, over interactions; `labels` replace those of the learners' looks."""
        for learner in self.learners:
            x = [row["steps"] for row in max(self.found[learner].values(), key=len)]
            runs = self.column(learner, name)[:, : len(x)]
            plots.band(axes, x, runs, name=learner, label=labels.get(learner))

    @property
    def expert(self) -> float:
        """The expert's return, mean over seeds."""
        seeds = {s: rows[-1] for mine in self.found.values() for s, rows in mine.items() if rows}
        return measured([seeds[seed]["expert_return"] for seed in sorted(seeds)])


def panels(parts: Iterable[Part | Written]) -> list[Panel]:
    """The final runs by panel, in the study's order; BC, which has the expert drive, is beside the agents."""
    found: dict[tuple[str, str, str, str], dict[str, dict[int, list[dict[str, Any]]]]] = {}
    for where, each in _runs(parts):
        drive = "agent" if where["learner"] == "bc" else where["drive"]
        key = (where["part"], where["env"], where["loss_setting"], drive)
        found.setdefault(key, {}).setdefault(where["learner"], {})[where["seed"]] = each
    every = [Panel(*key, learners) for key, learners in found.items()]
    return [one for one in every if one.learners]


def facts(parts: Sequence[Part | Written]) -> list[tuple[str, str]]:
    """How many runs each part had, and how many failed."""
    found, parts = [], [one for one in parts if isinstance(one, Part)]
    for one in parts:
        tuning = 0 if one.tuned is None else len(one.tuned.full) + len(one.tuned.coarse or ())
        found.append((one.name, f"{len(one.final) + tuning:,} runs"))
    return [*found, ("final runs that failed", failed(parts))]


def failed(parts: Iterable[Any]) -> str:
    """How many of the final runs of parts failed, and the sentence of the first."""
    sentences = [sentence for one in parts for sentence in one.final.failed.values()]
    return f"{len(sentences)}, the first: {sentences[0]}" if sentences else "0"


def choice_columns(parts: Sequence[Part]) -> dict[str, list[Any]]:
    """The steps chosen, and whether they lie at the grid's edge."""
    found: list[dict[str, Any]] = []
    for one in parts:
        table = {} if one.tuned is None else one.tuned.table()
        each = zip(*table.values(), strict=True)
        found += [{"part": one.name, **dict(zip(table, row, strict=True))} for row in each]
    names = dict.fromkeys(["part", *(name for row in found for name in row)])
    return {name: [row.get(name) for row in found] for name in names}


def summary_columns(every: Iterable[Panel]) -> dict[str, list[Any]]:
    """One row per panel and learner: mean loss and return over seeds, beside the expert's return."""
    found = []
    for one in every:
        for name in one.learners:
            returns, losses = one.return_of(name), one.loss_of(name)
            played = bool(np.isfinite(returns).any())
            first = next(each[0] for each in one.found[name].values() if each)
            row = {column: value for column, value in first.items() if column in WHERE}
            row |= {
                "seeds": len(losses),
                "average_loss": _short(losses.mean()),
                "return": _short(np.nanmean(returns)) if played else None,
                "return_least": _short(np.nanmin(returns)) if played else None,
                "expert_return": _short(one.expert),
            }
            found.append(row)
    return disk.to_columns(found)


def _short(value: Any) -> float:
    return float(f"{value:.6g}")


def write(
    folder: Path, figures: Mapping[str, Figure], parts: Sequence[Part | Written], found: list[Claim]
) -> list[str]:
    """Figures, every number and the claims; the names of the files."""
    before = [one.choices for one in parts if isinstance(one, Written)]
    chosen = before[0] if before else to_csv(choice_columns([one for one in parts if isinstance(one, Part)]))
    tables = {
        "rounds.csv.gz": disk.to_columns(rows(parts)),
        **({} if chosen is None else {"choices.csv": chosen}),
        "summary.csv": to_csv(summary_columns(panels(parts))),
    }
    return claims.write(folder, figures, tables, found, digits={"rounds.csv.gz": 6})
