"""What choosing the states to ask about costs: 100 of 1,000 states, beside the solve of the same round.

python benchmarks/bench_asking.py
"""

from __future__ import annotations

import dataclasses

import jax
import numpy as np
from fastest import fastest

from understudy import MLP, Squared, adam
from understudy.asking import View, rule
from understudy.data import batch
from understudy.objectives import empty_samples, plain


def main() -> None:
    policy, rng = MLP(head="tanh", low=(-1.0,) * 6, high=(1.0,) * 6), np.random.default_rng(0)
    params = policy.init(jax.random.key(0), 17, 6)
    rows, known = (rng.standard_normal((n, 17)).astype(np.float32) for n in (1000, 2000))
    targets = np.tanh(known @ rng.standard_normal((17, 6))).astype(np.float32)
    one = batch(known, targets)
    losses = empty_samples(policy, Squared(), one, capacity=len(known)).add(one)
    solver = adam(batch_size=256, max_iterations=1000, measure=False, decay="cosine")
    solve = jax.jit(lambda start, key: solver(plain(losses, start), start, key).params)
    whole = fastest(lambda: solve(params, jax.random.key(1)))
    print("| rule, 100 of 1,000 states, 2,000 labelled | seconds | share of the solve |")
    print("|---|---|---|")
    print(f"| (1,000 steps of Adam, 256-256) | {whole:.3f} | |")
    host = jax.tree.map(np.asarray, params)
    view = View(rows, known, targets, policy, host, Squared(), 100, rng)
    for name in ("random:100", "distance:100", "disagreement:100"):
        made = rule(name)
        took = fastest(lambda made=made: made.choose(dataclasses.replace(view, rng=np.random.default_rng(0))))
        print(f"| {name} | {took:.4f} | {took / whole:.1%} |")


if __name__ == "__main__":
    main()
