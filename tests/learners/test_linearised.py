"""OGD and AdaGrad are FTRL on linearised losses, until a domain is active."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize

import understudy
from reference import FEATURES, OUTPUTS, ROUNDS, gradient, stream
from understudy import adaftrl, adagrad, alt_ftrl, ogd
from understudy.learners import linearised

STREAM = stream("huber", noise=2.0)


def play(learner, comparator="none"):
    return understudy.replay(STREAM, loss="huber", learner=learner, comparator=comparator, keep_iterates=True)


def naive(step, radius=None):
    """``w − step(t, g)``, projected; the plain loop."""
    iterates = [np.zeros((FEATURES, OUTPUTS))]
    for t, (X, Y) in enumerate(STREAM, 1):
        w = iterates[-1] - step(t, gradient("huber", iterates[-1], X, Y))
        size = np.linalg.norm(w)
        iterates.append(w if radius is None or size <= radius else w * radius / size)
    return iterates


class Norm:
    """η_t g_t of AdaGrad: the accumulator is a number, or one per coordinate."""

    def __init__(self, alpha, diagonal):
        self.alpha, self.diagonal, self.sum = alpha, diagonal, 0.0

    def __call__(self, t, g):
        self.sum = self.sum + (g**2 if self.diagonal else np.sum(g**2))
        return self.alpha * g / np.sqrt(self.sum)


def gap(a, b):
    return max(np.abs(v - w).max() for v, w in zip(a, b, strict=True))


CASES = {
    "constant": (
        ogd(eta=0.2, schedule="constant"),
        alt_ftrl(eta=0.2, schedule="constant"),
        lambda t, g: 0.2 * g,
    ),
    "sqrt": (ogd(eta=0.7), alt_ftrl(eta=0.7), lambda t, g: 0.7 / np.sqrt(t) * g),
    "adagrad": (adagrad(alpha=0.9), adaftrl(alpha=0.9), Norm(0.9, False)),
}


@pytest.mark.parametrize("kind", CASES)
def test_linearised_ftrl_is_ogd_without_a_domain(kind):
    online, offline, step = CASES[kind]
    plain = naive(step)
    assert gap(play(online).iterates, plain) < 1e-12
    assert gap(play(linearised(offline)).iterates, plain) < 1e-12
    assert np.ptp(np.stack(plain)) > 0.5


def test_lazy_and_greedy_differ_on_an_active_ball():
    greedy = play(ogd(eta=0.7, radius=0.5))
    lazy = play(linearised(alt_ftrl(eta=0.7, radius=0.5)))
    assert gap(greedy.iterates, naive(lambda t, g: 0.7 / np.sqrt(t) * g, radius=0.5)) < 1e-12
    norms = [np.linalg.norm(w) for w in greedy.iterates]
    assert max(norms) < 0.5 + 1e-12 and sum(n > 0.5 - 1e-9 for n in norms) > 5
    assert gap(greedy.iterates, lazy.iterates) > 0.05
    # A ball that is never reached changes nothing.
    wide = play(linearised(alt_ftrl(eta=0.7, radius=1e3)))
    assert gap(wide.iterates, play(ogd(eta=0.7, radius=1e3)).iterates) < 1e-12


def test_lazy_is_the_constrained_minimum_of_the_linear_sum():
    """min over the ball of <Σg, w> + Σ σ_i/2 ||w − w_i||² is the projection of the free minimiser."""
    lazy = play(linearised(alt_ftrl(eta=0.7, radius=0.5)))
    total, pull, before = 0.0, 0.0, 0.0
    for t, (X, Y) in enumerate(STREAM, 1):
        w, weight = lazy.iterates[t - 1], np.sqrt(t) / 0.7
        total = total + gradient("huber", w, X, Y)
        pull, before = pull + (weight - before) * w, weight
        free = (pull - total) / weight
        size = np.linalg.norm(free)
        np.testing.assert_allclose(lazy.iterates[t], free if size <= 0.5 else free * 0.5 / size, atol=1e-12)


def test_diagonal_adagrad_is_the_loop_per_coordinate():
    diagonal = play(adagrad(alpha=0.4, diagonal=True), "last")
    assert gap(diagonal.iterates, naive(Norm(0.4, True))) < 1e-12
    assert gap(diagonal.iterates, naive(Norm(0.4, False))) > 0.05
    assert diagonal.certificate.holds


def nearest_in_ball(z, weight, radius):
    """The point w of the ball with least Σ Λ (w − z)²: ``w = Λ z / (Λ + ν)``, ν by bisection."""
    if np.linalg.norm(z) <= radius:
        return z

    def outside(nu):
        return np.linalg.norm(weight * z / (weight + nu)) - radius

    return weight * z / (weight + optimize.brentq(outside, 0.0, 1e6, xtol=1e-14))


def test_diagonal_adagrad_projects_in_the_norm_of_its_weights():
    radius, w, squares, outside = 0.5, np.zeros((FEATURES, OUTPUTS)), 0.0, 0
    played = play(adagrad(alpha=0.4, diagonal=True, radius=radius)).iterates
    plain = naive(Norm(0.4, True), radius)  # with the projection of OGD
    for (X, Y), new in zip(STREAM, played[1:], strict=True):
        g = gradient("huber", w, X, Y)
        squares = squares + g**2
        free = w - 0.4 * g / np.sqrt(squares)
        w, outside = nearest_in_ball(free, np.sqrt(squares) / 0.4, radius), outside + (np.sum(free**2) > 0.25)
        np.testing.assert_allclose(new, w, atol=1e-9)
    assert outside > 5 and gap(played, plain) > 0.01


def test_a_start_outside_of_the_ball_is_brought_to_it():
    state = ogd(eta=0.7, radius=0.5).init(np.full((FEATURES, OUTPUTS), 2.0))
    np.testing.assert_allclose(state.params, np.full((FEATURES, OUTPUTS), 0.5 / 6**0.5), rtol=1e-6)
    np.testing.assert_array_equal(state.centre, state.params)


@pytest.mark.parametrize(
    "learner", [adaftrl(alpha=0.5), adagrad(alpha=0.5), adagrad(alpha=0.5, diagonal=True)]
)
def test_a_first_gradient_of_zero_is_no_division(learner):
    """The first round is answered exactly by w_1 = 0: Λ_1 = 0, and nothing may become nan."""
    quiet = [(X, np.zeros_like(Y)) for X, Y in STREAM[:2]]
    result = understudy.replay(
        quiet + STREAM[: ROUNDS - 2], loss="huber", learner=learner, comparator="none", keep_iterates=True
    )
    assert result.ledger["weight"][:2].tolist() == [0.0, 0.0] and result.ledger["weight"][2] > 0
    assert np.isfinite(np.stack(result.iterates)).all()
    np.testing.assert_allclose(result.iterates[2], 0.0, atol=1e-12)
    assert np.linalg.norm(result.iterates[3]) > 0.01
