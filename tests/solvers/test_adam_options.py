"""Adam's decay and proximal steps: the same minimisers, found more closely."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import understudy
from problems import solve
from understudy import UserError, alt_ftrl, ftl, ftrl
from understudy.losses import Squared
from understudy.objectives import batch, empty_samples, plain
from understudy.policies import MLP, Linear
from understudy.solvers import adam
from understudy.solvers.stochastic import DECAYS


def stream(rounds: int = 4) -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(0)
    truth = rng.standard_normal((4, 2))
    inputs = [rng.standard_normal((6, 4)) for _ in range(rounds)]
    return [(X, X @ truth + 0.3 * rng.standard_normal((6, 2))) for X in inputs]


def replay(listed, **options):
    return understudy.replay(listed, comparator="none", **options)


@pytest.mark.parametrize("learner", [alt_ftrl(eta=0.5), ftrl(eta=0.5)], ids=["mean centre", "last centre"])
@pytest.mark.parametrize("proximal", [False, True])
def test_the_minimiser_is_that_of_the_closed_form(learner, proximal):
    exact = replay(stream(), learner=learner)
    solver = adam(learning_rate=0.02, max_iterations=20_000, decay="cosine", proximal=proximal)
    found = replay(stream(), learner=learner, solver=solver)
    assert np.abs(found.params - exact.params).max() < 1e-7
    # Negative control: without the penalty it would be somewhere else.
    assert np.abs(replay(stream(), learner=ftl()).params - exact.params).max() > 1e-2


@pytest.mark.slow
@pytest.mark.parametrize("decay", ["linear", "cosine"])
def test_a_step_that_decays_ends_nearer_on_minibatches(decay):
    best = replay(stream(), learner=ftl()).params
    options = {"learning_rate": 0.05, "max_iterations": 2000, "batch_size": 4}
    away = {
        name: np.linalg.norm(replay(stream(), solver=adam(decay=name, **options)).params - best)
        for name in ("none", decay)
    }
    assert away[decay] < 0.5 * away["none"]


def test_an_unknown_decay_is_refused():
    with pytest.raises(UserError, match="did you mean 'cosine'"):
        adam(decay="cosin")


def test_weight_decay_is_that_of_adamw():
    """Against optax's AdamW by hand on one round; a penalty in the gradient (L2) is another method."""
    inputs, targets = stream(1)[0]
    rate, decay, steps = 0.05, 0.7, 30
    with jax.enable_x64(True):
        gradient = jax.grad(lambda w: jnp.sum((inputs @ w - targets) ** 2) / len(inputs))

        def descend(method, added):
            w = jnp.zeros((4, 2))
            state = method.init(w)

            @jax.jit
            def step(w, state):
                move, state = method.update(gradient(w) + added * w, state, w)
                return optax.apply_updates(w, move), state

            for _ in range(steps):
                w, state = step(w, state)
            return np.asarray(w)

        wanted = descend(optax.adamw(rate, weight_decay=decay), 0.0)
        other = descend(optax.adam(rate), decay)
    solver = adam(learning_rate=rate, max_iterations=steps, weight_decay=decay)
    found = replay(stream(1), learner=ftl(), solver=solver).params
    assert np.abs(found - wanted).max() < 1e-12
    assert np.abs(found - other).max() > 1e-2


def test_the_lasso_is_a_proximal_step_on_the_weights_of_each_input():
    """Against optax's Adam and the proximal operator by hand; a penalty in the gradient is another method."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 3))
    policy, rate, lasso, steps = MLP((4,)), 0.05, 0.3, 60
    with jax.enable_x64(True):
        start = policy.init(jax.random.key(0), 3, 1)
        one = batch(X, X[:, :1], dtype=np.float64)
        losses = empty_samples(policy, Squared(), one, capacity=40).add(one)

        def error(params, penalty):
            away = policy.apply(params, jnp.asarray(X)) - X[:, :1]
            rows = jnp.sqrt(jnp.sum(params[0]["weight"] ** 2, axis=1) + 1e-30)
            return jnp.sum(away**2) / len(X) + penalty * 2.0 * jnp.sum(rows)  # 2 is the root of the width

        @functools.partial(jax.jit, static_argnums=0)
        def stepped(method, params, state, penalty):
            move, state = method.update(jax.grad(error)(params, penalty), state)
            return optax.apply_updates(params, move), state

        def descend(method, penalty, shorten):
            params, state = start, method.init(start)
            for _ in range(steps):
                params, state = stepped(method, params, state, penalty)
                if shorten:
                    rows = [
                        row * max(0.0, 1 - 2 * rate * lasso / np.linalg.norm(row)) if np.any(row) else row
                        for row in np.asarray(params[0]["weight"])
                    ]
                    params = [{**params[0], "weight": jnp.asarray(rows)}, *params[1:]]
            return params

        method = optax.adam(rate)
        wanted = descend(method, 0.0, shorten=True)
        other = descend(method, lasso, shorten=False)
        solver = adam(learning_rate=rate, max_iterations=steps, lasso=lasso)
        found = solve(solver, plain(losses, start), start)[1].params
    weights = [np.asarray(made[0]["weight"]) for made in (found, wanted, other)]
    assert all(
        np.abs(a - b).max() < 1e-10 for a, b in zip(*map(jax.tree.leaves, (found, wanted)), strict=True)
    )
    assert np.abs(weights[0] - weights[2]).max() > 1e-2
    # The targets know the first input alone: the others are out, to the last bit, and it is in.
    assert weights[0][0].any() and not weights[0][1:].any() and weights[2][1:].any()


@pytest.mark.parametrize("option", ["weight_decay", "lasso"])
def test_negative_options_are_refused(option):
    with pytest.raises(UserError, match=option):
        adam(**{option: -0.1})


def test_the_lasso_needs_inputs_with_weights_of_their_own():
    with pytest.raises(UserError, match="lasso"):
        replay(stream(1), learner=ftl(), solver=adam(lasso=0.1))
    with pytest.raises(UserError, match="'linear' has no weights of single inputs"):
        Linear().lessen_inputs(np.ones((2, 2)), np.ones(()))


@pytest.mark.parametrize(
    ("passes", "most", "steps"),
    [
        (None, None, 5),
        (1.0, None, 5),
        (2.0, None, 6),
        (10.0, None, 30),
        (None, 2.0, 5),
        (None, 1.0, 3),
        (1.0, 1.0, 3),
        (4.0, 9.0, 12),
        (None, 0.01, 1),
    ],
)
def test_passes_make_the_steps_follow_the_samples(passes, most, steps):
    X = np.random.default_rng(0).standard_normal((12, 3)).astype(np.float32)
    one, policy = batch(X, X[:, :1], dtype=np.float32), MLP((4,))
    start = policy.init(jax.random.key(0), 3, 1)
    losses = empty_samples(policy, Squared(), one, capacity=24).add(one)
    options = {"batch_size": 4, "decay": "linear"}
    limited = adam(max_iterations=5, passes=passes, most_passes=most, **options)
    _, found = solve(limited, plain(losses, start), start)
    assert found.iterations == steps
    # The decay is over all of these steps.
    _, same = solve(adam(max_iterations=steps, **options), plain(losses, start), start)
    assert all(map(np.allclose, jax.tree.leaves(found.params), jax.tree.leaves(same.params)))


def test_passes_are_for_minibatches():
    with pytest.raises(UserError, match=r"passes: 2\.0 are for minibatches"):
        adam(passes=2.0)
    with pytest.raises(UserError, match=r"most_passes: 2\.0 are for minibatches"):
        adam(most_passes=2.0)


@pytest.mark.parametrize("decay", ["linear", "cosine"])
def test_what_is_left_of_the_step_falls_from_all_to_nothing(decay):
    left = DECAYS[decay](jnp.linspace(1.0, 0.0, 9))
    assert left[0] == 1 and left[-1] == 0 and (jnp.diff(left) < 0).all()
