"""FTL with the defaults until it has reached a share of its expert's return: the other half of `against_imitation.py`.

Prints one JSON object. What is timed: the whole call, compiling and writing the run to disk included, except for the
evaluations.
"""

from __future__ import annotations

import argparse
import csv
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import understudy
from understudy import experts
from understudy.envs.gymnasium import maker
from understudy.interaction import Evaluator, acting


class Reached(Exception):
    """Ends a run from its progress."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--env", default="Hopper-v4")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--share", type=float, default=0.9)
    parser.add_argument("--episodes", type=int, default=10)
    parser.add_argument("--interactions", type=int, default=1000)
    parser.add_argument("--limit", type=int, default=40_000)
    options = parser.parse_args()
    evaluator = Evaluator(maker(options.env), seed=options.seed)
    theirs = evaluator(acting(experts.for_env(options.env)), episodes=20).mean
    curve: list[list[float]] = []

    with tempfile.TemporaryDirectory() as folder:
        began, cpu_began = time.perf_counter(), time.process_time()

        def progress(_round: int, row: dict[str, Any]) -> None:
            now, cpu_now = time.perf_counter(), time.process_time()
            with open(Path(folder, "run", "times.csv")) as file:
                apart = sum(float(one["evaluate"]) for one in csv.DictReader(file))
            # Evaluation is one thread in one process, so its processor seconds are at most its seconds.
            curve.append([row["queries"], row["return_mean"], now - began - apart, cpu_now - cpu_began - apart])
            if row["return_mean"] >= options.share * theirs:
                raise Reached

        try:
            understudy.imitate(
                options.env,
                seed=options.seed,
                rounds=-(-options.limit // options.interactions),
                interactions=options.interactions,
                episodes=options.episodes,
                evaluate_every=1,
                comparator="none",
                out=Path(folder, "run"),
                progress=progress,
            )
        except Reached:
            pass
    print(json.dumps({"expert": theirs, "curve": curve}))


if __name__ == "__main__":
    main()
