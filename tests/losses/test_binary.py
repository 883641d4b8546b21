"""One logit: against SciPy, against a NumPy loop, and against softmax on two logits."""

from __future__ import annotations

import functools

import jax
import numpy as np
import pytest
from scipy import optimize, special

import understudy
from understudy import UserError, adagrad, ftl, ogd
from understudy.losses import BinaryCrossEntropy, CrossEntropy

FEATURES, ROUNDS, SAMPLES = 4, 30, 4


def stream():
    """Rounds of labels 0 and 1, drawn with the probability that a linear logit gives."""
    rng = np.random.default_rng(0)
    truth = rng.normal(size=FEATURES)
    inputs = [rng.normal(size=(SAMPLES, FEATURES)) for _ in range(ROUNDS)]
    return [(X, (rng.random(SAMPLES) < special.expit(X @ truth)).astype(int)) for X in inputs]


def total(w: np.ndarray, listed) -> float:
    return sum(np.mean(np.logaddexp(0, X @ w) - y * (X @ w)) for X, y in listed)


def slope(w: np.ndarray, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    return X.T @ (special.expit(X @ w) - y) / len(X)


@functools.partial(jax.jit, static_argnums=0)
def derivatives(loss, output, target):
    """Value, gradient and Hessian."""
    return loss(output, target), jax.grad(loss)(output, target), jax.hessian(loss)(output, target)


@pytest.mark.parametrize("z", [-700.0, -1.5, 0.0, 3.0, 700.0])
@pytest.mark.parametrize("y", [0.0, 0.3, 1.0])
def test_it_is_softmax_on_the_logits_0_and_z(z, y):
    with jax.enable_x64(True):
        one = derivatives(BinaryCrossEntropy(), np.array([z]), np.array([y]))
        two = derivatives(CrossEntropy(), np.array([0.0, z]), np.array([1 - y, y]))
    assert float(one[0]) == pytest.approx(float(two[0]), rel=1e-14, abs=1e-14)
    np.testing.assert_allclose(one[1][0], two[1][1], atol=1e-15)
    np.testing.assert_allclose(one[2][0, 0], two[2][1, 1], atol=1e-15)


def test_ftl_ends_at_scipys_minimiser_and_the_comparator_is_its_value():
    listed = stream()
    result = understudy.replay(listed, loss="binary", learner=ftl(), comparator="last")
    best = optimize.minimize(
        total, np.zeros(FEATURES), (listed,), jac=lambda w, s: sum(slope(w, X, y) for X, y in s), tol=1e-12
    )
    np.testing.assert_allclose(result.params[:, 0], best.x, atol=1e-7)
    assert result.ledger["comparator"][-1] == pytest.approx(best.fun, rel=1e-12)
    assert result.ledger["solver_status"][-1] == "converged" and result.params.shape == (FEATURES, 1)


@pytest.mark.parametrize(
    ("learner", "step"),
    [
        (ogd(eta=0.5), lambda t, squares: 0.5 / np.sqrt(t)),
        (adagrad(alpha=0.5), lambda t, squares: 0.5 / np.sqrt(squares)),
    ],
    ids=["ogd", "adagrad"],
)
def test_online_learners_against_a_loop_in_numpy(learner, step):
    listed, w, squares, said = stream(), np.zeros(FEATURES), 0.0, []
    for t, (X, y) in enumerate(listed, 1):
        said.append(X @ w)
        g = slope(w, X, y)
        squares += g @ g
        w = w - step(t, squares) * g
    result = understudy.replay(listed, loss="binary", learner=learner, comparator="last")
    np.testing.assert_allclose(result.params[:, 0], w, rtol=1e-12)
    np.testing.assert_allclose(result.predictions[:, 0], np.concatenate(said), rtol=1e-11, atol=1e-13)
    assert result.certificate.kind == "certificate" and result.certificate.holds


@pytest.mark.slow
def test_softmax_with_half_the_step_plays_the_same():
    """The difference of two logits moves twice as far as one logit."""
    listed = stream()
    one = understudy.replay(listed, loss="binary", learner=ogd(eta=0.5), comparator="last")
    half, same = (
        understudy.replay(listed, loss="softmax", learner=ogd(eta=eta), comparator="last")
        for eta in (0.25, 0.5)
    )
    away = half.predictions[:, 1] - half.predictions[:, 0]
    np.testing.assert_allclose(away, one.predictions[:, 0], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(half.ledger["loss"], one.ledger["loss"], rtol=1e-12)
    assert half.ledger["comparator"][-1] == pytest.approx(one.ledger["comparator"][-1], rel=1e-10)
    assert np.abs(same.ledger["loss"] - one.ledger["loss"]).max() > 1e-3  # control: the same step is another


def test_smoothness_is_a_quarter_of_the_largest_second_moment():
    listed = stream()
    result = understudy.replay(listed, loss="binary", learner=ogd(eta=0.5), comparator="last")
    moments = [np.linalg.eigvalsh(X.T @ X / len(X))[-1] for X, _ in listed]
    assert result.smoothness() == pytest.approx(max(moments) / 4, rel=1e-12)


def test_separable_labels_have_no_minimiser():
    X = np.array([[1.0, 0.5, 0.0, 0.0], [-1.0, 0.2, 0.0, 0.0]] * 2)
    result = understudy.replay([(X, [1, 0, 1, 0])] * ROUNDS, loss="binary", learner=ftl())
    assert set(result.ledger["solver_status"]) == {"no_minimiser"}


def test_labels_booleans_and_probabilities_are_targets_and_other_numbers_are_not():
    made = BinaryCrossEntropy().targets
    np.testing.assert_array_equal(made([0, 1]), [[0.0], [1.0]])
    np.testing.assert_array_equal(made([True, False]), [[1.0], [0.0]])
    np.testing.assert_array_equal(made([[0.25], [1.0]]), [[0.25], [1.0]])
    for bad, shown in ([0, 2], "2"), ([-1, 1], "-1"), ([0.5, 1.5], r"1\.5"):
        with pytest.raises(UserError, match=rf"^Y: {shown} is neither .*cross-entropy"):
            made(bad)


def test_names():
    from understudy.losses import LOSSES

    assert isinstance(LOSSES.resolve("binary"), BinaryCrossEntropy)
    assert isinstance(LOSSES.resolve("binary-cross-entropy"), BinaryCrossEntropy)
    assert isinstance(LOSSES.resolve("logistic"), CrossEntropy)  # as ever: softmax
