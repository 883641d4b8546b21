"""What a loss provides, and how the expert's answers become the targets of one."""

from __future__ import annotations

import abc
import functools
import inspect
from typing import Any

import equinox as eqx
import numpy as np
from jax import Array

from ..errors import UserError


class Loss(eqx.Module):
    """What every loss provides; `outputs` and `target` have shape (k,)."""

    @abc.abstractmethod
    def __call__(self, outputs: Array, target: Array) -> Array:
        """The divergence of one sample, a scalar."""

    @property
    def categorical(self) -> bool:
        """Whether outputs are logits of a distribution over k actions, and labels name one of them."""
        return False

    @property
    def logits(self) -> bool:
        """Whether outputs are logits and targets probabilities.

        Such a loss falls for ever where the data are separable, so its sum may have no minimiser.
        """
        return self.categorical

    @property
    def convex(self) -> bool:
        """Whether the loss is convex in the outputs and gives its conjugate (`dual`), as a proof needs: a
        class that overrides `__call__` has to give its own.
        """
        return False

    @property
    def least(self) -> float:
        """No value of the loss is smaller, for any outputs and any target that `targets` lets through; −inf,
        which is always true, where the class says nothing.

        A proof may start from it: the losses of a game add up to at least this times their weights. So it is
        to be shown for all outputs, not for likely ones; a loss that is shifted down has to shift it too. A
        class that overrides `__call__` does not inherit it.
        """
        return -np.inf

    def own(self, name: str) -> bool:
        """Whether an attribute comes from the class that computes the loss, or from one made from it."""
        there, value = (
            next(i for i, one in enumerate(type(self).__mro__) if word in vars(one))
            for word in (name, "__call__")
        )
        return there <= value

    @property
    def floor(self) -> float:
        """`least`, where it belongs to what is computed; else −inf."""
        return float(self.least) if self.own("least") else -np.inf

    @property
    def curvature(self) -> float:
        """The largest second derivative along any unit direction of the outputs; infinite at a kink."""
        return np.inf

    @property
    def steepness(self) -> float:
        """The largest derivative by one output; infinite where there is none."""
        return np.inf

    def dual(self, slope: Array, target: Array) -> tuple[Array, Array]:
        """Minus the conjugate, ``inf_z loss(z, target) − <slope, z>``, and the size of the terms added up.

        Every slope (k,) that `inside` returns gives ``loss(z, target) ≥ <slope, z> + dual`` for all z. That
        is to be shown; a value that is too small makes the interval wider, and one that is too large makes it
        false. `regret.stated` tries it on the data of every game, which finds mistakes and proves nothing.
        """
        raise TypeError(f"the loss {type(self).__name__} gives no conjugate")

    def inside(self, slope: Array, target: Array) -> Array:
        """A slope near `slope` at which the conjugate is finite."""
        raise TypeError(f"the loss {type(self).__name__} gives no conjugate")

    def room(self, slope: Array, target: Array) -> Array:
        """How freely a slope can move inside the conjugate's domain, a positive semi-definite (k, k)."""
        raise TypeError(f"the loss {type(self).__name__} gives no conjugate")

    def targets(self, answers: Any, outputs: int | None = None) -> np.ndarray:
        """The expert's answers as rows of floats (n, k); raises `UserError` when they cannot be."""
        return columns(answers)


def computes(part: Any, *kinds: type) -> bool:
    """Whether a part (a loss, a learner, …) is of one of these kinds, and not of a class made from one that
    computes something else: what is known of a kind (that a loss is quadratic, how a learner steps) is not
    known of that. Another name or documentation changes nothing.
    """
    return any(isinstance(part, kind) and not overridden(type(part), kind) for kind in kinds)


@functools.lru_cache(maxsize=1024)
def overridden(made: type, kind: type) -> str:
    """The first attribute of `kind` that a class made from it has from elsewhere; empty where there is none.

    >>> from understudy.losses import Huber
    >>> overridden(type("Mine", (Huber,), {"room": lambda self, slope, target: None}), Huber)
    'room'
    """
    fields = getattr(kind, "__dataclass_fields__", {})
    names = {name for name in (*dir(kind), *fields) if not name.startswith(("__", "_abc_"))} - {"name"}
    for name in (*sorted(names), "__call__", "__getattribute__", "__getattr__"):
        if inspect.getattr_static(made, name, None) is not inspect.getattr_static(kind, name, None):
            return name
    return ""


def columns(answers: Any) -> np.ndarray:
    """Answers as rows of floats (n, k), a list of numbers as one column."""
    rows = numbers(answers)
    return rows[:, None] if rows.ndim == 1 else rows


def numbers(answers: Any) -> np.ndarray:
    """Answers as an array of floats, (n,) or (n, k)."""
    try:
        rows = np.asarray(answers, dtype=np.float64)
    except (TypeError, ValueError):
        raise UserError(f"Y: expected an array of numbers, got {type(answers).__name__}.") from None
    if rows.ndim not in (1, 2):
        raise UserError(f"Y: expected shape (samples,) or (samples, outputs), got {rows.shape}.")
    return rows
