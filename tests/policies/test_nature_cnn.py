"""NatureCNN: both formulations are one function, and the encoder is the expert's own network."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from playing import head
from understudy import experts
from understudy.errors import UserError
from understudy.experts.answers import mode
from understudy.experts.networks import find_encoder, require_encoder
from understudy.policies import Actions, Encoded, Linear, NatureCNN, Normaliser, Observations, TrainedPolicy
from understudy.policies.acting import features


def images(count: int, size: int = 84) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (count, 4, size, size), dtype=np.uint8)


@pytest.mark.parametrize("size", [36, pytest.param(45, marks=pytest.mark.slow), 84])
def test_products_and_convolutions_agree_with_their_gradients(size):
    seen = images(3, size)
    by = {method: NatureCNN(size=size, method=method) for method in ("conv", "matmul")}
    params = jax.jit(lambda: by["conv"].init(jax.random.key(0), 4 * size * size, 6))()
    outputs, gradients = {}, {}
    for method, policy in by.items():

        @jax.jit
        def both(params, policy=policy):
            def loss(params):
                found = policy.apply(params, seen)
                return jnp.sum(jnp.sin(100 * found)), found

            return jax.grad(loss, has_aux=True)(params)

        gradients[method], outputs[method] = both(params)
    np.testing.assert_allclose(outputs["conv"], outputs["matmul"], atol=1e-6)
    for one, other in zip(*(jax.tree.leaves(gradients[method]) for method in by), strict=True):
        np.testing.assert_allclose(one, other, atol=2e-5 * np.abs(one).max())


@pytest.mark.parametrize("name", ["ppo-pong", "ppo-breakout"])
def test_the_encoder_and_head_are_the_experts(name):
    expert = experts.get(name)
    found, (weight, bias) = require_encoder(expert), head(expert)
    seen = images(4)
    given, mine = (
        np.stack([see(image) for image in seen])
        for see in (features(one.network, one.params) for one in (found, find_encoder(expert)))
    )
    np.testing.assert_allclose(given, mine, atol=2e-5 * mine.max())
    logits = given @ weight + bias
    likely = np.exp(logits - logits.max(1, keepdims=True))
    np.testing.assert_allclose(likely / likely.sum(1, keepdims=True), expert.label(seen), atol=2e-4)
    assert (mode(expert).label(seen) == expert.label(seen).argmax(1)).all()


def test_a_policy_on_features_is_saved_with_its_encoder(tmp_path):
    from gymnasium import spaces

    expert = experts.get("ppo-pong")
    weight, bias = head(expert)
    seen = Encoded(Observations.of(spaces.Box(0, 255, (4, 84, 84), np.uint8)), require_encoder(expert))
    params = np.concatenate([weight, bias[None]])
    policy = TrainedPolicy(
        Linear(bias=True), params, seen, Actions.of(spaces.Discrete(6)), Normaliser.identity(512)
    )
    policy.save(tmp_path / "policy")
    again = TrainedPolicy.load(tmp_path / "policy")
    batch = images(5)
    assert (again(batch) == policy(batch)).all()
    assert (policy(batch) == expert.label(batch).argmax(1)).all()


def test_what_does_not_fit_is_refused():
    from gymnasium import spaces

    with pytest.raises(UserError, match="nature_cnn is made for stacks of 4 frames of 84"):
        NatureCNN().init(jax.random.key(0), 100, 6)
    with pytest.raises(UserError, match="pixels are too few"):
        NatureCNN(size=20)
    with pytest.raises(UserError, match="method: unknown value 'fft'"):
        NatureCNN(method="fft")
    with pytest.raises(UserError, match="has no image network"):
        require_encoder(experts.get("lqr-CartPole-v1"))
    with pytest.raises(UserError, match="sees images of bytes"):
        Encoded(
            Observations.of(spaces.Box(0, 255, (4, 60, 60), np.uint8)),
            require_encoder(experts.get("ppo-pong")),
        )
