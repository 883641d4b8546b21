"""Returns of linear policies beside the expert's, over 60 games: three seeds of 20 games each.

    python benchmarks/atari_returns.py pong --rounds 2 --learners ftl
    python benchmarks/atari_returns.py breakout --rounds 10 --learners ftl ftrl adaftrl

Step sizes are those that the study's tuning chose. Where a policy agrees with the expert in every state of
its games, they are the expert's games, move for move, and so are its returns; the expert is played apart only
where it does not.
"""

from __future__ import annotations

import argparse
import json
import resource
import time

import numpy as np

from understudy import adaftrl, experts, ftl, ftrl
from understudy.envs.atari import Settings
from understudy.interaction.lockstep import LinearStudents, Lockstep, Member, evaluate
from understudy.paper.atari_report import bootstrap
from understudy.solvers import block_lbfgs

STEPS = {"pong": {"ftrl": 1000.0, "adaftrl": 1000.0}, "breakout": {"ftrl": 100.0, "adaftrl": 1000.0}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("game", choices=sorted(STEPS))
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--games", type=int, default=20)
    parser.add_argument("--learners", nargs="+", default=["ftl", "ftrl", "adaftrl"])
    parser.add_argument("--threads", type=int, default=0)
    options = parser.parse_args()
    steps, began = STEPS[options.game], time.perf_counter()
    makers = {
        "ftl": lambda: ftl(),
        "ftrl": lambda: ftrl(eta=steps["ftrl"]),
        "adaftrl": lambda: adaftrl(alpha=steps["adaftrl"]),
    }
    members = [Member(name, makers[name](), seed) for name in options.learners for seed in (0, 1, 2)]
    expert = experts.get(f"ppo-{options.game}")
    solver = block_lbfgs(tolerance=1e-6, max_iterations=300)
    students = LinearStudents(expert, members, capacity=1000 * options.rounds, size=1000, solver=solver)
    loop = Lockstep(options.game, students, size=1000, threads=options.threads)
    for _ in range(options.rounds):
        rows = loop.advance()
        told = {f"{row['learner']}-{row['seed']}": (row["agreement"], row["solver_status"]) for row in rows}
        print(f"[{time.perf_counter() - began:.0f} s] round {loop.round}: {told}", flush=True)
    made = Settings(max_frames=10_000)
    played = evaluate(options.game, students, options.games, seed=700, made=made, threads=options.threads)
    same = all(one.agreement == 1.0 for one in played)
    theirs = played
    if not same:
        theirs = evaluate(
            options.game, students, options.games, seed=700, made=made, threads=options.threads, expert=True
        )
    for name in options.learners:
        mine = [j for j, member in enumerate(members) if member.name == name]
        games, experts_games = (np.concatenate([some[j].returns for j in mine]) for some in (played, theirs))
        mean, low, high = bootstrap(games)
        share = mean / experts_games.mean()
        found = {
            "game": options.game,
            "learner": name,
            "interactions": 1000 * options.rounds,
            "games": len(games),
            "return": [mean, low, high],
            "expert": float(experts_games.mean()),
            "share": [share, low / experts_games.mean(), high / experts_games.mean()],
            "agreement": [played[j].agreement for j in mine],
            "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            "seconds": time.perf_counter() - began,
        }
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
