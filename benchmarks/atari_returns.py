"""Returns of a study's linear policies beside the expert's, over the games that are still missing.

    understudy paper atari --scale full --keep parts                 # writes parts/GAME-linear.json and .npz
    python benchmarks/atari_returns.py parts/breakout-linear.json    # plays what was not played, says all

The study plays 20 games a seed itself, learner after learner; where it was stopped before the end, this goes
on from the parameters it kept, on any machine, and adds the games to its file.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import jax
import numpy as np

from understudy import experts, ftl
from understudy.envs.atari import Settings
from understudy.paper.atari_report import bootstrap, returns, summary
from understudy.runs.lockstep import Chosen, LinearStudents, Member, evaluate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", type=Path)
    parser.add_argument("--learners", nargs="+", default=["expert", "ftl", "ftrl", "adaftrl"])
    parser.add_argument("--threads", type=int, default=0)
    options = parser.parse_args()
    part = json.loads(options.part.read_text())
    scale, kept = part["scale"], np.load(options.part.with_suffix(".npz"))
    last, made = scale["rounds"], Settings(max_frames=4 * scale["limit"])
    expert = experts.get(f"ppo-{part['game']}")
    for name in options.learners:
        if not len(returns(part, name, last)):
            began = time.perf_counter()
            found = play(part["game"], expert, kept, name, scale, made, options.threads)
            for seed, result in zip(scale["seeds"], found, strict=True):
                where = {
                    "game": part["game"],
                    "policy": "linear",
                    "learner": name,
                    "seed": seed,
                    "round": last,
                }
                part["played"] += [
                    {**where, "number": i, "return": float(x), "agreement": result.agreement}
                    for i, x in enumerate(result.returns)
                ]
            options.part.write_text(json.dumps(part))
            print(f"{name}: {time.perf_counter() - began:.0f} s", flush=True)
    print("expert", len(returns(part, "expert", last)), bootstrap(returns(part, "expert", last)))
    for row in summary([part]):
        if row["learner"] in options.learners:
            print(json.dumps(row), flush=True)


def play(game: str, expert, kept, name: str, scale: dict, made: Settings, threads: int):
    """Every seed's games with the parameters kept for it; the expert plays them with anyone's."""
    theirs = name == "expert"
    members = [Member(name, ftl(), seed) for seed in scale["seeds"]]
    students = LinearStudents(expert, members, capacity=1, size=1)
    stacked = np.stack([kept[f"{'ftl' if theirs else name}-{seed}"] for seed in scale["seeds"]])
    params = jax.device_put(stacked.astype(np.float32))
    chosen = Chosen(members, lambda images: students.seen(params, images))
    return evaluate(game, chosen, scale["games"], seed=700, made=made, threads=threads, expert=theirs)


if __name__ == "__main__":
    main()
