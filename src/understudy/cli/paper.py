"""`understudy paper …`: the studies of the paper, their figures and their claims."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.table import Table as Shown
from rich.text import Text

from .. import disk
from ..errors import UserError, unknown
from ..report import tables
from .options import Flag, Folder, Name, Names, Whole

if TYPE_CHECKING:
    from ..paper import claims


@dataclasses.dataclass(frozen=True, kw_only=True)
class PaperToy:
    """The toy figure: six learners, four losses, tuned on ten rounds and run for 250; the claims checked."""

    seeds: Whole = None
    """Seeds per setting; 20, or 3 with --quick."""
    quick: Flag = False
    """A small study that takes a minute: 3 seeds, 50 rounds."""
    seed: int = 0
    """Seed of the whole study; the same seed gives the same bytes in every CSV."""
    out: Folder = None
    """Write figures (PNG, SVG), every number (CSV) and the claims to this new folder."""
    json: Flag = False
    """Print the verdicts as one last line of JSON."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class PaperGridworld:
    """The gridworld figure: an expert that turns in every round, 1000 rounds; the claims checked."""

    seeds: Whole = None
    """Seeds per setting; 10, or 3 with --quick."""
    quick: Flag = False
    """A small study that takes a minute: 3 seeds, 100 rounds."""
    seed: int = 0
    """Seed of the whole study; the same seed gives the same bytes in every CSV."""
    out: Folder = None
    """Write figures (PNG, SVG), every number (CSV) and the claims to this new folder."""
    json: Flag = False
    """Print the verdicts as one last line of JSON."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class PaperMujoco:
    """Hopper and Walker2d: linear policies and networks, two losses and drives, tuned; the claims checked."""

    scale: str = "small"
    """small (Hopper, two seeds, fewer steps tried; nine minutes on two cores) or full."""
    part: Names = ()
    """linear, linear-100 (rounds of 100), network or network-sls; by default all that the scale has."""
    seeds: Whole = None
    """Seeds of the final runs; 3, or 2 in the small study."""
    keep: Folder = None
    """Keep every run in this folder, from which the same command goes on after a kill."""
    engine: str = "local"
    """local (worker processes), ray (a cluster) or inline (this process)."""
    workers: Whole = None
    """Worker processes (default: one per core, or one on a GPU)."""
    address: Name = None
    """Address of the Ray cluster."""
    out: Folder = None
    """Write figures, every number and the claims to this new folder."""
    json: Flag = False
    """Print the verdicts as one last line of JSON."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class PaperAtari:
    """Pong and Breakout from pixels: linear on the expert's features, and NatureCNN end to end."""

    scale: str = "small"
    """small (one seed; end to end Pong alone, FTL and AdaFTRL, 300 steps a round) or full."""
    game: Name = None
    """pong or breakout; both by default."""
    policy: Name = None
    """linear or nature_cnn; both by default."""
    seeds: Whole = None
    """Seeds of the final runs; 3, or 1 in the small study."""
    keep: Folder = None
    """Keep every run in this folder, from which the same command goes on after a kill."""
    engine: str = "local"
    """local (worker processes), ray (a cluster) or inline (this process)."""
    workers: Whole = None
    """Worker processes (default: one per core, or one on a GPU)."""
    address: Name = None
    """Address of the Ray cluster."""
    out: Folder = None
    """Write figures, every number and the claims to this new folder."""
    json: Flag = False
    """Print the verdicts as one last line of JSON."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class PaperQuestions:
    """The paper's open questions, answered on frozen loss streams that every learner sees alike.

    Streams are recorded from linear runs on Hopper and Walker2d (extra `mujoco`), beside the toy problem.
    Asked are: inexact and stochastic solves, limited memory, parameterisation, replay against interactive
    runs, AdaFTRL untuned.
    """

    seeds: Whole = None
    """Seeds per stream; 5, or 3 with --quick."""
    quick: Flag = False
    """A small study that takes a minute or two: 3 seeds, 30 rounds, Hopper and toy alone."""
    seed: int = 0
    """First seed of the study; the same seed gives the same bytes in every CSV."""
    out: Folder = None
    """Write figures (PNG, SVG), every number (CSV) and the claims to this new folder."""
    json: Flag = False
    """Print the verdicts as one last line of JSON."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class PaperTheorem:
    """The theorem on FTL under interpolation, exhibited without sampling on tabular MDPs."""

    gamma: float = 0.9
    """Discount factor, in [0, 1)."""
    rounds: int = 40
    """Rounds played."""
    seed: int = 0
    """Seed of the random MDP."""
    out: Folder = None
    """Write the numbers and the figure to this new folder."""
    json: Flag = False
    """Print the result as one last line of JSON."""


COLOURS = {"holds": "green", "does not hold": "bold red", "cannot be told": "yellow"}
Rows = list[tuple[str, Any]]
Write = Callable[[Path], list[str]]


def toy(options: PaperToy) -> int:
    """The toy study: four losses, two problems, all learners."""
    from ..paper import toy, toy_claims, toy_figures

    done, spent = _played(options, toy.study, full=(20, toy.ROUNDS), quick=(3, 50))
    found = toy_claims.claims(done)
    return report(options, found, lambda folder: toy_figures.write(folder, done, found), _mapped(done, spent))


def gridworld(options: PaperGridworld) -> int:
    """The gridworld study: own walks, a recorded stream, an L2 ball."""
    from ..paper import gridworld, gridworld_claims, gridworld_figures

    done, spent = _played(options, gridworld.study, full=(10, gridworld.ROUNDS), quick=(3, 100))
    found = gridworld_claims.claims(done)
    return report(
        options, found, lambda folder: gridworld_figures.write(folder, done, found), _mapped(done, spent)
    )


def questions(options: PaperQuestions) -> int:
    """Records the streams and asks the questions."""
    from ..paper import questions, questions_claims, questions_figures, streams

    used, places = time.process_time(), streams.ENVIRONMENTS[: 1 if options.quick else None]
    done, spent = _played(
        options, questions.study, full=(5, streams.ROUNDS), quick=(3, 30), environments=places
    )
    found = questions_claims.claims(done)
    rows: Rows = [("streams", "; ".join(done.names)), ("seeds", done.seeds), ("rounds", done.rounds)]
    for stream in done.names:
        steps = {name: done.best[stream, name] for name in ("ftrl", "adaftrl", "ogd")}
        rows.append((f"best steps, {stream}", ", ".join(f"{k} {v:g}" for k, v in steps.items())))
    rows.append(("seconds", f"{spent:.0f} ({time.process_time() - used:.0f} of processor time)"))
    return report(options, found, lambda folder: questions_figures.write(folder, done, found), rows)


def mujoco(options: PaperMujoco) -> int:
    """Runs what is not in the folder of the study yet, and reports on all of it."""
    from ..paper import mujoco, mujoco_report

    scale = _host_scale(options, mujoco.SCALES)
    for name in options.part:
        if name not in mujoco.PARTS:
            raise unknown("part", name, mujoco.PARTS)
    names = options.part or tuple(scale.parts)
    plays = [lambda *where, name=name, **how: mujoco.part(name, scale, *where, **how) for name in names]
    return _host(options, scale.seeds, plays, mujoco_report)


def atari(options: PaperAtari) -> int:
    """Runs what is not in the folder of the study yet, and reports on all of it."""
    from ..paper import atari, atari_report

    scale = _host_scale(options, atari.SCALES)
    for field, value, known in (
        ("game", options.game, atari.GAMES),
        ("policy", options.policy, atari.POLICIES),
    ):
        if value is not None and value not in known:
            raise unknown(field, value, known)
    plays = []
    for policy in atari.POLICIES if options.policy is None else (options.policy,):
        games = tuple(atari.GAMES) if policy == "linear" else scale.end_to_end
        for game in games if options.game is None else (options.game,):

            def play(*where: Any, game: str = game, policy: str = policy, **how: Any) -> Any:
                return atari.part(game, policy, scale, *where, **how)

            plays.append(play)
    return _host(options, scale.seeds, plays, atari_report)


def _host_scale(options: PaperMujoco | PaperAtari, scales: Mapping[str, Any]) -> Any:
    """The scale that was asked for, with its seeds."""
    disk.refuse_taken(options.out)
    if options.scale not in scales:
        raise unknown("scale", options.scale, scales)
    scale = scales[options.scale]
    if options.seeds is None:
        return scale
    _enough(options.seeds)
    return dataclasses.replace(scale, seeds=options.seeds)


def _host(
    options: PaperMujoco | PaperAtari, seeds: int, plays: Sequence[Callable[..., Any]], told: Any
) -> int:
    """Plays the parts of a study in host environments, in the folder that keeps them, and reports."""
    from .sweep import bars

    how = {"engine": options.engine, "workers": options.workers, "address": options.address}
    began = time.perf_counter()
    with contextlib.ExitStack() as stack:
        keep = options.keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="understudy-")))
        with bars() as progress:
            parts = [play(keep, progress, **how) for play in plays]
        found = told.judged(parts)
        rows: Rows = [("scale", options.scale), ("seeds", seeds)]
        for one in parts:
            tuning = 0 if one.tuned is None else len(one.tuned.full) + len(one.tuned.coarse or ())
            rows.append((one.name, f"{len(one.final) + tuning:,} runs"))
        rows.append(("final runs that failed", sum(len(one.final.failed) for one in parts)))
        rows.append(("seconds", f"{time.perf_counter() - began:.0f}"))
        return report(options, found, lambda folder: told.write(folder, parts, found), rows)


def theorem(options: PaperTheorem) -> int:
    """FTL's regret against its bound, without sampling: three cases."""
    from ..paper import theorem
    from ..report import plots

    disk.refuse_taken(options.out)
    shown = theorem.exhibits(gamma=options.gamma, rounds=options.rounds, seed=options.seed)
    table = Shown(title="FTL's regret against C(1 − γ^T)/(1 − γ), exact expectations")
    for heading in ("case", "rounds", "regret", "bound", "verdict"):
        table.add_column(heading, justify="left" if heading in ("case", "verdict") else "right")
    for one in shown:
        numbers = (str(len(one.regret)), f"{one.regret[-1]:.6g}", f"{one.bound[-1]:.6g}")
        table.add_row(one.name, *numbers, "stays below" if one.holds else "exceeds it")
    tables.show(table)
    if options.out is not None:
        with disk.new_folder(options.out) as folder:
            disk.write(folder / "theorem.csv", disk.to_csv(theorem.columns(shown)))
            plots.save(theorem.draw(shown), folder / "theorem.png", folder / "theorem.svg")
        print(f"Written to {options.out}: theorem.csv, theorem.png, theorem.svg")
    if options.json:
        ends = [{"case": one.name, "regret": one.regret[-1], "bound": one.bound[-1]} for one in shown]
        tables.json_line(ends)
    return 0


def report(options: Any, found: list[claims.Claim], write: Write, rows: Rows) -> int:
    """Writes the folder where one was asked for, and prints the facts, the verdicts and where they are."""
    from ..paper import claims

    names: list[str] = []
    if options.out is not None:
        with disk.new_folder(options.out) as folder:
            names = write(folder)
    tables.show(tables.facts("study", rows))
    shown = Shown(title="claims", title_justify="left", title_style="bold", box=SIMPLE_HEAD)
    for heading in ("claim", "verdict", "where"):
        shown.add_column(heading, overflow="fold", no_wrap=heading == "verdict")
    verdicts = claims.together(found)
    for claim, verdict, where in verdicts:
        shown.add_row(Text(claim), Text(verdict, style=COLOURS[verdict]), Text(where))
    tables.show(shown)
    if options.out is not None:
        print(f"Written to {options.out}: {', '.join(names)}")
    if options.json:
        tables.json_line({claim: verdict for claim, verdict, _ in verdicts})
    return 0


def _enough(seeds: int) -> None:
    if seeds < 2:
        raise UserError(f"seeds: {seeds} is too few; intervals over seeds need at least 2.")


def _played(
    options: PaperToy | PaperGridworld | PaperQuestions,
    study: Callable[..., Any],
    *,
    full: tuple[int, int],
    quick: tuple[int, int],
    **more: Any,
) -> tuple[Any, float]:
    """A study with the seeds and rounds of its size, and the seconds it took."""
    disk.refuse_taken(options.out)
    seeds, rounds = quick if options.quick else full
    if options.seeds is not None:
        _enough(options.seeds)
        seeds = options.seeds
    if options.seed < 0:
        raise UserError(f"seed: {options.seed} is not a whole number ≥ 0.")
    began = time.perf_counter()
    with _bars() as told:
        done = study(seeds=seeds, rounds=rounds, seed=options.seed, progress=told, **more)
    return done, time.perf_counter() - began


@contextlib.contextmanager
def _bars() -> Iterator[Callable[[str, int], Callable[[int, Any], None] | None]]:
    """A bar for every stage on a terminal; in a pipe a line for each, on the error stream."""
    with contextlib.ExitStack() as stack:

        def told(title: str, total: int) -> Callable[[int, Any], None] | None:
            stack.close()
            if not sys.stderr.isatty():
                print(f"{title}: {total} runs", file=sys.stderr)
            return stack.enter_context(tables.progress(title, total))

        yield told


def _mapped(done: Any, seconds: float) -> Rows:
    """How the runs of a pure study were mapped, and which steps lie at the edge."""
    rows: Rows = [("seeds", done.seeds), ("rounds", done.rounds)]
    for title, table in (("tuning", done.tuning), ("runs", done.runs)):
        info, used = table.info, Counter()
        for one in info["methods"]:
            used[one["method"]] += one["runs"]
        methods = ", ".join(f"{count} by {method}" for method, count in used.items())
        compiled = f"compiled {info['programs']} programs in {info['compile_seconds']:.1f} s"
        took = f"{compiled}, ran {info['run_seconds']:.1f} s"
        rows.append((title, f"{len(table)} ({methods}, {info['workers']} threads); {took}"))
    edges = [
        f"{', '.join(one.setting.values())} {one.values['step']:g} ({one.edge['step']})"
        for one in done.choices
        if one.edge
    ]
    rows.append(("steps at the grid's edge", "; ".join(edges) or "none"))
    rows.append(("seconds", f"{seconds:.1f}"))
    return rows
