"""The gridworld figure: an expert that turns round in every round, a softmax policy with a row per cell."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from understudy.losses import CrossEntropy
from understudy.objectives import empty_counts
from understudy.online import Game, make_game
from understudy.policies import Tabular
from understudy.report.style import look
from understudy.solvers import Descent, Frequencies, cell_newton, gd
from understudy.solvers.base import Steepest

from . import gridworld_env
from .claims import SLACK, Claim, compare, judge, ratio, same
from .mapping import Config, Table, grid, map_runs
from .protocol import (
    NO_STEP,
    SEEDS,
    TUNING_SEEDS,
    UNTUNED,
    Outcome,
    Progress,
    Seeds,
    Wanted,
    make,
    silent,
    steps_of,
    two_stages,
)

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
POLICY, LOSS = Tabular(states=gridworld_env.CELLS), CrossEntropy()
ZERO = np.zeros((gridworld_env.CELLS, len(gridworld_env.ACTIONS)))

MARKS = (100, 1000)
LARGER = {"FTL has larger regret than OGD and FTRL": 1.0, "… substantially larger: more than twice": 2.0}
REWARD = "OGD and FTRL also earn more reward than FTL"
FREE = "ours: AdaFTRL untuned (α = 1) matches FTRL tuned (regret, within 5 %)"
SOLVER = "ours: FTL solved less far (line searches that start at step 1) has less regret"
ONE = "FTRL, which stores no past iterate, plays as Alt-FTRL does (cumulative loss)"


def game(variant: str, learner: str, step: float) -> Game:
    """The game of a learner on label counts, exact but for FTL.

    FTL is solved as in the paper, by Armijo gradient descent, 1000 iterations or 1e-8, which is what it is
    here: "stay" is never labelled, so there is no minimiser. In `FIXED` every line search starts at step 1,
    as the paper describes it. On the ball there is one, and FTL is solved exactly too.
    """
    ball = variant == "ball"
    made = make("ftl" if learner == FIXED else learner, step, **({"radius": RADIUS} if ball else {}))
    solver: Any = cell_newton()
    if not ball and learner in ("ftl", FIXED):
        solver = gd() if learner == "ftl" else Descent(direction=Steepest(warm_step=False))
    best = cell_newton() if ball else Frequencies()
    return make_game(POLICY, LOSS, made, solver, ZERO, comparator_solver=best)


@functools.lru_cache(maxsize=8)
def run_of(rounds: int) -> Callable[..., dict[str, Array]]:
    """The whole run of so many rounds as one function of key and numbers, for `map_runs`."""

    def run(key: Array, learner: Game, variant: Array, **_: Any) -> dict[str, Array]:
        params = jnp.asarray(ZERO, jnp.result_type(float))

        def draw(t: Array, params: Array) -> tuple[Any, dict[str, Array]]:
            walk = gridworld_env.episode(jax.random.fold_in(key, t), params, t, own=variant)
            seldom = getattr(learner.learner, "radius", None) is not None
            judge = (t % JUDGED == 0) | (t == rounds) if seldom else jnp.asarray(True)
            reward = jnp.sum(walk.actions == walk.labels).astype(params.dtype)
            return (gridworld_env.labelled(walk), key, judge), {"reward": reward}

        first = learner.init(params, empty_counts(POLICY, LOSS, params))
        record = learner.play_all(first, jnp.arange(1, rounds + 1), draw)[1]
        names = {"cost": "loss", "reward": "reward", "comparator": "comparator", "regret": "regret"}
        return {name: record[column] for name, column in (names | {"cumulative": "cumulative_loss"}).items()}

    return run


def configs(wanted: Wanted) -> list[Config]:
    """One configuration per step in ``wanted[variant, learner]``."""
    made = []
    for (variant, name), steps in wanted.items():
        for step in steps:
            learner = {name: game(variant, name, step)}
            made += grid(variant={variant: VARIANTS[variant]}, learner=learner, step=[step])
    return made


def play(rounds: int, wanted: list[Config], **options: Any) -> Table:
    """Runs configurations made by `configs`, and adds the cumulative reward."""
    table = map_runs(run_of(rounds), wanted, **options)
    return table.with_results(cumulative_reward=np.cumsum(table["reward"], axis=1))


def study(
    *,
    seeds: Seeds = SEEDS,
    tuning: Seeds = TUNING_SEEDS,
    rounds: int = ROUNDS,
    seed: int = 0,
    progress: Progress = silent,
) -> Outcome:
    """Both stages: every step size for ten rounds, then the chosen ones, and what is shown beside."""
    every = {(variant, name): steps_of(name) for variant in VARIANTS for name in LEARNERS}
    beside = {(variant, UNTUNED): (1.0,) for variant in VARIANTS} | {("own", FIXED): NO_STEP}
    how: Any = {"seeds": seeds, "tuning": tuning, "rounds": rounds, "seed": seed}
    return two_stages("gridworld", play, configs, every, beside, **how, progress=progress)


def judged(study: Outcome) -> list[Claim]:
    """Every claim in every setting."""
    marks = [mark for mark in MARKS if mark <= study.rounds]
    half = study.rounds // 2 // 10 * 10  # a round that is judged on the ball, too
    found = [one for variant in VARIANTS for mark in marks for one in _at(study.runs, variant, mark)]
    # R(T)/R(T/2) is 2 for linear regret and 1.41 for √T.
    measure = f"R({study.rounds})/R({half})"
    linear = f"FTL's regret is still linear at the end ({measure} above 1.8; 2 is linear, 1.41 is √T)"
    for variant in VARIANTS if half else ():
        regret = study.runs.where(variant=variant, learner="ftl")["regret"]
        grown = ratio(regret[:, -1], regret[:, half - 1])
        found.append(judge(linear, variant, measure.replace("/", " / "), grown, above=1.8))
    last, mean = (study.runs.where(variant="recorded", learner=name) for name in ("ftrl", "alt_ftrl"))
    if last["step"][0] == mean["step"][0]:
        found.append(same(ONE, "recorded", last["cumulative"], mean["cumulative"]))
    order = (*LARGER, REWARD, linear, FREE, SOLVER, ONE)
    return sorted(found, key=lambda one: order.index(one.claim))


def _at(runs: Table, variant: str, mark: int) -> Iterator[Claim]:
    """The claims about one round of one variant."""
    here, where, at = runs.where(variant=variant), f"{variant}, round {mark}", mark - 1
    for name in ("ogd", "ftrl"):
        label = f"{where}, {look(name).label}"
        for claim, least in LARGER.items():
            yield compare(claim, label, here, "regret", ("ftl", name), at=at, above=least)
        yield compare(REWARD, label, here, "cumulative_reward", (name, "ftl"), at=at, above=1.0)
    pair, measure = (UNTUNED, "ftrl"), "AdaFTRL α=1 / FTRL"
    yield compare(FREE, where, here, "regret", pair, at=at, measure=measure, below=SLACK)
    if variant == "own":
        yield compare(SOLVER, where, here, "regret", (FIXED, "ftl"), at=at, below=1.0)
