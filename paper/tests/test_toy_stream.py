"""The toy problem: what a key fixes, what a round is, and what its numbers mean."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from paper import toy_stream as toy

posed = jax.jit(toy.problem)
drawn = jax.jit(toy.stream, static_argnums=1, static_argnames="categorical")


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def test_a_longer_stream_begins_with_the_shorter_one():
    problem = posed(jax.random.key(3), flip=1.0, noise=0.5)
    short, long = drawn(problem, 7), drawn(problem, 40)
    for a, b in zip(short, long, strict=True):
        np.testing.assert_array_equal(a, b[:7])


def test_without_noise_the_answers_are_the_experts_and_flip_turns_even_rounds():
    plain = posed(jax.random.key(0))
    flipped = posed(jax.random.key(0), flip=1.0)
    X, Y = drawn(plain, 6)
    np.testing.assert_allclose(Y, X @ plain.weights, atol=1e-12)
    X2, Y2 = drawn(flipped, 6)
    np.testing.assert_array_equal(X, X2)
    np.testing.assert_allclose(Y2, np.asarray(Y) * np.asarray([1, -1, 1, -1, 1, -1])[:, None], atol=1e-12)


def test_states_and_weights_are_standard_normal_and_keys_differ():
    many = jax.vmap(lambda key: posed(key).weights)(jax.random.split(jax.random.key(0), 400))
    X, _ = drawn(posed(jax.random.key(1)), 3000)
    for values in (np.asarray(many), np.asarray(X)):
        assert abs(values.mean()) < 0.03 and abs(values.std() - 1) < 0.03
    assert not np.allclose(many[0], many[1])


def test_noise_has_the_scale_that_was_asked_for():
    problem = posed(jax.random.key(2), noise=0.3)
    X, Y = drawn(problem, 3000)
    left = np.asarray(Y - X @ problem.weights)
    assert abs(left.std() - 0.3) < 0.01 and abs(left.mean()) < 0.01


def test_labels_follow_the_softmax_of_the_expert_and_without_noise_its_best_action():
    problem = posed(jax.random.key(5), noise=1.0)
    X, Y = drawn(problem, 20_000, categorical=True)
    assert set(np.unique(Y)) == {0.0, 1.0} and (np.asarray(Y).sum(axis=1) == 1).all()
    chance = np.asarray(jax.nn.softmax(X @ problem.weights, axis=1))
    # Calibrated: among samples to which an action has a chance of about p, a share p has that label.
    for low in (0.1, 0.4, 0.7):
        near = (chance > low) & (chance < low + 0.1)
        assert abs(np.asarray(Y)[near].mean() - chance[near].mean()) < 0.03
    sure = posed(jax.random.key(5), noise=0.0)
    X, Y = drawn(sure, 50, categorical=True)
    np.testing.assert_array_equal(np.argmax(Y, axis=1), np.argmax(X @ sure.weights, axis=1))
