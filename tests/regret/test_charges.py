"""What interval and bound are widened by, each on a stream on which they would be false without it."""

from __future__ import annotations

from fractions import Fraction
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import understudy
from problems import added
from reference import FEW, gradient, stream, value
from understudy.losses import LOSSES
from understudy.objectives import batch, empty_samples
from understudy.policies import Linear
from understudy.regret.interval import above, below, measure
from understudy.solvers import Solution, Status


class Still(eqx.Module):
    """A solver that always ends at one place, calls that solved, and may offer slopes of zero."""

    place: float = eqx.field(static=True)
    offers: bool = eqx.field(static=True, default=False)
    minibatch: ClassVar[bool] = False

    def __call__(self, objective, params, key=None):
        zero, one = jnp.zeros(()), jnp.ones((), jnp.int32)
        slopes = jnp.zeros_like(objective.losses.targets) if self.offers else None
        there = jnp.full_like(params, self.place)
        return Solution(there, one * Status.CONVERGED, zero, zero, one, one, 0 * there, zero, slopes)


def played(answer, solver, **how):
    listed = [(np.ones((1, 1)), np.full((1, 1), answer))] * FEW
    learner = understudy.alt_ftrl(eta=1.0, **how)
    return understudy.replay(listed, loss="absolute", learner=learner, solver=solver).ledger


def test_slopes_that_prove_little_are_charged_with_what_they_miss():
    """At w = 0 slopes of zero have no gradient, and the minorant that they make is below Σ|w − 1| by t."""
    ledger = played(1.0, Still(0.0, offers=True))
    rounds = np.arange(1, FEW + 1)
    np.testing.assert_allclose(ledger["regret"], rounds)  # against u = 1, which loses nothing
    assert (ledger["bound"] >= ledger["regret"]).all()
    # Gradients of length 1 against Λ_t = √t, and in round t what the slopes before it missed: t − 1.
    falls = np.cumsum(0.5 / np.sqrt(rounds))
    np.testing.assert_allclose(ledger["stability"], falls + rounds * (rounds - 1) / 2)
    assert falls[-1] + np.sqrt(FEW) / 2 < FEW  # without the gap: a bound that is false


def test_a_multiplier_inside_of_the_ball_is_charged_for_its_room():
    """At w = ½, in the ball of radius 1, a multiplier takes the gradient of Σ|w − 10| away, though the sphere
    is ½ off: it is charged with ½ of that gradient, t − ½ with the penalty's.
    """
    ledger = played(10.0, Still(0.5), radius=1.0)
    rounds = np.arange(1, FEW + 1)
    np.testing.assert_allclose(ledger["regret"], 1.0 + 0.5 * (rounds - 1))  # round 1 was played at 0
    assert (ledger["bound"] >= ledger["regret"]).all()
    falls, before = np.cumsum(0.5 / np.sqrt(rounds)), rounds - 1
    np.testing.assert_allclose(ledger["stability"], falls + before**2 / 4)
    assert falls[-1] + (1 + np.sqrt(FEW) / 4) / 2 < ledger["regret"][-1]  # without it: a bound that is false
    # Where the gradient points inwards there is no multiplier to take it away.
    ledger = played(-10.0, Still(0.5), radius=1.0)
    np.testing.assert_allclose(ledger["regret"], 1.0 + 1.5 * (rounds - 1))
    assert (ledger["bound"] >= ledger["regret"]).all()


def by_hand(loss, linear, listed, result, weights):
    """Σ ||g_t + r_t||²/2Λ_t after each round, and the bound, from the iterates and the definitions.

    r_t is the gradient of G_{t−1} at w_t, which linearised learners do not have. One bound is for the best in
    hindsight, one for w_{T+1}.
    """
    iterates, steps, falls = result.iterates, np.diff(weights, prepend=0.0), []
    for t, (w, (X, Y)) in enumerate(zip(iterates[:-1], listed, strict=True)):
        slope = gradient(loss, w, X, Y)
        if not linear:
            slope = slope + sum(gradient(loss, w, *one) for one in listed[:t])
            slope = slope + sum(s * (w - v) for s, v in zip(steps[:t], iterates, strict=False))
        falls.append(np.sum(slope**2) / 2 / weights[t])
    found, low = [], result.ledger["cumulative_loss"][-1] - result.certificate.high
    for u in (result.comparator, iterates[-1]):
        away = sum(s * np.sum((u - w) ** 2) for s, w in zip(steps, iterates, strict=False)) / 2
        found.append(sum(falls) + away + sum(value(loss, u, *one) for one in listed) - low)
    return np.cumsum(falls), min(found)


ROOTS = np.sqrt(np.arange(1, FEW + 1))
SLOPPY = understudy.solvers.gd(max_iterations=2, first_step=0.05, growth=1.0)


@pytest.mark.parametrize(
    ("loss", "learner", "how"),
    [
        ("squared", understudy.ogd(eta=0.5), {}),
        ("huber", understudy.alt_ftrl(eta=0.5), {}),
        ("huber", understudy.alt_ftrl(eta=0.5), {"solver": SLOPPY}),
    ],
    ids=["linear", "exact", "inexact"],
)
def test_stability_and_bound_are_those_of_their_definitions(loss, learner, how):
    listed = stream(loss, seed=3, rounds=FEW)
    result = understudy.replay(
        listed, loss=loss, learner=learner, comparator="last", keep_iterates=True, **how
    )
    falls, bound = by_hand(loss, learner.linear, listed, result, ROOTS / 0.5)
    np.testing.assert_allclose(result.ledger["stability"], falls, rtol=1e-6)
    assert bound * (1 - 1e-9) <= result.certificate.bound <= bound * (1 + 1e-6)
    assert result.certificate.norm == pytest.approx(
        10 * max(np.linalg.norm(w) for w in [*result.iterates, result.comparator])
    )


def kept(loss, X, Y):
    one = batch(X, Y, dtype=np.float64)
    return one, added(empty_samples(Linear(), LOSSES.resolve(loss), one, capacity=len(X)), one)


def exactly(loss, X, Y, w):
    """Loss of each sample and its slope, as fractions; one output."""
    errors = [
        sum(Fraction(float(x)) * Fraction(float(u)) for x, u in zip(row, w, strict=True)) - Fraction(float(y))
        for row, y in zip(X, Y, strict=True)
    ]
    if loss == "absolute":
        return [abs(e) for e in errors], [Fraction((e > 0) - (e < 0)) for e in errors]
    if loss == "squared":
        return [e * e for e in errors], [2 * e for e in errors]
    inside = [max(min(e, Fraction(1)), Fraction(-1)) for e in errors]
    return [i * (e - i / 2) for e, i in zip(errors, inside, strict=True)], inside


@jax.jit
def computed(losses, w):
    return losses.value(w), above(losses, w)


@pytest.mark.parametrize("loss", ["absolute", "huber", "squared"])
def test_the_loss_of_answers_met_to_rounding_is_below_its_upper_end(loss):
    """Targets are the outputs as they are computed: the computed loss is zero, and the true one is not."""
    rng, lost = np.random.default_rng(0), 0
    with jax.enable_x64(True):
        for _ in range(5):
            X, w = 100 * rng.normal(size=(4, 5)), rng.normal(size=(5, 1))
            Y = np.asarray(jax.jit(jnp.matmul)(X, w))
            _, losses = kept(loss, X, Y)
            value, high = (Fraction(float(one)) for one in computed(losses, w))
            true = sum(exactly(loss, X, Y[:, 0], w[:, 0])[0]) / len(X)
            assert true <= high
            lost += value < true
    assert lost >= 4


@pytest.mark.parametrize("scale", [1.0, 1e-170])
@pytest.mark.parametrize("loss", ["absolute", "huber"])
def test_a_long_sum_is_below_its_upper_end_however_it_is_rounded(loss, scale):
    """At w = 0 every output is exact: what is left are the roundings of 600 losses and of their sum, and that
    squares vanish.
    """
    rng, lost = np.random.default_rng(0), 0
    with jax.enable_x64(True):
        for _ in range(6):
            Y = scale * rng.random((600, 1))
            _, losses = kept(loss, np.ones((600, 1)), Y)
            value, high = (Fraction(float(one)) for one in computed(losses, np.zeros((1, 1))))
            weight = Fraction(1 / 600)
            true = weight * sum(exactly(loss, np.ones((600, 1)), Y[:, 0], [0.0])[0])
            assert true <= high
            lost += value < true
    assert lost


@jax.jit
def lower(losses, w, slopes, norm):
    return below(losses, w, slopes, norm), jnp.sum(losses.weights * jnp.abs(losses.targets[:, 0]))


def test_a_long_sum_is_above_its_lower_end_however_it_is_rounded():
    """Answers ±a, whose minimiser 0 loses Σ a; slopes ±1 prove it but for the roundings of the sum."""
    rng, gained = np.random.default_rng(0), 0
    with jax.enable_x64(True):
        for _ in range(8):
            half = rng.random(300)
            Y = np.stack([half, -half], axis=1).reshape(600, 1)
            one, losses = kept("absolute", np.ones((600, 1)), Y)
            room = len(losses.weights)
            slopes = np.zeros((room, 1))
            slopes[:600] = -np.sign(Y) * np.asarray(one.weights)[:, None]
            low, value = (float(end) for end in lower(losses, np.zeros((1, 1)), slopes, 1e-6))
            true = Fraction(1 / 600) * 2 * sum(map(Fraction, half.tolist()))
            assert Fraction(low) <= true and low > 0.999 * float(true)
            gained += Fraction(value) > true
    assert gained


@jax.jit
def round_of(one, w, loss):
    found = jax.value_and_grad(lambda w: jnp.sum(one.weights * jax.vmap(loss)(one.inputs @ w, one.targets)))(
        w
    )
    return *found, measure(Linear(), loss, w, one)


@pytest.mark.parametrize("where", ["met to rounding", "a long sum", "vanishing"])
@pytest.mark.parametrize("loss", ["huber", "squared"])
def test_what_rounding_did_to_a_round_is_at_most_what_it_is_charged_with(loss, where):
    rng, off, bent = np.random.default_rng(0), 0, 0
    with jax.enable_x64(True):
        for _ in range(5):
            X, w = 100 * rng.normal(size=(200, 3)), np.zeros((3, 1))
            Y = rng.random((200, 1)) * (1e-170 if where == "vanishing" else 1.0)
            if where == "met to rounding":
                w = rng.normal(size=(3, 1))
                Y = np.asarray(jax.jit(jnp.matmul)(X, w))
            one, _ = kept(loss, X, Y)
            value, gradient, seen = round_of(one, w, LOSSES.resolve(loss))
            values, slopes = exactly(loss, X, Y[:, 0], w[:, 0])
            weight = Fraction(1 / 200)
            wrong = abs(Fraction(float(value)) - weight * sum(values))
            assert wrong <= Fraction(float(seen.loss))
            true = [
                weight * sum(s * Fraction(float(x)) for s, x in zip(slopes, column, strict=True))
                for column in X.T
            ]
            away = [Fraction(float(g)) - t for g, t in zip(gradient[:, 0], true, strict=True)]
            assert sum(a * a for a in away) <= Fraction(float(seen.gradient)) ** 2
            off, bent = off + (wrong > 0), bent + any(away)
    assert off and (bent or where == "vanishing")
