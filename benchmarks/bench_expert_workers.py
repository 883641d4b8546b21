"""Labels a second from an expert that takes 0.2 s over each, by workers, beside a plain pool of as many
threads.

python benchmarks/bench_expert_workers.py

Ours go through the journal of a run on disk, as in a run; the pool's are kept in a list. The labels are the
same, which is asserted. There is nothing to compile.
"""

from __future__ import annotations

import dataclasses
import math
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from understudy.envs.gymnasium import Observed
from understudy.experts import from_callable
from understudy.runs.journal import Journal
from understudy.runs.patient import Slow

SECONDS, ROUNDS = 0.2, 3


def act(observation: np.ndarray) -> np.ndarray:
    time.sleep(SECONDS)
    return observation[:1]


def pace(workers: int, labels: int) -> float:
    """Labels a second, the best of a few rounds."""
    expert = dataclasses.replace(from_callable(act), workers=workers)
    best = 0.0
    with tempfile.TemporaryDirectory() as folder:
        asks = Slow(expert, Journal(Path(folder) / "labels.bin", keep=True), timeout=math.inf, retries=0)
        for number in range(1, ROUNDS + 1):
            rows = np.random.default_rng(number).standard_normal((labels, 11))
            asks.begin(number)
            began = time.perf_counter()
            found = asks.label(Observed(rows, []), rows)
            best = max(best, labels / (time.perf_counter() - began))
            assert found.answered.all() and found.new.all()
            assert np.array_equal(found.values.ravel(), rows[:, 0].astype(found.values.dtype))
    return best


def plain(workers: int, labels: int) -> float:
    """The same of a pool of threads."""
    best = 0.0
    with ThreadPoolExecutor(workers) as pool:
        for number in range(1, ROUNDS + 1):
            rows = np.random.default_rng(number).standard_normal((labels, 11))
            began = time.perf_counter()
            found = np.stack(list(pool.map(act, rows)))
            best = max(best, labels / (time.perf_counter() - began))
            assert np.array_equal(found[:, 0], rows[:, 0])
    return best


def main() -> None:
    print(f"{'workers':>7} {'labels/s':>9} {'a pool of threads':>18} {'ratio':>7}")
    for workers in (1, 2, 4, 8, 16):
        found, pool = pace(workers, 10 * workers), plain(workers, 10 * workers)
        print(f"{workers:>7} {found:>9.2f} {pool:>18.2f} {found / pool:>7.3f}")


if __name__ == "__main__":
    main()
