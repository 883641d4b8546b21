"""The tuning protocol: a coarse pass over a grid of steps, the best few in full, the best of those.

Every setting (a combination of the axes that are not tuned, learners among them) is tuned by itself: all
candidates are played for a few short rounds, the best few by average cumulative loss (mean over the seeds)
are played in full, and the best of these is chosen. A run that failed or left the finite numbers counts as
infinitely bad; of equal candidates the smaller step is taken. A learner without the tuned axes is played in
full at once.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast, final

from ..disk import Json, lock, reporting, to_columns
from ..errors import UserError, check_int, check_name
from ..regret.ledger import to_pandas
from .folder import Columns, column_of, refuse_foreign, write_tables
from .running import Plan, Results, check_keep, folder_or_temporary, plan, run
from .study import Entry, Study, check_table

if TYPE_CHECKING:
    import pandas  # pyright: ignore[reportMissingTypeStubs]

COARSE: dict[str, int | str | None] = {
    "steps_per_round": 100,
    "rounds": 20,
    "budget": None,
    "comparator": "none",
    "episodes": 0,
    "expert_episodes": None,
    "evaluate_every": 0,
}
"""The coarse pass: 2,000 steps at M = 100, without evaluation and without the best in hindsight."""
FINALISTS = 3
"""Candidates of the coarse pass that are played in full."""
Labels: TypeAlias = Mapping[str, Json]
Values: TypeAlias = tuple[Json, ...]
"""A candidate: its values along the tuned axes."""
Means: TypeAlias = dict[Values, float]
"""The mean score over seeds of each candidate."""


class Choice(NamedTuple):
    """What a setting got.

    setting: labels that were not tuned. values: the tuned ones. score: what it was chosen by, mean over
    seeds. edge: axes whose value is the first or last of the grid ("low" or "high"): a better one may lie
    beyond. tried: how many candidates there were.
    """

    setting: dict[str, Any]
    values: dict[str, Any]
    score: float
    edge: dict[str, str]
    tried: int

    @property
    def labels(self) -> dict[str, Json]:
        """What the chosen runs have in common."""
        return self.setting | self.values


@final
class Tuned:
    """What came of tuning: `choices`, one per setting; `coarse` (None where nothing was to tune) and `full`
    results; `chosen`, the ids of the full runs with the chosen values; `rounds` and `summary`, the tables of
    both passes with the column `stage`.
    """

    def __init__(self, choices: list[Choice], coarse: Results | None, full: Results):
        self.choices, self.coarse, self.full = choices, coarse, full
        best = [choice.labels for choice in choices]
        self.chosen = [entry.id for entry in full.entries if setting_of(entry.labels, ()) in best]
        both = full if coarse is None else coarse + full
        stages = [*["coarse"] * (len(both) - len(full)), *["full"] * len(full)]
        of_rounds = [stage for stage, result in zip(stages, both.results, strict=True) for _ in result.rows]
        self.rounds: Columns = {"stage": [*of_rounds], **both.rounds}
        self.summary: Columns = {"stage": [*stages], **both.summary}
        chosen = {("full", name) for name in self.chosen}
        self.summary["chosen"] = [pair in chosen for pair in zip(stages, self.summary["run"], strict=True)]

    def to_pandas(self) -> pandas.DataFrame:
        """One row per stage, run and round, as a pandas DataFrame (pandas must be installed)."""
        return to_pandas(self.rounds)

    def table(self) -> Columns:
        """The choices as columns."""
        rows: list[dict[str, Json]] = []
        for choice in self.choices:
            row = {column_of(name): value for name, value in choice.setting.items()}
            for name, value in choice.values.items():
                row |= {column_of(name): value, f"{name}_edge": choice.edge.get(name, "")}
            rows.append(row | {"score": choice.score, "tried": choice.tried})
        return to_columns(rows)

    def __repr__(self) -> str:
        return f"Tuned({len(self.choices)} settings; {self.full!r})"


def tune(
    study: Study,
    over: str | Sequence[str] = "step",
    out: str | os.PathLike[str] | None = None,
    *,
    candidates: int = FINALISTS,
    coarse: Mapping[str, Json] | None = None,
    seeds: int | Sequence[int] | None = None,
    keep: str | None = None,
    sinks: Sequence[str] = (),
    progress: Callable[[str, int, int], None] | None = None,
    **options: Any,
) -> Tuned:
    """Tunes a study over some of its axes and runs it with what was found.

    Args:
      over: the axis, or axes, to tune: "step", or ("step", "learning_rate").
      out: a folder for both passes and their tables; run again into it, tuning goes on where it was.
      candidates: how many of the coarse pass are played in full.
      coarse: settings of the coarse pass beside or instead of `COARSE` (20 rounds of 100, no evaluation); an
        axis among them is not looked at: ``coarse={"env": "Hopper-v5"}`` tunes on one environment.
      seeds: seeds of the coarse pass; by default those of the study.
      keep: which runs of the full pass keep their folders, as for `run`.
      sinks: names of the sinks that get the rounds of every run of the full pass, as for `run`.
      progress: called as ``progress(stage, done, total)``.
      options: engine, workers, address, retries, retry_failed and shard, as for `run`.

    >>> study = Study("Pendulum-v1", grid={"learner": ["ftl", "ogd"], "step": [1e-3, 1e-2, 0.1]},
    ...               policy="linear", rounds=3, steps_per_round=40, episodes=0)
    >>> tuned = tune(study, engine="inline", candidates=2, coarse={"rounds": 2})
    >>> [(one.setting["learner"], one.tried) for one in tuned.choices], len(tuned.coarse), len(tuned.full)
    ([('ftl', 1), ('ogd', 3)], 3, 3)
    """
    check_keep(keep, out)
    axes, rough = _prepare(study, over, out, candidates, coarse, seeds)

    def report(stage: str) -> Callable[[int, int], None]:
        return lambda done, total: progress(stage, done, total) if progress is not None else None

    with contextlib.ExitStack() as stack:
        folder = folder_or_temporary(out, stack)
        with reporting(folder):
            folder.mkdir(parents=True, exist_ok=True)
        stack.enter_context(lock(folder))
        tried = None
        if rough is not None:
            tried = run(rough, folder / "coarse", progress=report("coarse"), **options)
        full = full_study(study, axes, tried, candidates)
        # A longer grid may choose other candidates than those that the folder has already.
        done = run(
            full, folder / "full", progress=report("full"), stray=True, sinks=sinks, keep=keep, **options
        )
        tuned = Tuned(_choices(study, axes, tried, done), tried, done)
        write_tables(folder, results=tuned.rounds, summary=tuned.summary, choices=tuned.table())
        for results in (tried, done):
            if out is None and results is not None:
                results.folder = None  # it goes now
        return tuned


def plans(
    study: Study,
    over: str | Sequence[str],
    out: str | os.PathLike[str] | None = None,
    *,
    candidates: int = FINALISTS,
    coarse: Mapping[str, Json] | None = None,
    seeds: int | Sequence[int] | None = None,
    **options: Any,
) -> dict[str, Plan]:
    """The plans of both passes, as `understudy.studies.plan` makes them. Which candidates the full pass will
    have is not known yet; as many stand for them.
    """
    axes, rough = _prepare(study, over, out, candidates, coarse, seeds)
    planned: dict[str, Plan] = {}
    if rough is not None:
        planned["coarse"] = plan(rough, out and Path(out, "coarse"), **options)
    listed = _candidates(study, axes)

    def stands_for(entry: Entry) -> bool:
        return values_of(entry.labels, axes) in [*listed[repr(setting_of(entry.labels, axes))]][:candidates]

    return planned | {"full": plan(study.only(stands_for), **options)}


def coarse_study(
    study: Study, over: Sequence[str], changes: Mapping[str, Json], seeds: int | Sequence[int]
) -> Study | None:
    """The coarse pass: the settings of `study` with more than one candidate; None where there is none."""
    short = study.with_settings(**{**COARSE, "seeds": seeds, **changes})
    names = [name for name in ("learner", *short.grid) if name not in changes]
    asked = {repr(values_of(entry.labels, names)) for entry in study.runs}  # it may be part of a study
    short = short.only(lambda entry: repr(values_of(entry.labels, names)) in asked)
    candidates = _candidates(short, over)
    several = short.only(lambda entry: len(candidates[repr(setting_of(entry.labels, over))]) > 1)
    return several if several.runs else None


def full_study(study: Study, over: Sequence[str], tried: Results | None, best: int) -> Study:
    """The full pass: of every setting its `best` candidates, or its only one."""
    if tried is None:
        return study
    chosen = {setting: ranked(scores)[:best] for setting, scores in means(_losses(tried), over).items()}

    def is_best(entry: Entry) -> bool:
        setting = _as_tried(entry, over, tried)
        return setting not in chosen or values_of(entry.labels, over) in chosen[setting]

    return study.only(is_best)


def _choices(study: Study, over: Sequence[str], tried: Results | None, done: Results) -> list[Choice]:
    counts: dict[str, int] = {}
    if tried is not None:
        coarse = {setting: len(scores) for setting, scores in means(_losses(tried), over).items()}
        for entry in done.entries:
            counts[repr(setting_of(entry.labels, over))] = coarse.get(_as_tried(entry, over, tried), 1)
    return choose(_losses(done), over, grid=study.grid, tried=counts)


def _candidates(study: Study, over: Sequence[str]) -> dict[str, Means]:
    """The different values along the tuned axes that each setting has, before anything is played."""
    return means([(entry.labels, 0.0) for entry in study.runs], over)


def _prepare(
    study: Study,
    over: str | Sequence[str],
    out: str | os.PathLike[str] | None,
    candidates: int,
    coarse: Mapping[str, Json] | None,
    seeds: int | Sequence[int] | None,
) -> tuple[tuple[str, ...], Study | None]:
    """The tuned axes and the coarse pass, checked, as is the folder."""
    if out is not None and Path(out, "study.json").is_file():
        raise UserError(f"out: {str(out)!r} holds a study that was not tuned; name another folder.")
    if out is not None:
        refuse_foreign(Path(out), "a tuned study", ("coarse", "full"))
    axes = tuple(over) if isinstance(over, (list, tuple)) else (cast("str", over),)
    changes = coarse or {}
    check_table("coarse", changes, "settings, as in {'rounds': 5}")
    if not study.grid:
        raise UserError("tune: the study has no axis to tune; a grid has them, as in step = [0.1, 1.0].")
    for name in axes:
        check_name("tune", name, list(study.grid))
        if any(isinstance(value, Mapping) for value in study.grid[name]):
            raise UserError(f"tune: {name} has tables for values; numbers, words and lists can be tuned.")
        if name == "learner" and "bc" in study.grid[name] and len(study.grid[name]) > 1:
            raise UserError(
                "tune: the loss of bc is on the expert's states, so learners cannot be chosen by loss with "
                "bc among them; leave it out."
            )
        if name in {**COARSE, **changes}:
            raise UserError(f"tune: {name} is the same for all runs of the coarse pass; it cannot be tuned.")
    check_int("candidates", candidates)
    return axes, coarse_study(study, axes, changes, study.seeds if seeds is None else seeds)


def _losses(done: Results) -> list[tuple[Labels, float]]:
    """Labels and average cumulative loss of every run; a failed one is infinitely bad."""
    losses = (result.summary.get("average_loss") if result.error is None else None for _, result in done)
    return [
        (entry.labels, float(loss) if isinstance(loss, (int, float)) else math.inf)
        for entry, loss in zip(done.entries, losses, strict=True)
    ]


def _as_tried(entry: Entry, over: Sequence[str], tried: Results) -> str:
    """A run's setting by the labels of the coarse pass, which may have had fewer axes."""
    first = tried.entries[0].labels
    # A label that the coarse pass had one value of, as the environment it was played in, stands for all.
    same = {k: v for k, v in first.items() if all(each.labels[k] == v for each in tried.entries)}
    labels = {k: same.get(k, v) if k == "env" else v for k, v in entry.labels.items() if k in first}
    return repr(setting_of(labels, over))


# -------------------------------------------------------------- the rule of choice, whatever played the runs


def setting_of(labels: Labels, over: Sequence[str]) -> dict[str, Json]:
    """A run's labels without what is tuned and without its seed.

    >>> setting_of({"learner": "ogd", "step": 0.1, "seed": 3}, ("step",))
    {'learner': 'ogd'}
    """
    return {name: value for name, value in labels.items() if name not in over and name != "seed"}


def values_of(labels: Labels, over: Sequence[str]) -> Values:
    """A run's place along the tuned axes."""
    return tuple(labels[name] for name in over)


def means(runs: Iterable[tuple[Labels, float]], over: Sequence[str]) -> dict[str, Means]:
    """Mean scores by setting (as text) and candidate; a score that is not finite counts as infinitely bad.

    >>> means([({"learner": "ogd", "step": 1.0, "seed": s}, 2.0 + s) for s in (0, 1)], ("step",))
    {"{'learner': 'ogd'}": {(1.0,): 2.5}}
    """
    settings: dict[str, dict[Values, list[float]]] = {}
    for labels, score in runs:
        candidates = settings.setdefault(repr(setting_of(labels, over)), {})
        scores = candidates.setdefault(values_of(labels, over), [])
        scores.append(score if math.isfinite(score) else math.inf)
    return {
        setting: {values: _mean(scores) for values, scores in candidates.items()}
        for setting, candidates in settings.items()
    }


def _mean(scores: Sequence[float]) -> float:
    try:
        return math.fsum(scores) / len(scores)
    except OverflowError:  # finite, but their sum is not
        return math.inf


def ranked(candidates: Means) -> list[Values]:
    """Candidates, best first; of equal ones the smaller step comes first.

    >>> ranked({(10.0,): 1.0, (0.1,): 1.0, (1.0,): 0.5})
    [(1.0,), (0.1,), (10.0,)]
    """

    def order(values: Values) -> tuple[float, list[float], str]:
        numbers: list[float] = [value if isinstance(value, (int, float)) else 0.0 for value in values]
        return candidates[values], numbers, str(values)

    return sorted(candidates, key=order)


def choose(
    runs: Sequence[tuple[Labels, float]],
    over: Sequence[str],
    *,
    grid: Mapping[str, Sequence[Json]] | None = None,
    tried: Mapping[str, int] | None = None,
) -> list[Choice]:
    """The best candidate of every setting, in the order in which the settings first appear.

    `grid` says what values an axis has (default: those that the setting was tried with), and `tried` how many
    candidates a setting had, by its text, where some of them are not among the runs.

    >>> runs = [({"learner": "ogd", "step": step}, abs(step - 9.0)) for step in (0.1, 1.0, 10.0)]
    >>> [(one.values, one.edge) for one in choose(runs, ("step",))]
    [({'step': 10.0}, {'step': 'high'})]
    """
    settings = {repr(setting): setting for setting in (setting_of(labels, over) for labels, _ in runs)}
    choices: list[Choice] = []
    for key, candidates in means(runs, over).items():
        best = ranked(candidates)[0]
        count = len(candidates) if tried is None else tried.get(key, 1)
        edge: dict[str, str] = {}
        for place, (name, value) in enumerate(zip(over, best, strict=True)):
            axis = [values[place] for values in candidates] if grid is None else grid[name]
            # By type: truth values have no ends.
            numbers = sorted({v for v in axis if isinstance(v, (int, float)) and type(v) is not bool})
            if value in numbers and len(numbers) > 1 and count > 1:
                where = {0: "low", len(numbers) - 1: "high"}.get(numbers.index(value))
                edge |= {name: where} if where else {}
        values = dict(zip(over, best, strict=True))
        choices.append(Choice(settings[key], values=values, score=candidates[best], edge=edge, tried=count))
    return choices
