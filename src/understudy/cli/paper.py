"""`understudy paper …`: the studies of the paper, their figures and their claims."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import os
import tempfile
import time
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any, ClassVar

from rich.text import Text

from .. import disk
from ..errors import UserError, among, whole
from ..progress import stages
from ..report import tables
from .options import Flag, Folder, Json, Name, Names, Options, Whole


class Reported(Options):
    """What every study can be asked for. `NAME` is that of its module, which another beside it reports on."""

    NAME: ClassVar[str] = ""
    out: Folder = None
    """Write figures (PNG, SVG), every number (CSV) and the claims to this new folder."""
    json: Json = False


class Pure(Reported):
    """A study in this process. `SEEDS` are how many the whole study has, from `FIRST` on; `QUICK` makes it a
    small one.
    """

    SEEDS: ClassVar[int] = 10
    FIRST: ClassVar[int] = 101
    QUICK: ClassVar[dict[str, Any]] = {}
    seeds: Whole = None
    """Seeds per setting, from 101 on (questions: from 0); by default 10 (questions: 5), --quick: 3."""
    quick: Flag = False
    """A small study that takes a minute or two: 3 seeds, fewer rounds."""
    seed: int = 0
    """Seed of the whole study; the same seed gives the same bytes in every CSV."""


class Host(Reported):
    """A study in host environments, on worker processes."""

    scale: str = "small"
    """small (Hopper, two seeds: 9 minutes on two cores; Atari, one seed, end to end Pong alone) or full."""
    seeds: Whole = None
    """Seeds of the final runs; by default 3 (linear MuJoCo: 101 to 110), in small studies fewer."""
    first_seed: int = 0
    """The first of these seeds; the others follow it."""
    keep: Folder = None
    """Keep every run in this folder, from which the same command goes on after a kill."""
    engine: str = "local"
    """local (worker processes), ray (a cluster) or inline (this process)."""
    workers: Whole = None
    """Worker processes (default: one per core, or one on a GPU)."""
    address: Name = None
    """Address of the Ray cluster."""

    tables: Folder = None
    """Play nothing: judge and draw again what an earlier --out wrote into this folder (mujoco, atari)."""

    def plays(self, study: Any, scale: Any) -> list[Callable[..., Any]]:
        """The parts of a study that are asked for, each as a function of folder, progress and engine."""
        raise NotImplementedError

    def asked(self, field: str, names: Collection[str], default: Iterable[str] | None = None) -> list[str]:
        """What is typed for a field, each name once and all of them known; else the default, or all names."""
        typed = getattr(self, field)
        found = list(dict.fromkeys((typed,) if isinstance(typed, str) else typed or ()))
        for name in found:
            among(field, name, names)
        return found or list(names if default is None else default)


class PaperToy(Pure):
    """The toy figure: six learners, four losses, tuned on ten rounds and run for 250; the claims checked."""

    NAME, QUICK = "toy", {"rounds": 50}


class PaperGridworld(Pure):
    """The gridworld figure: an expert that turns in every round, 1000 rounds; the claims checked."""

    NAME, QUICK = "gridworld", {"rounds": 100}


class PaperQuestions(Pure):
    """The paper's open questions, answered on frozen loss streams that every learner sees alike.

    Streams are recorded from linear runs on Hopper and Walker2d (extra `mujoco`), beside the toy problem.
    Asked are: inexact and stochastic solves, limited memory, parameterisation, replay against interactive
    runs, AdaFTRL untuned.
    """

    NAME, SEEDS, FIRST, QUICK = "questions", 5, 0, {"rounds": 30, "environments": ("Hopper-v5",)}


class PaperMujoco(Host):
    """Hopper and Walker2d: linear policies and networks, two losses and drives, tuned; the claims checked."""

    NAME = "mujoco"
    part: Names = ()
    """linear, linear-100 (rounds of 100), network or network-sls; by default all that the scale has."""

    def plays(self, study: Any, scale: Any) -> list[Callable[..., Any]]:
        parts = self.asked("part", study.PARTS, scale.parts)
        if self.seeds is not None or self.first_seed:
            same = {name: dataclasses.replace(effort, seeds=None) for name, effort in scale.parts.items()}
            scale = dataclasses.replace(scale, parts=same)
        return [functools.partial(study.part, name, scale) for name in parts]


class PaperAtari(Host):
    """Pong and Breakout from pixels: linear on the expert's features, and NatureCNN end to end."""

    NAME = "atari"
    game: Name = None
    """pong or breakout; both by default."""
    policy: Name = None
    """linear or nature_cnn; both by default."""

    def plays(self, study: Any, scale: Any) -> list[Callable[..., Any]]:
        return [
            functools.partial(study.part, game, policy, scale)
            for policy in self.asked("policy", study.POLICIES)
            for game in self.asked("game", study.GAMES, None if policy == "linear" else scale.end_to_end)
        ]


class PaperQueries(Host):
    """Return against labels: query rules, DAgger and BC in eight environments; the claims checked."""

    NAME = "queries"
    env: Names = ()
    """Environments of the study; by default all that the scale has."""
    series: Names = ()
    """distance (the default of a budget), random, disagreement, adaftrl, one, all (DAgger) or bc."""
    budget: Whole = None
    """Labels of every run; by default those that each environment needs."""
    peer: Path | None = None
    """A folder of make bench-imitation, whose curves of that package's DAgger are drawn too."""

    def plays(self, study: Any, scale: Any) -> list[Callable[..., Any]]:
        envs = self.asked("env", study.WORLDS, scale.envs)
        series = self.asked("series", study.SERIES, scale.series)
        if self.budget is not None:
            whole("budget", self.budget, 40)
        scale = dataclasses.replace(scale, series=tuple(series), budget=self.budget, peer=self.peer)
        return [functools.partial(study.part, name, scale) for name in envs]


class PaperAggregation(Host):
    """All rounds against the current round alone, FTRL and AdaFTRL, from 10⁴ to 10⁷ interactions."""

    NAME = "aggregation"
    env: Name = None
    """The pure environment (full: mjx:Hopper; small: gymnax:Pendulum-v1)."""
    size: Names = ()
    """Interactions of a run, such as 10000; by default all that the scale has."""
    series: Names = ()
    """ftl, window:1, window:3, ftrl or adaftrl; by default all that the scale has."""

    def plays(self, study: Any, scale: Any) -> list[Callable[..., Any]]:
        sizes = {str(total): total for total in scale.totals}
        series = self.asked("series", study.SERIES, scale.series)
        scale = dataclasses.replace(scale, env=self.env or scale.env, series=tuple(series))
        return [functools.partial(study.part, sizes[name], scale) for name in self.asked("size", sizes)]


class PaperTheorem(Reported):
    """The theorem on FTL under interpolation, exhibited without sampling on tabular MDPs."""

    gamma: float = 0.9
    """Discount factor, in [0, 0.9999]."""
    rounds: int = 40
    """Rounds played."""
    seed: int = 0
    """Seed of the random MDP."""


COLOURS = {"holds": "green", "does not hold": "bold red", "cannot be told": "yellow"}


def pure(options: Pure) -> int:
    """Plays a study with the seeds and rounds of its size, and reports."""
    study = importlib.import_module(f"..paper.{options.NAME}", __package__)
    reporter = importlib.import_module(f"..paper.{options.NAME}_figures", __package__)
    disk.refuse_taken(options.out)
    size = {"seeds": options.SEEDS, "rounds": study.ROUNDS}
    if options.quick:
        size = {"seeds": 3, **options.QUICK}
    if options.seeds is not None:
        size["seeds"] = _enough(options.seeds)
    size["seeds"] = tuple(range(options.FIRST, options.FIRST + size["seeds"]))
    whole("seed", options.seed, 0)
    began = _clock()
    with stages() as show:
        done = study.study(**size, seed=options.seed, progress=show)
    shown = [("seeds", ", ".join(map(str, size["seeds"]))), ("rounds", size["rounds"])]
    _report(options, reporter, done, shown, began)
    return 0


def host(options: Host) -> int:
    """Runs what is not in the folder of the study yet, and reports on all of it; 1 when every run failed."""
    study = importlib.import_module(f"..paper.{options.NAME}", __package__)
    reporter = importlib.import_module(f"..paper.{options.NAME}_report", __package__)
    disk.refuse_taken(options.out)
    if options.out and options.keep and options.keep.resolve().is_relative_to(options.out.resolve()):
        raise UserError("out: it must not be the folder of --keep, nor hold it; name another.")
    among("scale", options.scale, study.SCALES)
    if options.tables is not None:
        return _again(options, reporter)
    scale = study.SCALES[options.scale]
    whole("first_seed", first := options.first_seed, 0)
    count = scale.seeds if options.seeds is None else _enough(options.seeds)
    scale = dataclasses.replace(scale, seeds=tuple(range(first, first + count)))
    plays = options.plays(study, scale)
    how = {"engine": options.engine, "workers": options.workers, "address": options.address}
    began = _clock()
    with tempfile.TemporaryDirectory(prefix="understudy-") as temporary:
        with stages() as show:
            parts = [play(options.keep or Path(temporary), show, **how) for play in plays]
        seeds = ", ".join(map(str, scale.seeds))
        _report(options, reporter, parts, [("scale", options.scale), ("seeds", seeds)], began)
    return int(all(result.error for one in parts for _, result in one.final))


def _again(options: Host, reporter: Any) -> int:
    if not hasattr(reporter, "read"):
        raise UserError(
            f"tables: the tables of {options.NAME} are not enough to judge it; mujoco's and atari's are."
        )
    _report(options, reporter, [reporter.read(options.tables)], [("tables", str(options.tables))], _clock())
    return 0


toy = gridworld = questions = pure
queries = aggregation = mujoco = atari = host


def theorem(options: PaperTheorem) -> int:
    """FTL's regret against its bound, without sampling: three cases."""
    from ..paper import theorem
    from ..report import plots

    disk.refuse_taken(options.out)
    asked = {"gamma": options.gamma, "rounds": options.rounds, "seed": options.seed}
    with stages("cases") as show:
        shown = theorem.exhibits(**asked, progress=lambda done, total: show("theorem", done, total))
    verdict = {True: "stays below", False: "exceeds it"}
    rows = [(one.name, len(one.regret), one.regret[-1], one.bound[-1], verdict[one.holds]) for one in shown]
    title = "FTL's regret against C(1 − γ^T)/(1 − γ), exact expectations"
    tables.show(tables.listed(title, ("case", "rounds", "regret", "bound", "verdict"), rows))
    if options.out is not None:
        with disk.new_folder(options.out) as folder:
            disk.write(folder / "theorem.csv", disk.to_csv(theorem.columns(shown)))
            plots.save(theorem.draw(shown), folder / "theorem.png", folder / "theorem.svg")
        print(f"Written to {options.out}: theorem.csv, theorem.png, theorem.svg")
    tables.json_line([{"case": row[0], "regret": row[2], "bound": row[3]} for row in rows])
    return 0


def _report(options: Reported, reporter: Any, done: Any, rows: list[Any], began: tuple[float, float]) -> None:
    """Judges the claims, writes the folder where one was asked for, and prints facts, verdicts and names.

    `reporter` has ``judged(done)``, ``facts(done)`` and ``write(folder, done, claims)``.
    """
    from ..paper import claims

    found, names = reporter.judged(done), []
    if options.out is not None:
        with disk.new_folder(options.out) as folder:
            names = reporter.write(folder, done, found)
    wall, spent = (now - then for now, then in zip(_clock(), began, strict=True))
    seconds = ("seconds", f"{wall:.1f} ({spent:.1f} of processor time)")
    tables.show(tables.facts("study", [*rows, *reporter.facts(done), seconds]))
    verdicts = claims.together(found)
    coloured = [(claim, Text(verdict, style=COLOURS[verdict]), where) for claim, verdict, where in verdicts]
    tables.show(tables.listed("claims", ("claim", "verdict", "where"), coloured))
    if options.out is not None:
        print(f"Written to {options.out}: {', '.join(names)}")
    tables.json_line({claim: verdict for claim, verdict, _ in verdicts})


def _enough(seeds: int) -> int:
    if seeds < 2:
        raise UserError(f"seeds: {seeds} is too few; intervals over seeds need at least 2.")
    return seeds


def _clock() -> tuple[float, float]:
    """Seconds on the wall, and of the processor in this process and in workers that have ended."""
    return time.perf_counter(), sum(os.times()[:4])
