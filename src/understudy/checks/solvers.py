"""The conformance suite of solvers: what every one of them must do."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from ..errors import UserError
from ..losses import Absolute, BinaryCrossEntropy, CrossEntropy, Huber, Loss, Squared
from ..objectives import Objective, Samples, batch, empty_samples, empty_statistics
from ..policies import Linear
from ..solvers import SOLVERS, ClosedForm, Solution, Status, auto, newton
from .base import Progress, Report, equal, name_of, run

SAMPLES, FEATURES, OUTPUTS = 40, 4, 3
LOSSES: dict[str, Loss] = {
    "squared": Squared(),
    "absolute": Absolute(),
    "huber": Huber(),
    "cross-entropy": CrossEntropy(),
    "binary-cross-entropy": BinaryCrossEntropy(),
}


def solver(subject: Any, *, progress: Progress | None = None) -> Report:
    """Puts a solver (an object or a registered name) through its suite; raises `CheckError` if it fails.

    A solver is called with ``(objective, params, key)`` under jit and returns a `Solution`. It may refuse a
    problem that it is not made for with a `UserError`; it must serve at least one.

    >>> import understudy
    >>> understudy.checks.solver("closed-form").passed
    True
    """
    thing = SOLVERS.resolve(subject)
    with jax.enable_x64(True):
        checks = {f"minimises ({loss})": _minimises(loss) for loss in LOSSES}
        return run(f"solver {name_of(subject)}", Subject(thing), checks | CHECKS, progress)


class Subject:
    """A solver with one compiled form of itself, so that checks on the same problem share a program."""

    def __init__(self, thing: Any):
        self.thing = thing
        self.minibatch = getattr(thing, "minibatch", False)
        self.measure = getattr(thing, "measure", True)
        self._compiled = jax.jit(lambda objective, params, key: thing(objective, params, key))

    def __call__(self, objective: Objective, params: Any, seed: int = 0) -> Solution:
        return self._compiled(objective, params, jax.random.key(seed))


# Operation by operation each would be a program of its own, and compiled.
_added = jax.jit(lambda losses, one: losses.add(one))
_value = jax.jit(lambda objective, params: objective.value(params))
_norm = jax.jit(lambda objective, params: optax.tree.norm(objective.gradient(params)))


def _objective(thing: Subject, loss: Loss, *, broken: bool = False) -> Objective:
    """A problem with one minimiser, in the form the solver reads.

    Full-batch solvers get noise, a tilt and a weight. Minibatch solvers get a problem that one W fits sample
    by sample: with a constant step, or a line search, that is what they are promised to solve.
    """
    rng = np.random.default_rng(0)
    sampled = thing.minibatch
    noise, weight = (0.0, 0.0) if sampled else (1.0, 0.5)
    X = rng.normal(size=(SAMPLES, FEATURES))
    Y = X @ rng.normal(size=(FEATURES, OUTPUTS)) + noise * rng.normal(size=(SAMPLES, OUTPUTS))
    if broken:
        X[0, 0] = np.nan
    if loss.logits:
        Y = np.exp(Y) / (np.exp(Y).sum(axis=1, keepdims=True) if loss.categorical else 1 + np.exp(Y))
    one = batch(X, Y)
    params = jnp.zeros((FEATURES, OUTPUTS))
    if isinstance(loss, Squared) and not sampled:
        empty = empty_statistics(Linear(), loss, params)
    else:
        empty = empty_samples(Linear(), loss, one, capacity=SAMPLES)
    tilt = 0.1 * weight * jnp.asarray(rng.normal(size=params.shape))
    return Objective(_added(empty, one), params + 0.1, tilt, jnp.asarray(weight))


def _served(thing: Subject) -> tuple[Objective, Any, Solution]:
    """The first problem that the solver takes."""
    for loss in LOSSES.values():
        objective = _objective(thing, loss)
        try:
            return objective, objective.centre, thing(objective, objective.centre)
        except UserError:
            continue
    raise AssertionError("it serves none of " + ", ".join(LOSSES))


def _reference(objective: Objective) -> Any:
    losses = objective.losses
    exact = auto(losses.policy, losses.loss, FEATURES * OUTPUTS)
    return newton() if isinstance(exact, ClosedForm) and isinstance(losses, Samples) else exact


def _minimises(loss: str) -> Any:
    def check(thing: Subject) -> tuple[bool, str]:
        objective = _objective(thing, LOSSES[loss])
        start = objective.centre
        found = thing(objective, start)
        least = float(jax.jit(_reference(objective))(objective, start).value)
        first, last = float(_value(objective, start)), float(_value(objective, found.params))
        left = (last - least) / (first - least)
        status = Status(int(found.status))
        # A solver that claims convergence must be there; any other must be half way there.
        most = 1e-6 if status == Status.CONVERGED else 0.5
        return left <= most, f"{status.name.lower()}, {left:.1e} of the gap left"

    return check


def _tells_the_gradient(thing: Subject) -> tuple[bool, str]:
    objective, _, found = _served(thing)
    if float(found.gap) > 0 or (thing.minibatch and not thing.measure):
        return True, "a subgradient or an estimate: not compared"
    true = float(_norm(objective, found.params))
    said = float(found.grad_norm)
    return abs(said - true) <= 1e-9 + 1e-6 * true, f"reported {said:.3e}, recomputed {true:.3e}"


def _admits_failure(thing: Subject) -> tuple[bool, str]:
    """With NaN among the data no solver may say that it converged."""
    for loss in LOSSES.values():
        objective = _objective(thing, loss, broken=True)
        try:
            status = Status(int(thing(objective, objective.centre).status))
        except UserError:
            continue
        if status == Status.CONVERGED:
            return False, "says converged on data with a NaN"
    return True, "never says converged on data with a NaN"


def _repeats_itself(thing: Subject) -> tuple[bool, str]:
    objective, start, first = _served(thing)
    second = thing(objective, start)
    same = equal(first, second)
    return same, "same key, same bits" if same else "two runs with the same key differ"


def _can_be_mapped(thing: Subject) -> tuple[bool, str]:
    """Under vmap every lane is what it is alone, to what a line search makes of rounding."""
    objective, start, _ = _served(thing)
    scales = jnp.array([0.5, 1.0, 4.0])

    def one(scale: Any) -> Any:
        weight = objective.weight * scale + scale
        heavier = Objective(objective.losses, objective.centre, objective.tilt, weight)
        return thing.thing(heavier, start, jax.random.key(0)).params

    together = jax.jit(jax.vmap(one))(scales)
    single = jax.jit(one)
    alone = jnp.stack([single(scale) for scale in scales])
    apart = float(jnp.max(jnp.abs(together - alone)))
    return apart <= 1e-6, f"lanes differ from single solves by {apart:.1e}"


CHECKS = {
    "tells the gradient it left": _tells_the_gradient,
    "admits failure": _admits_failure,
    "repeats itself": _repeats_itself,
    "can be mapped": _can_be_mapped,
}
