"""The scale of inputs, of a new network and of a head, by hand."""

from __future__ import annotations

import jax
import numpy as np
from gymnasium import spaces

from understudy.policies import MLP, Actions, Linear, Normaliser, Observations, TrainedPolicy

ROWS = np.array([[1.0, 5.0, 0.0], [4.0, 5.0, 1.0], [7.0, 5.0, 1.0]], np.float32)
PLAIN = np.array([True, True, False])


def test_a_column_is_shifted_by_its_mean_and_divided_by_its_deviation():
    made = Normaliser.fit(ROWS, PLAIN)
    away = 3 / 6**0.5  # 3 and the deviation √6
    expected = [[-away, 0.0, 0.0], [0.0, 0.0, 1.0], [away, 0.0, 1.0]]
    np.testing.assert_allclose(made(ROWS), expected, atol=1e-6)
    np.testing.assert_allclose(jax.jit(made)(ROWS), expected, atol=1e-6)
    # What has not moved keeps its scale when it does, and what is no plain number stays as it is.
    np.testing.assert_allclose(made(np.array([[4.0, 7.0, 3.0]], np.float32)), [[0.0, 2.0, 3.0]], atol=1e-6)
    there = Normaliser.fit(jax.numpy.asarray(ROWS), PLAIN)
    np.testing.assert_allclose(there(ROWS), expected, atol=1e-6)
    still = Normaliser.fit(np.array([[5.0], [5.0 + 1e-6]]), np.array([True]))
    assert still.scale[0] == 1.0


def test_limits_hold_on_both_sides():
    made = Normaliser(np.array([1.0]), np.array([2.0]), limit=3.0)
    rows = np.array([[-99.0], [2.0], [99.0]], np.float32)
    assert made(rows).ravel().tolist() == jax.jit(made)(rows).ravel().tolist() == [-3.0, 0.5, 3.0]


def test_a_policy_acts_on_standardised_rows_alone_in_a_batch_and_with_a_memory():
    box = spaces.Box(-100, 100, (2,), np.float32)
    seen, acts, scale = Observations.of(box), Actions.of(box), Normaliser(np.array([1.0, -2.0]), [2.0, 4.0])
    made = TrainedPolicy(Linear(), np.eye(2), seen, acts, scale)
    row, rows = np.array([5.0, 2.0], np.float32), np.array([[5.0, 2.0], [1.0, -2.0]], np.float32)
    assert made.outputs(row).tolist() == made(row).tolist() == [2.0, 1.0]
    assert made(rows).tolist() == [[2.0, 1.0], [0.0, 0.0]]
    assert made.along(rows, np.zeros(2, int)).tolist() == [[2.0, 1.0], [0.0, 0.0]]


def test_a_new_network_has_the_variance_that_it_says_and_layers_of_their_own():
    layers = MLP(widths=(64, 64)).init(jax.random.key(0), 64, 64)
    for layer, share in zip(layers, (1.0, 1.0, 0.01), strict=True):
        weight = np.asarray(layer["weight"])
        np.testing.assert_allclose(weight.std(), share / (3 * 64) ** 0.5, rtol=0.05)
        assert np.abs(weight).max() <= share / 8.0 and not layer["bias"].any()
    assert abs(np.corrcoef(*(np.ravel(layer["weight"]) for layer in layers[:2]))[0, 1]) < 0.1


def test_a_tanh_head_reaches_its_bounds_and_no_further():
    policy = MLP(widths=(), head="tanh", low=(-1.0,), high=(5.0,))
    params = [{"weight": np.ones((1, 1), np.float32), "bias": np.zeros(1, np.float32)}]
    found = policy.apply(params, np.array([[-99.0], [0.0], [99.0]], np.float32))
    np.testing.assert_allclose(found.ravel(), [-1.0, 2.0, 5.0], atol=1e-6)
