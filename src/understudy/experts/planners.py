"""Exact planners for small environments: value iteration over the table that toy-text environments carry."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..envs.gymnasium import maker
from ..errors import UserError, damaged
from . import Expert

Table = Mapping[int, Mapping[int, Sequence[tuple[float, int, float, bool]]]]


def value_iteration(table: Table, *, discount: float = 0.99, tolerance: float = 1e-10) -> np.ndarray:
    """The optimal action values Q(s, a), shape (states, actions), to `tolerance` in the largest entry.

    ``table[s][a]`` is a list of (probability, next state, reward, terminated), as Gymnasium's toy-text
    environments keep in `env.unwrapped.P`. Iterates Q ← E[r + discount · max_b Q(s', b)], nothing after
    termination.

    >>> value_iteration({0: {0: [(1.0, 0, 1.0, True)], 1: [(1.0, 0, 0.6, False)]}}, discount=0.5).round(3)
    array([[1. , 1.2]])
    """
    if not 0 < discount < 1:
        raise UserError(f"discount: {discount!r} is not a number strictly between 0 and 1.")
    with damaged("table"):
        states, actions = len(table), len(table[0])
        rows = [
            (state * actions + action, *outcome)
            for state in range(states)
            for action in range(actions)
            for outcome in table[state][action]
        ]
        pair, probability, after, reward, terminated = (np.array(one) for one in zip(*rows, strict=True))
        chances = np.bincount(pair, probability)
        fine = (probability >= 0).all() and (chances < 1 + 1e-6).all() and np.isfinite(reward).all()
        if not fine or after.min() < 0 or after.max() >= states:  # its values might grow without end
            raise UserError(
                "table: rewards must be finite, next states be among the states, and probabilities be "
                "≥ 0 with a sum of at most 1."
            )
    gain = discount * probability * ~terminated.astype(bool)
    expected_reward = np.bincount(pair, probability * reward, states * actions)
    q = np.zeros((states, actions))
    while True:  # a contraction by `discount`: the error is at most change · discount / (1 - discount)
        coming = np.bincount(pair, gain * q.max(axis=1)[after], states * actions)
        new = (expected_reward + coming).reshape(q.shape)
        change, q = np.abs(new - q).max(), new
        if change * discount / (1 - discount) <= tolerance:
            return q


def dynamic_programming(
    env_id: str,
    *,
    env_kwargs: Mapping[str, Any] | None = None,
    discount: float = 0.99,
    card: Mapping[str, Any] | None = None,
) -> Expert:
    """The optimal expert of an environment with a transition table `P` (FrozenLake, Taxi, CliffWalking).

    Give the environment's own `env_kwargs`: another map, or ice that does not slip, is another table. Of
    equally good actions the first is played.
    """
    with contextlib.closing(maker(env_id, env_kwargs)()) as env:
        table = getattr(env.unwrapped, "P", None)
        if not isinstance(table, Mapping) or not hasattr(env.observation_space, "n"):
            raise UserError(f"expert: dynamic programming needs a transition table; {env_id!r} has none.")
        q = value_iteration(table, discount=discount)
        spaces = {"observation_space": env.observation_space, "action_space": env.action_space}
    # Values that differ by what the iteration leaves are equal; without this the choice would follow
    # rounding.
    best = (q >= q.max(axis=1, keepdims=True) - 1e-8).argmax(axis=1).astype(np.int64)
    about = {
        "name": f"dp-{env_id}",
        "algorithm": f"value iteration on the environment's transition table, discount {discount}",
        "environments": [env_id],
        "kind": "action",
        **(card or {}),
        "settings": dict(env_kwargs or {}),
    }
    how = {"card": about, "deterministic": True, **spaces}
    return Expert(about["name"], ask=lambda states, infos: best[np.asarray(states)], **how)
