"""L-BFGS with the Hessian's blocks: Newton's minimiser, in far fewer steps than plain L-BFGS."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from problems import added, solve
from understudy.losses import CrossEntropy
from understudy.objectives import Objective, batch, empty_samples, plain
from understudy.policies import Linear
from understudy.solvers import Status, auto, block_lbfgs, lbfgs, newton


def problem():
    """Features and actions of very different frequency; labels are a distribution that the class holds."""
    rng = np.random.default_rng(0)
    X = np.maximum(rng.standard_normal((400, 12)), 0) * 10.0 ** rng.uniform(-2, 1, 12)
    logits = X @ (rng.standard_normal((12, 4)) / 4) + np.array([0.0, -1.0, -3.0, -5.0])
    Y = np.exp(logits - logits.max(1, keepdims=True))
    one = batch(X, Y / Y.sum(1, keepdims=True), dtype=np.float64)
    policy = Linear(bias=True)
    losses = empty_samples(policy, CrossEntropy(), one, capacity=400, chunk=100)
    return added(losses, one), policy.init(jax.random.key(0), 12, 4)


@pytest.mark.slow
def test_it_finds_newtons_minimum_in_fewer_steps_than_plain_lbfgs():
    with jax.enable_x64(True):
        losses, start = problem()
        solved = {
            name: solve(solver, plain(losses, start), start)[1]
            for name, solver in (
                ("block", block_lbfgs(tolerance=1e-8)),
                ("plain", lbfgs(tolerance=1e-8, max_iterations=3000)),
                ("newton", newton(tolerance=1e-10)),
            )
        }
        assert int(solved["block"].status) == Status.CONVERGED
        np.testing.assert_allclose(solved["block"].value, solved["newton"].value, atol=1e-12)
        assert int(solved["block"].iterations) < 0.5 * int(solved["plain"].iterations)


def test_with_a_penalty_it_finds_the_unique_minimiser():
    with jax.enable_x64(True):
        losses, start = problem()
        centre = jnp.ones_like(start)
        objective = Objective(losses, centre, 0.1 * centre, jnp.asarray(0.3))
        _, found = solve(block_lbfgs(tolerance=1e-10), objective, start)
        slope = jax.jit(lambda objective, w: objective.gradient(w))(objective, found.params)
        assert np.linalg.norm(slope) < 0.3 * 1e-8  # curvature ≥ 0.3: within 1e-8 of the minimiser


def test_the_blocks_are_those_of_the_hessian():
    with jax.enable_x64(True):
        losses, start = problem()
        params = start + 0.01 * jnp.arange(start.size).reshape(start.shape)
        dense = np.asarray(jax.jit(lambda losses, w: losses.hessian(w))(losses, params)).reshape(13, 4, 13, 4)
        blocks = np.asarray(jax.jit(lambda losses, w: losses.blocks(w))(losses, params))
        for a in range(4):
            np.testing.assert_allclose(blocks[a], dense[:, a, :, a], atol=1e-5 * np.abs(dense).max())


def test_many_features_choose_it_by_themselves():
    assert auto(Linear(), CrossEntropy(), 513 * 6) == block_lbfgs()
