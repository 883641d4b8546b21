"""A small pure environment of Brax's shape, and its expert: a point that drifts away and is pushed back."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from understudy import experts


class DriftState(NamedTuple):
    obs: Any
    reward: Any
    done: Any


class Drift:
    """obs (2,): place and drift; the action (1,) moves the place; it ends beyond ±2."""

    action_size, limit = 1, 5

    def reset(self, key):
        obs = jax.random.uniform(key, (2,), minval=-1.0, maxval=1.0)
        return DriftState(obs, jnp.zeros(()), jnp.zeros(()))

    def step(self, state, action):
        place = state.obs[0] + 0.4 * state.obs[1] + 0.5 * action[0]
        obs = jnp.stack([place, state.obs[1]])
        return DriftState(obs, 1.0 - jnp.abs(place), jnp.float32(jnp.abs(place) > 2))


@experts.pure
def back(observation):
    """Pushes against place and drift, not quite linearly."""
    return jnp.clip(-observation[:1] - 0.8 * observation[1:], -1.0, 1.0)


def make():
    return Drift()
