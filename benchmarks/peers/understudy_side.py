"""FTL with the defaults until it has reached a share of its expert's return.

Prints one JSON object. What is timed: the whole call, compiling included, except for the evaluations.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from typing import Any

from understudy.runs.host import Host

import understudy
from understudy import experts
from understudy.runs.evaluate import evaluate


class Reached(Exception):
    """Ends a run from its progress."""


class Apart:
    """Seconds, and seconds of all processors, that evaluations took."""

    def __init__(self):
        self.wall = self.cpu = 0.0
        plain = Host.of_runs

        def timed(*args: Any, **keywords: Any) -> Any:
            wall, cpu = time.perf_counter(), time.process_time()
            try:
                return plain(*args, **keywords)
            finally:
                self.wall += time.perf_counter() - wall
                self.cpu += time.process_time() - cpu

        Host.of_runs = timed


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--env", default="Hopper-v4")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--share", type=float, default=0.9)
    parser.add_argument("--episodes", type=int, default=10)
    parser.add_argument("--interactions", type=int, default=1000)
    parser.add_argument("--limit", type=int, default=40_000, help="give up after so many queries")
    options = parser.parse_args()
    understudy.use_cache()
    teacher = experts.for_env(options.env)
    theirs = evaluate(teacher, options.env, seed=options.seed, episodes=20).mean
    curve: list[list[float]] = []
    apart = Apart()
    wall, cpu = time.perf_counter(), time.process_time()

    def progress(_round: int, row: dict[str, Any]) -> None:
        seconds = time.perf_counter() - wall - apart.wall
        curve.append([row["queries"], row["return_mean"], seconds, time.process_time() - cpu - apart.cpu])
        print(f"{row['queries']} queries: {row['return_mean']:.0f}", file=sys.stderr, flush=True)
        if row["return_mean"] >= options.share * theirs:
            raise Reached

    with contextlib.suppress(Reached):
        understudy.imitate(
            options.env,
            seed=options.seed,
            rounds=-(-options.limit // options.interactions),
            interactions=options.interactions,
            episodes=options.episodes,
            evaluate_every=1,
            comparator="none",
            progress=progress,
        )
    print(json.dumps({"expert": theirs, "curve": curve}))


if __name__ == "__main__":
    main()
