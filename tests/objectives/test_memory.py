"""Limited memory: windows against a direct sum of the last rounds, reservoirs against their probabilities."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

from understudy.losses import Huber, Squared
from understudy.objectives import Limited, batch, empty_statistics, limited, reservoir, window
from understudy.policies import Linear

SIZES = (3, 1, 4, 2, 4, 3, 1, 4)


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


def rounds(seed=0):
    rng = np.random.default_rng(seed)
    return [(rng.normal(size=(m, 3)), rng.normal(size=(m, 2))) for m in SIZES]


def padded(listed):
    return [batch(X, Y, rows=max(SIZES)) for X, Y in listed]


def squared(listed, W):
    return sum(np.sum((X @ W - Y) ** 2) / len(X) for X, Y in listed)


@jax.jit
def remembered(kept, one, W):
    """The memory with one round more, and what it recalls: losses, their value and gradient at W."""
    kept = kept.add(one)
    losses = kept.recall()
    return kept, losses, losses.value(W), losses.gradient(W)


@pytest.mark.parametrize("size", [1, 3, 8, 20])
def test_a_window_is_the_scaled_sum_of_the_last_rounds(size):
    listed, W = rounds(), np.random.default_rng(1).normal(size=(3, 2))
    kept = window(Linear(), Squared(), padded(listed)[0], size)
    for t, one in enumerate(padded(listed), 1):
        kept, losses, value, gradient = remembered(kept, one, W)
        recent = listed[max(t - size, 0) : t]
        wanted = t / len(recent) * squared(recent, W)
        assert float(value) == pytest.approx(wanted, rel=1e-12)
        slope = t / len(recent) * sum(2 * X.T @ (X @ W - Y) / len(X) for X, Y in recent)
        np.testing.assert_allclose(gradient, slope, rtol=1e-11, atol=1e-12)
        assert int(losses.rounds) == t
        # All of it lies in front, where minibatches are drawn; the weights of a round add up to 1.
        assert float(losses.weights @ losses.used) == pytest.approx(t, rel=1e-12)
    if size < len(listed):  # the sum of all rounds is something else
        assert abs(wanted / squared(listed, W) - 1) > 1e-3


def test_a_shorter_window_in_a_larger_buffer_is_the_same():
    kept = [window(Linear(), Huber(), padded(rounds())[0], 3, room=room) for room in (3, 7)]
    for new in padded(rounds()):
        kept = [each.add(new) for each in kept]
    W = jnp.ones((3, 2))
    assert float(kept[0].recall().value(W)) == float(kept[1].recall().value(W)) > 0


def held(size, keys, sizes=SIZES, room=None):
    """For each key, which of all samples (numbered by their input) a reservoir holds at the end."""
    number = np.cumsum([0, *sizes])
    listed = [
        batch(np.arange(a, b, dtype=float)[:, None] + 1, np.zeros((b - a, 1)), rows=max(sizes))
        for a, b in itertools.pairwise(number)
    ]

    def one(key):
        kept = reservoir(Linear(), Squared(), listed[0], size, key=key, room=room)
        for new in listed:
            kept = kept.add(new)
        found = kept.recall()
        return found.inputs[:, 0], found.weights, found.filled

    return jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(0), keys))


@pytest.mark.parametrize(("size", "room"), [(5, None), (5, 9), (1, None)])
def test_every_sample_is_kept_with_the_same_probability(size, room):
    keys, total = 4000, sum(SIZES)
    names, weights, filled = (np.asarray(a) for a in held(size, keys, room=room))
    alive = weights > 0
    assert (alive.sum(axis=1) == size).all() and (filled == size).all()
    assert alive[:, :size].all()  # what is kept lies in front, where minibatches are drawn
    numbers = names[:, :size].astype(int) - 1
    assert all(len(set(row)) == size for row in numbers[:200])  # without replacement
    counts = np.bincount(numbers.reshape(-1), minlength=total)
    # Each count is binomial(keys, size/total); the counts are dependent, as they add up: Pearson's statistic
    # is then (1 − size/total)·(total/(total − 1)) times a chi-square of total − 1 degrees of freedom.
    expected = keys * size / total
    statistic = np.sum((counts - expected) ** 2) / expected / ((1 - size / total) * total / (total - 1))
    assert 0.001 < special.chdtr(total - 1, statistic) < 0.999
    # Control: the same test sees that the first samples would be favoured by a tenth.
    biased = counts * np.where(np.arange(total) < 11, 1.1, 0.9)
    assert np.sum((biased - expected) ** 2) / expected > special.chdtri(total - 1, 1e-4)


def test_a_reservoir_gives_an_unbiased_sum_also_where_rounds_differ_in_size():
    size, total = 5, sum(SIZES)
    names, weights, _ = (np.asarray(a) for a in held(size, 4000))
    each = 1 / np.repeat(SIZES, SIZES)  # a sample weighs 1/M of its own round
    cost = 1 + 3 * each + 0.1 * np.sin(np.arange(total))
    whole = np.sum(each * cost)
    found = np.sum(np.where(weights > 0, weights * cost[np.clip(names.astype(int) - 1, 0, None)], 0), axis=1)
    error = found.std() / np.sqrt(len(found))
    assert abs(found.mean() - whole) < 4 * error < 0.05 * whole
    equal = np.sum(np.where(weights > 0, cost[np.clip(names.astype(int) - 1, 0, None)], 0), axis=1) * (
        len(SIZES) / size
    )
    assert abs(equal.mean() - whole) > 8 * error  # control: without the weights of the rounds it is biased


def test_a_reservoir_with_room_for_all_is_the_whole_sum():
    listed, W = rounds(), jnp.ones((3, 2))
    kept = reservoir(Linear(), Squared(), padded(listed)[0], 100, key=jax.random.key(1))
    for t, one in enumerate(padded(listed), 1):
        kept, _, value, _ = remembered(kept, one, W)
        assert float(value) == pytest.approx(squared(listed[:t], np.ones((3, 2))), rel=1e-12)


@pytest.mark.parametrize("memory", ["window:3", "reservoir:6"])
def test_statistics_of_what_is_kept_are_its_sum(memory):
    listed = padded(rounds())
    whole = empty_statistics(Linear(), Squared(), jnp.zeros((3, 2)))
    key = jax.random.key(3)
    kept = limited(memory, whole, listed[0], rounds=len(listed), samples=sum(SIZES), key=key)
    assert isinstance(kept, Limited)
    W = np.random.default_rng(2).normal(size=(3, 2))

    @jax.jit
    def added(kept, one):
        kept = kept.add(one)
        values = [losses.value(W) for losses in (kept.recall(), kept.memory.recall(), kept.whole)]
        return kept, values, kept.recall().rounds

    for t, one in enumerate(listed, 1):
        kept, (found, direct, all_rounds), number = added(kept, one)
        assert float(found) == pytest.approx(float(direct), rel=1e-11)
        assert int(number) == int(kept.rounds) == t
    assert float(found) != pytest.approx(float(all_rounds), rel=1e-3)
