"""FTL until it has reached a share of its expert's return.

Prints one JSON object. What is timed: the whole call, compiling included, except for evaluations. Those of a
run, by which one with a budget chooses what it keeps, give way to those that judge all sides.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from typing import Any

import numpy as np

import understudy
from understudy import experts
from understudy.envs.gymnasium import Observed, maker, vector
from understudy.runs.evaluate import LOOKED, Evaluation, Stage, play_episodes
from understudy.runs.players import evaluate

VARIANTS: dict[str, dict[str, Any]] = {"default": {}, "bc": {"learner": "bc"}, "budget": {"budget": 400}}
JUDGE, FRESH = 1 << 20, (1 << 20) + 1
"""The numbers of the episodes that judge every policy, and of those of the last one: no round has them."""


class Reached(Exception):
    """Ends a run from its progress."""


class Watch:
    """Plays the episodes that judge in the place of those that a run would play, and keeps the time of it. Of
    the policies of a round the better one counts.
    """

    def __init__(self, seed: int, episodes: int):
        self.wall = self.cpu = 0.0
        self.play: Any = None
        self.value = -math.inf
        plain = Stage.of_policy

        def judged(stage: Stage, shown: Any, asked: Any) -> Evaluation:
            wall, cpu = time.perf_counter(), time.process_time()

            def play(number: int, episodes: int) -> Evaluation:
                return plain(stage, shown, (seed, episodes, number))

            found = Evaluation(np.zeros(asked[1]), np.zeros(asked[1], int))
            if episodes and not LOOKED[0] < asked[2] <= LOOKED[-1]:  # of a race the first portion alone
                found = play(JUDGE, episodes)
                if found.mean >= self.value:
                    self.play, self.value = play, found.mean
            self.wall += time.perf_counter() - wall
            self.cpu += time.process_time() - cpu
            return found

        setattr(Stage, "of_policy", judged)  # noqa: B010

    def taken(self) -> float:
        """The mean return of the better policy since this was last asked."""
        value, self.value = self.value, -math.inf
        return value


def of_expert(env: str, seed: int, number: int, episodes: int) -> float:
    """The mean return of the shipped expert in the same episodes."""
    teacher, make = experts.for_env(env), maker(env)

    def act(seen: Observed, *_: Any) -> Any:
        return teacher.act(seen.batch, seen.infos)

    slots = vector(make, episodes, infos=True)
    return play_episodes(slots, env, (seed, episodes, number), act, lanes=episodes).mean


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("variant", choices=VARIANTS)
    parser.add_argument("--env", default="Hopper-v4")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--share", type=float, default=0.9)
    parser.add_argument("--limit", type=int, default=20_000, help="give up after so many labels")
    parser.add_argument("--judge", type=int, default=20, help="episodes that judge every policy")
    parser.add_argument("--fresh", type=int, default=20, help="further episodes of the last policy")
    parser.add_argument(
        "--until", type=int, help="stop after so many labels and judge nothing: for its seconds"
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
        value = watch.taken() if judged else 0.0
        found["curve"].append([row["labels"], value, *seconds])
        print(f"{row['labels']} labels: {value:.0f}", file=sys.stderr, flush=True)
        if judged == 0 and row["labels"] >= options.until:
            raise Reached
        if judged and value >= options.share * found["expert"]:
            raise Reached

    try:
        rounds = {} if "budget" in settings else {"rounds": options.limit // 1000, "evaluate_every": 1}
        run = understudy.imitate(
            options.env,
            seed=options.seed,
            comparator="none",
            expert_episodes=0,
            progress=progress,
            **rounds,
            **settings,
        )
        if judged:
            how = {"seed": options.seed, "number": FRESH, "episodes": options.fresh}
            found["kept"] = evaluate(run, options.env, **how).mean
    except Reached:
        if judged:
            found["kept"] = watch.play(FRESH, options.fresh).mean
    print(json.dumps(found))


if __name__ == "__main__":
    main()
