"""One round of labelled samples, checked and padded so that every round of a run has one shape."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer

from .errors import UserError
from .losses import Loss


class Batch(eqx.Module):
    """The samples of one round: inputs (m, …), targets (m, k) and weights (m,) that sum to 1, or to
    what the round weighs; of a policy with memory, sequences of them: (m, l, …), (m, l, k) and (m, l).

    Rows from `size` on are padding and weigh nothing. The round's loss is ``Σ_s weights_s D(π_w(s),
    π_e(s))``.
    """

    inputs: Array
    targets: Array
    weights: Array
    size: Array


def batch(
    inputs: Any, targets: Any, weights: Any = None, *, rows: int | None = None, dtype: Any = None
) -> Batch:
    """A `Batch` of `rows` rows (default: no padding); equal weights 1/m unless given. Arrays that are on the
    device stay there.
    """
    size = len(inputs)
    rows = size if rows is None else rows
    weights = np.full(size, 1.0 / size) if weights is None else weights

    def padded(values: Any) -> Array:
        if isinstance(values, Array):
            kind = dtype if jnp.issubdtype(values.dtype, jnp.floating) else None
            more = [(0, rows - size)] + [(0, 0)] * (values.ndim - 1)
            return jnp.pad(values.astype(kind or values.dtype), more)
        values = np.asarray(values)
        kind = dtype if np.issubdtype(values.dtype, np.floating) else None
        full = np.zeros((rows, *values.shape[1:]), kind or values.dtype)
        full[:size] = values
        return jax.device_put(full)

    return Batch(padded(inputs), padded(targets), padded(weights), jax.device_put(np.int32(size)))


def zeros(shape: tuple[int, ...], like: Any) -> Array:
    """Zeros of the dtype of `like`. On a CPU they come from the host: there is no program to compile."""
    if isinstance(like, Tracer) or jax.default_backend() != "cpu":
        return jnp.zeros(shape, like.dtype)
    return jax.device_put(np.zeros(shape, like.dtype))


def zeros_like(tree: Any) -> Any:
    """The tree with `zeros` for leaves."""
    return jax.tree.map(lambda leaf: zeros(leaf.shape, leaf), tree)


def stack(rounds: Sequence[tuple[np.ndarray, np.ndarray]], *, rows: int, room: int) -> Batch:
    """Rounds (X, Y) as one `Batch` with rounds in front: `room` of them, the rest without samples.

    >>> made = stack([(np.ones((2, 3)), np.ones((2, 1)))], rows=4, room=8)
    >>> made.inputs.shape, made.size.tolist()
    ((8, 4, 3), [2, 0, 0, 0, 0, 0, 0, 0])
    """
    (X, Y), sizes = rounds[0], np.zeros(room, np.int32)
    sizes[: len(rounds)] = [len(X) for X, _ in rounds]
    inputs, targets = (np.zeros((room, rows, *one.shape[1:]), one.dtype) for one in (X, Y))
    for t, (X, Y) in enumerate(rounds):
        inputs[t, : len(X)], targets[t, : len(Y)] = X, Y
    used = np.arange(rows) < sizes[:, None]
    weights = np.where(used, 1.0 / np.maximum(sizes, 1)[:, None], 0.0)
    return Batch(*jax.device_put((inputs, targets, weights, sizes)))


def check_rounds(rounds: Iterable[Any], loss: Loss) -> list[tuple[np.ndarray, np.ndarray]]:
    """Recorded rounds [(X, Y), …] as arrays (m, …) and target rows (m, k), or one clear sentence.

    >>> from understudy.losses import Squared
    >>> [(X, Y)] = check_rounds([([[1.0, 2.0]], [3.0])], Squared())
    >>> X.shape, Y.shape
    ((1, 2), (1, 1))
    """
    try:
        listed = list(rounds)
    except TypeError:
        raise UserError(f"rounds: expected a list of (X, Y) pairs, got {type(rounds).__name__}.") from None
    if not listed:
        raise UserError("rounds: the list is empty; at least one round (X, Y) is needed.")
    inputs = [_inputs(pair, t) for t, pair in enumerate(listed, 1)]
    if any(X.dtype != np.uint8 for X in inputs):
        # Bytes stay bytes (images) when all rounds have them; a buffer of whole numbers would cut floats.
        inputs = [X.astype(np.float64) for X in inputs]
    answers = [_answers(pair, t) for t, pair in enumerate(listed, 1)]
    outputs, targets = _outputs(answers, loss), loss.targets  # Equinox binds a method anew at each access
    checked = []
    for t, (X, answer) in enumerate(zip(inputs, answers, strict=True), 1):
        if answer.ndim == 0 or len(answer) != len(X):
            raise UserError(f"rounds: round {t} has {len(X)} inputs but answers of shape {answer.shape}.")
        try:
            Y = targets(answer, outputs)
        except UserError as error:
            raise UserError(f"rounds: round {t}: {error}") from None
        if X.shape[1:] != inputs[0].shape[1:]:
            raise UserError(f"rounds: round {t} has rows {X.shape[1:]}, round 1 {inputs[0].shape[1:]}.")
        if outputs is not None and Y.shape[1] != outputs:
            raise UserError(f"rounds: Y of round {t} has {Y.shape[1]} outputs, round 1 has {outputs}.")
        checked.append((X, Y))
    return checked


def _inputs(pair: Any, t: int) -> np.ndarray:
    if not isinstance(pair, Sequence) or isinstance(pair, str) or len(pair) != 2:
        raise UserError(f"rounds: round {t} is not a pair (X, Y).")
    X = _array("X", pair[0], t)
    if X.ndim == 0 or len(X) == 0:
        raise UserError(f"rounds: round {t} is empty; every round needs at least one sample.")
    if X.size == 0:
        raise UserError(f"rounds: X of round {t} has no features, its shape is {X.shape}.")
    return X


def _answers(pair: Any, t: int) -> np.ndarray:
    Y = _array("Y", pair[1], t)
    if Y.ndim > 1 and len(Y) and Y.size == 0:
        raise UserError(f"rounds: Y of round {t} has no outputs, its shape is {Y.shape}.")
    return Y


def _array(name: str, values: Any, t: int) -> np.ndarray:
    try:
        found = np.asarray(values)
        real = np.issubdtype(found.dtype, np.number) and not np.issubdtype(found.dtype, np.complexfloating)
        real = real or found.dtype == bool
    except (TypeError, ValueError):
        real = False
    if not real:
        raise UserError(f"rounds: {name} of round {t} is not an array of numbers.")
    if not np.isfinite(found).all():
        raise UserError(f"rounds: {name} of round {t} holds a value that is not a finite number.")
    return found


def _outputs(answers: list[np.ndarray], loss: Loss) -> int | None:
    """How many outputs the answers ask for: labels count up to the largest one anywhere."""
    if not loss.categorical:
        return None if answers[0].ndim > 2 else (1 if answers[0].ndim < 2 else answers[0].shape[1])
    flat = [a for a in answers if a.ndim == 1 or (a.ndim == 2 and a.shape[1] == 1)]
    if len(flat) == len(answers):
        top = max(
            (float(np.max(a)) for a in flat if a.size and np.issubdtype(a.dtype, np.number)), default=0.0
        )
        return max(int(top) + 1, 2) if np.isfinite(top) else None
    return next((a.shape[1] for a in answers if a.ndim == 2 and a.shape[1] > 1), None)
