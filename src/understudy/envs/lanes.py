"""Pure environments as a vector environment: slots that the host names, stepped in one compiled call.

This is the way for experts and policies that only the host can ask. Where all parts are pure, `runs.device`
keeps the whole round on the device.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, final

import jax
import numpy as np

from .pure import PureEnv, State, chosen, key_of
from .vector import Seen


@functools.lru_cache(maxsize=4)
def _programs(env: PureEnv) -> tuple[Any, Any]:
    """Beginning and stepping chosen slots. The vectors of one environment, for rounds, evaluations and the
    expert's, share them, so that a number of slots is traced and compiled once.
    """

    def begin(state: State, which: Any, seeds: Any) -> State:
        return chosen(which, jax.vmap(lambda seed: env.reset(key_of(seed)))(seeds), state)

    def step(state: State, which: Any, actions: Any) -> State:
        return chosen(which, jax.vmap(env.step)(state, actions), state)

    return jax.jit(begin, donate_argnums=0), jax.jit(step, donate_argnums=0)


@final
class PureVector:
    """See `VectorEnv`. An episode is a function of its seed and its actions."""

    many = True

    def __init__(self, env: PureEnv, count: int):
        self.observation_space, self.action_space = env.observation_space, env.action_space
        self.broken: dict[int, Exception] = {}
        self._env, self._count = env, count
        self._begin, self._step = _programs(env)
        one = jax.eval_shape(lambda seed: env.reset(key_of(seed)), np.uint32(0))
        self._state: Any = jax.tree.map(
            lambda leaf: jax.device_put(np.zeros((count, *leaf.shape), leaf.dtype)), one
        )
        self._seen: Any = None

    def _spread(self, slots: Any, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        which = np.zeros(self._count, bool)
        which[slots] = True
        full = np.zeros((self._count, *values.shape[1:]), values.dtype)
        full[slots] = values
        return which, full

    def begin(self, slots: Sequence[int] | np.ndarray, seeds: Sequence[int]) -> None:
        if len(slots):
            self._state = self._begin(self._state, *self._spread(slots, np.array(seeds, np.uint32)))
            self._seen = None

    def observe(self, slots: np.ndarray) -> Seen:
        if self._seen is None:
            self._seen = jax.device_get(self._state.observation)
        return Seen(jax.tree.map(lambda leaf: leaf[slots], self._seen), [{}] * len(slots))

    def step(self, slots: np.ndarray, actions: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        played = np.asarray(actions)
        played = played.astype(np.int32 if played.dtype.kind in "iu" else np.float32)
        self._state = self._step(self._state, *self._spread(slots, played))
        rewards, terminated, truncated, self._seen = jax.device_get(
            (self._state.reward, self._state.terminated, self._state.truncated, self._state.observation)
        )
        return rewards[slots].astype(np.float64), terminated[slots], truncated[slots]

    def close(self) -> None: ...
