"""The gridworld: walls, labels and walks."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from understudy.envs import gridworld


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def test_moves_and_walls():
    size = gridworld.SIZE
    middle = 3 * size + 3
    ends = [int(gridworld.move(jnp.asarray(middle), jnp.asarray(a))) for a in range(5)]
    assert ends == [4 * size + 3, 2 * size + 3, middle - 1, middle + 1, middle]
    top_right = size * size - 1
    assert [int(gridworld.move(jnp.asarray(top_right), jnp.asarray(a))) for a in (0, 3)] == [top_right] * 2
    assert [int(gridworld.move(jnp.asarray(0), jnp.asarray(a))) for a in (1, 2)] == [0, 0]


@pytest.mark.parametrize(("t", "pair"), [(1, {0, 3}), (2, {1, 2}), (7, {0, 3}), (1000, {1, 2})])
def test_the_expert_turns_round_in_every_round_and_draws_evenly(t, pair):
    labels = jax.vmap(lambda key: gridworld.label(key, t))(jax.random.split(jax.random.key(0), 2000))
    values, counts = np.unique(labels, return_counts=True)
    assert set(values.tolist()) == pair
    assert abs(counts[0] / 2000 - 0.5) < 0.05


def test_a_walk_follows_the_policy_and_starts_anywhere():
    right = jnp.zeros((49, 5)).at[:, 3].set(50.0)
    keys = jax.random.split(jax.random.key(1), 3000)
    walks = jax.vmap(lambda key: gridworld.episode(key, right, 1))(keys)
    assert (np.asarray(walks.actions) == 3).all()
    cells = np.asarray(walks.cells)
    np.testing.assert_array_equal(cells[:, 1] % 7, np.minimum(cells[:, 0] % 7 + 1, 6))
    starts = np.bincount(cells[:, 0], minlength=49)
    assert starts.min() > 25 and starts.max() < 110  # 61 expected in each


def test_a_recorded_walk_does_not_depend_on_the_policy_and_an_own_walk_does():
    key, left = jax.random.key(4), jnp.zeros((49, 5)).at[:, 2].set(9.0)
    recorded = [gridworld.episode(key, params, 2, own=False) for params in (jnp.zeros((49, 5)), left)]
    np.testing.assert_array_equal(recorded[0].cells, recorded[1].cells)
    np.testing.assert_array_equal(recorded[0].labels, recorded[1].labels)
    assert (np.asarray(recorded[1].actions) == 2).all()
    many = jax.random.split(key, 20)
    own = [
        jax.vmap(lambda k, p=p: gridworld.episode(k, p, 2))(many).cells for p in (jnp.zeros((49, 5)), left)
    ]
    assert not np.array_equal(own[0], own[1])


def test_a_labelled_walk_weighs_a_round_as_one():
    walk = gridworld.episode(jax.random.key(0), jnp.zeros((49, 5)), 1)
    made = gridworld.labelled(walk)
    assert float(made.weights.sum()) == pytest.approx(1.0) and int(made.size) == 5
    np.testing.assert_array_equal(made.inputs, walk.cells)
    np.testing.assert_array_equal(made.targets.argmax(axis=1), walk.labels)
