"""Sinks: TensorBoard, Weights & Biases, a plot in a notebook, or yours: they get every round of a run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..errors import UserError
from ..registry import Registry
from .base import Calling, Sink, Started

HOMES = {"tensorboard": "TensorBoard", "wandb": "WeightsAndBiases", "notebook": "Notebook"}
SINKS: Registry[Any] = Registry(
    "sink", Sink, {name: f"{__name__}.{name}:{one}" for name, one in HOMES.items()}, group="sinks"
)


def sink(value: Any) -> Sink:
    """The sink of a name, with its place after a colon: ``tensorboard``, ``tensorboard:logs/one``,
    ``wandb:my-project``, ``notebook``, ``my_module:my_sink``. Objects with `begin`, `row` and `end` are what
    they are, and a function is called with (number, row) after every round.

    >>> sink(lambda number, row: print(number, row["loss"])).row(1, {"loss": 0.5})
    1 0.5
    >>> sink("tensorbord")
    Traceback (most recent call last):
    understudy.errors.UserError: sink: unknown value 'tensorbord', did you mean 'tensorboard'? Accepted: \
notebook, tensorboard, wandb.
    """
    if not isinstance(value, str):
        return Calling(value) if callable(value) and not isinstance(value, Sink) else SINKS.resolve(value)
    name, _, place = value.partition(":")
    if place and name in SINKS:
        return SINKS.make(name, {"place": place})
    return SINKS.make(value, {})


def sinks(values: Any) -> list[Sink]:
    """Several of them; what they need is looked for at once, long before a round has ended."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise UserError(f"sinks: {values!r} is not a list; give one, as in ['tensorboard'].")
    return [sink(one) for one in values]


__all__ = ["Sink", "Started", "sink"]
