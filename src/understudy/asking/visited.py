"""The loss on all states that a run has visited, asked about or not: known, bounded, or an estimate."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias, final

import equinox as eqx
import jax
import numpy as np
from jax import Array

from ..losses import Absolute, Huber, Loss, Squared, computes
from ..policies import MLP, Actions, Committee, Params, Policy
from ..regret.confidence import Confidence
from .base import Rule
from .rules import Fraction


@eqx.filter_jit
def per_sample(policy: Policy, loss: Loss, params: Params, inputs: Array, targets: Array) -> Array:
    """The losses (m,) of samples: inputs (m, …), targets (m, k)."""
    return jax.vmap(loss)(policy.apply(params, inputs), targets)


Measure: TypeAlias = Callable[[Policy, Loss, Params, Array, Array], Array]
"""What is measured of samples one by one, as `per_sample` does."""


def largest(policy: Any, loss: Loss, actions: Actions) -> float:
    """No loss is larger, where outputs and labels lie between the bounds of the actions; else infinite.

    >>> from gymnasium.spaces import Box
    >>> from understudy.losses import Squared
    >>> from understudy.policies import MLP
    >>> acts, squashed = Actions.of(Box(-1, 1, (1,))), MLP(head="tanh", low=(-1.0,), high=(1.0,))
    >>> largest(squashed, Squared(), acts), largest(MLP(), Squared(), acts)
    (4.0, inf)
    """
    known = computes(policy, MLP, Committee) and computes(loss, Squared, Absolute, Huber)
    if not known or policy.head == "identity" or policy.low is None or not actions.bounded:
        return math.inf
    edges: list[Any] = [np.asarray(edge, float) for edge in (actions.low, actions.high)]
    return float(loss(*edges))


@final
class Visited:
    """The account of the loss on all states of a run, round by round (`regret.confidence`).

    rule: the ask rule. top: no loss is larger. labels: of a round, about. weighed: whether rounds weigh as
    many labels as they have, which must be known before they are drawn. Where a round was not asked about in
    a way that the proof knows, or a label lies outside the bounds of the actions, there is an estimate only,
    from that round on.
    """

    def __init__(self, rule: Rule | Fraction, top: float, labels: int, *, weighed: bool = False):
        self.rule, self.top = rule, top
        known = rule.honest and math.isfinite(top) and not (weighed and isinstance(rule, Fraction))
        self._sequence = Confidence(top=top, scale=top / max(labels, 1)) if known else None

    def add(
        self, weights: np.ndarray, losses: np.ndarray, rng: np.random.Generator, share: float = 1.0
    ) -> None:
        """A round that weighs `share`: the weights of its states (M,), which add up to about that, 0 without
        a label, and the losses of the labelled.
        """
        if self._sequence is None:
            return
        asked = weights > 0
        p = share / (len(weights) * weights[asked])
        sure = p > 1.0 - 1e-9
        drawn, of = losses[~sure], int(len(weights) - sure.sum())
        size = len(weights) / share  # the round's loss is the sum over its states, divided by this
        fits = (losses <= self.top * (1 + 1e-6)).all()
        self._sequence.know(float(losses[sure].sum()) / size)
        if isinstance(self.rule, Fraction) and of:
            fits &= np.allclose(p[~sure], self.rule.number)
            self._sequence.independent(drawn, self.rule.number, of, size)
        elif of:
            fits &= len(drawn) > 0 and np.allclose(p[~sure], len(drawn) / of)
            if fits:
                self._sequence.without_replacement(rng.permutation(drawn), of, size)
        if not fits:
            self._sequence = None

    def high(self) -> float:
        """The bound; nan where there is none."""
        found = math.inf if self._sequence is None else self._sequence.bound()
        return found if math.isfinite(found) else math.nan

    def numbers(self) -> list[str] | None:
        return None if self._sequence is None else self._sequence.numbers()

    def restore(self, numbers: list[str] | None) -> None:
        if numbers is None or self._sequence is None:
            self._sequence = None
        else:
            self._sequence.restore(numbers)
