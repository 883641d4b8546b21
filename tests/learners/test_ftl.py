"""Follow the leader: which minimiser, and what a round weighs."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import understudy
from understudy import objectives, programs
from understudy.losses import Squared
from understudy.online import make_game


def wide(rounds=6, features=9, samples=2, outputs=2, seed=0):
    """Fewer samples than features until late: the minimiser is not unique."""
    rng = np.random.default_rng(seed)
    return [
        (rng.normal(size=(samples, features)), rng.normal(size=(samples, outputs))) for _ in range(rounds)
    ]


def test_of_several_minimisers_the_nearest_to_the_last_iterate():
    listed = wide()
    result = understudy.replay(listed, learner=understudy.ftl(), comparator="none", keep_iterates=True)
    for t in range(1, len(listed) + 1):
        A = sum(X.T @ X / len(X) for X, _ in listed[:t])
        B = sum(X.T @ Y / len(X) for X, Y in listed[:t])
        w = result.iterates[t - 1]
        nearest = w + np.linalg.pinv(A, rcond=1e-10) @ (B - A @ w)
        np.testing.assert_allclose(result.iterates[t], nearest, atol=1e-9)
    # Not the least-norm minimiser: starting again from zero would be another rule.
    A = sum(X.T @ X / len(X) for X, _ in listed[:2])
    least = np.linalg.pinv(A, rcond=1e-10) @ sum(X.T @ Y / len(X) for X, Y in listed[:2])
    assert np.abs(result.iterates[2] - least).max() < 1e-8  # from w_1 = 0 the two agree by induction …
    moved = shifted_start(listed)
    assert np.abs(moved - least).max() > 0.1  # … and from elsewhere they do not


def shifted_start(listed):
    """FTL's second update from w_1 = 1, through the game that a replay plays."""
    with jax.enable_x64(True):
        start = jnp.ones((9, 2))
        game = make_game(understudy.policies.Linear(), Squared(), understudy.ftl(), "auto", start)
        batches = [objectives.batch(X, Y) for X, Y in listed[:2]]
        state, play = game.init(start, game.empty(start, batches[0], 8)), programs.compiled(game)
        w = np.ones((9, 2))
        for t, one in enumerate(batches, 1):
            state, _ = play(state, one, jax.random.key(0), None)
            A = sum(X.T @ X / len(X) for X, _ in listed[:t])
            B = sum(X.T @ Y / len(X) for X, Y in listed[:t])
            w = w + np.linalg.pinv(A, rcond=1e-10) @ (B - A @ w)
            np.testing.assert_allclose(state.learner.params, w, atol=1e-9)
        return np.asarray(state.learner.params)


@pytest.mark.parametrize("learner", [understudy.ftl(), understudy.ftrl(eta=0.5, start=100)])
def test_where_old_rounds_are_forgotten_the_nearest_to_the_last_iterate_too(learner):
    """A window of one round leaves open what earlier rounds said: only w_t knows of it, w_1 does not."""
    listed = wide(rounds=4)
    result = understudy.replay(
        listed, learner=learner, memory="window:1", comparator="none", keep_iterates=True
    )
    w = np.zeros((9, 2))
    for (X, Y), played in zip(listed, result.iterates[1:], strict=True):
        w = w + np.linalg.pinv(X) @ (Y - X @ w)
        np.testing.assert_allclose(played, w, atol=1e-9)
    X, Y = listed[-1]
    assert np.abs(w - np.linalg.pinv(X) @ Y).max() > 0.1  # the nearest to w_1 = 0


def test_the_update_itself_stays_near_to_where_it_is():
    """Called by itself, where it is known that there is no penalty and the centre has a branch of its own."""
    (X, Y), *_ = wide()
    with jax.enable_x64(True):
        like, start, learner = objectives.batch(X, Y), jnp.ones((9, 2)), understudy.ftl()
        losses = objectives.empty_statistics(understudy.policies.Linear(), Squared(), start).add(like)
        solve = understudy.solvers.closed_form()
        update = jax.jit(lambda state, g: learner.update(state, losses, g, solve)[0])
        state = update(learner.init(start), losses.gradient(start))
        nearest = 1.0 + np.linalg.pinv(X) @ (Y - X @ np.ones((9, 2)))
        np.testing.assert_allclose(state.params, nearest, atol=1e-9)


@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_rounds_of_unequal_size_weigh_the_same(loss):
    """Each sample weighs 1/M_i; pooling all samples would let the large rounds speak louder."""
    rng = np.random.default_rng(5)
    sizes = [1, 7, 3, 12, 2, 5]
    listed = [(rng.normal(size=(m, 3)), rng.normal(size=(m, 2)) + m / 4) for m in sizes]
    learner, options = understudy.ftl(), {"comparator": "none", "keep_iterates": True}
    result = understudy.replay(listed, loss=loss, learner=learner, **options)
    assert result.ledger["samples"].tolist() == sizes
    W = result.iterates[-1]

    def slope(X, Y):
        error = X @ W - Y
        return X.T @ (2 * error if loss == "squared" else np.clip(error, -1, 1))

    fair = sum(slope(X, Y) / len(X) for X, Y in listed)
    pooled = sum(slope(X, Y) for X, Y in listed) / sum(sizes)
    assert np.linalg.norm(fair) < 1e-9
    assert np.linalg.norm(pooled) > 1e-2
    first = listed[0][1]
    expected = np.mean(first**2, axis=0).sum() if loss == "squared" else None
    if expected is not None:
        assert result.ledger["loss"][0] == pytest.approx(expected, rel=1e-12)
