"""Running a study: what is not finished yet, shard by shard, on an engine, and the tables at the end."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, final

from ..defaults import resolve
from ..disk import reporting
from ..errors import UserError, check_int
from ..parts import Spaces
from ..policies import Actions
from ..regret.ledger import to_pandas
from ..runs import spaces_of
from ..sinks import Started, Watch
from ..sinks import sinks as made_sinks
from ..spec import FIELDS, WORLD
from . import planning, tables
from .engines import Work, engine
from .folder import entries_of, finished, forget, opened, refuse_foreign, refuse_other, write
from .shard import Result
from .study import Entry, Study, digest


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
        self.rounds = tables.per_round(entries, results)
        self.summary = tables.per_run(entries, results)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Results:
        """The finished runs of a study's folder, whether others are still to come or not."""
        entries = entries_of(Path(path))
        kept = finished(Path(path), entries)
        entries = [entry for entry in entries if entry.id in kept]
        return cls(entries, [kept[entry.id][0] for entry in entries], Path(path))

    @property
    def failed(self) -> dict[str, str]:
        """The sentences of runs that failed, by id."""
        return {entry.id: result.error for entry, result in self if result.error}

    def to_pandas(self) -> Any:
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
      sinks: names of the sinks that get the rounds of every run that has ended (see `understudy.sinks.sink`).
      progress: called as ``progress(done, total)`` in rounds of runs.

    >>> study = Study("CartPole-v1", seeds=2, policy="linear", rounds=3, steps_per_round=40, episodes=0)
    >>> done = run(study, engine="inline")
    >>> len(done), done.rounds["labels"]
    (2, [40, 80, 120, 40, 80, 120])
    """
    check_int("retries", retries, 0)
    count = planning.how_many(workers)
    planning.check_engine(engine, address)
    names = _named(sinks)
    check(study, engine)
    with contextlib.ExitStack() as stack:
        path = place(out, stack)
        stack.enter_context(opened(path, study, stray=stray))
        kept = finished(path, study.runs)
        left = _left(study, kept, retry_failed)
        forget(path, (name for name, (result, _) in kept.items() if result.error is None))
        _play(path, study, left, engine, count, shard, progress, names, retries=retries, address=address)
        kept = finished(path, study.runs)
        results = [kept[entry.id][0] for entry in study.runs]
        done = Results(study.runs, results, None if out is None else path)
        tables.write(path, results=done.rounds, summary=done.summary)
        return done


def place(out: str | os.PathLike[str] | None, stack: contextlib.ExitStack) -> Path:
    """The folder of a study, or one that is there as long as `stack` is open."""
    made = stack.enter_context(tempfile.TemporaryDirectory(prefix="understudy-")) if out is None else out
    return Path(made)


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
) -> planning.Plan:
    """What `run` would do with the same arguments. The time is estimated from the shards finished in
    `out`, or from a short calibration, during which ``progress(stage, done, total)`` is called; a slow or
    expensive expert is not asked for one.
    """
    expensive = check(study, engine)
    planning.engine(engine)
    count = planning.how_many(workers)
    kept: dict[str, Any] = {}
    if out is not None:
        refuse_foreign(Path(out))
        if Path(out, "study.json").is_file():
            refuse_other(Path(out), study)
            kept = finished(Path(out), study.runs)
    left = _left(study, kept, retry_failed)
    shards = planning.divide(left, count, shard)
    rate = planning.from_finished([about for _, about in kept.values()])
    if rate is None and calibrate and not expensive:
        rate = planning.calibrate(shards, count, progress)
    return planning.Plan(
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


def check(study: Study, engine: str) -> bool:
    """Refuses, before anything runs, environments, experts and parts that do not fit each other: makes every
    environment once, and the parts of every run. It must not start JAX: on an accelerator that would take the
    memory which a worker needs. Returns whether some expert is slow or expensive.
    """
    if engine != "inline" and any(entry.spec.by_person for entry in study.runs):
        raise UserError("expert: a person cannot answer a worker process; say engine inline.")
    worlds: dict[str, Spaces] = {}
    names = [name for name in FIELDS if name != "seed"]
    for spec in {entry.spec.key(*names): entry.spec for entry in study.runs}.values():
        if spec.key(*WORLD) not in worlds:
            worlds[spec.key(*WORLD)] = spaces_of(spec)
        world = worlds[spec.key(*WORLD)]
        resolve(spec, world.shown, Actions.of(world.action_space), world.expert)
    return any(world.expert.workers is not None for world in worlds.values())


def _left(study: Study, kept: dict[str, tuple[Result, Any]], retry_failed: bool) -> list[Entry]:
    """The runs that are to be played, each once: studies that were joined may have some in common."""
    done = {name for name, (result, _) in kept.items() if not (retry_failed and result.error)}
    return list({entry.id: entry for entry in study.runs if entry.id not in done}.values())


def _play(
    path: Path,
    study: Study,
    left: list[Entry],
    name: str,
    workers: int,
    most: int | None,
    progress: Callable[[int, int], None] | None,
    sinks: Sequence[str],
    **how: Any,
) -> None:
    shards = planning.divide(left, workers, most)
    lengths = [sum(len(entry.plan.sizes) for entry in shard) for shard in shards]
    total = sum(len(entry.plan.sizes) for entry in study.runs)
    reached = [0] * len(shards)

    def tell(number: int, done: int) -> None:
        reached[number] = done
        if progress is not None:
            progress(total - sum(lengths) + sum(reached), total)

    def done(number: int, results: list[Result], seconds: float) -> None:
        shard = shards[number]
        about = {
            "name": digest({"runs": [entry.id for entry in shard]}),
            "runs": len(shard),
            "steps": sum(entry.plan.total for entry in shard),
            "seconds": seconds,
            "engine": name,
        }
        pairs = list(zip(shard, results, strict=True))
        for entry, result in pairs:
            write(path, entry, result, about)
        for entry, result in pairs:  # when all count: a sink may refuse
            _tell(sinks, path, entry, result)
        tell(number, lengths[number])

    if shards:
        work = Work(done=done, progress=tell, workers=workers, keep=path / "runs", **how)
        engine(name)([[entry.settings for entry in shard] for shard in shards], work)


def _named(sinks: Any) -> list[str]:
    """The names of sinks, all of which can be made here."""
    made_sinks(sinks)
    if others := [one for one in sinks if not isinstance(one, str)]:
        raise UserError(
            f"sinks: {others[0]!r} is one object, and every run of a study has sinks of its own; name them, "
            "as in 'tensorboard' or 'my_module:MySink'."
        )
    return list(sinks)


def _tell(sinks: Iterable[str], folder: Path, entry: Entry, result: Result) -> None:
    """All rounds of a run that has ended, to new sinks: TensorBoard's files are in a folder of the run's
    name, in ``sinks`` of the study's folder or in the place that was given.
    """
    name = run_name(entry)
    places = [f"{one}/{name}" if one.startswith("tensorboard:") else one for one in sinks]
    if not places:
        return
    mine = folder / "sinks" / name
    with reporting(folder):
        mine.mkdir(parents=True, exist_ok=True)
    watch = Watch(made_sinks(places))
    watch.begin(Started(name, entry.settings, mine))
    for row in result.rows:
        watch.row(row["round"], row)
    watch.summary = None if result.error else result.summary
    watch.end()


def run_name(entry: Entry) -> str:
    """A run's values along the axes, and the beginning of its id: a folder's name.

    >>> from understudy import Study
    >>> run_name(Study("CartPole-v1", grid={"eta": [0.5]}, learner="ftrl").runs[0])[:-6]
    'CartPole-v1-ftrl-eta=0.5-seed=0-'
    """
    given = {name: value for name, value in entry.labels.items() if value is not None}
    words = [str(value) if name in ("env", "learner") else f"{name}={value}" for name, value in given.items()]
    # Values may be long, and names of folders may not.
    return re.sub(r"[^\w.=+-]+", "_", "-".join(words))[:200] + f"-{entry.id[:6]}"
