"""Sums of rounds: streaming statistics and kept samples against direct sums."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from problems import added
from understudy import ftl, online
from understudy.losses import CrossEntropy, Huber, Squared
from understudy.objectives import Objective, batch, empty_samples, empty_statistics
from understudy.online import make_game
from understudy.policies import GRU, MLP, Linear

SIZES = (5, 2, 7, 1)


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


def rounds(seed, scale=1.0):
    rng = np.random.default_rng(seed)
    return [(scale * rng.normal(size=(m, 3)), rng.normal(size=(m, 2))) for m in SIZES]


def statistics(listed, bias=False, half=False):
    policy = Linear(bias=bias)
    losses = empty_statistics(policy, Squared(half=half), jnp.zeros((listed[0][0].shape[1] + bias, 2)))
    for X, Y in listed:
        losses = added(losses, batch(X, Y, rows=max(SIZES)))
    return losses


@given(seed=st.integers(0, 10**6), scale=st.sampled_from([1e-3, 1.0, 1e3]), half=st.booleans())
@settings(max_examples=15, derandomize=True, database=None)
def test_statistics_are_the_direct_sum(seed, scale, half):
    listed = rounds(seed, scale)
    with jax.enable_x64(True):
        losses = statistics(listed, bias=True, half=half)
        W = np.random.default_rng(seed + 1).normal(size=(4, 2))
        unit = 0.5 if half else 1.0
        rows = [(np.hstack([X, np.ones((len(X), 1))]), Y) for X, Y in listed]
        value = unit * sum(np.sum((X @ W - Y) ** 2) / len(X) for X, Y in rows)
        slope = unit * sum(2 * X.T @ (X @ W - Y) / len(X) for X, Y in rows)
        found, gradient = losses.value_and_gradient(jnp.asarray(W))
        assert float(found) == pytest.approx(value, rel=1e-12)
        assert float(losses.value(jnp.asarray(W))) == float(found)
        np.testing.assert_allclose(gradient, slope, rtol=1e-9, atol=1e-11 * np.abs(slope).max())
        assert int(losses.rounds) == len(SIZES)
        V = np.random.default_rng(seed + 2).normal(size=(4, 2))
        bend = unit * sum(2 * X.T @ (X @ V) / len(X) for X, Y in rows)
        product = losses.hessian_vector(jnp.asarray(W), jnp.asarray(V))
        np.testing.assert_allclose(product, bend, rtol=1e-9, atol=1e-11 * np.abs(bend).max())


def test_the_triangular_factor_beats_the_gram_matrix():
    """Condition 1e10 of the features: normal equations lose everything, the factor keeps five digits."""
    rng = np.random.default_rng(0)
    left, right = (np.linalg.qr(rng.normal(size=shape))[0] for shape in ((40, 4), (4, 4)))
    X = left @ np.diag([1.0, 1e-3, 1e-6, 1e-10]) @ right.T
    truth = rng.normal(size=(4, 2))
    listed = [(X[i : i + 10], X[i : i + 10] @ truth) for i in range(0, 40, 10)]
    losses = empty_statistics(Linear(), Squared(), jnp.zeros((4, 2)))
    for A, B in listed:
        losses = added(losses, batch(A, B))
    zero = jnp.zeros((4, 2))
    found, exists = losses.minimiser(zero, zero, jnp.asarray(0.0))
    gram, image = sum(A.T @ A for A, _ in listed), sum(A.T @ B for A, B in listed)
    normal = np.linalg.lstsq(gram, image, rcond=None)[0]
    ours, theirs = (np.abs(np.asarray(w) - truth).max() for w in (found, normal))
    assert bool(exists)
    assert ours < 1e-4 and theirs > 1e-2 and theirs > 1e3 * ours


@pytest.mark.parametrize("loss", [Huber(), CrossEntropy()], ids=["huber", "cross-entropy"])
def test_samples_in_chunks_are_the_direct_sum(loss):
    """The chunk does not matter, nor the padding that a short round leaves behind."""
    listed = rounds(4)
    if loss.categorical:
        listed = [(X, np.exp(Y) / np.exp(Y).sum(1, keepdims=True)) for X, Y in listed]
    W = jnp.asarray(np.random.default_rng(9).normal(size=(3, 2)))
    V = jnp.asarray(np.random.default_rng(8).normal(size=(3, 2)))

    def direct(w):
        parts = [jnp.mean(jax.vmap(loss)(X @ w, jnp.asarray(Y))) for X, Y in listed]
        return sum(parts)

    losses = empty_samples(Linear(), loss, batch(*listed[2]), capacity=sum(SIZES), chunk=4)
    for X, Y in listed:
        losses = added(losses, batch(X, Y, rows=max(SIZES)))
    evaluate = jax.jit(lambda s, w, v: (*s.value_and_gradient(w), s.hessian_vector(w, v), s.hessian(w)))
    value, gradient, product, hessian = evaluate(losses, W, V)
    expected = jax.jit(lambda w: (direct(w), jax.grad(direct)(w), jax.hessian(direct)(w).reshape(6, 6)))(W)
    assert int(losses.filled) == sum(SIZES) and float(value) == pytest.approx(float(expected[0]), rel=1e-12)
    np.testing.assert_allclose(gradient, expected[1], atol=1e-12)
    np.testing.assert_allclose(hessian, expected[2], atol=1e-12)
    np.testing.assert_allclose(jax.jit(lambda s, w: s._wide_hessian(w))(losses, W), expected[2], atol=1e-12)
    np.testing.assert_allclose(product.ravel(), expected[2] @ V.ravel(), atol=1e-12)


def test_the_objective_adds_tilt_and_weight_and_divides_by_the_rounds():
    listed = rounds(1)
    losses = statistics(listed)
    rng = np.random.default_rng(2)
    W, C, B = (rng.normal(size=(3, 2)) for _ in range(3))
    problem = Objective(losses, jnp.asarray(C), jnp.asarray(B), jnp.asarray(1.7))

    def whole(w, nu=0.0):
        total = sum(np.sum((X @ w - Y) ** 2) / len(X) for X, Y in listed)
        total += 1.7 / 2 * np.sum((w - C) ** 2) - np.sum((w - C) * B)
        return (total + nu / 2 * np.sum(w**2)) / 4

    assert float(problem.value(jnp.asarray(W))) == pytest.approx(whole(W))
    slope = [(whole(W + 1e-6 * E) - whole(W - 1e-6 * E)) / 2e-6 for E in np.eye(6).reshape(6, 3, 2)]
    np.testing.assert_allclose(np.ravel(problem.gradient(jnp.asarray(W))), slope, atol=1e-7)
    bend = (np.kron(sum(2 * X.T @ X / len(X) for X, _ in listed), np.eye(2)) + 1.7 * np.eye(6)) / 4
    np.testing.assert_allclose(problem.hessian(jnp.asarray(W)), bend, atol=1e-12)
    along = problem.hessian_vector(jnp.asarray(W), jnp.asarray(C))
    np.testing.assert_allclose(np.ravel(along), bend @ C.ravel(), atol=1e-12)
    # The Lagrangian differs from J + ν/2t||w||² by a constant.
    inner = problem.within(jnp.asarray(3.0))
    gaps = [float(inner.value(jnp.asarray(w))) - whole(w, 3.0) for w in (W, C, B)]
    assert np.ptp(gaps) < 1e-12


@pytest.mark.parametrize("policy", [MLP(widths=(4,)), GRU(width=4, widths=())], ids=["rows", "sequences"])
def test_a_large_round_is_the_sum_of_its_parts(monkeypatch, policy):
    """Loss, outputs and gradient of a network on a round that is added up in parts, the last one not full."""
    rng = np.random.default_rng(0)
    shape = (policy.minibatch * 2 + 3,) + ((5,) if policy.memory else ())
    one = batch(rng.normal(size=(*shape, 3)), rng.normal(size=(*shape, 2)), rng.uniform(size=shape))
    params = policy.init(jax.random.key(0), 3, 2)
    game = make_game(policy, Squared(), ftl(), "adam", params)
    whole = jax.jit(lambda params: game._measured(params, one))(params)
    monkeypatch.setattr(online, "LARGE", 1)
    parts = jax.jit(lambda params: game._measured(params, one))(params)
    for a, b in zip(jax.tree.leaves(parts), jax.tree.leaves(whole), strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
    assert any((a != b).any() for a, b in zip(jax.tree.leaves(parts), jax.tree.leaves(whole), strict=True))
