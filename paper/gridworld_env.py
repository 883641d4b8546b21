"""The adversarial gridworld: 7 × 7 cells, five actions, and an expert that turns round in every round."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from understudy.objectives import Batch

SIZE, HORIZON = 7, 5
ACTIONS = ("up", "down", "left", "right", "stay")
MOVES = np.asarray([(0, 1), (0, -1), (-1, 0), (1, 0), (0, 0)])
"""(dx, dy) of each action; y grows upwards."""
EXPERT = np.asarray([(0, 3), (1, 2)])
"""The two actions among which the expert draws, up or right in odd rounds, down or left in even ones."""
CELLS = SIZE * SIZE


class Episode(NamedTuple):
    """One round: where the policy was (h,), what it did (h,), and what the expert would have done (h,)."""

    cells: Array
    actions: Array
    labels: Array


def move(cell: Array, action: Array) -> Array:
    """The cell after an action; walls hold. Cell number = 7 · y + x.

    >>> int(move(jnp.asarray(0), jnp.asarray(3))), int(move(jnp.asarray(0), jnp.asarray(2)))
    (1, 0)
    """
    step = jnp.asarray(MOVES, cell.dtype)[action]
    x = jnp.clip(cell % SIZE + step[0], 0, SIZE - 1)
    y = jnp.clip(cell // SIZE + step[1], 0, SIZE - 1)
    return (SIZE * y + x).astype(cell.dtype)


def label(key: Array, t: Array | int) -> Array:
    """What the expert says in round t = 1, 2, …, in any cell: one of its two actions, with equal chance."""
    pair = jnp.asarray(EXPERT)[(jnp.asarray(t) + 1) % 2]
    return pair[jax.random.bernoulli(key).astype(jnp.int32)]


def episode(key: Array, params: Array, t: Array | int, *, own: Array | bool = True) -> Episode:
    """Plays one round from a uniform start with logits `params` (cells, actions), sampling every action.

    With `own` false the walk is that of the uniform policy: it does not depend on `params`, and every learner
    sees the same stream. The actions are those that the policy would have taken.

    >>> walk = episode(jax.random.key(0), jnp.zeros((49, 5)), 1)
    >>> walk.cells.shape, bool(jnp.isin(walk.labels, jnp.asarray([0, 3])).all())
    ((5,), True)
    """
    first, rest = jax.random.split(key)
    start = jax.random.randint(first, (), 0, CELLS)

    def step(cell: Array, key: Array) -> tuple[Array, Episode]:
        for_action, for_label, for_walk = jax.random.split(key, 3)
        action = jax.random.categorical(for_action, params[cell])
        aimless = jax.random.randint(for_walk, (), 0, len(ACTIONS))
        taken = jnp.where(own, action, aimless.astype(action.dtype))
        return move(cell, taken), Episode(cell, action, label(for_label, t))

    return jax.lax.scan(step, start, jax.random.split(rest, HORIZON))[1]


def labelled(walk: Episode) -> Batch:
    """The round of a walk: the cells (h,), their labels as one-hot rows (h, actions), each weighing 1/h."""
    dtype, steps = jnp.result_type(float), walk.cells.shape[0]
    targets = jax.nn.one_hot(walk.labels, len(ACTIONS), dtype=dtype)
    return Batch(walk.cells, targets, jnp.full((steps,), 1.0 / steps, dtype), jnp.asarray(steps, jnp.int32))
