"""The toy figure: six learners on four losses, a fixed expert and one that changes sign in every round."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ..data import Batch
from ..envs import toy
from ..learners import Learner
from ..losses import Absolute, CrossEntropy, Huber, Loss, Squared
from ..mapping import Config, Table, grid, map_runs
from ..objectives import empty_samples, empty_statistics
from ..policies import Linear
from ..solvers import Status, closed_form, interior_point, newton
from .tuning import TUNING_ROUNDS, UNTUNED, Chosen, choose, make, steps_of

ROUNDS = 250
LOSSES: dict[str, Loss] = {
    "squared": Squared(),
    "absolute": Absolute(),
    "huber": Huber(),
    "logistic": CrossEntropy(),
}
LEARNERS = ("ftl", "ftrl", "alt_ftrl", "adaftrl", "ogd", "adagrad", "adagrad_norm")
PROBLEMS = ("simple", "adversarial")
BESIDE = ("interpolated", "noisy")
"""Beside the paper: the expert in the class and no noise at all, and noise of unit scale."""
CHUNK = 64


def setting(problem: str, loss: str) -> tuple[float, float]:
    """(flip, noise) of a problem. Logistic labels are drawn from softmax(W*ᵀx) unless it says otherwise."""
    noise = {"interpolated": 0.0, "noisy": 1.0}.get(problem, 1.0 if loss == "logistic" else 0.0)
    return (1.0 if problem == "adversarial" else 0.0), noise


def solver(loss: Loss) -> Any:
    """What solves a round: exact where there is a formula, else to the gradient norm 1e-8 of the paper.

    While the data of the cross-entropy are separable there is no minimiser, and how far FTL runs off is
    a matter of when one stops.
    """
    if isinstance(loss, Squared):
        return closed_form()
    if isinstance(loss, Absolute):
        return interior_point()
    return newton(tolerance=1e-8)


@functools.lru_cache(maxsize=8)
def run_of(rounds: int) -> Callable[..., dict[str, Array]]:
    """The whole run of so many rounds as one function of key and numbers, for `map_runs`."""

    def run(
        key: Array, loss: Loss, learner: Learner, problem: tuple[Array, Array], **_: Any
    ) -> dict[str, Array]:
        flip, noise = problem
        inputs, targets = toy.stream(
            toy.problem(key, flip=flip, noise=noise), rounds, categorical=loss.categorical
        )
        policy, solve = Linear(), solver(loss)
        params = jnp.zeros((toy.FEATURES, toy.OUTPUTS), inputs.dtype)
        one = jnp.ones((1,), inputs.dtype)

        def batch(x: Array, y: Array) -> Batch:
            return Batch(x[None], y[None], one, jnp.asarray(1, jnp.int32))

        losses: Any = None  # a linearised learner keeps none
        if not learner.linear and isinstance(loss, Squared):
            losses = empty_statistics(policy, loss, params)
        elif not learner.linear:
            losses = empty_samples(policy, loss, batch(inputs[0], targets[0]), capacity=rounds, chunk=CHUNK)

        def play(state: Any, round: tuple[Array, Array]) -> tuple[Any, dict[str, Array]]:
            (learning, losses), (x, y) = state, round
            cost, gradient = jax.value_and_grad(lambda w: loss(x @ w, y))(learning.params)
            if isinstance(loss, Absolute):
                # An answer that is right to rounding is on the kink, where 0 is a subgradient. The sign of
                # the rounding, ±1, would enter AdaFTRL's schedule, and differ between methods of mapping.
                off = jnp.abs(x @ learning.params - y) > 1e-12 * (1 + jnp.abs(y))
                gradient = jnp.where(off, gradient, 0.0)
            kept: Any = None if losses is None else losses.add(batch(x, y))
            new, solution = learner.update(learning, kept, gradient, lambda o, w: solve(o, w, None))
            seen = 0 if kept is None else kept.rounds
            return (new, kept), {"cost": cost, "value": solution.value * seen, "status": solution.status}

        return jax.lax.scan(play, (learner.init(params), losses), (inputs, targets))[1]

    return run


def configs(
    losses: Sequence[str], problems: Sequence[str], learners: Mapping[tuple[str, str, str], Sequence[float]]
) -> list[Config]:
    """One configuration per step in ``learners[problem, loss, learner]``."""
    found = []
    for loss in losses:
        for problem in problems:
            for (where, which, learner), steps in learners.items():
                for step in steps if (where, which) == (problem, loss) else ():
                    made = make(learner, step)
                    if isinstance(LOSSES[loss], Absolute) and not made.linear:
                        # The reformulation needs optimal subgradients of past rounds, which sign(·) is not.
                        made = dataclasses.replace(made, around_last=np.asarray(False))
                    found += grid(
                        problem={problem: setting(problem, loss)},
                        loss={loss: LOSSES[loss]},
                        learner={learner: made},
                        step=[step],
                    )
    return found


def with_regret(table: Table) -> Table:
    """Adds cumulative loss, comparator and regret.

    The stream does not depend on the policy, so the best in hindsight is found once for each loss, problem
    and seed: it is where FTL ends up in every round, and its value there is the comparator of all learners.
    """
    names = ("problem", "loss", "seed")
    best: dict[Any, np.ndarray] = {}
    rows = list(zip(*(table[name].tolist() for name in names), strict=True))
    for row, learner in enumerate(table["learner"].tolist()):
        if learner == "ftl":
            best[rows[row]] = table["value"][row]
    least = np.stack([best[key] for key in rows])
    cumulative = np.cumsum(table["cost"], axis=1)
    with np.errstate(invalid="ignore"):
        return table.with_results(cumulative=cumulative, comparator=least, regret=cumulative - least)


def play(
    rounds: int,
    wanted: list[Config],
    *,
    seeds: int,
    seed: int,
    method: str = "auto",
    progress: Callable[[int, Any], None] | None = None,
) -> Table:
    """Runs configurations made by `configs`, and adds the regret."""
    return with_regret(
        map_runs(run_of(rounds), wanted, seeds=seeds, seed=seed, method=method, progress=progress)
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
    seeds: int = 20,
    rounds: int = ROUNDS,
    seed: int = 0,
    losses: Sequence[str] = tuple(LOSSES),
    progress: Callable[[str, int], Callable[[int, Any], None] | None] | None = None,
) -> Study:
    """Both stages: every step size for ten rounds, then the chosen ones, and what is shown beside, for all
    rounds.

    `progress(title, total)` is asked for a callback before each stage.
    """
    told = progress or (lambda title, total: None)
    every = {(p, l, name): steps_of(name) for p in PROBLEMS for l in losses for name in LEARNERS}
    first = configs(losses, PROBLEMS, every)
    bar = told("toy, tuning on 10 rounds", len(first) * seeds)
    tuning = play(TUNING_ROUNDS, first, seeds=seeds, seed=seed, progress=bar)
    chosen = choose(tuning, ("problem", "loss"), LEARNERS)
    final: dict[tuple[str, str, str], Sequence[float]] = {
        (*one.setting, one.learner): (one.step,)
        for one in chosen  # type: ignore[dict-item]
    }
    for loss in losses:
        for problem in (*PROBLEMS, *BESIDE):
            final[problem, loss, UNTUNED] = (1.0,)
        for problem in BESIDE:
            final[problem, loss, "ftl"] = steps_of("ftl")
    second = configs(losses, (*PROBLEMS, *BESIDE), final)
    bar = told(f"toy, {rounds} rounds", len(second) * seeds)
    runs = play(rounds, second, seeds=seeds, seed=seed, progress=bar)
    return Study(tuning, chosen, runs, rounds, seeds)


def unsolved(runs: Table) -> dict[str, np.ndarray]:
    """How the inner solves ended, counted per loss and learner, for those that did not simply converge."""
    rows = []
    for loss in dict.fromkeys(runs["loss"].tolist()):
        for learner in dict.fromkeys(runs["learner"].tolist()):
            codes = runs.where(loss=loss, learner=learner)["status"].reshape(-1)
            for code, count in zip(*np.unique(codes, return_counts=True), strict=True):
                rows.append((loss, learner, Status(int(code)).name.lower(), int(count), codes.size))
    names = ("loss", "learner", "status", "rounds", "of")
    return {name: np.asarray(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}
