"""An operation that is kept beside the compilation cache: the same numbers, and traced once."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from understudy.envs.mjx import Kept

X, Y = np.arange(24, dtype=np.float32).reshape(4, 3, 2), np.array([2.0, 5.0], np.float32)


@pytest.fixture
def cache(tmp_path):
    """A compilation cache for what is kept; JAX itself goes on with its own."""
    before = jax.config.jax_compilation_cache_dir
    jax.config.update("jax_compilation_cache_dir", str(tmp_path))
    yield tmp_path
    jax.config.update("jax_compilation_cache_dir", before)


class Plain:
    """A function of two rows that counts how often it is traced."""

    traced = 0

    def __init__(self, factor=3.0):
        self.factor = factor

    def __call__(self, x, y):
        Plain.traced += 1
        return x * x + self.factor * jnp.cumsum(y)[::-1]


def test_rows_and_stacks_of_rows_give_what_the_function_gives(cache):
    plain, kept = Plain(), Kept(Plain(), (2,), b"")
    two = jax.vmap(jax.vmap(kept, (0, None)), (1, None), 1)(X, Y)
    np.testing.assert_array_equal(two, X * X + 3 * np.array([7.0, 2.0], np.float32))
    np.testing.assert_array_equal(two, jax.vmap(jax.vmap(plain, (0, None)), (1, None), 1)(X, Y))
    np.testing.assert_array_equal(kept(X[0, 0], Y), two[0, 0])
    looped = jax.jit(lambda x: jax.lax.scan(lambda c, row: (c, kept(row, Y)), 0.0, x)[1])(X[0])
    np.testing.assert_array_equal(looped, two[0])


def test_what_is_in_the_cache_is_not_traced_again(cache):
    def play(factor, about=b"", rows=X[0]):
        before, call = Plain.traced, Kept(Plain(factor), (2,), about)
        found = jax.jit(jax.vmap(lambda x: call(x, Y)))(rows)
        return np.asarray(found), Plain.traced - before

    first, traced = play(3.0)
    assert traced == 1
    (file,) = cache.glob("understudy-*")
    again, traced = play(4.0)  # another function with the same name of what it is: the file counts
    assert traced == 0
    np.testing.assert_array_equal(again, first)
    other, traced = play(4.0, b"other")
    assert traced == 1 and (other != first).all()
    assert play(3.0, rows=X[1, :2])[1] == 1  # another shape
    whole = file.read_bytes()
    for bad in (b"", whole[:-1], whole[:-1] + bytes([whole[-1] ^ 1])):  # damaged: made anew, and whole again
        file.write_bytes(bad)
        found, traced = play(3.0)
        assert traced == 1 and file.read_bytes()[32:] != bad[32:]
        np.testing.assert_array_equal(found, first)


def test_a_cache_that_cannot_be_written_is_none(cache):
    cache.rmdir()
    cache.write_text("no folder")
    assert jax.jit(jax.vmap(Kept(lambda x: 2 * x, (2,), b"")))(X[0]).tolist() == (2 * X[0]).tolist()
    cache.unlink()
    cache.mkdir()
