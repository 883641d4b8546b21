"""`understudy paper …`: the studies of the paper, their figures and their claims."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.text import Text

from .. import disk
from ..errors import UserError, among, whole
from ..progress import stages
from ..report import tables
from .options import Flag, Folder, Json, Name, Names, Whole


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reported:
    """What every study can be asked for."""

    out: Folder = None
    """Write figures (PNG, SVG), every number (CSV) and the claims to this new folder."""
    json: Json = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pure(Reported):
    """A study in this process."""

    seeds: Whole = None
    """Seeds per setting; by default 20 (toy), 10 (gridworld) or 5 (questions), and 3 with --quick."""
    quick: Flag = False
    """A small study that takes a minute or two: 3 seeds, fewer rounds."""
    seed: int = 0
    """Seed of the whole study; the same seed gives the same bytes in every CSV."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Host(Reported):
    """A study in host environments, on worker processes."""

    scale: str = "small"
    """small (Hopper, two seeds: 9 minutes on two cores; Atari, one seed, end to end Pong alone) or full."""
    seeds: Whole = None
    """Seeds of the final runs; by default 3, and in the small study 2 (mujoco) or 1 (atari)."""
    keep: Folder = None
    """Keep every run in this folder, from which the same command goes on after a kill."""
    engine: str = "local"
    """local (worker processes), ray (a cluster) or inline (this process)."""
    workers: Whole = None
    """Worker processes (default: one per core, or one on a GPU)."""
    address: Name = None
    """Address of the Ray cluster."""


class PaperToy(Pure):
    """The toy figure: six learners, four losses, tuned on ten rounds and run for 250; the claims checked."""


class PaperGridworld(Pure):
    """The gridworld figure: an expert that turns in every round, 1000 rounds; the claims checked."""


class PaperQuestions(Pure):
    """The paper's open questions, answered on frozen loss streams that every learner sees alike.

    Streams are recorded from linear runs on Hopper and Walker2d (extra `mujoco`), beside the toy problem.
    Asked are: inexact and stochastic solves, limited memory, parameterisation, replay against interactive
    runs, AdaFTRL untuned.
    """


@dataclasses.dataclass(frozen=True, kw_only=True)
class PaperMujoco(Host):
    """Hopper and Walker2d: linear policies and networks, two losses and drives, tuned; the claims checked."""

    part: Names = ()
    """linear, linear-100 (rounds of 100), network or network-sls; by default all that the scale has."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class PaperAtari(Host):
    """Pong and Breakout from pixels: linear on the expert's features, and NatureCNN end to end."""

    game: Name = None
    """pong or breakout; both by default."""
    policy: Name = None
    """linear or nature_cnn; both by default."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class PaperQueries(Host):
    """Return against labels: query rules, DAgger and BC in eight environments; the claims checked."""

    env: Names = ()
    """Environments of the study; by default all that the scale has."""
    series: Names = ()
    """distance (the default of a budget), random, disagreement, adaftrl, last, all (DAgger) or bc."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class PaperAggregation(Host):
    """All rounds against the current round alone, FTRL and AdaFTRL, from 10⁴ to 10⁷ interactions."""

    env: Name = None
    """The pure environment (full: mjx:Hopper; small: gymnax:Pendulum-v1)."""
    size: Names = ()
    """Interactions of a run, such as 10000; by default all that the scale has."""
    series: Names = ()
    """ftl, window:1, window:3, ftrl or adaftrl; by default all that the scale has."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class PaperTheorem(Reported):
    """The theorem on FTL under interpolation, exhibited without sampling on tabular MDPs."""

    gamma: float = 0.9
    """Discount factor, in [0, 1)."""
    rounds: int = 40
    """Rounds played."""
    seed: int = 0
    """Seed of the random MDP."""


COLOURS = {"holds": "green", "does not hold": "bold red", "cannot be told": "yellow"}


def toy(options: PaperToy) -> int:
    """The toy study: four losses, two problems, all learners."""
    return _pure(options, "toy", full=20, quick=(3, 50))


def gridworld(options: PaperGridworld) -> int:
    """The gridworld study: own walks, a recorded stream, an L2 ball."""
    return _pure(options, "gridworld", full=10, quick=(3, 100))


def questions(options: PaperQuestions) -> int:
    """Records the streams and asks the questions; Hopper and the toy problem alone where it is quick."""
    hopper = {"environments": ("Hopper-v5",)} if options.quick else {}
    return _pure(options, "questions", full=5, quick=(3, 30), **hopper)


def _pure(options: Pure, name: str, *, full: int, quick: tuple[int, int], **more: Any) -> int:
    """Plays a study with the seeds and rounds of its size, and reports."""
    module = importlib.import_module(f"..paper.{name}", __package__)
    disk.refuse_taken(options.out)
    seeds, rounds = quick if options.quick else (full, module.ROUNDS)
    if options.seeds is not None:
        seeds = _enough(options.seeds)
    whole("seed", options.seed, 0)
    began = _clock()
    with stages() as show:
        done = module.study(seeds=seeds, rounds=rounds, seed=options.seed, progress=show, **more)
    rows = [("seeds", seeds), ("rounds", rounds)]
    return _report(
        options, importlib.import_module(f"..paper.{name}_figures", __package__), done, rows, began
    )


def mujoco(options: PaperMujoco) -> int:
    """Runs what is not in the folder of the study yet, and reports on all of it."""
    from ..paper import mujoco, mujoco_report

    scale = _scale(options, mujoco.SCALES)
    for name in options.part:
        among("part", name, mujoco.PARTS)
    plays = [functools.partial(mujoco.part, name, scale) for name in options.part or scale.parts]
    return _host(options, scale.seeds, plays, mujoco_report)


def atari(options: PaperAtari) -> int:
    """Runs what is not in the folder of the study yet, and reports on all of it."""
    from ..paper import atari, atari_report

    scale = _scale(options, atari.SCALES)
    for field, known in (("game", atari.GAMES), ("policy", atari.POLICIES)):
        if getattr(options, field) is not None:
            among(field, getattr(options, field), known)
    plays = []
    for policy in atari.POLICIES if options.policy is None else (options.policy,):
        games = tuple(atari.GAMES) if policy == "linear" else scale.end_to_end
        for game in games if options.game is None else (options.game,):
            plays.append(functools.partial(atari.part, game, policy, scale))
    return _host(options, scale.seeds, plays, atari_report)


def queries(options: PaperQueries) -> int:
    """Runs what is not in the folder of the study yet, and reports on all of it."""
    from ..paper import queries, queries_report

    scale = _scale(options, queries.SCALES)
    for field, known in (("env", queries.WORLDS), ("series", queries.SERIES)):
        for name in getattr(options, field):
            among(field, name, known)
    scale = dataclasses.replace(scale, series=options.series or scale.series)
    plays = [functools.partial(queries.part, name, scale) for name in options.env or scale.envs]
    return _host(options, scale.seeds, plays, queries_report)


def aggregation(options: PaperAggregation) -> int:
    """Runs what is not in the folder of the study yet, and reports on all of it."""
    from ..paper import aggregation, aggregation_report

    scale = _scale(options, aggregation.SCALES)
    sizes = {str(total): total for total in scale.totals}
    for field, known in (("size", sizes), ("series", scale.series)):
        for name in getattr(options, field):
            among(field, name, known)
    env, series = options.env or scale.env, options.series or scale.series
    scale = dataclasses.replace(scale, env=env, series=series)
    plays = [functools.partial(aggregation.part, sizes[name], scale) for name in options.size or sizes]
    return _host(options, scale.seeds, plays, aggregation_report)


def _scale(options: Host, scales: Mapping[str, Any]) -> Any:
    """The scale that was asked for, with its seeds."""
    disk.refuse_taken(options.out)
    among("scale", options.scale, scales)
    scale = scales[options.scale]
    return scale if options.seeds is None else dataclasses.replace(scale, seeds=_enough(options.seeds))


def _host(options: Host, seeds: int, plays: Sequence[Callable[..., Any]], reporter: Any) -> int:
    """Plays the parts of a study in host environments, in the folder that keeps them, and reports."""
    how = {"engine": options.engine, "workers": options.workers, "address": options.address}
    began = _clock()
    with tempfile.TemporaryDirectory(prefix="understudy-") as temporary:
        with stages() as show:
            parts = [play(options.keep or Path(temporary), show, **how) for play in plays]
        return _report(options, reporter, parts, [("scale", options.scale), ("seeds", seeds)], began)


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
    if options.json:
        tables.json_line([{"case": row[0], "regret": row[2], "bound": row[3]} for row in rows])
    return 0


def _report(options: Reported, reporter: Any, done: Any, rows: list[Any], began: tuple[float, float]) -> int:
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
    if options.json:
        tables.json_line({claim: verdict for claim, verdict, _ in verdicts})
    return 0


def _enough(seeds: int) -> int:
    if seeds < 2:
        raise UserError(f"seeds: {seeds} is too few; intervals over seeds need at least 2.")
    return seeds


def _clock() -> tuple[float, float]:
    """Seconds on the wall, and of the processor in this process and in workers that have ended."""
    return time.perf_counter(), sum(os.times()[:4])
