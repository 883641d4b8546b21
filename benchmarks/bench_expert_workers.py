"""Labels a second from an expert that takes 0.2 s over each: one call at a time, and eight.

python benchmarks/bench_expert_workers.py

Labels go through the journal of a run on disk, as in a run. There is nothing to compile.
"""

from __future__ import annotations

import dataclasses
import tempfile
import time
from pathlib import Path

import numpy as np

from understudy.envs.vector import Seen
from understudy.experts import from_callable
from understudy.runs.journal import Journal
from understudy.runs.questions import Questions

SECONDS, ROUNDS = 0.2, 3


def act(observation: np.ndarray) -> np.ndarray:
    time.sleep(SECONDS)
    return observation[:1]


def pace(workers: int, labels: int) -> float:
    """Labels a second, the best of a few rounds."""
    expert = dataclasses.replace(from_callable(act), workers=workers)
    best = 0.0
    with tempfile.TemporaryDirectory() as folder:
        questions = Questions(expert, [Journal(Path(folder) / "labels.bin", keep=True)])
        for number in range(1, ROUNDS + 1):
            rows = np.random.default_rng(number).standard_normal((labels, 11))
            questions.begin(number)
            began = time.perf_counter()
            found = questions.put(Seen(rows, []), np.zeros(labels, int), rows)
            best = max(best, labels / (time.perf_counter() - began))
            assert found.answered.all() and found.new.all()
    return best


def main() -> None:
    one = pace(1, 10)
    print(f"{'workers':>7} {'labels/s':>9} {'times one':>10}")
    print(f"{1:>7} {one:>9.2f} {1.0:>10.2f}")
    for workers in (2, 4, 8, 16):
        found = pace(workers, 10 * workers)
        print(f"{workers:>7} {found:>9.2f} {found / one:>10.2f}")


if __name__ == "__main__":
    main()
