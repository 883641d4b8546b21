"""Students without velocities, teacher with: a memoryless network, a stack of observations and a GRU.

    python benchmarks/memory.py --workers 16 --envs Hopper-v5 Walker2d-v5 --out results.jsonl

The students of Hopper and Walker2d see positions and angles alone; the expert sees all. Each run is a process
with one thread. A line of JSON is written as a run ends, then the table of docs/memory.md: mean and least
score (return over the expert's) of the seeds.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

import seeds

SEES = {"Hopper-v5": "[:5]", "Walker2d-v5": "[:8]"}
STUDENTS = {
    "mlp": {"policy": "mlp"},
    "stack of 4": {"policy": "mlp", "frame_stack": 4},
    "gru": {"policy": "gru"},
}


def play(env: str, student: str, seed: int, rounds: int) -> dict[str, object]:
    """One run: 1,000 interactions a round, evaluated at its end."""
    import understudy

    began = time.perf_counter()
    run = understudy.imitate(
        env, student_sees=SEES[env], seed=seed, rounds=rounds, comparator="none", **STUDENTS[student]
    )
    assert run.evaluation is not None and run.expert_evaluation is not None
    found, expert = run.evaluation.mean, run.expert_evaluation.mean
    told = {"env": env, "student": student, "seed": seed, "labels": int(run.ledger["labels"][-1])}
    told |= {"return": found, "expert": expert, "score": found / expert, "loss": run.ledger["loss"][-1]}
    return told | {"seconds": time.perf_counter() - began}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--envs", nargs="+", default=list(SEES), choices=list(SEES))
    parser.add_argument("--students", nargs="+", default=list(STUDENTS), choices=list(STUDENTS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[*seeds.REPORTING[:3]])
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    seeds.reporting(options.seeds)
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    # The slowest first; Hopper before Walker2d, so that a command that is cut off has measured one of them.
    jobs = [
        (env, student, seed, options.rounds)
        for env in options.envs
        for student in reversed(options.students)
        for seed in options.seeds
    ]
    done: list[dict[str, object]] = []
    with ProcessPoolExecutor(options.workers, mp_context=get_context("spawn")) as pool:
        for one in as_completed([pool.submit(play, *job) for job in jobs]):
            done.append(one.result())
            line = json.dumps(done[-1])
            print(line, flush=True)
            if options.out is not None:
                with open(options.out, "a") as file:
                    file.write(line + "\n")
    print(table(done))
    return 0


def table(done: list[dict[str, object]]) -> str:
    """Mean and least score of the seeds, by environment and student, as Markdown."""
    lines = ["| environment | student | score, mean | least | seeds | seconds |", "|---|---|---|---|---|---|"]
    for env in SEES:
        for student in STUDENTS:
            mine = [one for one in done if (one["env"], one["student"]) == (env, student)]
            if mine:
                scores = [float(one["score"]) for one in mine]  # type: ignore[arg-type]
                seconds = sum(float(one["seconds"]) for one in mine) / len(mine)  # type: ignore[arg-type]
                mean = sum(scores) / len(scores)
                lines.append(
                    f"| {env} | {student} | {mean:.2f} | {min(scores):.2f} | {len(mine)} | {seconds:.0f} |"
                )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
