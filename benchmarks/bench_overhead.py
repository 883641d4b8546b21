"""What the library adds to the bare work.

    python benchmarks/bench_overhead.py

1. A linear Hopper run of 25 rounds of 1,000: collecting + solving, against the bare loop of the same number
of steps with the same
   expert asked at every step (what any imitation must do). Compilation is included. Limit: 1.25.
2. The solver on a 256-256 network: a round's 1,000 Adam steps of 256 inside the game, against a bare
compiled loop
   of the same steps. Limit: 1.5.

Both sides run in this process by turns; the best of the repeats counts, as other programs on the machine
only add. Seconds are wall-clock, with this process's CPU seconds beside them.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import optax

import understudy
from understudy import MLP, adam, experts, ftl
from understudy.data import batch
from understudy.losses import Squared
from understudy.making import make_game
from understudy.online import Game
from understudy.programs import compiled
from understudy.solvers import Unsolved


def clocks() -> np.ndarray:
    return np.array([time.perf_counter(), time.process_time()])


def bare_collecting(steps: int) -> np.ndarray:
    """Stepping with the expert's own action: one environment, one question per step."""
    env = gym.make("Hopper-v5")
    expert = experts.resolve(
        None, env_id="Hopper-v5", observation_space=env.observation_space, action_space=env.action_space
    )
    began = clocks()
    observation, _ = env.reset(seed=0)
    for step in range(steps):
        action = expert.label(observation[None])[0]
        observation, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            observation, _ = env.reset(seed=step)
    return clocks() - began


def whole_run(rounds: int, seed: int) -> np.ndarray:
    """Collecting + solving of a linear run, compilation included; its CPU seconds are those of the whole
    call.
    """
    jax.clear_caches()
    began = clocks()
    run = understudy.imitate(
        "Hopper-v5",
        policy="linear",
        rounds=rounds,
        interactions=1000,
        seed=seed,
        episodes=0,
        expert_episodes=0,
        comparator="none",
        beta=1.0,
    )
    used = clocks() - began
    return np.array([run.seconds["collect"] + run.seconds["solve"], used[1]])


def bare_adam(policy: MLP, steps: int):
    optimiser = optax.adam(1e-3)

    def loss(params, x, y):
        return jnp.mean(jnp.sum((policy.apply(params, x) - y) ** 2, axis=1))

    @jax.jit
    def run(params, key, size, inputs, targets):
        def step(carry, key):
            params, memory = carry
            index = jax.random.randint(key, (256,), 0, size)
            value, gradient = jax.value_and_grad(loss)(params, inputs[index], targets[index])
            update, memory = optimiser.update(gradient, memory)
            return (optax.apply_updates(params, update), memory), value

        return jax.lax.scan(step, (params, optimiser.init(params)), jax.random.split(key, steps))[0][0]

    return run


def solving(repeats: int, filled: int) -> dict[str, list[float]]:
    """One round's solve with `filled` samples held, in the game and bare."""
    policy, key, rng = MLP(head="tanh"), jax.random.key(0), np.random.default_rng(0)
    params = policy.init(key, 11, 3)
    X = rng.standard_normal((1000, 11)).astype(np.float32)
    Y = np.tanh(rng.standard_normal((1000, 3))).astype(np.float32)
    solver = adam(batch_size=256, measure=False, decay="cosine")
    game = make_game(policy, Squared(), ftl(), solver, params)
    game = Game(game.policy, game.loss, game.learner, game.solver, Unsolved())
    one, play = batch(X, Y, dtype=np.float32), compiled(game)
    quick = compiled(
        Game(
            game.policy,
            game.loss,
            game.learner,
            adam(batch_size=256, measure=False, max_iterations=1),
            Unsolved(),
        )
    )
    state = game.init(params, game.empty(params, one, 60_000))
    for _ in range(filled // 1000):
        state, _ = quick(state, one, key, jnp.asarray(False))
    bare = bare_adam(policy, 1000)
    inputs, targets = jnp.asarray(np.tile(X, (26, 1))), jnp.asarray(np.tile(Y, (26, 1)))
    found: dict[str, list[np.ndarray]] = {"game": [], "bare": []}
    for turn in range(repeats + 1):
        began = clocks()
        state, record = play(state, one, jax.random.fold_in(key, turn), jnp.asarray(False))
        jax.block_until_ready(record)
        ours = clocks() - began
        began = clocks()
        jax.block_until_ready(bare(params, key, 25_000, inputs, targets))
        theirs = clocks() - began
        if turn:  # the first turn compiles
            found["game"].append(ours)
            found["bare"].append(theirs)
    return {name: np.min(times, axis=0).tolist() for name, times in found.items()}


def tell(what: str, ours: Any, bare: Any, limit: float) -> None:
    print(
        f"{what}: {ours[0]:.2f} s, bare {bare[0]:.2f} s, ratio {ours[0] / bare[0]:.2f} (limit {limit}); "
        f"CPU seconds {ours[1]:.2f} and {bare[1]:.2f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=25)
    options = parser.parse_args()
    bare, ours = [], []
    for turn in range(options.repeats):
        bare.append(bare_collecting(1000 * options.rounds))
        ours.append(whole_run(options.rounds, turn))
    bare, ours = np.min(bare, axis=0), np.min(ours, axis=0)
    tell(f"linear Hopper, {options.rounds} rounds, collecting + solving", ours, bare, 1.25)
    early, late = solving(options.repeats, 1000), solving(options.repeats, 24_000)
    tell("solver, 1,000 samples held", early["game"], early["bare"], 1.5)
    tell("solver, 24,000 samples held", late["game"], late["bare"], 1.5)
    print(
        json.dumps(
            {
                "collect_and_solve_ratio": ours[0] / bare[0],
                "solver_ratio_early": early["game"][0] / early["bare"][0],
                "solver_ratio_late": late["game"][0] / late["bare"][0],
            }
        )
    )


if __name__ == "__main__":
    main()
