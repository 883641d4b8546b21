"""`replay(memory=…)`: what the learner sees, what it is judged by, and what is refused."""

from __future__ import annotations

import dataclasses
import importlib

import jax.numpy as jnp
import numpy as np
import pytest

import understudy
from reference import FEATURES, FEW, OUTPUTS, gradient, stream

ROUNDS = stream("squared", seed=5)
LEARNERS = {"ftl": understudy.ftl(), "ftrl": understudy.ftrl(eta=0.3), "adaftrl": understudy.adaftrl()}


def least_squares(rounds, weight=0.0, centre=0.0):
    """The minimiser of Σ l_i + weight/2 ||w − centre||², by the normal equations."""
    A = sum(2 * X.T @ X / len(X) for X, _ in rounds)
    B = sum(2 * X.T @ Y / len(X) for X, Y in rounds)
    return np.linalg.solve(A + weight * np.eye(len(A)), B + weight * centre)


@pytest.mark.parametrize("name", LEARNERS)
def test_a_window_learner_plays_what_its_definition_says(name):
    assert departure(LEARNERS[name], 3) < 1e-7


def test_around_the_last_iterate_it_would_be_something_else(monkeypatch):
    """Control: the reformulation, where nobody switched it to the mean centre."""
    monkeypatch.setattr(importlib.import_module("understudy.online"), "around_mean", lambda learner: learner)
    assert departure(LEARNERS["ftl"], 3) < 1e-7  # it has no centre to speak of
    assert departure(LEARNERS["ftrl"], 3) > 1e-2


def departure(learner, size):
    """How far the iterates with a window are from the minimisers that define them, the largest difference."""
    played = understudy.replay(
        ROUNDS, learner=learner, memory=f"window:{size}", keep_iterates=True, comparator="none"
    )
    weights, centre, spent, found = played.ledger["weight"], played.iterates[0], 0.0, 0.0
    for t in range(1, len(ROUNDS) + 1):
        w = played.iterates[t - 1]
        if weights[t - 1] > 0:
            centre = centre + (weights[t - 1] - spent) / weights[t - 1] * (w - centre)
        spent = weights[t - 1]
        recent = ROUNDS[max(t - size, 0) : t]
        if np.linalg.matrix_rank(np.vstack([X for X, _ in recent])) < recent[0][0].shape[1] and spent == 0:
            continue  # several minimisers
        wanted = least_squares(recent, spent * len(recent) / t, centre)
        found = max(found, float(np.abs(played.iterates[t] - wanted).max()))
    return found


@pytest.mark.parametrize("memory", ["window:1000", "reservoir:100000"])
@pytest.mark.parametrize("name", ["ftrl"])
def test_a_memory_large_enough_is_all(name, memory):
    one, other = (understudy.replay(ROUNDS, learner=LEARNERS[name], memory=m) for m in ("all", memory))
    np.testing.assert_allclose(other.ledger["loss"], one.ledger["loss"], rtol=1e-7, atol=1e-12)
    np.testing.assert_allclose(other.ledger["comparator"], one.ledger["comparator"], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("loss", "memory"),
    [
        ("squared", "window:3"),
        ("squared", "reservoir:5"),
        pytest.param("huber", "reservoir:5", marks=pytest.mark.slow),
        pytest.param("absolute", "window:3", marks=pytest.mark.slow),
    ],
)
def test_the_certificate_holds_against_all_rounds(loss, memory):
    rounds = stream(loss, seed=7)
    for learner in (understudy.ftrl(eta=0.2), understudy.adaftrl(alpha=0.5)):
        played = understudy.replay(rounds, loss=loss, learner=learner, memory=memory, seed=2)
        ledger = played.ledger
        assert (ledger["regret"] <= ledger["bound"] * (1 + 1e-9) + 1e-9).all()
        # What was forgotten is told: the solves themselves were exact.
        assert ledger["residual"][-1] > 100 * ledger["solver_grad_norm"][-1] * ledger.rounds


def test_without_what_was_missed_the_certificate_would_be_wrong():
    """Control: a window's own solve leaves no residual, and the bound of exact solves is then violated."""
    rng, found = np.random.default_rng(0), []
    for _ in range(5):
        rounds = []
        for t in range(len(ROUNDS)):
            X = rng.normal(size=ROUNDS[0][0].shape)
            rounds.append((X, (-1.0) ** (t // 3) * X @ np.ones((X.shape[1], ROUNDS[0][1].shape[1]))))
        played, exact = (
            understudy.replay(rounds, learner=understudy.ftrl(eta=10.0), memory=memory)
            for memory in ("window:3", "all")
        )
        assert played.certificate.holds
        found.append(played.certificate.regret > exact.certificate.bound)
    assert any(found)


def test_slopes_of_what_is_remembered_prove_nothing_of_all_rounds():
    """A solver that stays at zero and offers slopes that add up to nothing: what is left is measured anew."""

    def offering(objective, params, key=None):
        still = understudy.solvers.Unsolved()(objective, params)
        return dataclasses.replace(still, dual=jnp.zeros_like(objective.losses.targets))

    rounds, learner = stream("huber", rounds=FEW), understudy.ftl()
    options = {"loss": "huber", "learner": learner, "solver": offering, "comparator": "none"}
    left = np.cumsum([gradient("huber", np.zeros((FEATURES, OUTPUTS)), X, Y) for X, Y in rounds], axis=0)
    played = understudy.replay(rounds, memory="window:2", **options)
    np.testing.assert_allclose(played.ledger["residual"], np.linalg.norm(left, axis=(1, 2)), rtol=1e-9)
    believed = understudy.replay(rounds, **options)  # control: of all samples the solver's slopes do count
    assert np.abs(believed.ledger["residual"]).max() < 1e-9


def test_minibatches_are_drawn_from_the_memory():
    options = {
        "learner": understudy.alt_ftrl(eta=0.3),
        "solver": "adam",
        "batch_size": 4,
        "max_iterations": 20,
        "comparator": "none",
    }
    runs = [
        understudy.replay(ROUNDS, memory=memory, seed=seed, **options)
        for memory, seed in (("reservoir:5", 1), ("reservoir:5", 1), ("reservoir:5", 2))
    ]
    assert runs[0].ledger.to_csv() == runs[1].ledger.to_csv() != runs[2].ledger.to_csv()


@pytest.mark.parametrize(
    ("memory", "learner", "sentence"),
    [
        ("windo:3", "ftl", "memory: 'windo:3' is not 'all'"),
        ("window", "ftl", "'window:ROUNDS'"),
        ("window:0", "ftl", "memory: 'window:0' is not 'all'"),
        ("reservoir:1.5", "ftl", "'reservoir:SAMPLES'"),
        (20, "ftl", "memory: 20 is not"),
        ("window:3", understudy.ogd(eta=0.1), "'ogd' keeps no past losses"),
    ],
)
def test_what_is_not_a_memory_is_refused(memory, learner, sentence):
    with pytest.raises(understudy.UserError, match=sentence):
        understudy.replay(ROUNDS, learner=learner, memory=memory)


def test_the_absolute_loss_on_a_ball_is_refused():
    with pytest.raises(understudy.UserError, match="absolute loss on a ball"):
        understudy.replay(
            ROUNDS, loss="absolute", learner=understudy.ftrl(eta=0.1, radius=1.0), memory="window:2"
        )


@pytest.mark.slow
def test_on_a_ball_the_certificate_holds_too():
    played = understudy.replay(
        ROUNDS, learner=understudy.ftrl(eta=0.5, radius=0.3), memory="window:2", comparator="every"
    )
    assert (played.ledger["regret"] <= played.ledger["bound"] + 1e-9).all()
