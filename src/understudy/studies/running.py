"""Running a study: what it will cost, what is not finished yet, shard by shard on an engine, and the tables
at the end.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, final

from ..defaults import plan_of, resolve
from ..disk import reporting
from ..errors import UserError, check_int, check_name
from ..machine import count_cores
from ..parts import Spaces
from ..policies import Actions
from ..progress import format_duration
from ..regret.ledger import to_pandas
from ..runs import read_config, spaces_of
from ..runs.proof import longest_episode
from ..sinks import Started, Watch, make_sinks
from ..spec import FIELDS, WORLD, RunSpec
from .engines import ENGINES, Work, check_engine, has_accelerator, play_local
from .folder import (
    KEEP,
    Finished,
    ShardRecord,
    keep_best,
    kept_runs,
    open_folder,
    read_entries,
    read_results,
    refuse_foreign,
    refuse_other,
    settle_partial,
    tabulate_rounds,
    tabulate_runs,
    write_result,
    write_tables,
)
from .shard import Result
from .study import Entry, Study, digest

if TYPE_CHECKING:
    import pandas  # pyright: ignore[reportMissingTypeStubs]

MOST_RUNS = 512
"""Most runs in a shard of an accelerator, which has room for many; a CPU plays one run after another."""
LANES = 65_536
"""Most environments of a shard with more than one run: they fill a large GPU."""
SIDE_BY_SIDE = (
    *WORLD,
    *("rounds", "steps_per_round", "first_steps", "budget", "num_envs", "encoder", "label_kind", "ask"),
    *("ask_options", "random_share", "moment", "episode_limit", "policy", "widths", "episodes"),
    *("evaluate_every", "preset"),
)
"""Runs that agree in these can be played side by side."""
CALIBRATION, CALIBRATED_ROUNDS = 6, 2
"""Runs and rounds that are played to measure this machine."""


@final
class Results:
    """What came of a study: its runs in the order of the plan, and two tables of columns by name.

    Attributes:
      entries, results: the runs and what came of each (`understudy.studies.Result`).
      rounds: one row per run and round; summary: one row per run. Lists by name of the column.
      folder: where it is kept, or None.
    """

    def __init__(self, entries: Sequence[Entry], results: Sequence[Result], folder: Path | None):
        self.entries, self.results, self.folder = list(entries), list(results), folder
        self.rounds = tabulate_rounds(entries, results)
        self.summary = tabulate_runs(entries, results)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Results:
        """The finished runs of a study's folder, whether others are still to come or not."""
        entries = read_entries(Path(path))
        finished = read_results(Path(path), entries)
        entries = [entry for entry in entries if entry.id in finished]
        return cls(entries, [finished[entry.id].result for entry in entries], Path(path))

    @property
    def kept(self) -> dict[str, list[Path]]:
        """The folders of the runs that were kept, by environment, the best run first."""
        if self.folder is None:
            return {}
        finished = {entry.id: result for entry, result in self}
        runs = kept_runs(self.folder, finished, self.entries)
        return {env: [folder for _, folder in each] for env, each in runs.items()}

    @property
    def failed(self) -> dict[str, str]:
        """The sentences of runs that failed, by id."""
        return {entry.id: result.error for entry, result in self if result.error}

    def to_pandas(self) -> pandas.DataFrame:
        """One row per run and round, as a pandas DataFrame (pandas must be installed)."""
        return to_pandas(self.rounds)

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[tuple[Entry, Result]]:
        return zip(self.entries, self.results, strict=True)

    def __add__(self, other: Results) -> Results:
        """The runs of both."""
        return Results([*self.entries, *other.entries], [*self.results, *other.results], None)

    def __repr__(self) -> str:
        return f"Results({len(self)} runs, {len(self.failed)} failed, {len(self.rounds['run'])} rows)"


def run(
    study: Study,
    out: str | os.PathLike[str] | None = None,
    *,
    engine: str = "local",
    workers: int | None = None,
    address: str | None = None,
    retries: int = 2,
    retry_failed: bool = False,
    shard: int | None = None,
    stray: bool = False,
    keep: str | None = None,
    sinks: Sequence[str] = (),
    progress: Callable[[int, int], None] | None = None,
) -> Results:
    """Plays every run of a study that is not finished yet, and returns all of them.

    Args:
      out: the folder that keeps them; run again into it, a study goes on, and may have grown.
      engine: "local" (worker processes), "ray" (a cluster; `address` says which) or "inline" (this process).
      workers: processes at once, by default one per core (accelerator: one); results do not depend on it.
      retries: how often a shard is played again when its worker dies.
      retry_failed: play again the runs in `out` that have failed, which otherwise count as finished.
      shard: most runs played side by side.
      stray: the folder may hold runs that are not in this study; they stay, and stay out of the tables.
      keep: "all" keeps the folder of every run in ``out/runs``, with its policy and its samples, "best" of
        each environment that of the run with the highest return; None: results alone.
      sinks: names of the sinks that get the rounds of every run that has ended (see `understudy.sinks.sink`).
      progress: called as ``progress(done, total)`` in rounds of runs.

    >>> study = Study("CartPole-v1", seeds=2, policy="linear", rounds=3, steps_per_round=40, episodes=0)
    >>> done = run(study, engine="inline")
    >>> len(done), done.rounds["labels"]
    (2, [40, 80, 120, 40, 80, 120])
    """
    check_int("retries", retries, 0)
    count = count_workers(workers)
    check_engine(engine, address)
    check_keep(keep, out)
    names = check_sinks(sinks)
    check_runs(study, engine)
    with contextlib.ExitStack() as stack:
        path = folder_or_temporary(out, stack)
        stack.enter_context(open_folder(path, study, stray=stray))
        finished = read_results(path, study.runs)
        shards = divide(_left(study, finished, retry_failed), count, shard)
        before = [name for name, (result, _) in finished.items() if result.error is None]
        settle_partial(path, before, whole=keep is not None)
        ended = {name: result for name, (result, _) in finished.items()}
        lengths = [sum(len(entry.plan.sizes) for entry in entries) for entries in shards]
        total = sum(len(entry.plan.sizes) for entry in study.runs)
        reached = [0] * len(shards)

        def show(number: int, rounds: int) -> None:
            reached[number] = rounds
            if progress is not None:
                progress(total - sum(lengths) + sum(reached), total)

        def keep_results(number: int, results: list[Result], seconds: float) -> None:
            entries = shards[number]
            record = ShardRecord(
                name=digest({"runs": [entry.id for entry in entries]}),
                runs=len(entries),
                steps=sum(entry.plan.total for entry in entries),
                seconds=seconds,
                engine=engine,
            )
            for entry, result in zip(entries, results, strict=True):
                write_result(path, entry, result, record, whole=keep is not None)
                ended[entry.id] = result
            if keep == "best":
                keep_best(path, ended, study.runs)
            for entry, result in zip(entries, results, strict=True) if names else ():
                _tell_sinks(names, path, entry, result)  # when all count: a sink may refuse
            show(number, lengths[number])

        if shards:
            work = Work(
                done=keep_results,
                progress=show,
                workers=count,
                retries=retries,
                address=address,
                keep=path / "runs",
                whole=keep is not None,
            )
            ENGINES[engine]([[entry.settings for entry in entries] for entries in shards], work)
        finished = read_results(path, study.runs)
        results = [finished[entry.id].result for entry in study.runs]
        if keep is not None:
            _warn_not_kept(path, keep, study, {name: one.result for name, one in finished.items()})
        done = Results(study.runs, results, None if out is None else path)
        write_tables(path, results=done.rounds, summary=done.summary)
        return done


def check_keep(keep: str | None, out: str | os.PathLike[str] | None) -> None:
    """Refuses a word for what is kept that is none, and one without a folder to keep it in."""
    if keep is None:
        return
    check_name("keep", keep, KEEP)
    if out is None:
        raise UserError("keep: there is no folder to keep runs in; give out.")


def _warn_not_kept(path: Path, keep: str, study: Study, finished: Mapping[str, Result]) -> None:
    """Says which runs have no folder that should have one."""
    if keep == "best":
        keep_best(path, finished, study.runs)
    here = {entry.id for runs in kept_runs(path, finished, study.runs).values() for entry, _ in runs}
    good = [entry for entry in study.runs if finished[entry.id].error is None]
    envs = {str(entry.labels["env"]) for entry in good}
    kept = {str(entry.labels["env"]) for entry in good if entry.id in here}
    lost = len(good) - len(here) if keep == "all" else len(envs - kept)
    if lost:
        what = "runs have" if keep == "all" else "environments have"
        warnings.warn(
            f"keep: {lost} {what} no folder: they had ended before, or were played where there is no "
            f"{str(path)!r}.",
            stacklevel=3,
        )


def run_folders(path: str | os.PathLike[str]) -> list[Path]:
    """The folders that a study, or the full pass of a tuned one, has kept, the best of each environment
    first; of any other folder, that folder itself.
    """
    place = Path(path)
    place = place / "full" if (place / "full" / "study.json").is_file() else place
    if not (place / "study.json").is_file():
        return [place]
    kept = Results.load(place).kept
    if not kept:
        raise UserError(
            f"run: the study {str(path)!r} keeps no run; understudy sweep with --keep best (or all) plays "
            "one that does."
        )
    runs = list(kept.values())
    return [each[0] for each in runs] + [folder for each in runs for folder in each[1:]]


def best_folder(path: str | os.PathLike[str]) -> Path:
    """The first of `run_folders`, where they are of one environment."""
    folders = run_folders(path)
    envs = {str(read_config(folder)["settings"]["env"]): folder for folder in reversed(folders)}
    if len(folders) > 1 and len(envs) > 1:
        listed = "; ".join(f"{env}: {folder}" for env, folder in sorted(envs.items()))
        raise UserError(f"run: the study {str(path)!r} has several environments; name a run ({listed}).")
    return folders[0]


def folder_or_temporary(out: str | os.PathLike[str] | None, stack: contextlib.ExitStack) -> Path:
    """The folder of a study, or one that is there as long as `stack` is open."""
    if out is None:
        out = stack.enter_context(tempfile.TemporaryDirectory(prefix="understudy-"))
    return Path(out)


def check_runs(study: Study, engine: str) -> bool:
    """Refuses, before anything runs, environments, experts and parts that do not fit each other; whether some
    expert is slow or expensive. It must not start JAX, which would take a worker's memory on an accelerator.
    """
    if engine != "inline" and any(entry.spec.by_person for entry in study.runs):
        raise UserError("expert: a person cannot answer a worker process; say engine inline.")
    worlds: dict[str, Spaces] = {}
    names = [name for name in FIELDS if name != "seed"]
    for spec in {entry.spec.key(*names): entry.spec for entry in study.runs}.values():
        if (place := spec.key(*WORLD)) not in worlds:
            worlds[place] = spaces_of(spec)
        spaces = worlds[place]
        resolve(spec, spaces.shown, Actions.of(spaces.action_space), spaces.expert)
    return any(spaces.expert.workers is not None for spaces in worlds.values())


def _left(study: Study, finished: Mapping[str, Finished], retry_failed: bool) -> list[Entry]:
    """The runs that are to be played, each once: studies that were joined may have some in common."""
    done = {name for name, (result, _) in finished.items() if not (retry_failed and result.error)}
    return list({entry.id: entry for entry in study.runs if entry.id not in done}.values())


def divide(entries: Sequence[Entry], workers: int, most: int | None = None) -> list[list[Entry]]:
    """Shards: on a CPU a run each, which a worker plays one after another; on an accelerator runs of one
    environment, size and policy, split evenly over workers, at most `most` in each.

    >>> study = Study("CartPole-v1", grid={"rounds": [1, 2]}, seeds=5, policy="linear")
    >>> [len(shard) for shard in divide(study.runs, workers=2, most=4)]
    [3, 2, 3, 2]
    """
    if most is not None:
        check_int("shard", most)
    groups: dict[str, list[Entry]] = {}
    for entry in entries:
        groups.setdefault(entry.spec.key(*SIDE_BY_SIDE), []).append(entry)
    shards: list[list[Entry]] = []
    for group in groups.values():
        room = max(1, min(MOST_RUNS, LANES // group[0].spec.num_envs)) if has_accelerator() else 1
        pieces = min(len(group), workers * -(-len(group) // ((most or room) * workers)))
        # Dealt like cards: neighbours in a grid, such as all runs of the slowest loss, go to all workers.
        shards += [group[piece::pieces] for piece in range(pieces)]
    return shards


def count_workers(workers: int | None) -> int:
    """Worker processes: as many as cores unless said otherwise, and one on an accelerator."""
    if workers is None:
        return 1 if has_accelerator() else count_cores()
    check_int("workers", workers)
    return workers


# ------------------------------------------------------------------------------------------------- sinks


def check_sinks(sinks: Sequence[str]) -> list[str]:
    """The names of sinks, all of which can be made here."""
    make_sinks(sinks)
    for sink in sinks:
        if not isinstance(sink, str):  # pyright: ignore[reportUnnecessaryIsInstance] # callers may be wrong
            raise UserError(
                f"sinks: {sink!r} is one object, and every run of a study has sinks of its own; name them, "
                "as in 'tensorboard' or 'my_module:MySink'."
            )
    return list(sinks)


def _tell_sinks(sinks: Iterable[str], folder: Path, entry: Entry, result: Result) -> None:
    """All rounds of a run that has ended, to new sinks, whose files have a folder of the run's name."""
    name = name_run(entry)
    places = [f"{sink}/{name}" if sink.startswith("tensorboard:") else sink for sink in sinks]
    place = folder / "sinks" / name
    with reporting(folder):
        place.mkdir(parents=True, exist_ok=True)
    watch = Watch(make_sinks(places))
    watch.begin(Started(name, entry.settings, place))
    for number, row in enumerate(result.rows, 1):
        watch.row(number, row)
    watch.summary = None if result.error else result.summary
    watch.end()


def name_run(entry: Entry) -> str:
    """A run's values along the axes, and the beginning of its id: a folder's name.

    >>> from understudy import Study
    >>> name_run(Study("CartPole-v1", grid={"eta": [0.5]}, learner="ftrl").runs[0])[:-6]
    'CartPole-v1-ftrl-eta=0.5-seed=0-'
    """
    labels = {name: value for name, value in entry.labels.items() if value is not None}
    words = [str(v) if name in ("env", "learner") else f"{name}={v}" for name, v in labels.items()]
    # Values may be long, and names of folders may not.
    return re.sub(r"[^\w.=+-]+", "_", "-".join(words))[:200] + f"-{entry.id[:6]}"


# ---------------------------------------------------------------------------------------------- the plan


class Rate(NamedTuple):
    """What was measured on this machine, and how: seconds per interaction of a worker that works beside the
    others, and seconds that a worker needs to start and compile. `evaluates`: evaluations are in it already.
    """

    seconds: float
    start: float
    evaluates: bool
    how: str


class Plan(NamedTuple):
    """What will be done. `rate` is None where nothing was measured."""

    asked: int
    runs: int
    finished: int
    left_out: dict[str, list[str]]
    steps: int
    shards: list[list[Entry]]
    engine: str
    workers: int
    rate: Rate | None

    @property
    def seconds(self) -> tuple[float, float] | None:
        """Estimated wall time, without evaluations and with all their episodes at full length."""
        if self.rate is None:
            return None
        return self._estimate(self.rate, False), self._estimate(self.rate, not self.rate.evaluates)

    def _estimate(self, rate: Rate, evaluating: bool) -> float:
        free = [rate.start] * (1 if self.engine == "inline" else self.workers)
        for shard in self.shards:
            steps = sum(entry.plan.total for entry in shard)
            steps += sum(evaluation_steps(entry.spec) for entry in shard) if evaluating else 0
            free[free.index(min(free))] += steps * rate.seconds
        return max(free)

    def rows(self) -> list[tuple[str, str]]:
        """The plan in words, as it is printed."""
        finished = f", {self.finished:,} of them finished" if self.finished else ""
        rows = [("runs", f"{self.runs:,}{finished}")]
        if self.asked > self.runs:
            names = "; ".join(f"{', '.join(who)}: no {name}" for name, who in self.left_out.items())
            rows.append(("joined", f"{self.asked:,} combinations were asked for ({names})"))
        if not self.shards:
            return [*rows, ("left to do", "nothing")]
        rows.append(("steps", f"{self.steps:,}"))
        sizes = sorted({len(shard) for shard in self.shards})
        if sizes[-1] > 1:
            spread = f"{sizes[0]}" + (f" to {sizes[-1]}" if len(sizes) > 1 else "")
            rows.append(("shards", f"{len(self.shards):,} of {spread} runs"))
        workers = f", {self.workers} worker{'s' if self.workers > 1 else ''}"
        rows.append(("engine", self.engine + ("" if self.engine == "inline" else workers)))
        if self.rate is None or self.seconds is None:
            return [*rows, ("estimated time", "not measured")]
        least, most = map(format_duration, self.seconds)
        more = "" if least == most else f", up to {most} with evaluation episodes of full length"
        return [*rows, ("estimated time", f"{least}{more} ({self.rate.how})")]


def plan(
    study: Study,
    out: str | os.PathLike[str] | None = None,
    *,
    engine: str = "local",
    workers: int | None = None,
    retry_failed: bool = False,
    shard: int | None = None,
    calibrate: bool = True,
    progress: Callable[[str, int, int], None] | None = None,
) -> Plan:
    """What `run` would do with the same arguments. The time is estimated from the shards finished in
    `out`, or from a short calibration, during which ``progress(stage, done, total)`` is called; a slow or
    expensive expert is not asked for one.
    """
    expensive = check_runs(study, engine)
    check_name("engine", engine, ENGINES)
    count = count_workers(workers)
    finished: dict[str, Finished] = {}
    if out is not None:
        refuse_foreign(Path(out))
        if Path(out, "study.json").is_file():
            refuse_other(Path(out), study)
            finished = read_results(Path(out), study.runs)
    left = _left(study, finished, retry_failed)
    shards = divide(left, count, shard)
    rate = measured_rate([record for _, record in finished.values()])
    if rate is None and calibrate and not expensive:
        rate = calibrate_rate(shards, count, progress)
    return Plan(
        asked=study.asked,
        runs=len(study.runs),
        finished=len(study.runs) - len(left),
        left_out=study.left_out,
        steps=sum(entry.plan.total for entry in left),
        shards=shards,
        engine=engine,
        workers=count,
        rate=rate,
    )


def evaluation_steps(spec: RunSpec) -> int:
    """Most environment steps of a run's evaluations, the expert's included; 0 where there is no limit."""
    plan, limit = plan_of(spec), longest_episode(spec.plain(), str(spec.env))
    # Where nothing is chosen the last look is a part of the evaluation at the end.
    looks = len(plan.evaluated) - (not plan.keep_best)
    return limit * (looks * plan.looks + plan.judging + plan.expert_episodes)


def measured_rate(records: Iterable[ShardRecord]) -> Rate | None:
    """The rate of shards that have ended in this folder."""
    shards = {record["name"]: record for record in records}.values()
    steps, seconds = (sum(record[name] for record in shards) for name in ("steps", "seconds"))
    if not steps:
        return None
    how = f"{steps / seconds:,.0f} steps/s a worker in {len(shards)} finished shards"
    return Rate(seconds=seconds / steps, start=0.0, evaluates=True, how=how)


def calibrate_rate(
    shards: Sequence[Sequence[Entry]], workers: int, progress: Callable[[str, int, int], None] | None = None
) -> Rate | None:
    """Plays the first rounds of the first runs without evaluation, on as many workers as the study will have,
    and takes the time; twice, since the first time compiles. None where the study is as short.
    """
    first = [entry.spec for shard in shards for entry in shard][:CALIBRATION]
    nothing = {"budget": None, "until": None, "episodes": 0, "expert_episodes": 0, "comparator": "none"}
    short = [spec.replace(rounds=CALIBRATED_ROUNDS, **nothing).changes() for spec in first]
    plans = [plan_of(RunSpec.of(settings)) for settings in short]
    steps = sum(plan.total for plan in plans)
    if sum(entry.plan.total for shard in shards for entry in shard) < 10 * steps * workers:
        return None
    count, rounds = min(workers, len(shards)), sum(len(plan.sizes) for plan in plans)
    compiled: list[float] = []
    reached = [0] * (2 * count)

    def show(number: int, played: int) -> None:
        reached[number] = played
        if progress is not None:
            progress("measuring this machine", sum(reached), rounds * len(reached))

    def take_time(number: int, results: list[Result], seconds: float) -> None:
        if number >= count:  # what was given out first was compiled, whenever it ended
            compiled.append(seconds)
        show(number, rounds)

    began = time.perf_counter()
    show(0, 0)
    play_local([short] * len(reached), Work(done=take_time, progress=show, workers=count, retries=0))
    took = time.perf_counter() - began
    second = sum(compiled) / count
    how = f"{steps / second:,.0f} steps/s a worker in a calibration of {took:.0f} s"
    # What a worker needed beside both plays is what it takes to start.
    return Rate(seconds=second / steps, start=max(0.0, took - 2 * second), evaluates=False, how=how)
