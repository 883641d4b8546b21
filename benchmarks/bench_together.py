"""Hundreds of networks trained in one program: our rounds against a bare vmapped Adam loop of that size.

    python benchmarks/bench_together.py    # a GPU: 363 networks 256-256, batch 256; a CPU: 4, to see it run

Both train the same networks on the same data, minibatches drawn on the device; ours is the vmapped round of a
study (FTL, FTRL, Alt-FTRL and AdaFTRL of many step sizes in one program), with the round's loss, the books,
proximal penalty terms and guards against numbers that are not finite.
"""

from __future__ import annotations

import argparse
import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import plain_loop
from fastest import fastest

from understudy.learners import adaftrl, alt_ftrl, ftl
from understudy.losses import Squared
from understudy.objectives import batch
from understudy.online import Game, make_game
from understudy.policies import MLP
from understudy.programs import compiled_together
from understudy.solvers import Unsolved

LIMIT = 1.5


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    gpu = jax.default_backend() != "cpu"
    parser.add_argument("--networks", type=int, default=363 if gpu else 4)
    parser.add_argument("--steps", type=int, default=1000 if gpu else 100)
    parser.add_argument("--rows", type=int, default=5000, help="samples held when the round is played")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    count, size, rng = options.networks, 256, np.random.default_rng(0)
    policy = MLP(widths=(256, 256))
    keys = jax.random.split(jax.random.key(0), count)
    params = jax.vmap(lambda key: policy.init(key, 11, 3))(keys)
    inputs = rng.standard_normal((count, options.rows, 11)).astype(np.float32)
    targets = np.tanh(inputs[..., :3] * 2).astype(np.float32)

    loss = jax.vmap(Squared())
    train = plain_loop.adam(policy.apply, loss, size=size, steps=options.steps)
    program = jax.jit(jax.vmap(train, in_axes=(0, 0, 0, 0, None)))
    data = jnp.asarray(inputs), jnp.asarray(targets)
    floor = fastest(lambda: program(params, *data, keys, options.rows), options.repeats)

    etas = 10.0 ** np.linspace(-5, 5, 11)
    learners = [ftl(), *(make(step) for step in etas for make in (_alt, _ada))]
    games = []
    for i in range(count):
        first = jax.tree.map(lambda leaf, i=i: leaf[i], params)
        made = make_game(
            policy, Squared(), learners[i % len(learners)], "adam", first,
            batch_size=size, measure=False, max_iterations=options.steps,
        )  # fmt: skip
        games.append(Game(made.policy, made.loss, made.learner, made.solver, Unsolved()))
    one = batch(inputs[0, :1000], targets[0, :1000], dtype=np.float32)

    def start(params, inputs, targets):
        losses = games[0].empty(params, one, options.rows)
        state = games[0].init(params, losses)
        for first in range(0, options.rows - 1000, 1000):
            rows = slice(first, first + 1000)
            weights = jnp.full(1000, 1e-3, jnp.float32)
            state = state._replace(
                losses=state.losses.add(
                    dataclasses.replace(one, inputs=inputs[rows], targets=targets[rows], weights=weights)
                )
            )
        return state

    state = jax.jit(jax.vmap(start))(params, jnp.asarray(inputs), jnp.asarray(targets))
    stacked = jax.tree.map(lambda leaf: jnp.stack([leaf] * count), one)
    play = compiled_together(games)
    judge = jnp.asarray(False)
    ours = fastest(
        lambda: play(jax.tree.map(jnp.copy, state), stacked, keys, judge)[1]["loss"], options.repeats
    )

    # Network 0 of both is FTL's: the same start, the same samples, other minibatches.
    found = play(jax.tree.map(jnp.copy, state), stacked, keys, judge)[0].learner.params
    ends = []
    for trained in (program(params, *data, keys, options.rows), found):
        one_network = jax.tree.map(lambda leaf: leaf[0], trained)
        ends.append(float(jnp.mean(loss(policy.apply(one_network, inputs[0, :1000]), targets[0, :1000]))))
    assert 0.5 < ends[0] / ends[1] < 2, f"the two end at other losses: {ends}"

    each = 1e6 / (count * options.steps)
    print(
        f"{jax.devices()[0].device_kind}, jax {jax.__version__}: {count} networks, "
        f"{options.steps} steps of {size}"
    )
    print(f"  bare vmapped Adam   {floor:7.3f} s  {floor * each:6.2f} µs a network and step")
    print(f"  a study's round     {ours:7.3f} s  {ours * each:6.2f} µs")
    print(f"  ratio {ours / floor:.2f} (at most {LIMIT})")
    print(f"  FTL's loss at the end {ends[1]:.1e}, bare {ends[0]:.1e}")
    return int(ours / floor > LIMIT)


def _alt(step: float):
    return alt_ftrl(eta=step)


def _ada(step: float):
    import equinox as eqx

    # Networks use the mean centre: residuals of inexact solves do not add up in it.
    return eqx.tree_at(lambda one: one.around_last, adaftrl(alpha=step), np.asarray(False))


if __name__ == "__main__":
    raise SystemExit(main())
