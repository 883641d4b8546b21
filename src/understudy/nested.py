"""Observations in batches: arrays with n in front, or dicts and tuples of these."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import UserError

if TYPE_CHECKING:
    from typing import TypeAlias

    import gymnasium
    from numpy.typing import ArrayLike

    Nested: TypeAlias = ArrayLike | Mapping[str, "Nested"] | tuple["Nested", ...]
    """Observations: an array, or dicts and tuples of arrays."""
    Space: TypeAlias = gymnasium.Space[Any]
    """What observations or actions may be."""
    Info: TypeAlias = Mapping[str, Any]
    """What an environment says beside an observation: arrays, texts, whatever it likes."""
    Infos: TypeAlias = Sequence[Info] | Info | None
    """Infos of n environments: one dict each, or the dict of arrays of a vector environment."""


def batch_size(observations: Any) -> int:
    """How many observations a batch holds."""
    if isinstance(observations, tuple):
        return batch_size(observations[0])
    if type(observations) is np.ndarray and observations.ndim:  # asking a protocol is slow
        return len(observations)
    if isinstance(observations, Mapping):
        if not observations:
            raise UserError("observations: a dict observation needs at least one key.")
        return batch_size(next(iter(observations.values())))
    try:
        return len(observations)
    except TypeError:
        raise UserError(f"observations: {observations!r} is no batch.") from None


def take(batch: Any, index: np.ndarray | Sequence[int] | slice | int) -> Any:
    """Observation number `index` of a batch, or the batch of those of several numbers."""
    if isinstance(batch, Mapping):
        return {key: take(value, index) for key, value in batch.items()}
    if isinstance(batch, tuple):
        return tuple(take(value, index) for value in batch)
    return batch[index]


def stack(observations: Sequence[Nested]) -> Nested:
    """n observations as one batch, in arrays of its own: an environment may go on writing to what it gave."""
    return _merged(observations, lambda some: np.array(some[0])[None] if len(some) == 1 else np.stack(some))


def copy_batch(batch: Nested) -> Nested:
    """The batch again, for someone who may write to it."""
    return _merged([batch], lambda some: np.array(some[0]))


def join(batches: Sequence[Nested]) -> Nested:
    """Several batches as one, in their order."""
    return _merged(batches, np.concatenate)


def _merged(some: Sequence[Any], merge: Callable[[Sequence[np.ndarray]], np.ndarray]) -> Nested:
    """Nested arrays as one, place by place."""
    first = some[0]
    if isinstance(first, Mapping):
        return {key: _merged([one[key] for one in some], merge) for key in first}
    if isinstance(first, tuple):
        return tuple(_merged([one[i] for one in some], merge) for i in range(len(first)))
    return merge(some)


def parts(
    batch: Nested, path: tuple[str | int, ...] = ()
) -> Iterator[tuple[tuple[str | int, ...], np.ndarray]]:
    """The arrays of a batch, each with its place: keys of dicts, numbers in tuples.

    >>> [path for path, _ in parts({"a": np.zeros(2), "b": (np.ones(2),)})]
    [('a',), ('b', 0)]
    """
    if isinstance(batch, Mapping | tuple):
        for key, inner in batch.items() if isinstance(batch, Mapping) else enumerate(batch):
            yield from parts(inner, (*path, key))
    else:
        yield path, np.asarray(batch)


def nest(leaves: Sequence[tuple[tuple[str | int, ...], Any]]) -> Any:
    """The batch that `parts` took apart."""
    if not leaves[0][0]:
        return leaves[0][1]
    keys = list(dict.fromkeys(path[0] for path, _ in leaves))
    inner = {key: nest([(path[1:], leaf) for path, leaf in leaves if path[0] == key]) for key in keys}
    return tuple(inner.values()) if isinstance(keys[0], int) else inner


def part_at(observation: Any, path: tuple[str | int, ...]) -> Any:
    """The part of an observation, or of a batch, at `path`."""
    for key in path:
        try:
            observation = observation[key]
        except (KeyError, IndexError, TypeError):
            raise UserError(f"observation: it has no part {key!r}, which the policy was made for.") from None
    return observation
