"""A game from its parts: a learner, a loss and a solver fitted to each other, and to a limited memory."""

from __future__ import annotations

import dataclasses
from typing import Any

import equinox as eqx
import numpy as np

from .errors import UserError
from .learners import AnyLearner, Learner, started
from .losses import Absolute, Loss
from .objectives import parse_memory
from .online import Game, draws
from .policies import Params, Policy, count
from .solvers import NEWTON_LIMIT, SOLVERS, ClosedForm, InBall, auto, lbfgs, newton


def make_game(
    policy: Policy,
    loss: Loss,
    learner: AnyLearner,
    solver: Any,
    params: Params,
    *,
    hindsight: Any = None,
    **options: Any,
) -> Game:
    """A game from its parts: `solver` a name or an object, fitted to the learner's domain and the loss.

    `hindsight` is the solver that finds the best parameters in hindsight, by default an exact one where there
    is one. `options` (tolerance, max_iterations, batch_size, …) go to a solver given by name; `auto` takes
    two.
    """
    exact = auto(policy, loss, count(params))
    radius = getattr(learner, "radius", None)
    if isinstance(loss, Absolute):
        # The reformulation needs the optimal subgradients of past rounds, which sign(·) is not.
        learner = around_mean(learner)
    learner = started(learner, 1)
    options = {name: value for name, value in options.items() if value is not None}
    if isinstance(solver, str):
        solver = _with(exact, options) if solver == "auto" else SOLVERS.make(solver, options)
    elif options:
        raise UserError(f"solver: {', '.join(sorted(options))} go with a solver's name, not an object.")
    solver = SOLVERS.resolve(solver)
    if draws(solver) and isinstance(exact, ClosedForm):
        # Minibatches keep the samples, and the closed form reads statistics.
        exact = newton() if count(params) <= NEWTON_LIMIT else lbfgs()
    best: Any = exact if hindsight is None else hindsight
    if radius is not None and not (isinstance(learner, Learner) and learner.linear):
        if not policy.linear:
            raise UserError("radius: a domain needs a linear policy or a linearised learner.")
        solver = InBall(solver, radius)
    if radius is not None:
        best = InBall(best, radius) if policy.linear else best
    return Game(policy, loss, learner, solver, best)


def around_mean(learner: Any) -> Any:
    """The learner around the mean centre, where the reformulation would not be FTRL."""
    if not isinstance(learner, Learner) or learner.linear:
        return learner
    return eqx.tree_at(lambda one: one.around_last, learner, np.asarray(False))


def remembering(memory: str, learner: Any, loss: Any) -> Any:
    """The learner for a limited memory, or one sentence.

    The reformulation replaces the penalty's past by the gradients of the past losses at w_t, which is right
    where w_t minimised the sum of just those. A memory that drops some and scales others is another sum in
    every round, so FTRL keeps the past in its mean centre instead.
    """
    if parse_memory(memory) is None:
        return learner
    if isinstance(learner, Learner):
        if learner.linear:
            raise UserError(f"memory: {learner.name!r} keeps no past losses, so there are none to limit.")
        if learner.radius is not None and isinstance(loss, Absolute):
            raise UserError("memory: the absolute loss on a ball needs 'all' rounds for its certificate.")
    return around_mean(learner)


def _with(solver: Any, options: dict[str, Any]) -> Any:
    fields = getattr(solver, "__dataclass_fields__", {})
    for name in options:
        if name not in fields:
            if name in ("tolerance", "max_iterations"):
                continue  # the closed form has neither: it is exact
            raise UserError(f"solver: 'auto' does not take {name}.")
    return dataclasses.replace(solver, **{k: v for k, v in options.items() if k in fields})
