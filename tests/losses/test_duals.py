"""What a loss says of itself to proofs: its conjugate, where that is finite, and its largest derivatives."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from understudy.losses import Absolute, BinaryCrossEntropy, CrossEntropy, Huber, Squared

LOSSES = {
    "squared": Squared(),
    "half squared": Squared(half=True),
    "absolute": Absolute(),
    "huber": Huber(),
    "huber 3": Huber(delta=3.0),
    "cross-entropy": CrossEntropy(),
    "choices": CrossEntropy(groups=(2, 2)),
    "binary": BinaryCrossEntropy(),
}


def outputs_and_targets(loss):
    """Outputs (n, 4), targets, and slopes of which some are in the conjugate's domain."""
    rng = np.random.default_rng(0)
    z = 10.0 ** rng.uniform(-1, 1, size=(400, 1)) * rng.normal(size=(400, 4))
    z[:40, :2], z[:40, 2:] = 0.0, -30.0
    y, groups = rng.normal(size=(400, 4)), getattr(loss, "groups", None)
    if loss.logits:
        y = (
            np.eye(4)[rng.integers(4, size=400)]
            if groups is None
            else np.tile([0.3, 0.7, 0.0, 1.0], (400, 1))
        )
    return z, y, 2 * rng.normal(size=(400, 4))


@pytest.mark.parametrize("name", LOSSES)
def test_slopes_and_their_duals_are_below_the_loss_and_touch_it(name):
    loss = LOSSES[name]

    def both(z, y, slope):
        def missing(slope):
            return loss(z, y) - slope @ z - loss.dual(slope, y)[0]

        tangent = jax.grad(loss)(z, y)
        offered = loss.inside(slope, y)
        again = jnp.max(jnp.abs(loss.inside(offered, y) - offered))
        return missing(offered), missing(tangent), again, jnp.max(jnp.abs(loss.inside(tangent, y) - tangent))

    with jax.enable_x64(True):
        below, touching, again, moved = map(np.asarray, jax.jit(jax.vmap(both))(*outputs_and_targets(loss)))
    assert (below >= -1e-9).all() and below.max() > 1e-3
    np.testing.assert_allclose(touching, 0.0, atol=1e-9)
    assert again.max() < 1e-12 and moved.max() < 1e-12


@pytest.mark.parametrize("name", LOSSES)
def test_curvature_and_steepness_are_the_largest_derivatives(name):
    loss = LOSSES[name]

    def largest(z, y):
        return jnp.linalg.eigvalsh(jax.hessian(loss)(z, y))[-1], jnp.max(jnp.abs(jax.grad(loss)(z, y)))

    with jax.enable_x64(True):
        bent, steep = map(np.asarray, jax.jit(jax.vmap(largest))(*outputs_and_targets(loss)[:2]))
    if np.isfinite(loss.curvature):
        assert bent.max() == pytest.approx(loss.curvature, rel=1e-6)
    if np.isfinite(loss.steepness):
        assert steep.max() == pytest.approx(loss.steepness, rel=0.01) and steep.max() <= loss.steepness
    else:
        assert steep.max() > 10
