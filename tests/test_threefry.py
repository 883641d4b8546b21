"""Random numbers drawn on the host against those of `jax.random`."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from understudy import threefry
from understudy.policies import MLP

SEEDS = (0, 1, 12345, 2**31, 2**32 - 1)


def same(ours: jax.Array, theirs: jax.Array) -> bool:
    return bool(np.array_equal(jax.random.key_data(ours), jax.random.key_data(theirs)))


@pytest.mark.parametrize("seed", SEEDS)
def test_keys_have_the_bits_of_jax(seed: int):
    key = threefry.key(seed)
    assert same(key, jax.random.key(seed))
    for number in (0, 1, 7, 2**32 - 1):
        assert same(threefry.fold_in(key, number), jax.random.fold_in(key, number))
    for ours, theirs in zip(threefry.split(key, 5), jax.random.split(key, 5), strict=True):
        assert same(ours, theirs)
    assert not same(threefry.split(key, 2)[0], threefry.split(key, 2)[1])


@pytest.mark.parametrize("seed", SEEDS)
def test_uniform_numbers_have_the_bits_of_jax(seed: int):
    """Exactly where the product is exact; else up to the roundings of a product and a sum."""
    key = jax.random.key(seed)
    for limit in (1.0, 11**-0.5, 0.01 / 3, 256**-0.5):
        ours = np.asarray(threefry.uniform(key, (37, 29), np.float32, limit))
        theirs = np.asarray(jax.random.uniform(key, (37, 29), np.float32, -limit, limit))
        assert ours.dtype == np.float32
        off = np.abs(ours - theirs).max() / limit
        assert off <= (2**-23 if limit not in (1.0, 256**-0.5) else 0.0)


def test_traced_draws_have_the_bits_of_jax():
    def theirs(key: jax.Array, limit: jax.Array) -> tuple[jax.Array, jax.Array]:
        key, now = jax.random.split(key)
        return jax.random.key_data(key), jax.random.randint(now, (33,), 0, limit)

    def ours(key: jax.Array, limit: jax.Array) -> tuple[jax.Array, jax.Array]:
        key, now = threefry.split(key, 2)
        return jax.random.key_data(key), threefry.below(now, 33, limit)

    limits = jax.numpy.asarray([1, 2, 777, 65536, 2**31 - 1], jax.numpy.int32)
    keys = jax.random.split(jax.random.key(9), len(limits))
    drawn = (jax.jit(jax.vmap(one))(keys, limits) for one in (ours, theirs))
    for a, b in zip(*drawn, strict=True):
        np.testing.assert_array_equal(a, b)
    with jax.enable_x64(True):  # numbers of 64 bits are JAX's own
        np.testing.assert_array_equal(jax.jit(ours)(keys[0], limits[2])[1], theirs(keys[0], limits[2])[1])


def test_what_the_host_cannot_draw_is_drawn_by_jax():
    key = jax.random.key(3)
    traced = jax.jit(lambda key: MLP(widths=(4,)).init(key, 3, 2))(key)
    drawn = MLP(widths=(4,)).init(key, 3, 2)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-7), traced, drawn)
    with jax.enable_x64(True):
        wide = threefry.uniform(key, (5,), np.float64, 0.5)
        np.testing.assert_array_equal(wide, jax.random.uniform(key, (5,), np.float64, -0.5, 0.5))
    other = jax.random.key(3, impl="rbg")
    assert same(threefry.fold_in(other, 1), jax.random.fold_in(other, 1))


def test_first_parameters_compile_nothing(compilations: list[str]):
    MLP(widths=(19, 23)).init(threefry.fold_in(threefry.key(5), 2), 7, 3)
    assert not compilations
