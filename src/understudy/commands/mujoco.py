"""`understudy paper mujoco`: Hopper and Walker2d, tuned, every learner; the figures and the claims."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import tempfile
import time
from pathlib import Path

from ..disk import new_folder, refuse_taken
from ..errors import UserError, unknown
from ..options import PaperMujoco
from ..paper import claims, mujoco, mujoco_report
from ..report import tables
from .studies import verdicts
from .sweep import bars


def run(options: PaperMujoco) -> int:
    """Runs what is not in the folder of the study yet, and reports on all of it."""
    refuse_taken(options.out)
    if options.scale not in mujoco.SCALES:
        raise unknown("scale", options.scale, mujoco.SCALES)
    scale = mujoco.SCALES[options.scale]
    for name in options.part:
        if name not in mujoco.PARTS:
            raise unknown("part", name, mujoco.PARTS)
    if options.seeds is not None:
        if options.seeds < 2:
            raise UserError(f"seeds: {options.seeds} is too few; intervals over seeds need at least 2.")
        scale = dataclasses.replace(scale, seeds=options.seeds)
    how = {"engine": options.engine, "workers": options.workers, "address": options.address}
    began = time.perf_counter()
    with contextlib.ExitStack() as stack:
        keep = options.keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="understudy-")))
        with bars() as told:
            parts = [mujoco.part(name, scale, keep, told, **how) for name in options.part or scale.parts]
        found = mujoco_report.judged(parts)
        names: list[str] = []
        if options.out is not None:
            with new_folder(options.out) as folder:
                names = mujoco_report.write(folder, parts, found)
    runs = [len(one.final) + len(one.tuned.full) + len(one.tuned.coarse or ()) for one in parts]
    failed = sum(len(one.final.failed) for one in parts)
    rows = [("scale", options.scale), ("seeds", scale.seeds)]
    rows += [(one.name, f"{count:,} runs") for one, count in zip(parts, runs, strict=True)]
    rows += [("final runs that failed", failed), ("seconds", f"{time.perf_counter() - began:.0f}")]
    tables.show(tables.facts("study", rows))
    tables.show(verdicts(found))
    if options.out is not None:
        print(f"Written to {options.out}: {', '.join(names)}")
    if options.json:
        print(json.dumps({claim: verdict for claim, verdict, _ in claims.together(found)}))
    return 0
