"""``python -m paper``: the studies of the paper, their figures and their claims.

Only what a command needs is imported: the help imports neither JAX nor NumPy.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
import importlib
import os
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.text import Text

from understudy import UserError, disk, use_cache
from understudy.cli import guarded
from understudy.errors import check_int, check_name, unknown
from understudy.machine import count_cores
from understudy.progress import silent, stages
from understudy.report import tables

COLOURS = {"holds": "green", "does not hold": "bold red", "cannot be told": "yellow"}
Options = argparse.Namespace


class Pure(NamedTuple):
    """A study in this process: how many seeds the whole study has, from which on, and its small form."""

    about: str
    quick: dict[str, Any]
    seeds: int = 10
    first: int = 101


PURE = {
    "toy": Pure("the toy figure: six learners, four losses, tuned, with the claims", {"rounds": 50}),
    "gridworld": Pure("the gridworld figure: an expert that turns in every round", {"rounds": 100}),
    "questions": Pure(
        "the open questions, on frozen loss streams: inexact solves, limited memory, parameters, replay",
        {"rounds": 30, "environments": ("Hopper-v5",)},
        seeds=5,
        first=0,
    ),
}
HOST = {
    "queries": "return against labels: ask rules, DAgger and BC, with the claims",
    "aggregation": "all rounds against the current one alone, 10⁴ to 10⁷ interactions",
    "mujoco": "Hopper and Walker2d: linear and network policies, tuned, with the claims",
    "atari": "Pong and Breakout from pixels: linear and end to end, with the claims",
}
ARENA = "published rules of interactive imitation, judged alike: labels and seconds to a proof of done"
THEOREM = "FTL's regret on an MDP stays below its bound, and where it does not"

EVERY = {
    "--out": (Path, "write figures (PNG, SVG), every number (CSV) and the claims to this new folder"),
    "--json": (bool, "print the result as one line of JSON, and all else to the error stream"),
    "--quiet": (bool, "show no progress"),
    "--no-cache": (bool, "compile anew, and keep no compiled programs"),
    "--debug": (bool, "print the whole traceback of an error"),
}
OF_PURE = {
    "--seeds": (int, "seeds per setting, from 101 on (questions: from 0); by default 10 (questions: 5)"),
    "--quick": (bool, "a small study that takes a minute or two: 3 seeds, fewer rounds"),
    "--seed": (0, "seed of the whole study; the same seed gives the same bytes in every CSV"),
}
OF_HOST = {
    "--scale": ("small", "small (Hopper, two seeds: 9 minutes on two cores; Atari, one seed) or full"),
    "--seeds": (
        int,
        "seeds of the final runs; by default 3 (linear MuJoCo: 101 to 110), in small studies fewer",
    ),
    "--first-seed": (0, "the first of these seeds; the others follow it"),
    "--keep": (Path, "keep every run in this folder, from which the same command goes on after a kill"),
    "--engine": ("local", "local (worker processes), ray (a cluster) or inline (this process)"),
    "--workers": (int, "worker processes (default: one per core, or one on a GPU)"),
    "--address": (str, "address of the Ray cluster"),
    "--tables": (Path, "play nothing: judge and draw again what an earlier --out wrote (mujoco, atari)"),
}
OF_THEOREM = {
    "--gamma": (0.9, "discount factor, in [0, 0.9999]"),
    "--rounds": (40, "rounds played"),
    "--seed": (0, "seed of the random MDP"),
}
OF_ARENA = {
    "--scale": ("small", "small (three environments, three seeds: 15 minutes on two cores) or full"),
    "--part": (list, "hopper, walker2d, halfcheetah, ant, double-pendulum, cartpole, acrobot or pendulum"),
    "--rule": (list, "rules of the arena, such as ours, dagger or stagger (default: all)"),
    "--expert": (list, "clean (the default), noisy or weak"),
    "--student": (list, "network (128-128, the default), narrow (8-8) or linear"),
    "--protocol": (list, "done (labels to a proof, the default) or offline (1,000 states are given)"),
    "--seeds": (str, "seeds, as in 101-105 or 1,2,3; by default 101-110, in the small arena 1-3"),
    "--jobs": (int, "worker processes of one core each (default: one per core)"),
    "--minutes": (float, "end the runs under way after so many minutes, without a result (small: 14)"),
    "--keep": (Path, "keep every run in this folder, from which the same command goes on"),
    "--tables": (list, "play nothing: judge and draw what an earlier --keep or --out holds, or several"),
}
OWN = {
    "mujoco": {"--part": (list, "linear, linear-100 (rounds of 100), network or network-sls")},
    "atari": {"--game": (str, "pong or breakout"), "--policy": (str, "linear or nature_cnn")},
    "queries": {
        "--env": (list, "environments of the study"),
        "--series": (list, "distance (the default), random, disagreement, adaftrl, one, all (DAgger) or bc"),
        "--budget": (int, "labels of every run; by default those that each environment needs"),
        "--peer": (Path, "a folder of make bench-imitation, whose curves are drawn too"),
    },
    "aggregation": {
        "--env": (str, "the pure environment (full: mjx:Hopper; small: gymnax:Pendulum-v1)"),
        "--size": (list, "interactions of a run, such as 10000"),
        "--series": (list, "ftl, window:1, window:3, ftrl or adaftrl"),
    },
}
"""Options, each with its type or its default; by default all that a scale has is played."""


class Parser(argparse.ArgumentParser):
    """A parser that refuses with our error."""

    def error(self, message: str) -> Any:
        raise UserError(f"{message} (see {self.prog} --help)")


def studies() -> dict[str, tuple[str, dict[str, Any]]]:
    """By name: what a study is about, and its options."""
    found = {name: (one.about, OF_PURE | EVERY) for name, one in PURE.items()}
    found |= {name: (about, OWN[name] | OF_HOST | EVERY) for name, about in HOST.items()}
    return found | {"theorem": (THEOREM, OF_THEOREM | EVERY), "arena": (ARENA, OF_ARENA | EVERY)}


def parser() -> Parser:
    """The parser of every study."""
    top = Parser(
        "python -m paper",
        description="The studies of the paper, their figures and their claims.",
        allow_abbrev=False,
    )
    family = top.add_subparsers(dest="study", metavar="STUDY", required=True)
    for name, (about, options) in studies().items():
        one = family.add_parser(name, help=about, description=about, allow_abbrev=False)
        for option, (kind, text) in options.items():
            how: dict[str, Any] = {"type": kind, "metavar": option[2:].upper()}
            if kind is bool:
                how = {"action": "store_true"}
            elif kind is list:
                how["type"], how["nargs"] = str, "+"
            elif not isinstance(kind, type):
                how |= {"type": type(kind), "default": kind}
                text += " (default: %(default)s)"
            one.add_argument(option, help=text, **how)
    return top


def parse(args: Sequence[str]) -> Options:
    """The options that were typed; one that does not exist is refused with the nearest that does."""
    options, left = parser().parse_known_args(args)
    if left:
        raise unknown("option", left[0], [*studies()[options.study][1], "--help"])
    return options


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one study and returns its exit code, as `understudy` does."""
    return guarded(_run, sys.argv[1:] if argv is None else argv)


def _run(args: list[str]) -> int:
    options = parse(args or ["--help"])
    if not options.no_cache:
        use_cache()
    with contextlib.ExitStack() as around:
        around.enter_context(silent(options.quiet))
        if options.json:
            around.enter_context(tables.json_only())
        disk.refuse_taken(options.out)
        alone = {"theorem": theorem, "arena": arena}
        return alone.get(options.study, pure if options.study in PURE else host)(options)


def pure(options: Options) -> int:
    """Plays a study in this process, and reports on it."""
    study, name = importlib.import_module(f".{options.study}", __package__), options.study
    plan = PURE[name]
    size = {"seeds": plan.seeds, "rounds": study.ROUNDS}
    if options.quick:
        size = {"seeds": 3, **plan.quick}
    if options.seeds is not None:
        size["seeds"] = _enough(options.seeds)
    size["seeds"] = tuple(range(plan.first, plan.first + size["seeds"]))
    check_int("seed", options.seed, 0)
    began = _clock()
    with stages() as show:
        done = study.study(**size, seed=options.seed, progress=show)
    shown = [("seeds", ", ".join(map(str, size["seeds"]))), ("rounds", size["rounds"])]
    _report(options, importlib.import_module(f".{name}_figures", __package__), done, shown, began)
    return 0


def host(options: Options) -> int:
    """Runs what is not in the folder of the study yet, and reports on all of it; 1 when every run failed."""
    study = importlib.import_module(f".{options.study}", __package__)
    reporter = importlib.import_module(f".{options.study}_report", __package__)
    _apart(options)
    check_name("scale", options.scale, study.SCALES)
    if options.tables is not None:
        return _again(options, reporter)
    scale = study.SCALES[options.scale]
    check_int("first_seed", first := options.first_seed, 0)
    count = scale.seeds if options.seeds is None else _enough(options.seeds)
    scale = dataclasses.replace(scale, seeds=tuple(range(first, first + count)))
    parts = plays(options, study, scale)
    how = {"engine": options.engine, "workers": options.workers, "address": options.address}
    began = _clock()
    with tempfile.TemporaryDirectory(prefix="understudy-") as temporary:
        with stages() as show:
            done = [play(options.keep or Path(temporary), show, **how) for play in parts]
        seeds = ", ".join(map(str, scale.seeds))
        _report(options, reporter, done, [("scale", options.scale), ("seeds", seeds)], began)
    return int(all(result.error for one in done for _, result in one.final))


def _apart(options: Options) -> None:
    """Refuses to write the report into the folder of the runs."""
    if options.out and options.keep and options.keep.resolve().is_relative_to(options.out.resolve()):
        raise UserError("out: it must not be the folder of --keep, nor hold it; name another.")


def _again(options: Options, reporter: Any) -> int:
    if not hasattr(reporter, "read"):
        raise UserError(
            f"tables: the tables of {options.study} are not enough to judge it; mujoco's and atari's are."
        )
    _report(options, reporter, [reporter.read(options.tables)], [("tables", str(options.tables))], _clock())
    return 0


def plays(options: Options, study: Any, scale: Any) -> list[Callable[..., Any]]:
    """The parts of a study that are asked for, each as a function of folder, progress and engine."""
    asked = functools.partial(_asked, options)
    if options.study == "mujoco":
        parts = asked("part", study.PARTS, scale.parts)
        if options.seeds is not None or options.first_seed:
            same = {name: dataclasses.replace(effort, seeds=None) for name, effort in scale.parts.items()}
            scale = dataclasses.replace(scale, parts=same)
        return [functools.partial(study.part, name, scale) for name in parts]
    if options.study == "atari":
        return [
            functools.partial(study.part, game, policy, scale)
            for policy in asked("policy", study.POLICIES)
            for game in asked("game", study.GAMES, None if policy == "linear" else scale.end_to_end)
        ]
    series = tuple(asked("series", study.SERIES, scale.series))
    if options.study == "queries":
        envs = asked("env", study.WORLDS, scale.envs)
        if options.budget is not None:
            check_int("budget", options.budget, 40)
        scale = dataclasses.replace(scale, series=series, budget=options.budget, peer=options.peer)
        return [functools.partial(study.part, name, scale) for name in envs]
    sizes = {str(total): total for total in scale.totals}
    scale = dataclasses.replace(scale, env=options.env or scale.env, series=series)
    return [functools.partial(study.part, sizes[name], scale) for name in asked("size", sizes)]


def _asked(
    options: Options, field: str, names: Collection[str], default: Iterable[str] | None = None
) -> list[str]:
    """What is typed for a field, each name once and all of them known; else the default, or all names."""
    typed = getattr(options, field)
    found = list(dict.fromkeys((typed,) if isinstance(typed, str) else typed or ()))
    for name in found:
        check_name(field, name, names)
    return found or list(names if default is None else default)


def arena(options: Options) -> int:
    """Plays the runs of the arena that are missing, and reports on all that were asked for."""
    from . import arena, arena_report

    check_name("scale", options.scale, arena.SCALES)
    _apart(options)
    scale, began = arena.SCALES[options.scale], _clock()
    asked = {
        f"{field}s": tuple(_asked(options, field, names, getattr(scale, f"{field}s")))
        for field, names in arena.NAMES.items()
    }
    seeds = scale.seeds if options.seeds is None else _listed(options.seeds)
    settings = list(dataclasses.replace(scale, seeds=seeds, **asked).settings())
    shown = [("scale", options.scale), ("seeds", ", ".join(map(str, seeds)))]
    if options.tables is not None:
        folders = map(Path, options.tables)
        _report(options, arena_report, arena_report.read(*folders), [], began)
        return 0
    check_int("jobs", jobs := count_cores() if options.jobs is None else options.jobs)
    minutes = scale.minutes if options.minutes is None else options.minutes
    if not minutes > 0:
        raise UserError(f"minutes: {minutes:g} is not above 0.")
    with tempfile.TemporaryDirectory(prefix="understudy-") as temporary:
        folder = options.keep or Path(temporary)
        with stages("runs") as show:
            ended = arena.study(settings, folder, jobs=jobs, minutes=minutes, progress=show)
        if not ended and not (folder / arena.FOLDER).is_dir():
            raise UserError(f"minutes: none of {len(settings)} runs has ended in {minutes:g}; give more.")
        names = {one.id for one in settings}
        done = [run for run in arena_report.read(folder) if arena.id_of(run) in names]
        _report(options, arena_report, done, [*shown, ("asked for", f"{len(settings):,} runs")], began)
    return 0


def _listed(text: str) -> tuple[int, ...]:
    """Seeds as they are typed.

    >>> _listed("101-103"), _listed("1,5")
    ((101, 102, 103), (1, 5))
    """
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise UserError(f"seeds: {text!r} is no list of seeds; 101-105 or 1,2,3 is accepted.")
        found += range(int(first), int(last or first) + 1)
    return tuple(dict.fromkeys(found))


def theorem(options: Options) -> int:
    """FTL's regret against its bound, without sampling: three cases."""
    from understudy.report import plots

    from . import theorem

    asked = {"gamma": options.gamma, "rounds": options.rounds, "seed": options.seed}
    with stages("cases") as show:
        shown = theorem.exhibits(**asked, progress=lambda done, total: show("theorem", done, total))
    verdict = {True: "stays below", False: "exceeds it"}
    rows = [(one.name, len(one.regret), one.regret[-1], one.bound[-1], verdict[one.holds]) for one in shown]
    title = "FTL's regret against C(1 − γ^T)/(1 − γ), exact expectations"
    tables.show(tables.listed(title, ("case", "rounds", "regret", "bound", "verdict"), rows))
    if options.out is not None:
        with disk.new_folder(options.out) as folder:
            disk.write_file(folder / "theorem.csv", disk.to_csv(theorem.columns(shown)))
            plots.save(theorem.draw(shown), folder / "theorem.png", folder / "theorem.svg")
        print(f"Written to {options.out}: theorem.csv, theorem.png, theorem.svg")
    tables.json_line([{"case": row[0], "regret": row[2], "bound": row[3]} for row in rows])
    return 0


def _report(options: Options, reporter: Any, done: Any, rows: list[Any], began: tuple[float, float]) -> None:
    """Judges the claims, writes the folder where one was asked for, and prints facts, verdicts and names.

    `reporter` has ``judged(done)``, ``facts(done)`` and ``write(folder, done, claims)``.
    """
    from . import claims

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


if __name__ == "__main__":
    sys.exit(main())
