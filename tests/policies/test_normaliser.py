"""The scale of inputs by hand."""

from __future__ import annotations

import jax
import numpy as np

from understudy.policies import Normaliser

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
