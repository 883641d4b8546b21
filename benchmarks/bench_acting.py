"""Why policies act in NumPy, one row at a time: microseconds per action of each way to do it.

python benchmarks/bench_acting.py

Beside ours the same network written by hand, a matrix product a layer into buffers that are kept. The outputs
agree, which is asserted.
"""

from __future__ import annotations

import time

import jax
import numpy as np
import plain_loop

from understudy.policies import MLP, Linear
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
    heads = "plain NumPy | ours, NumPy, a row | ratio | compiled, 1 row | compiled, 64 rows, each"
    print(f"| policy | {heads} | same bits in a batch |")
    print("|---" * 7 + "|")
    for name, policy in (("linear", Linear(bias=True)), ("64-64", MLP(widths=(64, 64))), ("256-256", MLP())):
        params = policy.init(jax.random.key(0), 11, 3)
        host = jax.tree.map(np.asarray, params)
        row = forward(policy, host)
        program = jax.jit(policy.apply)
        batch = np.random.default_rng(1).standard_normal((64, 11)).astype(np.float32)
        same = np.stack([np.asarray(program(params, one[None]))[0] for one in batch]).tobytes()
        whole = np.asarray(program(params, batch)).tobytes()
        layers = [(host[:-1], host[-1])] if name == "linear" else [tuple(one.values()) for one in host]
        layers = [pair if pair[0].ndim == 2 else pair[::-1] for pair in layers]
        network = plain_loop.Network(layers, squashed=False)
        assert np.abs(network(x) - row(x)).max() < 1e-6
        plain, mine, one = (
            micro(lambda network=network: network(x)),
            micro(lambda row=row: row(x)),
            micro(lambda p=program, w=params: np.asarray(p(w, x[None]))),
        )
        many = micro(lambda p=program, w=params, b=batch: np.asarray(p(w, b)), 500) / 64
        cells = f"{plain:.1f} | {mine:.1f} | {mine / plain:.2f} | {one:.1f} | {many:.1f}"
        print(f"| {name} | {cells} | {'yes' if same == whole else 'no'} |")


if __name__ == "__main__":
    main()
