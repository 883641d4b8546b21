"""What choosing the states to ask about costs: 100 of 1,000 states, beside a bare solve of the same round.

python benchmarks/bench_asking.py

The solve is a compiled loop of Adam (`plain_loop.adam`) on the samples held; choosing by distance is also
written by hand (`plain_loop.farthest`). Both choose the same states, which is asserted.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import plain_loop
from fastest import fastest

from understudy.asking import View, rule
from understudy.losses import Squared
from understudy.policies import MLP


def main() -> None:
    policy, rng = MLP(head="tanh", low=(-1.0,) * 6, high=(1.0,) * 6), np.random.default_rng(0)
    params = policy.init(jax.random.key(0), 17, 6)
    rows, known = (rng.standard_normal((n, 17)).astype(np.float32) for n in (1000, 2000))
    targets = np.tanh(known @ rng.standard_normal((17, 6))).astype(np.float32)
    held = jnp.asarray(known), jnp.asarray(targets)
    solve = jax.jit(plain_loop.adam(policy.apply, jax.vmap(Squared()), size=256, steps=1000, cosine=True))
    whole = fastest(lambda: solve(params, *held, jax.random.key(1), len(known)))
    print("| rule, 100 of 1,000 states, 2,000 labelled | seconds | share of the solve |")
    print("|---|---|---|")
    print(f"| (1,000 steps of Adam, 256-256) | {whole:.3f} | |")
    host = jax.tree.map(np.asarray, params)
    view = View(rows, known, targets, policy, host, Squared(), 100, rng)
    row = "| {} | {:.4f} | {:.1%} |"
    for name in ("random:100", "distance:100", "disagreement:100"):
        made = rule(name)
        took = fastest(lambda made=made: made.choose(dataclasses.replace(view, rng=np.random.default_rng(0))))
        print(row.format(name, took, took / whole))

    def features(x: np.ndarray) -> np.ndarray:
        for layer in host[:-1]:
            x = np.maximum(x @ layer["weight"] + layer["bias"], 0)
        return x

    def plain() -> np.ndarray:
        return plain_loop.farthest(features(rows), features(known), 100)

    chosen = rule("distance:100").choose(view).index
    assert set(np.asarray(chosen).tolist()) == set(plain().tolist())
    took = fastest(plain)
    print(row.format("distance, by hand", took, took / whole))


if __name__ == "__main__":
    main()
