"""The gridworld figure: an expert that turns round in every round, a softmax policy with a row per cell."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ..envs import gridworld
from ..learners import Learner
from ..mapping import Config, Table, grid, map_runs
from ..objectives import plain
from ..solvers import Descent, InBall, gd
from ..solvers.descent import Steepest
from .counts import Counts, cell_newton, empty_counts
from .tuning import TUNING_ROUNDS, UNTUNED, Chosen, choose, make, steps_of

ROUNDS = 1000
RADIUS = 20.0
"""Of the L2 ball: it holds logits that give "stay" a chance of 1 % in every cell, the labels equal ones."""
JUDGED = 10
"""On the ball the best in hindsight needs a solver, and is found in every tenth round."""
LEARNERS = ("ftl", "ftrl", "alt_ftrl", "adaftrl", "ogd")
FIXED = "ftl_fixed"
VARIANTS = {"own": True, "recorded": False, "ball": True}
"""own: each policy walks by itself, as in the paper. recorded: one recorded stream, from the uniform
policy's walks, is played to all learners. ball: as own, on an L2 ball."""


def solver(name: str) -> Any:
    """How a round is solved.

    gd: Armijo gradient descent, 1000 iterations, 1e-8: what FTL is here, as "stay" is never labelled and no
    minimiser exists.
    fixed: the same with every line search starting at step 1, as the paper describes it. newton: to 1e-10.
    """
    if name == "newton":
        return cell_newton()
    return gd() if name == "gd" else Descent(direction=Steepest(warm_step=False))


@functools.lru_cache(maxsize=8)
def run_of(rounds: int) -> Callable[..., dict[str, Array]]:
    """The whole run of so many rounds as one function of key and numbers, for `map_runs`."""

    def run(key: Array, learner: Learner, solve: str, variant: Array, **_: Any) -> dict[str, Array]:
        dtype = jnp.result_type(float)
        params = jnp.zeros((gridworld.CELLS, len(gridworld.ACTIONS)), dtype)
        ball = learner.radius
        inner = solver(solve) if ball is None else InBall(cell_newton(), ball)

        def judge(counts: Counts, near: Array, t: Array) -> tuple[Array, Array]:
            """The least loss in hindsight, and near which params: a formula, or a solve on the ball."""
            if ball is None:
                return gridworld.least(counts.table), near
            seldom = (t % JUDGED == 0) | (t == rounds)
            best = InBall(cell_newton(), ball)

            def solved(_: None) -> tuple[Array, Array]:
                found = best(plain(counts, near), near, None)  # type: ignore[arg-type]
                return found.value * counts.rounds, found.params

            return jax.lax.cond(seldom, solved, lambda _: (jnp.asarray(jnp.nan, dtype), near), None)

        def play(state: Any, t: Array) -> tuple[Any, dict[str, Array]]:
            learning, counts, near = state
            walk = gridworld.episode(jax.random.fold_in(key, t), learning.params, t, own=variant)
            table = gridworld.tally(walk, dtype=dtype)
            cost, gradient = Counts(table, counts.rounds).value_and_gradient(learning.params)
            counts = counts.add(table)
            new, solution = learner.update(learning, counts, gradient, lambda o, w: inner(o, w, None))  # type: ignore
            comparator, near = judge(counts, near, t)
            reward = jnp.sum(walk.actions == walk.labels).astype(dtype)
            found = {"cost": cost, "reward": reward, "comparator": comparator, "status": solution.status}
            return (new, counts, near), found

        first = (learner.init(params), empty_counts(gridworld.CELLS, len(gridworld.ACTIONS), dtype), params)
        return jax.lax.scan(play, first, jnp.arange(1, rounds + 1))[1]

    return run


def configs(wanted: Mapping[tuple[str, str], tuple[float, ...]]) -> list[Config]:
    """One configuration per step in ``wanted[variant, learner]``."""
    found = []
    for (variant, learner), steps in wanted.items():
        options = {"radius": RADIUS} if variant == "ball" else {}
        name = "ftl" if learner == FIXED else learner
        # A linearised learner solves nothing; it gets a name all the same.
        how = {"ftl": "gd", FIXED: "fixed"}.get(learner, "newton")
        for step in steps:
            found += grid(
                variant={variant: VARIANTS[variant]},
                learner={learner: make(name, step, **options)},
                step=[step],
                solve=["newton" if variant == "ball" else how],
            )
    return found


def play(
    rounds: int,
    wanted: list[Config],
    *,
    seeds: int,
    seed: int,
    method: str = "auto",
    progress: Callable[[int, Any], None] | None = None,
) -> Table:
    """Runs configurations made by `configs`, and adds cumulative loss, reward and regret."""
    table = map_runs(run_of(rounds), wanted, seeds=seeds, seed=seed, method=method, progress=progress)
    cumulative = np.cumsum(table["cost"], axis=1)
    return table.with_results(
        cumulative=cumulative,
        cumulative_reward=np.cumsum(table["reward"], axis=1),
        regret=cumulative - table["comparator"],
    )


@dataclasses.dataclass(frozen=True)
class Study:
    """Everything that the figure and the claims are made of."""

    tuning: Table
    chosen: list[Chosen]
    runs: Table
    rounds: int
    seeds: int


def study(
    *,
    seeds: int = 10,
    rounds: int = ROUNDS,
    seed: int = 0,
    progress: Callable[[str, int], Callable[[int, Any], None] | None] | None = None,
) -> Study:
    """Both stages: every step size for ten rounds, then the chosen ones, and what is shown beside."""
    told = progress or (lambda title, total: None)
    first = configs({(v, name): steps_of(name) for v in VARIANTS for name in LEARNERS})
    bar = told("gridworld, tuning on 10 rounds", len(first) * seeds)
    tuning = play(TUNING_ROUNDS, first, seeds=seeds, seed=seed, progress=bar)
    chosen = choose(tuning, ("variant",), LEARNERS)
    final: dict[tuple[str, str], tuple[float, ...]] = {
        (one.setting[0], one.learner): (one.step,) for one in chosen
    }
    final |= {(variant, UNTUNED): (1.0,) for variant in VARIANTS}
    final["own", FIXED] = steps_of("ftl")
    second = configs(final)
    bar = told(f"gridworld, {rounds} rounds", len(second) * seeds)
    runs = play(rounds, second, seeds=seeds, seed=seed, progress=bar)
    return Study(tuning, chosen, runs, rounds, seeds)
