"""Parts that a user might make, honest and false ones, and the kinds of games with them that the search for
false certificates plays.

Each is a shipped part with one thing changed. A shifted loss has the regret of the loss that it was made
from, so the truth of the search is that of the shipped loss.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from understudy.checks.certificates import Candidate, Kind, Search
from understudy.learners import Learner, Schedule
from understudy.losses import Loss
from understudy.objectives import Samples
from understudy.policies import Linear, Policy
from understudy.solvers import AnySolver, Solution, newton
from understudy.solvers.base import Status


class Shifted(Loss):
    """A shipped loss less a number, with the right conjugate; of its infimum it says nothing."""

    base: Loss
    by: float = eqx.field(static=True, default=5.0)
    convex: ClassVar[bool] = True

    def __call__(self, outputs: Array, target: Array) -> Array:
        return self.base(outputs, target) - self.by

    @property
    def categorical(self) -> bool:
        return self.base.categorical

    @property
    def curvature(self) -> float:
        return self.base.curvature

    @property
    def steepness(self) -> float:
        return self.base.steepness

    def dual(self, slope: Array, target: Array) -> tuple[Array, Array]:
        value, size = self.base.dual(slope, target)
        return value - self.by, size + abs(self.by)

    def inside(self, slope: Array, target: Array) -> Array:
        return self.base.inside(slope, target)

    def room(self, slope: Array, target: Array) -> Array:
        return self.base.room(slope, target)


class Stating(Shifted):
    """… and its infimum."""

    @property
    def least(self) -> float:
        return self.base.least - self.by


class Denying(Shifted):
    """… which is said to be zero."""

    least: ClassVar[float] = 0.0


class Forgetting(Shifted):
    """The conjugate is that of the loss before it was shifted."""

    def dual(self, slope: Array, target: Array) -> tuple[Array, Array]:
        return self.base.dual(slope, target)


class Bending(Shifted):
    """The conjugate is right for small slopes only."""

    def dual(self, slope: Array, target: Array) -> tuple[Array, Array]:
        value, size = super().dual(slope, target)
        return value + 0.1 * jnp.sum(jnp.maximum(jnp.abs(slope) - 0.5, 0.0)), size


class Nearly(Shifted):
    """The conjugate is too large by a thousandth."""

    def dual(self, slope: Array, target: Array) -> tuple[Array, Array]:
        value, size = super().dual(slope, target)
        return value + 1e-3 * size, size


class Unclipped(Shifted):
    """Slopes are let through at which the conjugate is infinite."""

    def inside(self, slope: Array, target: Array) -> Array:
        return slope


class Understated(Shifted):
    """Steeper and more curved than it says."""

    @property
    def curvature(self) -> float:
        return self.base.curvature / 10

    @property
    def steepness(self) -> float:
        return self.base.steepness / 10


class Moved(Learner):
    """A learner of the family whose parameters are then moved; the ways of `MOVES`."""

    way: str = eqx.field(static=True, default="")

    def update(self, state: Any, losses: Any, gradient: Any, solve: Any) -> tuple[Any, Solution]:
        new, solution = super().update(state, losses, gradient, solve)
        return new._replace(params=MOVES[self.way](state.params, new.params, new.round)), solution


MOVES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "ascent": lambda old, new, t: 2 * old - new,
    "jumps": lambda old, new, t: new + 3.0 * (-1.0) ** t,
    "noise": lambda old, new, t: new + jnp.sin(1e3 * t),
    "haste": lambda old, new, t: 2 * new - old,
    "rest": lambda old, new, t: old,
}


class Heavy(Learner):
    """It steps as the family does, and its books show ten times the weight."""

    def update(self, state: Any, losses: Any, gradient: Any, solve: Any) -> tuple[Any, Solution]:
        new, solution = super().update(state, losses, gradient, solve)
        return new._replace(weight=10 * new.weight), solution


class Falling(Schedule):
    """A weight that falls, and is below zero in every fifth round."""

    def weight(self, t: Array, squares: Any) -> Any:
        return jax.tree.map(
            lambda one: one * jnp.where(t % 5 == 0, -1.0, 1.0) / t, super().weight(t, squares)
        )


class Silent(Schedule):
    """It says that there is no weight, and has some."""

    @property
    def zero(self) -> bool:
        return True


class Liar(eqx.Module):
    """A solver that says it has converged, somewhere else, with duals that it made up."""

    steep: float = eqx.field(static=True, default=1e3)

    def __call__(self, objective: Any, params: Any, key: Any = None) -> Solution:
        found = newton()(objective, params, key)
        wrong = jax.tree.map(lambda w, old: 1.5 * w - 0.5 * old + 0.1, found.params, params)
        dual = None
        if isinstance(objective.losses, Samples):
            dual = jnp.full(objective.losses.targets.shape, self.steep, found.value.dtype)
        done = jnp.full_like(found.status, Status.CONVERGED)
        none = jax.tree.map(jnp.zeros_like, found.residual)
        return dataclasses.replace(found, params=wrong, status=done, residual=none, dual=dual)


class Squashed(Linear):
    """It says that it is linear, and is not."""

    linear: ClassVar[bool] = True

    def apply(self, params: Any, inputs: Array) -> Array:
        return jnp.tanh(super().apply(params, inputs))


class Centred(Linear):
    """Its features depend on the rows beside them, so a sample has another loss in another batch."""

    def design(self, inputs: Array) -> Array:
        rows = super().design(inputs)
        return rows - jnp.mean(rows, axis=0)


def remade(kind: type[Learner], **more: Any) -> Callable[[Learner], Learner]:
    """From a learner to one of another class with the same fields."""
    return lambda like: kind(**{name: getattr(like, name) for name in like.__dataclass_fields__} | more)


def scheduled(kind: type[Schedule]) -> Callable[[Learner], Learner]:
    """From a learner to one with a schedule of another class with the same numbers."""

    def make(like: Learner) -> Learner:
        plan = like.schedule
        return eqx.tree_at(
            lambda one: one.schedule, like, kind(plan.constant, plan.root, plan.adaptive, plan.start)
        )

    return make


class Parts(NamedTuple):
    """What takes the place of a game's parts: makers from the shipped part, or from nothing."""

    loss: Callable[[Loss], Loss] = lambda shipped: shipped
    learner: Callable[[Learner], Learner] = lambda shipped: shipped
    solver: Callable[[], AnySolver] | None = None
    policy: Callable[[], Policy] = Linear


LOSSES_OF_OWN = (Shifted, Stating, Denying, Forgetting, Bending, Nearly, Unclipped, Understated)
OWN: dict[str, Parts] = {
    **{kind.__name__.lower(): Parts(loss=kind) for kind in LOSSES_OF_OWN},
    **{way: Parts(learner=remade(Moved, way=way)) for way in MOVES},
    "heavy": Parts(learner=remade(Heavy)),
    "falling": Parts(learner=scheduled(Falling)),
    "silent": Parts(learner=scheduled(Silent)),
    "liar": Parts(solver=Liar),
    "squashed": Parts(policy=Squashed),
    "centred": Parts(policy=Centred),
}
"""Parts by the name that the kinds of the search give them."""


def own_kinds() -> list[Kind]:
    """Every kind of game with one of these parts that the long search plays."""
    kinds = [Kind("huber", "offline", parts=name) for name in OWN]
    kinds += [Kind("squared", "online", parts=name) for name in OWN]
    names = sorted(kind.__name__.lower() for kind in LOSSES_OF_OWN)
    kinds += [Kind(loss, "offline", parts=name) for name in names for loss in ("absolute", "squared")]
    kinds += [
        Kind("cross-entropy", "offline", True, parts=name) for name in ("stating", "forgetting", "liar")
    ]
    kinds += [Kind("squared", "offline", True, parts="liar")]
    return [*kinds, Kind("huber", "online", True, parts="shifted")]


class OwnSearch(Search):
    """The search within a kind, with the parts that it names."""

    def __init__(self, kind: Kind):
        super().__init__(kind)
        self.own = OWN[kind.parts] if kind.parts else Parts()
        self.policy, self.loss = self.own.policy(), self.own.loss(self.loss)
        self.solver = self.solver if self.own.solver is None else self.own.solver()

    def learner(self, candidate: Candidate) -> Learner:
        return self.own.learner(super().learner(candidate))
