"""From names and a preset to the parts of a game: loss, policy, learner, solver."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping
from typing import Any, final

import equinox as eqx
import numpy as np

from ..errors import UserError, unknown
from ..learners import LEARNERS, Learner, started
from ..losses import LOSSES, CrossEntropy, Loss
from ..policies import MLP, POLICIES, Actions, Linear, NatureCNN, Observations, Policy, Tabular
from ..solvers import SOLVERS
from .automatic import Automatic


@final
@dataclasses.dataclass(frozen=True)
class Preset:
    """What a preset decides where the user does not.

    first_round: who acts in round 1. standardise: fix mean and scale of observations from round 1. squash:
    a tanh head stretched to the action bounds (networks). bias: linear policies get one. noise: what the
    agent adds to its actions.
    automatic: on networks schedules start in round 2, and regularised learners given by name find their own
    scale (see `make_learner`).
    """

    first_round: str
    standardise: bool
    squash: bool
    bias: bool
    noise: float
    automatic: bool


SCALES = {"ftrl": "eta", "alt_ftrl": "eta", "adaftrl": "alpha"}
"""Regularised learners and the number that sets how strong their penalty is."""
STOCHASTIC = ("adam", "sls", "proximal-sgd", "proximal_sgd")
PRESETS = {
    "practical": Preset("expert", standardise=True, squash=True, bias=True, noise=0.0, automatic=True),
    "paper": Preset("agent", standardise=False, squash=False, bias=False, noise=0.1, automatic=False),
}


def preset(name: str) -> Preset:
    if name not in PRESETS:
        raise unknown("preset", name, PRESETS)
    return PRESETS[name]


def make_loss(loss: Any, actions: Actions) -> Loss:
    """The loss, `auto` being squared for Box actions and cross-entropy for choices."""
    if loss == "auto":
        loss = "cross-entropy" if actions.categorical else "squared"
    made = LOSSES.resolve(loss)
    if made.logits and not actions.categorical:
        raise UserError("loss: cross-entropy is for Discrete and MultiDiscrete actions, these are Box.")
    if isinstance(made, CrossEntropy) and actions.kind == "multi":
        return CrossEntropy(groups=actions.counts)
    return made


def make_policy(policy: Any, space: Any, actions: Actions, chosen: Preset, squash: bool | None) -> Policy:
    """The policy: by name with the preset's head and bias, or an object as it is."""
    if squash and policy in ("tabular", "linear"):
        raise UserError(f"squash: the policy {policy!r} has no tanh head; mlp has.")
    if policy == "tabular":
        states = Observations.of(space, tabular=True).leaves[0].counts[0]
        return Tabular(states=states)
    if policy == "linear":
        return Linear(bias=chosen.bias)
    if policy == "nature_cnn":
        # The solver's loop is inside a compiled program, where products keep their speed.
        return _pixels(space)
    given = isinstance(policy, Policy)
    made = POLICIES.resolve(policy)
    wanted = (chosen.squash and not given) if squash is None else squash
    if not wanted:
        return made
    if not isinstance(made, MLP):
        raise UserError(f"squash: the policy {made.name!r} has no tanh head; mlp has.")
    if actions.categorical or not actions.bounded:
        if squash:
            raise UserError("squash: a tanh head needs Box actions with finite bounds.")
        return made
    low, high = (tuple(edge.astype(float).tolist()) for edge in (actions.low, actions.high))  # type: ignore[union-attr]
    return dataclasses.replace(made, head="tanh", low=low, high=high)


def _pixels(space: Any) -> NatureCNN:
    shape = tuple(getattr(space, "shape", None) or ())
    if len(shape) != 3 or shape[1] != shape[2] or getattr(space, "dtype", None) != np.uint8:
        raise UserError(
            "policy: 'nature_cnn' sees stacks of square frames of bytes, (stack, size, size), "
            f"as Atari's; these observations are {space}."
        )
    return NatureCNN(stack=int(shape[0]), size=int(shape[1]), method="matmul")


def make_learner(learner: Any, policy: Policy, chosen: Preset) -> tuple[Any, Automatic | None]:
    """The learner, and what finds its scale where its name alone is given.

    Where its `start` was not given, the schedule starts in round 1 for a policy that is linear in its
    parameters: without a penalty, separable data would send the first solve to infinity, and the certificate
    with it. A network of the practical preset starts in round 2: the first gradient of an untrained network
    says nothing about the later ones. There a regularised learner given by name finds its scale, and takes
    the mean centre, which the residuals of inexact solves stay out of; a linear policy has α = 1 or η = 1.
    """
    network, found = chosen.automatic and not policy.linear, None
    if chosen.automatic and isinstance(learner, str) and LEARNERS.aliases.get(learner, learner) in SCALES:
        scale = SCALES[LEARNERS.aliases.get(learner, learner)]
        learner = LEARNERS.maker(learner)(**{scale: 1.0})
        if network:
            found = Automatic(adaptive=scale == "alpha")
            learner = eqx.tree_at(lambda one: one.around_last, learner, np.asarray(False))
    made = LEARNERS.resolve(learner)
    solves = network and not getattr(made, "linear", False)
    return started(made, 1 if not solves else 2 if found is None else found.start), found


def make_solver(
    solver: Any, policy: Policy, learner: Any, options: dict[str, Any], chosen: Preset
) -> tuple[Any, dict[str, Any]]:
    """What to hand to `make_game`: for networks minibatches at a cost per round that does not grow.

    In the practical preset Adam's step falls to zero along a cosine in every round (Hopper, seed 0, loss of
    round 22: 0.0034 with a constant step, 0.0015 so), and the penalty of a regularised learner is taken by
    proximal steps, since Adam would magnify it (AdaFTRL's mean score on Walker2d at 5,000 queries: 0.33 with
    neither, 0.84 with both).
    """
    given = {name: value for name, value in options.items() if value is not None}
    if policy.linear or solver not in ("auto", *STOCHASTIC):
        return solver, given
    network: dict[str, Any] = {"batch_size": 64 if policy.name == "nature_cnn" else 256, "measure": False}
    if solver == "auto":
        solver = "adam"
        if chosen.automatic:
            network |= {"decay": "cosine", "proximal": not _free(learner)}
    takes = inspect.signature(SOLVERS.maker(solver)).parameters
    foreign = [name for name in given if name not in takes]
    if foreign:
        raise UserError(
            f"solver: {solver!r} does not take {', '.join(foreign)}; it takes {', '.join(takes)}."
        )
    return solver, network | given


def _free(learner: Any) -> bool:
    """Whether the learner has no penalty, as FTL."""
    if not isinstance(learner, Learner):
        return False
    numbers = (learner.schedule.constant, learner.schedule.root, learner.schedule.adaptive)
    return not any(np.any(number) for number in numbers)


def describe(part: Any) -> Any:
    """A part of a run as plain data, for the record and to compare when a run is resumed.

    >>> describe(ftrl(eta=0.5))["name"]
    'ftrl'
    """
    if isinstance(part, (str, int, float, bool)) or part is None:
        return part
    if isinstance(part, np.ndarray | np.generic):
        return part.tolist()
    if isinstance(part, Mapping):
        return {str(name): describe(value) for name, value in part.items()}
    if isinstance(part, (list, tuple)):
        return [describe(one) for one in part]
    if dataclasses.is_dataclass(part):
        fields = {field.name: describe(getattr(part, field.name)) for field in dataclasses.fields(part)}
        return {"kind": type(part).__name__, **fields}
    if hasattr(part, "tolist"):
        return part.tolist()
    return getattr(part, "__qualname__", type(part).__qualname__)
