"""The interval of the regret holds the true one whatever the solver did, and what it is made of."""

from __future__ import annotations

from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import linprog, minimize

import understudy
from problems import added
from reference import FEATURES, FEW, OUTPUTS, SAMPLES
from understudy.losses import LOSSES, Absolute
from understudy.objectives import batch, empty_counts, empty_samples
from understudy.policies import Linear, Tabular
from understudy.regret import Certificate
from understudy.regret.interval import above, below
from understudy.solvers import project

FIVE = ("squared", "absolute", "huber", "cross-entropy", "binary-cross-entropy")
SHAPE = FEATURES, OUTPUTS


def stream(loss, condition, seed):
    """Rounds with features of this condition number, whose answers change sign now and then."""
    rng = np.random.default_rng(seed)
    W = rng.normal(size=SHAPE)
    turn, _ = np.linalg.qr(rng.normal(size=(FEATURES, FEATURES)))
    listed = []
    for t in range(FEW):
        X = rng.normal(size=(SAMPLES, FEATURES))
        Y = X @ (W if t % 3 else -W) + 0.5 * rng.normal(size=(SAMPLES, OUTPUTS))
        if loss == "cross-entropy":
            Y = np.exp(Y) / np.exp(Y).sum(axis=1, keepdims=True)
        if loss == "binary-cross-entropy":
            Y = 1 / (1 + np.exp(-Y))
        listed.append((X * np.logspace(0, -np.log10(condition), FEATURES) @ turn.T, Y))
    return listed


def whole(listed):
    X, Y = (np.concatenate([pair[i] for pair in listed]) for i in (0, 1))
    return X, Y, np.concatenate([np.full(len(pair[0]), 1 / len(pair[0])) for pair in listed])


def value(loss, Z, Y, a):
    """Σ of the weighted losses and the slopes, in plain NumPy."""
    if loss == "squared":
        return (a[:, None] * (Z - Y) ** 2).sum(), 2 * (Z - Y)
    if loss == "absolute":
        return (a[:, None] * np.abs(Z - Y)).sum(), np.sign(Z - Y)
    if loss == "huber":
        inside = np.clip(Z - Y, -1, 1)
        return (a[:, None] * inside * (Z - Y - inside / 2)).sum(), inside
    if loss == "cross-entropy":
        logs = Z - np.log(np.exp(Z - Z.max(1, keepdims=True)).sum(1, keepdims=True)) - Z.max(1, keepdims=True)
        return -(a[:, None] * Y * logs).sum(), np.exp(logs) - Y
    return (a[:, None] * (np.logaddexp(0, Z) - Y * Z)).sum(), 1 / (1 + np.exp(-Z)) - Y


def minimum(loss, listed):
    """The least cumulative loss and its parameters, found in an orthonormal basis of the features."""
    X, Y, a = whole(listed)
    Q, R = np.linalg.qr(X)
    if loss == "absolute":
        n, columns = len(X), []
        for y in Y.T:
            found = linprog(
                np.r_[np.zeros(FEATURES), a, a], A_eq=np.c_[Q, np.eye(n), -np.eye(n)], b_eq=y,
                bounds=[(None, None)] * FEATURES + [(0, None)] * 2 * n, method="highs",
            )  # fmt: skip
            columns.append(found.x[:FEATURES])
        V = np.stack(columns, axis=1)
    else:

        def both(v):
            total, slopes = value(loss, Q @ v.reshape(FEATURES, -1), Y, a)
            return total, (Q.T @ (a[:, None] * slopes)).ravel()

        options = {"gtol": 1e-10, "maxiter": 5000}
        found = minimize(both, np.zeros(FEATURES * OUTPUTS), jac=True, method="BFGS", options=options)
        V = found.x.reshape(FEATURES, -1)
    return value(loss, Q @ V, Y, a)[0], np.linalg.solve(R, V)


@pytest.mark.parametrize("condition", [1.0, 1e4, 1e8])
@pytest.mark.parametrize("loss", FIVE)
def test_the_interval_holds_the_true_regret(loss, condition):
    listed = stream(loss, condition, seed=3)
    made = understudy.replay(listed, loss=loss, learner=understudy.ftrl(eta=0.1), keep_iterates=True)
    least_loss, best = minimum(loss, listed)
    true = made.ledger["cumulative_loss"][-1] - least_loss
    slack = 1e-7 * (1 + abs(least_loss))  # the reference's own
    proof = made.certificate
    assert proof.kind == "certificate" and proof.holds and not proof.reason
    assert proof.low <= made.certificate.regret <= proof.high
    assert proof.low <= true + slack
    if np.linalg.norm(best) <= proof.norm:
        assert true <= proof.high + slack
    if made.ledger["comparator_status"][-1] == "converged" and condition < 1e8:
        assert np.linalg.norm(best) <= proof.norm and proof.high - proof.low < 1e-4


@jax.jit
def least(losses, params, slopes, norm):
    return below(losses, params, slopes, norm), above(losses, params)


def kept(loss, listed):
    rounds = [batch(X, Y, dtype=np.float64) for X, Y in listed]
    losses = empty_samples(Linear(), loss, rounds[0], capacity=FEW * SAMPLES)
    for one in rounds:
        losses = added(losses, one)
    return losses


@pytest.mark.parametrize("loss", FIVE)
def test_it_holds_wherever_the_solver_ended_and_whatever_slopes_it_offers(loss):
    """Parameters and slopes at random: the interval is wide, and holds the minimum; near it, it is narrow."""
    with jax.enable_x64(True):
        listed, rng = stream(loss, 1.0, seed=5), np.random.default_rng(0)
        true, best = minimum(loss, listed)
        losses = kept(LOSSES.resolve(loss), listed)
        norm = jnp.asarray(10 * np.linalg.norm(best))
        for scale in (0.0, 1e-9, 1e-3, 1.0, 30.0):
            w = jnp.asarray(best + scale * rng.normal(size=best.shape))
            offered = jnp.asarray(rng.normal(size=losses.targets.shape))
            for slopes in (None, offered):
                low, high = (float(side) for side in least(losses, w, slopes, norm))
                assert low <= true + 1e-9 <= high + 2e-9
                # The sign of an error is no good guess of the slope on a kink.
                if scale <= 1e-9 and slopes is None and loss != "absolute":
                    assert high - low < 1e-6


class Unclipped(Absolute):
    """Slopes outside [−1, 1], where the conjugate is infinite, are let through."""

    def inside(self, slope, target):
        return slope


def test_slopes_outside_the_conjugates_domain_would_prove_what_is_false():
    with jax.enable_x64(True):
        listed = stream("absolute", 1.0, seed=5)
        true, best = minimum("absolute", listed)
        X, Y, a = whole(listed)
        # Orthogonal to the features, so that nothing is charged, and ten times as steep as a slope can be.
        slopes = -10 * np.sign(Y - X @ best)
        slopes -= X @ np.linalg.lstsq((X * a[:, None]).T @ X, (X * a[:, None]).T @ slopes, rcond=None)[0]
        room = np.zeros((len(kept(Absolute(), listed).weights), OUTPUTS))
        room[: len(X)] = a[:, None] * slopes
        arguments = jnp.asarray(best), jnp.asarray(room), jnp.asarray(10 * np.linalg.norm(best))
        assert float(least(kept(Unclipped(), listed), *arguments)[0]) > 2 * true
        assert float(least(kept(Absolute(), listed), *arguments)[0]) <= true + 1e-9


def test_counts_have_an_interval_too():
    with jax.enable_x64(True):
        rng, policy, loss = np.random.default_rng(0), Tabular(states=4), LOSSES.resolve("cross-entropy")
        one = batch(rng.integers(0, 4, 40), np.eye(3)[rng.integers(0, 3, 40)], dtype=np.float64)
        losses = added(empty_counts(policy, loss, jnp.zeros((4, 3))), one)
        logits, true, attained = jax.jit(lambda losses: losses.frequencies())(losses)
        assert attained
        sides = jax.jit(lambda losses, w: (losses.below(w, 10.0), losses.above(w)))
        for w in (logits, np.zeros_like(logits)):
            low, high = sides(losses, w)
            assert low <= true <= high
        assert float(sides(losses, logits)[1]) - float(true) < 1e-9


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e3, 1e6])
def test_ftl_on_rank_deficient_data_has_a_finite_bound_at_every_scale(scale):
    rng = np.random.default_rng(0)
    basis, W = rng.normal(size=(3, 6)), rng.normal(size=(6, 2))
    listed = []
    for _ in range(12):
        X = rng.normal(size=(8, 3)) @ basis
        listed.append((X, scale * (X @ W + 0.1 * rng.normal(size=(8, 2)))))
    made = understudy.replay(listed, learner=understudy.ftl()).ledger
    assert np.isfinite(made["bound"]).all() and set(made["solver_status"]) == {"converged"}
    assert (made["bound"] >= made["regret_high"]).all()
    np.testing.assert_allclose(made["bound"], made["regret"], rtol=1e-6)  # solved exactly: they are equal


def test_the_projection_is_the_nearest_point_in_the_norm_of_the_weights():
    rng = np.random.default_rng(0)
    worse = 0
    with jax.enable_x64(True):
        onto = jax.jit(project)
        for trial in range(40):
            z, weight = 2 * rng.normal(size=4), 10 ** rng.uniform(-2, 2, size=4)
            weight[trial % 4] *= trial % 3 > 0  # now and then a coordinate without weight
            w = np.asarray(onto(z, 0.7, weight))

            def distance(x, z=z, weight=weight):
                return float(np.sum(weight * (x - z) ** 2))

            # The optimum, and no other point: on the sphere, with Λ(w − z) = −νw for some ν ≥ 0.
            pull = weight * (w - z)
            nu = -pull @ w / (w @ w)
            np.testing.assert_allclose(pull + nu * w, 0.0, atol=1e-9 * np.abs(weight * z).max())
            assert nu >= 0
            np.testing.assert_allclose(np.linalg.norm(w), 0.7, rtol=1e-12)
            worse += distance(0.7 * z / np.linalg.norm(z)) > distance(w) * (1 + 1e-6)
        assert worse > 30  # the Euclidean projection is another point


def test_a_certificate_is_the_same_after_json():
    made = Certificate(1.0, np.inf, {"rounds": 3.0, "distance": np.nan}, "certificate", 0.5, 1.5, 9.0, "why")
    assert repr(Certificate.read(made.described())) == repr(made)


def test_without_a_penalty_the_reason_stands_in_for_the_bound():
    listed = stream("huber", 1.0, seed=0)
    without = understudy.replay(
        listed, loss="huber", learner=understudy.ftl(), keep_iterates=True
    ).certificate
    assert without.bound == np.inf and "without a penalty" in without.reason
    assert without.low <= without.regret <= without.high  # the interval needs none


@pytest.mark.parametrize("answer", [0.4344264414439891, 0.027710001414813057])
def test_it_holds_however_often_the_sum_was_rounded(answer):
    """Each of 600 losses is exact, and adding them up is off by 75 roundings, downwards or upwards."""
    listed = [(np.ones((1, 1)), np.full((1, 1), answer))] * 600
    still = understudy.ogd(eta=1e-40)
    proof = understudy.replay(listed, loss="absolute", learner=still, comparator="last").certificate
    true = 600 * Fraction(answer)  # the best in hindsight loses nothing
    assert Fraction(proof.low) <= true <= Fraction(proof.high) <= Fraction(proof.bound)


@pytest.mark.parametrize("learner", [understudy.ftl(), understudy.ogd(eta=0.1)], ids=["ftl", "ogd"])
def test_a_regret_too_small_for_a_float_is_still_within_its_interval(learner):
    """The squares of the errors underflow: the computed losses are zero, and the true ones are not."""
    listed = [(X, 1e-165 * Y) for X, Y in stream("squared", 1.0, 0)]
    ledger = understudy.replay(listed, learner=learner).ledger
    assert (ledger["cumulative_loss"] == 0).all()
    assert (
        (ledger["regret_high"] > 0).all() and (ledger["bound"] > 0).all() and (ledger["regret_low"] < 0).all()
    )


@pytest.mark.parametrize("make", [understudy.ftl, lambda radius: understudy.ogd(eta=1.0, radius=radius)])
def test_a_ball_whose_squares_are_lost_in_a_float_is_refused(make):
    """With radius 1e-170 the regret of ``x = 1e100, y = 1e-66`` was printed as at most half of what it is."""
    assert make(radius=1e-140).radius == 1e-140
    with pytest.raises(
        understudy.UserError, match="radius: 1e-150 is less than 1e-140, and squares of such lengths"
    ):
        make(radius=1e-150)


def test_a_bound_holds_where_products_of_weights_and_squares_of_gradients_underflow():
    rng = np.random.default_rng(1)
    stream = [(1e-80 * rng.normal(size=(2, 1)), 1e-130 * rng.normal(size=(2, 1))) for _ in range(3)]
    for loss, learner in (("absolute", understudy.ogd(eta=1e160)), ("squared", understudy.ftrl(eta=1e150))):
        found = understudy.replay(stream, loss=loss, learner=learner, keep_iterates=True)
        played = [
            (Fraction(float(x)), Fraction(float(y)), Fraction(float(w.squeeze())))
            for (X, Y), w in zip(stream, found.iterates, strict=False)
            for x, y in zip(X.ravel(), Y.ravel(), strict=True)
        ]

        def cost(x, u, y, loss=loss):
            return abs(x * u - y) if loss == "absolute" else (x * u - y) ** 2

        best = [y / x for x, y, _ in played] + [
            sum(x * y for x, y, _ in played) / sum(x * x for x, _, _ in played)
        ]
        least = min(sum(cost(x, u, y) for x, y, _ in played) for u in best)
        true = (sum(cost(x, w, y) for x, y, w in played) - least) / 2
        proof = found.certificate
        assert Fraction(proof.low) <= true <= Fraction(proof.high) and true <= Fraction(proof.bound), loss
