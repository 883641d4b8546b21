"""Losses against hand values, finite differences, and what they say of targets."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy import UserError, ftl
from understudy.losses import Absolute, BinaryCrossEntropy, CrossEntropy, Huber, Squared, one_hot
from understudy.online import make_game
from understudy.policies import Linear
from understudy.solvers import ClosedForm, Descent, InteriorPoint

LOSSES = {
    "squared": Squared(),
    "half squared": Squared(half=True),
    "absolute": Absolute(),
    "huber": Huber(),
    "huber ¼": Huber(delta=0.25),
    "cross-entropy": CrossEntropy(),
}
numbers = st.lists(st.floats(-5, 5, allow_subnormal=False), min_size=3, max_size=3).map(np.array)
few = settings(max_examples=25, derandomize=True, database=None)


@pytest.fixture(scope="module")
def gradients():
    return {name: jax.jit(jax.value_and_grad(loss)) for name, loss in LOSSES.items()}


def target(name, row):
    if name != "cross-entropy":
        return row
    positive = np.exp(row)
    return positive / positive.sum()


def test_hand_values():
    out, answer = np.array([1.0, -2.0], np.float32), np.array([0.5, 1.0], np.float32)
    logits, chances = np.log(np.array([1.0, 2.0, 5.0], np.float32)), np.array([0.5, 0.0, 0.5], np.float32)
    found = jax.jit(lambda *given: {name: loss(*given) for name, loss in LOSSES.items()})(out, answer)
    assert float(found["squared"]) == pytest.approx(0.25 + 9.0)
    assert float(found["half squared"]) == pytest.approx(4.625)
    assert float(found["absolute"]) == pytest.approx(3.5)
    assert float(found["huber"]) == pytest.approx(0.125 + 2.5)
    assert float(found["huber ¼"]) == pytest.approx(0.25 * 0.375 + 0.25 * 2.875)
    found = jax.jit(CrossEntropy())(logits, chances)
    assert float(found) == pytest.approx(-0.5 * np.log(1 / 8) - 0.5 * np.log(5 / 8))


def test_large_logits_overflow_nothing():
    loss, slope = jax.jit(jax.value_and_grad(CrossEntropy()))(np.array([1000.0, 0.0]), np.array([0.0, 1.0]))
    assert float(loss) == pytest.approx(1000.0) and np.isfinite(slope).all()


@pytest.mark.parametrize(
    ("loss", "z", "y", "slopes"),
    [
        (CrossEntropy(), [19.0, 0.0], [1.0, 0.0], [-1, 1]),
        (CrossEntropy(groups=(2,)), [-10.0, 9.0], [0.0, 1.0], [1, -1]),
        (BinaryCrossEntropy(), [19.0], [1.0], [-1]),
        (lambda z, y: -jnp.sum(y * jax.nn.log_softmax(z)), [19.0, 0.0], [1.0, 0.0], None),  # the control
    ],
)
def test_the_derivatives_of_a_sure_answer_have_all_their_digits(loss, z, y, slopes):
    """Wrong with chance q = 1 / (1 + e¹⁹), an answer has slopes ± q and curvatures q (1 − q). Softmax leaves
    eight digits of 1 − p."""
    q, known = 1 / (1 + np.exp(19.0)), np.array(slopes or [-1, 1])
    with jax.enable_x64(True):
        found = jax.jit(lambda *given: (jax.grad(loss)(*given), jax.hessian(loss)(*given)))(
            np.array(z), np.array(y)
        )
    slope, bend = (np.asarray(one) for one in found)
    apart = max(abs(slope / (q * known) - 1).max(), abs(np.diagonal(bend) / (q * (1 - q)) - 1).max())
    assert (apart < 1e-14) == (slopes is not None) and apart < 1e-6


@pytest.mark.parametrize("name", LOSSES)
@given(out=numbers, row=numbers, way=numbers)
@few
def test_gradients_are_those_of_finite_differences(gradients, name, out, row, way):
    loss, answer = LOSSES[name], target(name, row)
    with jax.enable_x64(True):
        value, slope = gradients[name](jnp.asarray(out), jnp.asarray(answer))
        step = 1e-6
        ahead, behind = (float(gradients[name](jnp.asarray(out + s * way), answer)[0]) for s in (step, -step))
        kinks = np.abs(out - answer) if isinstance(loss, Absolute) else np.ones(3)
        if (kinks > 1e-4).all():
            measured = (ahead - behind) / (2 * step)
            assert float(np.vdot(slope, way)) == pytest.approx(measured, abs=1e-4 * (1 + np.abs(way).max()))
        # Convex: the tangent lies below, also where the slope is a subgradient at a kink.
        assert ahead >= float(value) + step * float(np.vdot(slope, way)) - 1e-9
        assert float(value) >= -1e-12


def test_the_subgradient_at_a_kink_is_zero():
    assert float(jax.grad(Absolute())(jnp.zeros(1), jnp.zeros(1))[0]) == 0.0


def test_labels_become_rows():
    np.testing.assert_array_equal(CrossEntropy().targets([2, 0]), [[0, 0, 1], [1, 0, 0]])
    np.testing.assert_array_equal(CrossEntropy().targets([[1], [0]], 2), [[0, 1], [1, 0]])
    np.testing.assert_array_equal(CrossEntropy().targets([[0.25, 0.75]]), [[0.25, 0.75]])
    np.testing.assert_array_equal(Squared().targets([1.0, 2.0]), [[1.0], [2.0]])


@pytest.mark.parametrize("labels", [[0, 3], [-1, 0], [0.5, 1.0], ["a", "b"]])
def test_labels_that_are_none(labels):
    with pytest.raises(UserError, match=r"^Y: label"):
        one_hot(np.array(labels), 3)


def test_an_absurd_label_is_refused_before_memory_is_taken_for_it():
    with pytest.raises(UserError, match="the most"):
        CrossEntropy().targets(np.array([0, 10**12]))


class Named(Squared):
    """The squared loss under another name."""


class Uneven(Squared):
    def __call__(self, outputs, target):
        return jnp.sum(jnp.array([10.0, 0.1]) * (outputs - target) ** 2)


class Quantile(Absolute):
    def __call__(self, outputs, target):
        return jnp.sum(jnp.maximum(0.9 * (target - outputs), 0.1 * (outputs - target)))


class Pinball(Quantile):
    """With a conjugate of its own."""

    def dual(self, slope, target):
        return super().dual(slope, target)


@pytest.mark.parametrize(
    ("loss", "proved", "solver"),
    [
        (Named, True, ClosedForm),
        (Uneven, False, Descent),
        (Quantile, False, Descent),
        (Pinball, True, Descent),
    ],
)
def test_what_is_known_of_a_loss_is_not_known_of_one_that_only_inherits_from_it(loss, proved, solver):
    game = make_game(Linear(), loss(), ftl(), "auto", np.zeros((2, 2)))
    assert (
        game.certified == proved
        and isinstance(game.solver, solver)
        and isinstance(game.comparator_solver, solver)
    )
    assert proved or game.uncertified.startswith(f"the loss {loss.__name__} gives no conjugate")
    shipped = make_game(Linear(), Absolute(), ftl(), "auto", np.zeros((2, 2)))
    assert isinstance(shipped.solver, InteriorPoint)
