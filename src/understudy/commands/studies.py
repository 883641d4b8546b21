"""`understudy paper toy` and `understudy paper gridworld`: whole studies, their figures and their claims."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table as Shown
from rich.text import Text

from ..disk import new_folder, refuse_taken
from ..errors import UserError
from ..options import PaperGridworld, PaperToy
from ..paper import claims, gridworld, gridworld_claims, gridworld_figures, toy, toy_claims, toy_figures
from ..report import tables

COLOURS = {claims.HOLDS: "green", claims.FAILS: "bold red", claims.OPEN: "yellow"}


def run_toy(options: PaperToy) -> int:
    """The toy study: four losses, two problems, all learners."""
    return _run(
        options, toy.study, toy_claims.claims, toy_figures.write, seeds=20, rounds=toy.ROUNDS, quick=50
    )


def run_gridworld(options: PaperGridworld) -> int:
    """The gridworld study: own walks, a recorded stream, an L2 ball."""
    return _run(
        options,
        gridworld.study,
        gridworld_claims.claims,
        gridworld_figures.write,
        seeds=10,
        rounds=gridworld.ROUNDS,
        quick=100,
    )


def _run(
    options: PaperToy | PaperGridworld,
    study: Callable[..., Any],
    judged: Callable[[Any], list[claims.Claim]],
    write: Callable[..., list[str]],
    *,
    seeds: int,
    rounds: int,
    quick: int,
) -> int:
    refuse_taken(options.out)
    if options.seeds is not None and options.seeds < 2:
        raise UserError(f"seeds: {options.seeds} is too few; intervals over seeds need at least 2.")
    if options.seed < 0:
        raise UserError(f"seed: {options.seed} is not a whole number ≥ 0.")
    seeds = options.seeds or (3 if options.quick else seeds)
    began = time.perf_counter()
    with contextlib.ExitStack() as bars:

        def told(title: str, total: int) -> Callable[[int, Any], None] | None:
            bars.close()
            if not sys.stderr.isatty():
                print(f"{title}: {total} runs", file=sys.stderr)
            return bars.enter_context(tables.progress(title, total))

        done = study(seeds=seeds, rounds=quick if options.quick else rounds, seed=options.seed, progress=told)
    found = judged(done)
    names: list[str] = []
    if options.out is not None:
        with new_folder(options.out) as folder:
            names = write(folder, done, found)
    _tell(done, found, time.perf_counter() - began)
    if options.out is not None:
        print(f"Written to {options.out}: {', '.join(names)}")
    if options.json:
        print(json.dumps({claim: verdict for claim, verdict, _ in claims.together(found)}))
    return 0


def _tell(done: Any, found: list[claims.Claim], seconds: float) -> None:
    rows: list[tuple[str, Any]] = [("seeds", done.seeds), ("rounds", done.rounds)]
    for title, table in (("tuning", done.tuning), ("runs", done.runs)):
        info = table.info
        used = Counter()
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
    tables.show(tables.facts("study", rows))
    tables.show(verdicts(found))


def verdicts(found: list[claims.Claim]) -> Shown:
    """The claims with their verdicts over all settings, as a table to print."""
    shown = Shown(title="claims", title_justify="left", title_style="bold", box=SIMPLE_HEAD)
    for heading in ("claim", "verdict", "where"):
        shown.add_column(heading, overflow="fold", no_wrap=heading == "verdict")
    for claim, verdict, where in claims.together(found):
        shown.add_row(Text(claim), Text(verdict, style=COLOURS[verdict]), Text(where))
    return shown
