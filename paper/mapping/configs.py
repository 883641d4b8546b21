"""Named axes, and the configurations they span."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

from understudy.errors import UserError
from understudy.programs import Static

Label = str | int | float | bool


class Config(NamedTuple):
    """One run: what it is called in the table (`labels`), and what the run function is given (`values`)."""

    labels: dict[str, Label]
    values: dict[str, Any]


def grid(**axes: Mapping[Any, Any] | Sequence[Any] | np.ndarray) -> list[Config]:
    """Every combination of the axes, the last axis fastest; grids are lists, so ``grid(…) + grid(…)`` joins
    them.

    An axis is a sequence of numbers or strings, or a mapping from labels to values of any kind: a learner,
    a loss, a tuple of numbers. Configurations that differ in numbers only share one compiled program.

    >>> [config.labels for config in grid(eta=[0.1, 1.0], problem={"plain": 0.0, "flipped": 1.0})][1]
    {'eta': 0.1, 'problem': 'flipped'}
    """
    if not axes:
        raise UserError("axes: at least one named axis is needed, as in grid(eta=[0.1, 1.0]).")
    spelt = {name: _pairs(name, axis) for name, axis in axes.items()}
    return [
        Config(
            {name: label for name, (label, _) in zip(spelt, chosen, strict=True)},
            {name: value for name, (_, value) in zip(spelt, chosen, strict=True)},
        )
        for chosen in itertools.product(*spelt.values())
    ]


def _pairs(name: str, axis: Any) -> list[tuple[Label, Any]]:
    if isinstance(axis, Mapping):
        pairs = list(axis.items())
    elif isinstance(axis, (str, bytes)) or not isinstance(axis, (Sequence, np.ndarray, range)):
        raise UserError(f"{name}: expected a sequence or a mapping from labels to values, got {axis!r}.")
    else:
        pairs = [(value, value) for value in axis]
    if not pairs:
        raise UserError(f"{name}: the axis is empty; at least one value is needed.")
    return [(_label(name, label), value) for label, value in pairs]


def _label(name: str, value: Any) -> Label:
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, (str, int, float, bool)):
        return plain
    raise UserError(f"{name}: {value!r} has no label; give the axis as a mapping from labels to values.")


class Group(NamedTuple):
    """Configurations that share a program: their places in the list, what is static, and the numbers."""

    places: list[int]
    static: Static
    numbers: list[Any]


def groups(configs: Sequence[Config]) -> list[Group]:
    """The configurations by program, in the order in which each program first appears."""
    found: dict[Any, Group] = {}
    for place, config in enumerate(configs):
        numbers, static = eqx.partition(config.values, eqx.is_array_like)
        numbers = jax.tree.map(np.asarray, numbers)
        shapes = tuple((np.shape(leaf), leaf.dtype) for leaf in jax.tree.leaves(numbers))
        key = (Static(static), shapes)
        group = found.setdefault(key, Group([], key[0], []))
        group.places.append(place)
        group.numbers.append(numbers)
    return list(found.values())
