"""What a loss provides, and how the expert's answers become the targets of one."""

from __future__ import annotations

import abc
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
    def own_dual(self) -> bool:
        """Whether `dual` comes from the class that computes the loss, or from one made from it."""
        dual, value = (
            next(i for i, one in enumerate(type(self).__mro__) if name in vars(one))
            for name in ("dual", "__call__")
        )
        return dual <= value

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

        Every slope (k,) that `inside` returns gives ``loss(z, target) ≥ <slope, z> + dual`` for all z.
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


def computes(loss: Loss, *kinds: type[Loss]) -> bool:
    """Whether a loss is one of these kinds, and not a class made from one that computes something else: what
    is known of a kind (that it is quadratic, its conjugate) is not known of that.
    """
    return isinstance(loss, kinds) and any(type(loss).__call__ is kind.__call__ for kind in kinds)


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
