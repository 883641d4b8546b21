"""Objectives with known minima, for the tests of solvers."""

from __future__ import annotations

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy import optimize

from understudy.losses import LOSSES
from understudy.objectives import Objective, batch, empty_samples, empty_statistics, plain
from understudy.policies import Linear
from understudy.programs import Static
from understudy.solvers import Status

FEATURES, OUTPUTS = 4, 2
added = jax.jit(lambda losses, one: losses.add(one))
"""Outside of a program every operation is a program of its own, and compiled."""


def data(loss: str, seed: int = 0, *, rounds: int = 3, samples: int = 10, scales=None):
    """Rounds of noisy linear answers (labels for cross-entropy); `scales` stretch the features."""
    rng = np.random.default_rng(seed)
    truth, listed = rng.normal(size=(FEATURES, OUTPUTS)), []
    for _ in range(rounds):
        X = rng.normal(size=(samples, FEATURES)) * (1.0 if scales is None else scales)
        out = X @ (truth if scales is None else truth / np.asarray(scales)[:, None])
        if loss == "cross-entropy":
            Y = np.eye(OUTPUTS)[(out[:, 0] + 2 * rng.normal(size=samples) > out[:, 1]).astype(int)]
        else:
            Y = out + 0.5 * rng.standard_t(3, size=out.shape)
        listed.append((X, Y))
    return listed


def objective(
    loss: str, listed, *, weight: float = 0.0, centre=0.0, tilt=0.0, kept: bool = True
) -> Objective:
    """The objective after all rounds of `listed`, on kept samples or on streaming statistics."""
    made, like = LOSSES.resolve(loss), batch(*listed[0])
    shape = listed[0][0].shape[1], listed[0][1].shape[1]
    zero = np.zeros(shape)
    rows = sum(len(X) for X, _ in listed)
    losses = (
        empty_samples(Linear(), made, like, capacity=rows)
        if kept
        else empty_statistics(Linear(), made, jnp.asarray(zero))
    )
    for X, Y in listed:
        losses = added(losses, batch(X, Y))
    numbers = (jnp.asarray(zero + np.asarray(part)) for part in (centre, tilt))
    return Objective(losses, *numbers, jnp.asarray(float(weight)))


def zeros(problem: Objective):
    return jax.tree.map(lambda leaf: jnp.asarray(np.zeros_like(leaf)), problem.centre)


@functools.cache
def _program(static):
    return jax.jit(lambda numbers, *given: eqx.combine(numbers, static.value)(*given))


def solve(solver, problem: Objective, start=None, key=None):
    """(status, solution), with one compiled program per kind of solver and shape for all tests."""
    numbers, static = eqx.partition(
        solver, lambda leaf: isinstance(leaf, int | float) and leaf is not True and leaf is not False
    )
    start = zeros(problem) if start is None else start
    found = _program(Static(static))(numbers, problem, start, jax.random.key(0) if key is None else key)
    return Status(int(found.status)), found


def ended(solver, problem: Objective, start):
    """The state in which the solver's own loop ends, without what follows it."""
    init, step = _steps(Static(solver))
    state = init(problem, start, jax.random.key(0))
    while int(state.progress.status) == Status.RUNNING:
        state = step(problem, state)
    return state


@functools.cache
def _steps(static):
    return jax.jit(static.value.init), jax.jit(static.value.step)


ROWS, COLUMNS = 11, 5
"""The shape of problems that are padded: one program for all of them."""


def padded(X, y, share, centre) -> Objective:
    """The absolute loss of one output, with empty rows and with features that are zero."""
    more = COLUMNS - X.shape[1]
    one = batch(np.pad(X, ((0, 0), (0, more))), y[:, None], share, rows=ROWS)
    losses = added(empty_samples(Linear(), LOSSES.resolve("absolute"), one, capacity=ROWS), one)
    return plain(losses, jnp.asarray(np.pad(centre, (0, more))[:, None]))


def least_absolute(listed) -> float:
    """min_W (1/t) Σ_i mean |X_i W − Y_i| as a linear program per output."""
    X = np.concatenate([X for X, _ in listed])
    share = np.concatenate([np.full(len(X), 1 / len(X)) for X, _ in listed]) / len(listed)
    total, (n, d) = 0.0, X.shape
    for y in np.concatenate([Y for _, Y in listed]).T:
        cost = np.concatenate([np.zeros(d), share, share])
        equal = np.hstack([X, np.eye(n), -np.eye(n)])
        bounds = [(None, None)] * d + [(0, None)] * (2 * n)
        found = optimize.linprog(cost, A_eq=equal, b_eq=y, bounds=bounds, method="highs")
        assert found.status == 0
        total += found.fun
    return total
