"""The conformance suite of solvers: what every one of them must do."""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownLambdaType=false
# pyright: reportUnknownVariableType=false, reportMissingTypeStubs=false
# JAX and optax say little of the types of their trees.

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from ..errors import UserError
from ..losses import Absolute, BinaryCrossEntropy, CrossEntropy, Huber, Loss, Squared
from ..objectives import Batch, Objective, Samples, batch, empty_samples, empty_statistics
from ..policies import Linear, Params
from ..solvers import SOLVERS, AnySolver, ClosedForm, Solution, Status, auto, newton
from .base import Check, Progress, Report, equal, name_of, run_checks

SAMPLES, FEATURES, OUTPUTS = 40, 4, 3
LOSSES: dict[str, Loss] = {
    "squared": Squared(),
    "absolute": Absolute(),
    "huber": Huber(),
    "cross-entropy": CrossEntropy(),
    "binary-cross-entropy": BinaryCrossEntropy(),
}


def solver(subject: str | AnySolver, *, progress: Progress | None = None) -> Report:
    """Puts a solver (an object or a registered name) through its suite; raises `CheckError` if it fails.

    A solver is called with ``(objective, params, key)`` under jit and returns a `Solution`. It may refuse a
    problem that it is not made for with a `UserError`; it must serve at least one.

    >>> import understudy
    >>> understudy.checks.solver("closed-form").passed
    True
    """
    compiled = Subject(SOLVERS.resolve(subject))
    with jax.enable_x64(True):
        checks = {f"minimises ({loss})": _minimises(loss) for loss in LOSSES}
        return run_checks(f"solver {name_of(subject)}", compiled, checks | CHECKS, progress)


class Subject:
    """A solver with one compiled form of itself, so that checks on the same problem share a program."""

    def __init__(self, solver: AnySolver):
        self.solver = solver
        self.minibatch: bool = getattr(solver, "minibatch", False)
        self.measure: bool = getattr(solver, "measure", True)
        self._compiled = jax.jit(lambda objective, params, key: solver(objective, params, key))

    def __call__(self, objective: Objective, params: Params, seed: int = 0) -> Solution:
        return self._compiled(objective, params, jax.random.key(seed))


# Operation by operation each would be a program of its own, and compiled.


@jax.jit
def _with_round(losses: Samples, round: Batch) -> Samples:
    return losses.add(round)


@jax.jit
def _value(objective: Objective, params: Params) -> Array:
    return objective.value(params)


@jax.jit
def _norm(objective: Objective, params: Params) -> Array:
    return optax.tree.norm(objective.gradient(params))


def _objective(subject: Subject, loss: Loss, *, broken: bool = False) -> Objective:
    """A problem with one minimiser, in the form the solver reads. Full-batch solvers get noise, a tilt and a
    weight, minibatch solvers one W that fits every sample: what they are promised to solve.
    """
    rng = np.random.default_rng(0)
    sampled = subject.minibatch
    noise, weight = (0.0, 0.0) if sampled else (1.0, 0.5)
    inputs = rng.normal(size=(SAMPLES, FEATURES))
    logits = inputs @ rng.normal(size=(FEATURES, OUTPUTS)) + noise * rng.normal(size=(SAMPLES, OUTPUTS))
    if broken:
        inputs[0, 0] = np.nan
    targets = logits
    if loss.logits:
        odds = np.exp(logits)
        targets = odds / (odds.sum(axis=1, keepdims=True) if loss.categorical else 1 + odds)
    round = batch(inputs, targets)
    params = jnp.zeros((FEATURES, OUTPUTS))
    if isinstance(loss, Squared) and not sampled:
        empty = empty_statistics(Linear(), loss, params)
    else:
        empty = empty_samples(Linear(), loss, round, capacity=SAMPLES)
    tilt = 0.1 * weight * jnp.asarray(rng.normal(size=params.shape))
    return Objective(_with_round(empty, round), params + 0.1, tilt, jnp.asarray(weight))


def _served(subject: Subject) -> tuple[Objective, Params, Solution]:
    """The first problem that the solver takes."""
    for loss in LOSSES.values():
        objective = _objective(subject, loss)
        try:
            return objective, objective.centre, subject(objective, objective.centre)
        except UserError:
            continue
    raise AssertionError("it serves none of " + ", ".join(LOSSES))


def _reference(objective: Objective) -> AnySolver:
    losses = objective.losses
    exact = auto(losses.policy, losses.loss, FEATURES * OUTPUTS)
    return newton() if isinstance(exact, ClosedForm) and isinstance(losses, Samples) else exact


def _minimises(loss: str) -> Check[Subject]:
    def check(subject: Subject) -> tuple[bool, str]:
        objective = _objective(subject, LOSSES[loss])
        start = objective.centre
        solution = subject(objective, start)
        least = float(jax.jit(_reference(objective))(objective, start).value)
        first, last = float(_value(objective, start)), float(_value(objective, solution.params))
        left = (last - least) / (first - least)
        status = Status(int(solution.status))
        # A solver that claims convergence must be there; any other must be half way there.
        most = 1e-6 if status == Status.CONVERGED else 0.5
        return left <= most, f"{status.name.lower()}, {left:.1e} of the gap left"

    return check


def _tells_the_gradient(subject: Subject) -> tuple[bool, str]:
    objective, _, solution = _served(subject)
    if float(solution.gap) > 0 or (subject.minibatch and not subject.measure):
        return True, "a subgradient or an estimate: not compared"
    true = float(_norm(objective, solution.params))
    said = float(solution.grad_norm)
    return abs(said - true) <= 1e-9 + 1e-6 * true, f"reported {said:.3e}, recomputed {true:.3e}"


def _admits_failure(subject: Subject) -> tuple[bool, str]:
    """With NaN among the data no solver may say that it converged."""
    for loss in LOSSES.values():
        objective = _objective(subject, loss, broken=True)
        try:
            status = Status(int(subject(objective, objective.centre).status))
        except UserError:
            continue
        if status == Status.CONVERGED:
            return False, "says converged on data with a NaN"
    return True, "never says converged on data with a NaN"


def _repeats_itself(subject: Subject) -> tuple[bool, str]:
    objective, start, first = _served(subject)
    second = subject(objective, start)
    same = equal(first, second)
    return same, "same key, same bits" if same else "two runs with the same key differ"


def _can_be_mapped(subject: Subject) -> tuple[bool, str]:
    """Under vmap every lane is what it is alone, to what a line search makes of rounding."""
    objective, start, _ = _served(subject)
    scales = jnp.array([0.5, 1.0, 4.0])

    def solve(scale: Array) -> Params:
        weight = objective.weight * scale + scale
        heavier = Objective(objective.losses, objective.centre, objective.tilt, weight)
        return subject.solver(heavier, start, jax.random.key(0)).params

    together = jax.jit(jax.vmap(solve))(scales)
    single = jax.jit(solve)
    alone = jnp.stack([single(scale) for scale in scales])
    apart = float(jnp.max(jnp.abs(together - alone)))
    return apart <= 1e-6, f"lanes differ from single solves by {apart:.1e}"


CHECKS: dict[str, Check[Subject]] = {
    "tells the gradient it left": _tells_the_gradient,
    "admits failure": _admits_failure,
    "repeats itself": _repeats_itself,
    "can be mapped": _can_be_mapped,
}
