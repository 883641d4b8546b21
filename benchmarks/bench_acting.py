"""Why policies act in NumPy, one row at a time: microseconds per action of each way to do it.

python benchmarks/bench_acting.py
"""

from __future__ import annotations

import time

import jax
import numpy as np

from understudy import MLP, Linear
from understudy.policies.acting import forward


def micro(function, repeats: int = 2000) -> float:
    """Median microseconds of a call, in blocks of 50."""
    function()
    blocks = []
    for _ in range(repeats // 50):
        began = time.perf_counter()
        for _ in range(50):
            function()
        blocks.append((time.perf_counter() - began) / 50)
    return 1e6 * float(np.median(blocks))


def main() -> None:
    x = np.random.default_rng(0).standard_normal(11).astype(np.float32)
    print(
        "| policy | NumPy, a row | compiled, 1 row | compiled, 64 rows, each | compiled: same bits in a batch |"
    )
    print("|---" * 5 + "|")
    for name, policy in (("linear", Linear(bias=True)), ("64-64", MLP(widths=(64, 64))), ("256-256", MLP())):
        params = policy.init(jax.random.key(0), 11, 3)
        host = jax.tree.map(np.asarray, params)
        row = forward(policy, host)
        program = jax.jit(policy.apply)
        batch = np.random.default_rng(1).standard_normal((64, 11)).astype(np.float32)
        same = np.stack([np.asarray(program(params, one[None]))[0] for one in batch]).tobytes()
        whole = np.asarray(program(params, batch)).tobytes()
        mine, one = (
            micro(lambda row=row: row(x)),
            micro(lambda p=program, w=params: np.asarray(p(w, x[None]))),
        )
        many = micro(lambda p=program, w=params, b=batch: np.asarray(p(w, b)), 500) / 64
        print(f"| {name} | {mine:.1f} | {one:.1f} | {many:.1f} | {'yes' if same == whole else 'no'} |")


if __name__ == "__main__":
    main()
