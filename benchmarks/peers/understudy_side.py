"""FTL until it has reached a share of its expert's return, or, with a budget, until that is spent.

Prints one JSON object. What is timed: the whole call, compiling included, except for evaluations, be they
those made here or those by which a run with a budget chooses what it keeps ("choosing" has the seconds of
these).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

import understudy
from understudy import experts
from understudy.envs.gymnasium import maker
from understudy.envs.vector import vector
from understudy.runs.evaluate import AGAIN, by_policies, evaluate, play_episodes
from understudy.runs.host import Host

VARIANTS: dict[str, dict[str, Any]] = {"default": {}, "bc": {"learner": "bc"}, "budget": {"budget": 400}}
JUDGE, FRESH = 1 << 20, (1 << 20) + 1
"""The numbers of the episodes that judge every policy, and of those of the last one: no round has them."""


class Reached(Exception):
    """Ends a run from its progress."""


class Watch:
    """Plays the episodes that judge before those that a run plays itself, and keeps the time of both."""

    def __init__(self, seed: int, episodes: int):
        self.wall = self.cpu = self.own = self.value = 0.0
        plain = Host.of_runs

        def timed(host: Any, chosen: Sequence[int], number: int) -> Any:
            wall, cpu = time.perf_counter(), time.process_time()
            if number < AGAIN[0] and episodes:
                self.play = lambda number, episodes: self._play(host, chosen, seed, number, episodes)
                self.value = self.play(JUDGE, episodes)
            began = time.perf_counter()
            try:
                return plain(host, chosen, number)
            finally:
                self.own += time.perf_counter() - began
                self.wall += time.perf_counter() - wall
                self.cpu += time.process_time() - cpu

        Host.of_runs = timed

    @staticmethod
    def _play(host: Any, chosen: Sequence[int], seed: int, number: int, episodes: int) -> float:
        groups = [(one, np.zeros(1, int)) for one in host._policies.load(chosen, shown=True)]
        codecs = host.observations, host.actions
        return host._play([seed], [episodes], lambda lanes: by_policies(groups, *codecs, lanes), number)[
            0
        ].mean


def of_expert(env: str, seed: int, number: int, episodes: int) -> float:
    """The mean return of the shipped expert in the same episodes."""
    teacher, make = experts.for_env(env), maker(env)
    slots = vector(make, episodes, infos=True)
    act = lambda seen, active, fresh: (teacher.act(seen.batch, seen.infos), {})  # noqa: E731
    return play_episodes(slots, env, [seed], [episodes], act, number=number, lanes=episodes)[0].mean


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("variant", choices=VARIANTS)
    parser.add_argument("--env", default="Hopper-v4")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--share", type=float, default=0.9)
    parser.add_argument("--limit", type=int, default=20_000, help="give up after so many queries")
    parser.add_argument("--judge", type=int, default=20, help="episodes that judge every policy")
    parser.add_argument("--fresh", type=int, default=20, help="further episodes of the last policy")
    parser.add_argument(
        "--until", type=int, help="stop after so many queries and judge nothing: for its seconds"
    )
    options = parser.parse_args()
    understudy.use_cache()
    settings = VARIANTS[options.variant]
    judged = 0 if options.until else options.judge
    found: dict[str, Any] = {"curve": []}
    if judged:
        found["expert"] = of_expert(options.env, options.seed, JUDGE, judged)
        found["kept_expert"] = of_expert(options.env, options.seed, FRESH, options.fresh)
    watch = Watch(options.seed, judged)
    wall, cpu = time.perf_counter(), time.process_time()

    def progress(_round: int, row: dict[str, Any]) -> None:
        seconds = time.perf_counter() - wall - watch.wall, time.process_time() - cpu - watch.cpu
        found["curve"].append([row["queries"], watch.value, *seconds])
        print(f"{row['queries']} queries: {watch.value:.0f}", file=sys.stderr, flush=True)
        if judged == 0 and row["queries"] >= options.until:
            raise Reached
        if judged and "budget" not in settings and watch.value >= options.share * found["expert"]:
            raise Reached

    try:
        rounds = {} if "budget" in settings else {"rounds": options.limit // 1000, "evaluate_every": 1}
        run = understudy.imitate(
            options.env, seed=options.seed, comparator="none", progress=progress, **rounds, **settings
        )
        if judged:
            how = {"seed": options.seed, "number": FRESH, "episodes": options.fresh}
            found["kept"] = evaluate(run, options.env, **how).mean
    except Reached:
        if judged:
            found["kept"] = watch.play(FRESH, options.fresh)
    print(json.dumps(found | {"choosing": watch.own}))


if __name__ == "__main__":
    main()
