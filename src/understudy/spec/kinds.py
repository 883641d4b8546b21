"""Which environments are pure: known by name and by shape, before one is made."""

from __future__ import annotations

from typing import Any

LIBRARIES = ("brax", "gymnax", "mjx", "playground")
"""What their names begin with, as in gymnax:CartPole-v1."""


def is_pure(env: Any) -> bool:
    """Whether a name is one of a pure environment, or an object has its shape and is none of Gymnasium's.

    >>> is_pure("gymnax:CartPole-v1"), is_pure("CartPole-v1"), is_pure("my_module:make")
    (True, False, False)
    """
    if isinstance(env, str):
        library, _, name = env.partition(":")
        return bool(name) and library in LIBRARIES
    import gymnasium as gym

    if isinstance(env, type | gym.Env | gym.vector.VectorEnv):
        return False
    return hasattr(env, "reset") and hasattr(env, "step")
