"""What streaming statistics say of how far a sum can fall, against closed forms and fractions."""

from __future__ import annotations

from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from problems import added
from understudy.losses import Squared
from understudy.objectives import batch, empty_statistics
from understudy.policies import Linear


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


def after(*listed):
    losses = empty_statistics(Linear(), Squared(), jnp.zeros((listed[0][0].shape[1], listed[0][1].shape[1])))
    for X, Y in listed:
        losses = added(losses, batch(X, Y, dtype=np.float64))
    return losses


def line(x, y):
    """Rounds of one sample each, one feature, one output."""
    return after(*[(np.full((1, 1), a), np.full((1, 1), b)) for a, b in zip(x, y, strict=True)])


fall = jax.jit(lambda losses, *given: losses.fall(*given)[0])
fall_in_ball = jax.jit(lambda losses, *given: losses.fall_in_ball(*given))
ends = jax.jit(lambda losses, w, norm: (losses.below(w, norm), losses.above(w)))


@pytest.mark.parametrize("weight", [0.0, 0.7])
def test_a_fall_is_the_distance_to_the_minimum(weight):
    rng = np.random.default_rng(0)
    X, Y, w, c = (rng.normal(size=shape) for shape in ((9, 3), (9, 2), (3, 2), (3, 2)))
    losses = after((X, Y))

    def whole(u):
        return np.sum((X @ u - Y) ** 2) / 9 + weight / 2 * np.sum((u - c) ** 2)

    best = np.linalg.solve(2 * X.T @ X / 9 + weight * np.eye(3), 2 * X.T @ Y / 9 + weight * c)
    found = float(fall(losses, w, c, weight))
    assert found == pytest.approx(whole(w) - whole(best), rel=1e-9)


def test_a_tilt_moves_the_minimiser_without_a_penalty_too():
    losses, zero = line([2.0], [6.0]), jnp.zeros((1, 1))
    found, exists = jax.jit(lambda losses, *given: losses.minimiser(*given))(losses, zero, zero + 1.0, 0.0)
    assert bool(exists) and float(found[0, 0]) == pytest.approx(3.0 + 1 / 8)  # 8 (w − 3) = 1


def test_within_a_ball_it_is_the_parabolas_fall_or_the_slopes_across():
    near, flat = line([1.0], [0.3]), line([1e-5], [1e5])
    w = np.full((1, 1), 0.5)
    found = float(fall_in_ball(near, near.gradient(w), 0.0, w, 1.0))
    assert found == pytest.approx(0.2**2, rel=1e-6)
    w = np.full((1, 1), -1.0)
    true = float(flat.value(w) - flat.value(-w))
    found = float(fall_in_ball(flat, flat.gradient(w), 0.0, w, 1.0))
    assert true == pytest.approx(4.0, rel=1e-3) and true <= found < 1.01 * true + 1e-3


def test_on_a_sphere_the_lower_end_is_the_constrained_minimum():
    low, high = map(float, ends(line([1.0], [10.0]), np.ones((1, 1)), 1.0))
    assert 81.0 - 1e-6 < low <= 81.0 <= high < 81.0 + 1e-6


def test_ends_and_falls_hold_the_true_numbers_whatever_was_rounded():
    """One feature and one output, everything in fractions; at the computed minimiser all are roundings."""
    rng, charged = np.random.default_rng(0), 0
    for _ in range(12):
        x, y = rng.normal(size=6), rng.normal(size=6)
        losses = line(x, y)
        w = losses.image / losses.triangle
        a, b = [Fraction(v) for v in x.tolist()], [Fraction(v) for v in y.tolist()]
        square = sum(v * v for v in a)
        best = sum(v * u for v, u in zip(a, b, strict=True)) / square

        def value(point, a=a, b=b):
            return sum((point * v - u) ** 2 for v, u in zip(a, b, strict=True))

        here = Fraction(float(w[0, 0]))
        low, high = (Fraction(float(end)) for end in ends(losses, w, 10.0))
        assert low <= value(best) and value(here) <= high
        down = Fraction(float(fall(losses, w, jnp.zeros((1, 1)), 0.0)))
        assert value(here) - value(best) <= down
        charged += Fraction(float(losses.value(w))) != value(here)
    assert charged > 6


def test_roundings_of_all_rounds_add_up():
    """Higham's theorem 19.4 for each QR: its rows times its columns, in roundings of the columns' length."""
    rng, eps = np.random.default_rng(0), np.finfo(float).eps
    listed = [(rng.normal(size=(5, 3)), rng.normal(size=(5, 2))) for _ in range(6)]
    losses, expected = after(*listed[:1]), np.zeros(2)
    for t in range(1, 7):
        rows = [np.concatenate([pair[i] / np.sqrt(5) for pair in listed[:t]]) for i in (0, 1)]
        expected += 2 * (5 + 5) * 5 * eps * np.array([np.linalg.norm(part) for part in rows])
        if t > 1:
            losses = added(losses, batch(*listed[t - 1], dtype=np.float64))
        np.testing.assert_allclose(losses.rounding, expected, rtol=1e-9)
