"""What the studies of toy and gridworld share: learners by name, the steps tried, tuning, all rounds, files.

The paper's protocol: steps of eleven decades, judged by the regret of ten rounds; the best is played in full.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

from understudy.learners import Learner, adaftrl, adagrad, alt_ftrl, ftl, ftrl, ogd
from understudy.online import around_mean
from understudy.studies import Choice
from understudy.studies.study import check_seeds
from understudy.studies.tuning import choose, setting_of

from . import claims
from .mapping import Config, Table

STEPS = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 1e1, 1e2, 1e3, 1e4, 1e5)
TUNING_ROUNDS = 10
SEEDS = tuple(range(101, 111))
"""What is reported where a run costs seconds. No setting, step or claim was chosen by one of these seeds."""
TUNING_SEEDS = tuple(range(10))
UNTUNED = "adaftrl_untuned"
NO_STEP = (float("nan"),)
MAKERS = {maker.__name__: maker for maker in (ftl, ftrl, alt_ftrl, adaftrl, ogd, adagrad)}
SHARED = {UNTUNED: "adaftrl", "alt_adaftrl": "adaftrl", "adagrad_norm": "adagrad"}
"""Names of variants, and whose they are: AdaFTRL with α = 1, AdaFTRL around the mean of its iterates, and
AdaGrad with one number as in the theory (`adagrad` is the diagonal form of practice)."""

Wanted = Mapping[tuple[str, ...], Sequence[float]]
"""The steps to play in each setting, whose last label is the learner's name."""
Seeds = int | Sequence[int]
"""How many seeds, or which."""
Progress = Callable[[str, int, int], None]
"""Called as ``progress(stage, done, total)``."""


def silent(stage: str, done: int, total: int) -> None:
    """Progress that no one follows."""


def make(name: str, step: float, **options: Any) -> Learner:
    """A learner by name with its step, η or α. It has no name of its own, so that learners which differ in
    numbers only share a program.

    >>> float(make("adaftrl", 0.5).schedule.adaptive), make("adagrad", 0.5).diagonal
    (2.0, True)
    """
    maker = MAKERS[SHARED.get(name, name)]
    takes = inspect.signature(maker).parameters
    number = next((one for one in ("eta", "alpha") if one in takes), None)
    if number is not None:
        options[number] = 1.0 if name == UNTUNED else step
    if name == "adagrad":
        options["diagonal"] = True
    made: Learner = dataclasses.replace(maker(**options), name="")
    return around_mean(made) if name == "alt_adaftrl" else made


def steps_of(name: str) -> tuple[float, ...]:
    """The step sizes to try; FTL has none, and AdaFTRL untuned has α = 1."""
    return {"ftl": NO_STEP, UNTUNED: (1.0,)}.get(name, STEPS)


class Outcome(NamedTuple):
    """What figures and claims of such a study are made of: the runs of both stages, and the choices."""

    tuning: Table
    choices: list[Choice]
    runs: Table
    rounds: int


def two_stages(
    title: str,
    play: Callable[..., Table],
    configs: Callable[[Wanted], list[Config]],
    candidates: Wanted,
    beside: Wanted,
    *,
    seeds: Seeds,
    tuning: Seeds,
    rounds: int,
    seed: int,
    progress: Progress,
) -> Outcome:
    """Plays all candidates for ten rounds with the seeds of `tuning`; then in full, with `seeds`, the best of
    each setting and what is shown `beside`.

    ``play(rounds, configs, seeds=…, seed=…, progress=…)`` returns a table with the column `regret`.
    """

    def stage(name: str, rounds: int, wanted: Wanted, seeds: Seeds) -> Table:
        made = configs(wanted)
        show = counted(progress, f"{title}, {name}", len(made) * len(check_seeds(seeds)))
        return play(rounds, made, seeds=seeds, seed=seed, progress=show)

    tried = stage(f"tuning on {TUNING_ROUNDS} rounds", TUNING_ROUNDS, candidates, tuning)
    choices = choose(ends(tried), ("step",))
    best = {
        tuple(one.setting.values()): NO_STEP if one.values["step"] is None else (one.values["step"],)
        for one in choices
    }
    return Outcome(tried, choices, stage(f"{rounds} rounds", rounds, {**best, **beside}, seeds), rounds)


def counted(progress: Progress, stage: str, total: int) -> Callable[[int, Any], None]:
    """What is called after every run of a stage."""
    return lambda done, _: progress(stage, done, total)


def ends(table: Table) -> list[tuple[dict[str, Any], float]]:
    """The labels of every run, and its final regret; a step that is nan (FTL has none) is None."""
    columns = [column.tolist() for column in table.labels.values()]
    rows = (
        {k: None if v != v else v for k, v in zip(table.labels, row, strict=True)}
        for row in zip(*columns, strict=True)
    )
    return list(zip(rows, table["regret"][:, -1].tolist(), strict=True))


def at_best(table: Table) -> Table:
    """Of every setting the runs with the step of least mean final regret."""
    runs = ends(table)
    best = [one.labels for one in choose(runs, ("step",))]
    return table.take(np.asarray([setting_of(labels, ()) in best for labels, _ in runs]))


def chosen_columns(outcome: Outcome) -> dict[str, np.ndarray]:
    """The steps chosen, one row each, and whether they lie at the edge of the grid."""
    names = list(outcome.choices[0].setting)
    made = {name: np.asarray([one.setting[name] for one in outcome.choices]) for name in names}
    made["step"] = np.asarray([one.values["step"] for one in outcome.choices], float)
    made["regret_of_10_rounds"] = np.asarray([one.score for one in outcome.choices])
    made["edge"] = np.asarray([one.edge.get("step", "no") for one in outcome.choices])
    return made


def facts(outcome: Outcome) -> list[tuple[str, str]]:
    """How the runs were mapped, and which steps lie at the edge."""
    rows = []
    for title, table in (("tuning", outcome.tuning), ("runs", outcome.runs)):
        info, used = table.info, Counter()
        for one in info["methods"]:
            used[one["method"]] += one["runs"]
        methods = ", ".join(f"{count} by {method}" for method, count in used.items())
        compiled = f"compiled {info['programs']} programs in {info['compile_seconds']:.1f} s"
        took = f"{compiled}, ran {info['run_seconds']:.1f} s"
        rows.append((title, f"{len(table)} ({methods}, {info['workers']} threads); {took}"))
    edges = [
        f"{', '.join(one.setting.values())} {one.values['step']:g} ({one.edge['step']})"
        for one in outcome.choices
        if one.edge
    ]
    return [*rows, ("steps at the grid's edge", "; ".join(edges) or "none")]


def write_pure(
    folder: Path,
    study: Outcome,
    figures: Mapping[str, Figure],
    found: Sequence[claims.Claim],
    *,
    keep: Sequence[str],
    drawn: Sequence[str],
    **more: Mapping[str, Any],
) -> list[str]:
    """The files of a study in a pure environment: figures, and every number.

    keep: the columns of every round. drawn: the columns that figures draw.
    more: further tables, ``runs`` with the labels of the runs before its columns.
    """
    runs, tuned = study.runs, study.tuning
    tables: dict[str, Any] = {
        "rounds.csv.gz": Table(runs.labels, {name: runs[name] for name in keep}),
        "curves.csv.gz": curves(runs, drawn),
        "tuning.csv": {**tuned.labels, "regret_of_10_rounds": tuned["regret"][:, -1]},
        "steps.csv": chosen_columns(study),
    }
    tables |= {f"{name}.csv": {**runs.labels, **one} if name == "runs" else one for name, one in more.items()}
    return claims.write(folder, figures, tables, found, digits={"rounds.csv.gz": 9})


def curves(runs: Table, columns: Sequence[str]) -> Table:
    """What the figures draw: per setting and round the mean over seeds, and the 5 % and 95 % quantiles."""
    by, made = [name for name in runs.labels if name not in ("step", "seed")], []
    for key in dict.fromkeys(zip(*(runs[name].tolist() for name in by), strict=True)):
        where, found = dict(zip(by, key, strict=True)), {}
        here = runs.where(**where)
        for name in columns:
            low, high = np.quantile(here[name], [0.05, 0.95], axis=0)
            found |= {f"{name}_mean": here[name].mean(axis=0), f"{name}_05": low, f"{name}_95": high}
        made.append((where, found))
    return Table.of(made)
