"""Per-sample divergences between what the policy says and what the expert says.

A loss takes the policy's raw outputs (a mean action, or logits) and the expert's answer, both vectors over
action dimensions, and gives one number: a *sum* over dimensions. Averaging over the samples of a round is
the objective's business.
"""

from __future__ import annotations

from ..registry import Registry
from .base import Loss, computes
from .classification import BinaryCrossEntropy, CrossEntropy, one_hot
from .regression import Absolute, Huber, Squared

LOSSES: Registry[Loss] = Registry(
    "loss",
    Loss,
    {
        "squared": Squared,
        "absolute": Absolute,
        "huber": Huber,
        "cross-entropy": CrossEntropy,
        "binary-cross-entropy": BinaryCrossEntropy,
    },
    aliases={
        "l2": "squared",
        "l1": "absolute",
        "logistic": "cross-entropy",
        "softmax": "cross-entropy",
        "cross_entropy": "cross-entropy",
        "binary": "binary-cross-entropy",
        "binary_cross_entropy": "binary-cross-entropy",
    },
    group="losses",
)

SHIPPED = (Squared, Absolute, Huber, CrossEntropy, BinaryCrossEntropy)
"""Losses whose statements (`convex`, `dual`, `least`, …) are proved; those of others are tried on data."""

__all__ = ["LOSSES", "SHIPPED", "Absolute", "BinaryCrossEntropy", "CrossEntropy", "Huber", "Loss", "Squared"]
__all__ += ["computes", "one_hot"]
