"""`understudy paper questions`: the open questions on frozen loss streams, their figures and answers."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable
from typing import Any

from ..disk import new_folder, refuse_taken
from ..errors import UserError
from ..options import PaperQuestions
from ..paper import claims, questions, questions_claims, questions_figures, streams
from ..report import tables
from .studies import verdicts

QUICK_ROUNDS = 30


def run(options: PaperQuestions) -> int:
    """Records the streams, asks the questions, tells the answers and, where asked, writes the folder."""
    refuse_taken(options.out)
    if options.seeds is not None and options.seeds < 2:
        raise UserError(f"seeds: {options.seeds} is too few; intervals over seeds need at least 2.")
    if options.seed < 0:
        raise UserError(f"seed: {options.seed} is not a whole number ≥ 0.")
    began, used = time.perf_counter(), time.process_time()
    with contextlib.ExitStack() as bars:

        def told(title: str, total: int) -> Callable[[int, Any], None] | None:
            bars.close()
            if not sys.stderr.isatty():
                print(f"{title}: {total} runs", file=sys.stderr)
            return bars.enter_context(tables.progress(title, total))

        done = questions.study(
            seeds=options.seeds or (3 if options.quick else 5),
            rounds=QUICK_ROUNDS if options.quick else streams.ROUNDS,
            seed=options.seed,
            environments=streams.ENVIRONMENTS[: 1 if options.quick else None],
            progress=told,
        )
    found = questions_claims.claims(done)
    names: list[str] = []
    if options.out is not None:
        with new_folder(options.out) as folder:
            names = questions_figures.write(folder, done, found)
    _tell(done, found, time.perf_counter() - began, time.process_time() - used)
    if options.out is not None:
        print(f"Written to {options.out}: {', '.join(names)}")
    if options.json:
        print(json.dumps({claim: verdict for claim, verdict, _ in claims.together(found)}))
    return 0


def _tell(done: questions.Answers, found: list[claims.Claim], seconds: float, processor: float) -> None:
    rows: list[tuple[str, Any]] = [
        ("streams", "; ".join(done.names)),
        ("seeds", done.seeds),
        ("rounds", done.rounds),
    ]
    for stream in done.names:
        steps = {name: done.best[stream, name] for name in ("ftrl", "adaftrl", "ogd")}
        rows.append((f"best steps, {stream}", ", ".join(f"{k} {v:g}" for k, v in steps.items())))
    rows.append(("seconds", f"{seconds:.0f} ({processor:.0f} of processor time)"))
    tables.show(tables.facts("study", rows))
    tables.show(verdicts(found))
