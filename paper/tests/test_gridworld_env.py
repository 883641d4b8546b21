"""The gridworld: walls, labels and walks."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from paper import gridworld_env as gridworld


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


episode = jax.jit(gridworld.episode, static_argnames="own")
episodes = jax.jit(jax.vmap(gridworld.episode, in_axes=(0, None, None)))
move = jax.jit(gridworld.move)
ANY = np.zeros((49, 5))


def always(action: int, logit: float) -> np.ndarray:
    """Parameters of a policy that plays this action."""
    return ANY + logit * (np.arange(5) == action)


def test_moves_and_walls():
    size = gridworld.SIZE
    middle = 3 * size + 3
    ends = [int(move(middle, a)) for a in range(5)]
    assert ends == [4 * size + 3, 2 * size + 3, middle - 1, middle + 1, middle]
    top_right = size * size - 1
    assert [int(move(top_right, a)) for a in (0, 3)] == [top_right] * 2
    assert [int(move(0, a)) for a in (1, 2)] == [0, 0]


@pytest.mark.parametrize(("t", "pair"), [(1, {0, 3}), (2, {1, 2}), (7, {0, 3}), (1000, {1, 2})])
def test_the_expert_turns_round_in_every_round_and_draws_evenly(t, pair):
    keys = jax.random.split(jax.random.key(0), 2000)
    labels = jax.jit(jax.vmap(gridworld.label, in_axes=(0, None)))(keys, t)
    values, counts = np.unique(labels, return_counts=True)
    assert set(values.tolist()) == pair
    assert abs(counts[0] / 2000 - 0.5) < 0.05


def test_a_walk_follows_the_policy_and_starts_anywhere():
    keys = jax.random.split(jax.random.key(1), 3000)
    walks = episodes(keys, always(3, 50.0), 1)
    assert (np.asarray(walks.actions) == 3).all()
    cells = np.asarray(walks.cells)
    np.testing.assert_array_equal(cells[:, 1] % 7, np.minimum(cells[:, 0] % 7 + 1, 6))
    starts = np.bincount(cells[:, 0], minlength=49)
    assert starts.min() > 25 and starts.max() < 110  # 61 expected in each


def test_a_recorded_walk_does_not_depend_on_the_policy_and_an_own_walk_does():
    key, left = jax.random.key(4), always(2, 9.0)
    recorded = [episode(key, params, 2, own=False) for params in (ANY, left)]
    np.testing.assert_array_equal(recorded[0].cells, recorded[1].cells)
    np.testing.assert_array_equal(recorded[0].labels, recorded[1].labels)
    assert (np.asarray(recorded[1].actions) == 2).all()
    many = jax.random.split(key, 3000)
    own = [episodes(many, params, 2).cells for params in (ANY, left)]
    assert not np.array_equal(own[0], own[1])


def test_a_labelled_walk_weighs_a_round_as_one():
    walk = episode(jax.random.key(0), ANY, 1, own=False)
    made = jax.jit(gridworld.labelled)(walk)
    assert float(made.weights.sum()) == pytest.approx(1.0) and int(made.size) == 5
    np.testing.assert_array_equal(made.inputs, walk.cells)
    np.testing.assert_array_equal(made.targets.argmax(axis=1), walk.labels)
