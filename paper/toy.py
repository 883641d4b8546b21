"""The toy figure: six learners on four losses, a fixed expert and one that changes sign in every round."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from understudy import disk
from understudy.losses import Absolute, CrossEntropy, Huber, Loss, Squared
from understudy.objectives import Batch, Unkept
from understudy.online import Game, make_game
from understudy.policies import Linear
from understudy.report.style import look
from understudy.solvers import Descent, Status, Unsolved, auto, newton

from . import toy_stream
from .claims import SLACK, Claim, judge, same, typical
from .claims import compare as compared
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

ROUNDS = 250
LOSSES: dict[str, Loss] = {
    "squared": Squared(),
    # Answers that are right to rounding are on the kink: here the expert can be met exactly.
    "absolute": Absolute(rounding=1e-12),
    "huber": Huber(),
    "logistic": CrossEntropy(),
}
LEARNERS = ("ftl", "ftrl", "alt_ftrl", "adaftrl", "ogd", "adagrad", "adagrad_norm")
PROBLEMS = ("simple", "adversarial")
BESIDE = ("interpolated", "noisy")
"""Beside the paper: the expert in the class and no noise at all, and noise of unit scale."""
FOUND = (Status.CONVERGED, Status.STALLED, Status.NO_MINIMISER)
"""The solves whose value is the least: to the tolerance, to rounding, or an infimum that nothing attains."""
POLICY = Linear()
ZERO = np.zeros((toy_stream.FEATURES, toy_stream.OUTPUTS))

ONLINE = ("ogd", "adagrad", "adagrad_norm")
BEATS = "simple: FTL, FTRL and AdaFTRL beat OGD and AdaGrad (final regret)"
POOR = "adversarial: FTL is worse than every other learner (final regret)"
BETTER = "FTRL and AdaFTRL outperform FTL (average cumulative loss)"
MATCH = "FTRL and AdaFTRL match FTL: at most 5 % above (average cumulative loss)"
FREE = "ours: AdaFTRL untuned (α = 1) matches FTRL tuned (final regret, within 5 %)"
CONSTANT = "FTL's regret stays constant where the class holds the expert and there is no noise"
GROWS = "… and keeps growing where it does not, or there is noise"
ONE = "FTRL, which stores no past iterate, plays as Alt-FTRL does (cumulative loss)"
ORDER = (BEATS, POOR, BETTER, MATCH, FREE, CONSTANT, GROWS, ONE)


def setting(problem: str, loss: str) -> tuple[float, float]:
    """(flip, noise) of a problem. Logistic labels are drawn from softmax(W*ᵀx) unless it says otherwise."""
    noise = {"interpolated": 0.0, "noisy": 1.0}.get(problem, 1.0 if loss == "logistic" else 0.0)
    return (1.0 if problem == "adversarial" else 0.0), noise


def game(loss: str, learner: str, step: float) -> Game:
    """The game of a learner, solved exactly where there is a formula, else to the paper's gradient norm 1e-8.

    While the data of the cross-entropy are separable there is no minimiser, and how far FTL runs off is
    a matter of when one stops. The best in hindsight is not looked for; see `play`.
    """
    exact = auto(POLICY, LOSSES[loss], ZERO.size)
    if isinstance(exact, Descent):
        exact = newton(tolerance=1e-8, max_iterations=2000)
    return make_game(POLICY, LOSSES[loss], make(learner, step), exact, ZERO, comparator_solver=Unsolved())


@functools.lru_cache(maxsize=8)
def run_of(rounds: int) -> Callable[..., dict[str, Array]]:
    """The whole run of so many rounds as one function of key and numbers, for `map_runs`."""

    def run(key: Array, learner: Game, problem: tuple[Array, Array], **_: Any) -> dict[str, Array]:
        game, (flip, noise) = learner, problem
        drawn = toy_stream.problem(key, flip=flip, noise=noise)
        X, Y = toy_stream.stream(drawn, rounds, categorical=game.loss.categorical)
        sizes = jnp.ones(rounds, jnp.int32)
        batches = Batch(X[:, None], Y[:, None], jnp.ones((rounds, 1), X.dtype), sizes)
        params, like = jnp.zeros(ZERO.shape, X.dtype), jax.tree.map(lambda leaf: leaf[0], batches)
        # A linearised learner needs no past losses.
        kept: Any = Unkept() if getattr(game.learner, "linear", False) else game.empty(params, like, rounds)
        unjudged = jnp.asarray(False)
        first = game.init(params, kept)
        record = game.play_all(first, batches, lambda one, _: ((one, key, unjudged), {}))[1]
        names = {"cost": "loss", "cumulative": "cumulative_loss", "objective": "objective"}
        return {name: record[column] for name, column in (names | {"status": "solver_status"}).items()}

    return run


def configs(wanted: Wanted) -> list[Config]:
    """One configuration per step in ``wanted[problem, loss, learner]``."""
    made = []
    for (problem, loss, name), steps in wanted.items():
        for step in steps:
            drawn, learner = {problem: setting(problem, loss)}, {name: game(loss, name, step)}
            made += grid(problem=drawn, loss=[loss], learner=learner, step=[step])
    return made


def play(rounds: int, wanted: list[Config], **options: Any) -> Table:
    """Runs configurations made by `configs`, FTL's among them, and adds comparator and regret.

    States do not depend on the policy, so one comparator serves all learners of a problem, loss and seed: the
    value at the minimiser of all losses so far, which is what FTL finds in every round. Where its
    solver stopped early, comparator and regret of the round are nan.
    """
    table = map_runs(run_of(rounds), wanted, **options)
    rows = list(zip(*(table[name].tolist() for name in ("problem", "loss", "seed")), strict=True))
    found = np.where(np.isin(table["status"], FOUND), table["objective"], np.nan)
    best = {rows[row]: found[row] for row in np.flatnonzero(table["learner"] == "ftl")}
    least = np.stack([best[key] for key in rows])
    with np.errstate(invalid="ignore"):
        return table.with_results(comparator=least, regret=table["cumulative"] - least)


def study(
    *,
    seeds: Seeds = SEEDS,
    tuning: Seeds = TUNING_SEEDS,
    rounds: int = ROUNDS,
    seed: int = 0,
    losses: Sequence[str] = tuple(LOSSES),
    progress: Progress = silent,
) -> Outcome:
    """Both stages: every step size for ten rounds, then the chosen ones, and what is shown beside."""
    every = {(p, l, name): steps_of(name) for l in losses for p in PROBLEMS for name in LEARNERS}
    beside = {(p, l, UNTUNED): (1.0,) for l in losses for p in (*PROBLEMS, *BESIDE)}
    beside |= {(p, l, "ftl"): NO_STEP for l in losses for p in BESIDE}

    def ordered(wanted: Wanted) -> list[Config]:
        order = sorted(wanted, key=lambda one: (losses.index(one[1]), (*PROBLEMS, *BESIDE).index(one[0])))
        return configs({key: wanted[key] for key in order})

    how: Any = {"seeds": seeds, "tuning": tuning, "rounds": rounds, "seed": seed}
    return two_stages("toy", play, ordered, every, beside, **how, progress=progress)


def unsolved(runs: Table) -> dict[str, list[Any]]:
    """How the inner solves ended, counted per loss and learner, for those that did not simply converge."""
    rows = []
    for loss in dict.fromkeys(runs["loss"].tolist()):
        for learner in dict.fromkeys(runs["learner"].tolist()):
            codes = runs.where(loss=loss, learner=learner)["status"].reshape(-1)
            for code, count in zip(*np.unique(codes, return_counts=True), strict=True):
                ended = {"status": Status(int(code)).name.lower(), "rounds": int(count), "of": codes.size}
                rows.append({"loss": loss, "learner": learner, **ended})
    return disk.to_columns(rows)


def compare(
    claim: str,
    setting: str,
    runs: Table,
    column: str,
    pair: tuple[str, str],
    *,
    below: float = np.nan,
    above: float = np.nan,
) -> Claim:
    """Judges the median of the ratios of two learners: single seeds have most of a mean here."""
    measure = "median " + " / ".join(look(name).label for name in pair)
    how: Any = {"measure": measure, "by": typical, "below": below, "above": above}
    return compared(claim, setting, runs, column, pair, **how)


def judged(study: Outcome) -> list[Claim]:
    """Every claim in every setting, in the order of the paper."""
    runs = study.runs
    losses = list(dict.fromkeys(runs["loss"].tolist()))
    found = [one for loss in losses for one in _alone(runs, loss)]
    found += [one for problem in PROBLEMS for loss in losses for one in _both(runs, problem, loss)]
    for claim, problems, wanted in (
        (CONSTANT, ("interpolated",), {"below": 0.01}),
        (GROWS, ("noisy", "adversarial"), {"above": 0.01}),
    ):
        for problem in problems:
            for loss in losses:
                regret = runs.where(problem=problem, loss=loss, learner="ftl")["regret"]
                late = regret[:, -1] - regret[:, regret.shape[1] // 2 - 1]
                share, measure = typical(late, regret[:, -1]), "median share of regret in the second half"
                found.append(judge(claim, f"{problem}, {loss}", measure, share, **wanted))
    return sorted(found, key=lambda one: ORDER.index(one.claim))


def _alone(runs: Table, loss: str) -> Iterator[Claim]:
    """What is said of one of the two problems."""
    simple, adversarial = (runs.where(problem=problem, loss=loss) for problem in PROBLEMS)
    ends = {name: simple.where(learner=name)["regret"][:, -1].mean() for name in ONLINE}
    best = min(ends, key=lambda name: np.nan_to_num(ends[name], nan=np.inf))
    for name in ("ftl", "ftrl", "adaftrl"):
        yield compare(BEATS, f"{loss}, {look(name).label}", simple, "regret", (name, best), below=1.0)
    for name in ("ftrl", "adaftrl", "ogd", "adagrad"):
        yield compare(POOR, f"{loss}, {look(name).label}", adversarial, "regret", ("ftl", name), above=1.0)


def _both(runs: Table, problem: str, loss: str) -> Iterator[Claim]:
    """What is said of both problems."""
    here, where = runs.where(problem=problem, loss=loss), f"{problem}, {loss}"
    for name in ("ftrl", "adaftrl"):
        label = f"{where}, {look(name).label}"
        for claim, below in ((BETTER, 1.0), (MATCH, SLACK)):
            yield compare(claim, label, here, "cumulative", (name, "ftl"), below=below)
    yield compare(FREE, where, here, "regret", (UNTUNED, "ftrl"), below=SLACK)
    last, mean = (here.where(learner=name) for name in ("ftrl", "alt_ftrl"))
    # On the absolute loss both take the centre form, so there is nothing to compare.
    if loss != "absolute" and last["step"][0] == mean["step"][0]:
        yield same(ONE, where, last["cumulative"], mean["cumulative"])
