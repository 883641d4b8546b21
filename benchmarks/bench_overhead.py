"""What the library adds: a linear Hopper run beside a plain loop, and a network's solve beside bare Adam.

    python benchmarks/bench_overhead.py

1. A linear run on Hopper (FTL, the paper's preset, 25 rounds of 1,000) by `imitate`, compiled, with its
   certificate and without a comparator; the same run as a plain NumPy loop (`plain_loop.hopper`); and MuJoCo
   alone, playing the run's actions again. The losses of plain loop and package agree, which is asserted. The
   very first run, which compiles, is a line of its own.
2. The solver on a 256-256 network: a round's 1,000 Adam steps of 256 inside the game, beside a compiled loop
   of the same steps on the same samples. Their final losses agree, which is asserted.

CPU seconds of this process, least of the repeats, by turns, since other programs on the machine only add;
wall seconds in brackets. BLAS has one thread: of more, those that wait for small products are counted too.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read when NumPy is imported

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import plain_loop

import understudy
from understudy import ftl
from understudy.losses import Squared
from understudy.objectives import batch
from understudy.online import Game, make_game
from understudy.policies import MLP
from understudy.programs import compiled
from understudy.solvers import Unsolved, adam

SEED = 3


def clocks(call: Callable[[], Any]) -> tuple[np.ndarray, Any]:
    """CPU seconds and wall seconds of a call, and what it returned."""
    began = np.array([time.process_time(), time.perf_counter()])
    found = call()
    return np.array([time.process_time(), time.perf_counter()]) - began, found


def ours(rounds: int, **settings: Any) -> Any:
    return understudy.imitate(
        "Hopper-v5",
        learner="ftl",
        policy="linear",
        preset="paper",
        rounds=rounds,
        steps_per_round=1000,
        seed=SEED,
        episodes=0,
        expert_episodes=0,
        **settings,
    )


def running(rounds: int, repeats: int) -> dict[str, np.ndarray]:
    away = plain_loop.same_as_a_run("ftl", 1.0, SEED)
    jax.clear_caches()
    first, run = clocks(lambda: ours(rounds))
    actions, ends = run.samples("executed"), run.samples("flags") & 3 > 0

    def plain() -> list[float]:
        learner = plain_loop.Learner("ftl", 1.0, 11, 3)
        return plain_loop.hopper(learner, rounds, 1000, plain_loop.noisy(SEED, 1000))

    calls = {
        "imitate": lambda: ours(rounds),
        "imitate, comparator none": lambda: ours(rounds, comparator="none"),
        "plain loop": plain,
        "physics alone": lambda: plain_loop.physics(actions, ends, plain_loop.of_a_run(SEED, 1, 0)[1]),
    }
    calls["imitate, comparator none"]()  # compiles
    found = {"imitate, the first run": first}
    laps = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            laps[name].append(clocks(call)[0])
    found |= {name: np.min(times, axis=0) for name, times in laps.items()}
    print(f"linear Hopper, {rounds} rounds of 1,000; losses of the first rounds agree to {away:.0e}")
    print("| | CPU s (wall) | over the plain loop | over physics |\n|---|---|---|---|")
    for name, took in found.items():
        over = " | ".join(f"{took[0] / found[one][0]:.2f}" for one in ("plain loop", "physics alone"))
        print(f"| {name} | {took[0]:.2f} ({took[1]:.2f}) | {over} |", flush=True)
    return found


def solving(repeats: int, filled: int) -> float:
    """One round's solve with `filled` samples held, in the game over bare, in CPU seconds."""
    policy, key, rng = MLP(head="tanh"), jax.random.key(0), np.random.default_rng(0)
    params = policy.init(key, 11, 3)
    X = rng.standard_normal((1000, 11)).astype(np.float32)
    Y = np.tanh(X @ rng.standard_normal((11, 3))).astype(np.float32)
    steps = {"batch_size": 256, "measure": False}
    made = make_game(policy, Squared(), ftl(), adam(**steps, decay="cosine"), params)
    game = Game(made.policy, made.loss, made.learner, made.solver, Unsolved())
    one, play = batch(X, Y, dtype=np.float32), compiled(game)
    fill = compiled(Game(made.policy, made.loss, made.learner, adam(**steps, max_iterations=1), Unsolved()))
    state = game.init(params, game.empty(params, one, 60_000))
    for _ in range(filled // 1000 - 1):
        state, _ = fill(state, one, key, jnp.asarray(False))
    state = state._replace(learner=state.learner._replace(params=params))
    loss = Squared()
    train = jax.jit(plain_loop.adam(policy.apply, jax.vmap(loss), size=256, steps=1000, cosine=True))
    inputs, targets = (jnp.asarray(np.tile(one, (filled // 1000, 1))) for one in (X, Y))

    def round_(seed: Any) -> Any:
        mine = jax.tree.map(jnp.copy, state)
        return jax.block_until_ready(play(mine, one, seed, jnp.asarray(False)))[0].learner.params

    def bare(seed: Any) -> Any:
        return jax.block_until_ready(train(params, inputs, targets, seed, filled))

    found: dict[str, list[np.ndarray]] = {"game": [], "bare": []}
    ends: dict[str, list[float]] = {"game": [], "bare": []}
    for turn in range(repeats + 1):
        for name, call in (("game", round_), ("bare", bare)):
            took, w = clocks(lambda call=call, turn=turn: call(jax.random.key(turn)))
            ends[name].append(float(jnp.mean(jax.vmap(loss)(policy.apply(w, X), Y))))
            if turn:  # the first turn compiles
                found[name].append(took)
    least = {name: np.min(times, axis=0) for name, times in found.items()}
    left = {name: float(np.median(losses)) for name, losses in ends.items()}
    assert 0.5 < left["game"] / left["bare"] < 2, f"the solves end at different losses: {left}"
    ratio = least["game"][0] / least["bare"][0]
    print(
        f"solver, {filled:,} samples held: CPU s {least['game'][0]:.2f} ({least['game'][1]:.2f}), bare "
        f"{least['bare'][0]:.2f} ({least['bare'][1]:.2f}), ratio {ratio:.2f}; median final losses "
        f"{left['game']:.2e} and {left['bare']:.2e}",
        flush=True,
    )
    return ratio


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=25)
    options = parser.parse_args()
    found = running(options.rounds, options.repeats)
    solver = {held: solving(options.repeats, held) for held in (1000, 24_000)}
    over = {name: took[0] / found["plain loop"][0] for name, took in found.items()}
    print(json.dumps({"over_plain_loop": over, "solver_over_bare": solver}))


if __name__ == "__main__":
    main()
