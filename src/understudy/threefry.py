"""The bits of `jax.random` with less to compile: on the host nothing at all.

A network's first parameters are drawn once. As programs their draws take longer to compile than a hundred
steps of a solver do. With other keys than JAX's usual ones, and for other numbers than of 32 bits,
`jax.random` itself draws; so it does for `fold_in` and `uniform` inside a traced function.
"""

# pyright: reportAttributeAccessIssue=false
# JAX says little of the types of its settings and trees.

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer
from jax.typing import DTypeLike

Words = Array | np.ndarray
"""Numbers of 32 bits, traced or on the host."""
IMPLEMENTATION = "threefry2x32"
ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))


def key(seed: int) -> Array:
    """``jax.random.key(seed)`` for 0 ≤ seed < 2³².

    >>> jax.random.key_data(key(3)).tolist()
    [0, 3]
    """
    if str(jax.config.jax_default_prng_impl) != IMPLEMENTATION:
        return jax.random.key(seed)
    return _wrapped(np.array([0, seed], np.uint32))


def fold_in(key: Array, number: int) -> Array:
    """``jax.random.fold_in(key, number)`` for 0 ≤ number < 2³².

    >>> key = jax.random.key(0)
    >>> bool(fold_in(key, 7) == jax.random.fold_in(key, 7))
    True
    """
    words = _words(key)
    if words is None or isinstance(words, Tracer):
        return jax.random.fold_in(key, number)
    return _wrapped(np.concatenate(_hash(words, np.zeros(1, np.uint32), np.full(1, number, np.uint32))))


def split(key: Array, count: int) -> list[Array]:
    """``jax.random.split(key, count)``, one by one.

    >>> key = jax.random.key(0)
    >>> [int(a == b) for a, b in zip(split(key, 3), jax.random.split(key, 3))]
    [1, 1, 1]
    """
    words = _words(key)
    if words is None:
        return list(jax.random.split(key, count))
    if isinstance(words, Tracer):
        both = jnp.stack(_apart(_traced_hash(words, *_counters(count))), axis=1)
        return [jax.random.wrap_key_data(both[i], impl=IMPLEMENTATION) for i in range(count)]
    return [_wrapped(words) for words in np.stack(_hash(words, *_counters(count)), axis=1)]


def below(key: Array, count: int, limit: Array) -> Array:
    """``jax.random.randint(key, (count,), 0, limit)`` for a limit ≥ 1 of 32 bits, where it is traced.

    >>> key, limit = jax.random.key(0), jnp.asarray(10)
    >>> bool((below(key, 4, limit) == jax.random.randint(key, (4,), 0, 10)).all())
    True
    """
    words = _words(key)
    if words is None or jnp.result_type(int) != np.int32:
        return jax.random.randint(key, (count,), 0, limit)
    # A key for the higher and one for the lower bits, and both halves of each number in one operation.
    keys = jnp.stack(_apart(_traced_hash(words, *_counters(2))))[:, :, None]
    first, second = _traced_hash(keys, *_counters(count))
    high, low = (first ^ second)[0]
    span = limit.astype(jnp.uint32)
    share = np.uint32(1 << 16) % span
    return (((high % span) * (share * share % span) + low % span) % span).astype(jnp.int32)


def uniform(key: Array, shape: tuple[int, ...], dtype: DTypeLike, limit: float) -> Array:
    """``jax.random.uniform(key, shape, dtype, -limit, limit)``; ``share·2·limit − limit`` is rounded once, as
    XLA does where it optimises and the processor has such an operation.

    >>> key = jax.random.key(0)
    >>> drawn = uniform(key, (2, 3), np.float32, 0.5)
    >>> bool((drawn == jax.random.uniform(key, (2, 3), np.float32, -0.5, 0.5)).all())  # an exact product
    True
    """
    words = _words(key)
    if words is None or isinstance(words, Tracer) or np.dtype(dtype) != np.float32:
        return jax.random.uniform(key, shape, dtype, -limit, limit)
    first, second = _hash(words, *_counters(int(np.prod(shape))))
    share = ((first ^ second) >> np.uint32(9) | np.uint32(0x3F800000)).view(np.float32) - np.float32(1)
    low, high = np.float32(-limit), np.float32(limit)
    # In float64 both product and sum are exact, so this rounds once.
    exact = share.astype(np.float64) * np.float64(high - low) + np.float64(low)
    return jax.device_put(np.maximum(low, exact.astype(np.float32)).reshape(shape))


def _wrapped(words: np.ndarray) -> Array:
    return jax.random.wrap_key_data(jax.device_put(words), impl=IMPLEMENTATION)


def _words(key: Array) -> Array | np.ndarray | None:
    """The two numbers of a key, by NumPy where it is no tracer; None where `jax.random` has to draw."""
    usual = jax.config.jax_threefry_partitionable
    if not usual or str(jax.random.key_impl(key)) != IMPLEMENTATION:
        return None
    words = jax.random.key_data(key)
    return words if isinstance(words, Tracer) else np.asarray(words)


def _apart(words: tuple[Array, Array]) -> tuple[Array, Array]:
    """`words`, computed once: the compiler would fuse them into every number that is drawn with them."""
    return jax.lax.optimization_barrier(words)


def _counters(count: int) -> tuple[np.ndarray, np.ndarray]:
    numbers = np.arange(count, dtype=np.uint64)
    return (numbers >> np.uint64(32)).astype(np.uint32), numbers.astype(np.uint32)


def _hash(key: Words, first: Words, second: Words) -> tuple[Words, Words]:
    """Threefry-2x32 with 20 rounds (Salmon et al. 2011) of the counters ``first·2³² + second``."""
    high, low = key[:1], key[1:]  # arrays, which overflow without a warning
    keys = [high, low, high ^ low ^ np.uint32(0x1BD11BDA)]
    first, second = first + keys[0], second + keys[1]
    for turn in range(5):
        for distance in ROTATIONS[turn % 2]:
            first = first + second
            second = (second << np.uint32(distance) | second >> np.uint32(32 - distance)) ^ first
        first = first + keys[(turn + 1) % 3]
        second = second + (keys[(turn + 2) % 3] + np.uint32(turn + 1))
    return first, second


_traced_hash = jax.jit(_hash)
"""The same inside a program: 120 operations that are traced once a shape, whatever programs draw."""
