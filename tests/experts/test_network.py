"""Forward passes: right against a slow reference, and the same bits alone and in any batch."""

from __future__ import annotations

import itertools

import jax
import numpy as np
import pytest

from understudy import experts
from understudy.errors import UserError
from understudy.experts.base import rowwise
from understudy.experts.network import (
    ACTIVATIONS,
    Mlp,
    NatureCnn,
    Network,
    argmax,
    argmax_groups,
    clip,
    softmax,
    squash,
)

REFERENCE = {
    "relu": jax.nn.relu,
    "tanh": np.tanh,
    "sigmoid": jax.nn.sigmoid,
    "elu": jax.nn.elu,
    "selu": jax.nn.selu,
    "leaky_relu": jax.nn.leaky_relu,
    "silu": jax.nn.silu,
    "identity": lambda x: x,
}


def random_mlp(widths=(11, 256, 256, 3), activation="relu", seed=0) -> Mlp:
    rng = np.random.default_rng(seed)
    shapes = list(itertools.pairwise(widths))
    weights = [rng.standard_normal(shape).astype(np.float32) / np.sqrt(shape[0]) for shape in shapes]
    return Mlp(weights, [rng.standard_normal(w).astype(np.float32) for w in widths[1:]], activation)


def small_cnn(seed=0, channels=3, size=36, **options) -> NatureCnn:
    rng = np.random.default_rng(seed)
    kernels = [
        rng.standard_normal((k, k, a, b)).astype(np.float32) * (k * k * a) ** -0.5
        for k, a, b in ((8, channels, 5), (4, 5, 6), (3, 6, 7))
    ]
    side = (((size - 8) // 4 + 1) - 4) // 2 + 1 - 2
    biases = [rng.standard_normal(b).astype(np.float32) for b in (5, 6, 7)]
    dense = rng.standard_normal((side * side * 7, 10)).astype(np.float32) * 0.3
    return NatureCnn(kernels, biases, dense, rng.standard_normal(10).astype(np.float32), **options)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations_are_what_their_names_say(activation):
    x = np.concatenate([np.linspace(-6, 6, 101), [-200.0, 200.0]]).astype(np.float32)
    expected = np.asarray(REFERENCE[activation](x))
    np.testing.assert_allclose(ACTIVATIONS[activation](x.copy()), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_mlp_is_its_formula_in_double_precision(activation):
    mlp, x = random_mlp((5, 8, 6, 2), activation), np.random.default_rng(1).standard_normal(5)
    h = x
    for number, (weight, bias) in enumerate(zip(mlp.weights, mlp.biases, strict=True)):
        h = np.array(
            [
                sum(h[i] * float(weight[i, j]) for i in range(len(h))) + float(bias[j])
                for j in range(len(bias))
            ]
        )
        h = np.asarray(REFERENCE[activation](h), np.float64) if number < 2 else h
    assert mlp.widths == (5, 8, 6, 2)
    np.testing.assert_allclose(mlp(x), h, rtol=1e-5, atol=1e-5)


def test_cnn_is_its_formula_in_double_precision():
    cnn = small_cnn()
    image = np.random.default_rng(1).integers(0, 256, (3, 36, 36), dtype=np.uint8)
    x = image.transpose(1, 2, 0) / 255
    for kernel, bias, stride in zip(cnn.kernels, cnn.conv_biases, (4, 2, 1), strict=True):
        k = len(kernel)
        out = range(0, x.shape[0] - k + 1, stride)
        x = np.array([[np.tensordot(x[i : i + k, j : j + k], kernel, 3) + bias for j in out] for i in out])
        x = np.maximum(x, 0)
    x = np.maximum(x.reshape(-1) @ cnn.dense_weight + cnn.dense_bias, 0)
    assert cnn.features == 10
    np.testing.assert_allclose(cnn(image), x, rtol=1e-5, atol=1e-5)
    last = small_cnn(channels_first=False)
    np.testing.assert_allclose(last(image.transpose(1, 2, 0)), x, rtol=1e-5, atol=1e-5)
    assert np.abs(small_cnn(scale=1.0)(image) - x).max() > 1  # the scale is not decoration


@pytest.mark.parametrize("kind", ["mlp", "tanh mlp", "cnn"])
def test_an_answer_does_not_depend_on_its_batch(kind):
    rng = np.random.default_rng(2)
    if kind == "cnn":
        network = Network(random_mlp((10, 4)), softmax, cnn=small_cnn())
        observations = rng.integers(0, 256, (40, 3, 36, 36), dtype=np.uint8)
    else:
        network = Network(
            random_mlp(activation="tanh" if "tanh" in kind else "relu"), squash(-np.ones(3), np.ones(3))
        )
        observations = rng.standard_normal((40, 11)).astype(np.float32)
    ask = rowwise(network)
    alone = np.concatenate([ask(observations[i : i + 1], None) for i in range(40)])
    for batch in (observations, observations[::-1][::-1], np.asfortranarray(observations)):
        np.testing.assert_array_equal(ask(batch, None), alone)
    for size in (2, 3, 8, 17):
        picked = rng.permutation(40)[:size]
        np.testing.assert_array_equal(ask(observations[picked], None), alone[picked])
    assert len(np.unique(alone, axis=0)) == 40  # forty different answers, so that equal bits mean something


def test_an_answer_does_not_depend_on_where_the_observation_lies_in_memory():
    mlp, row = random_mlp(), np.random.default_rng(3).standard_normal(11).astype(np.float32)
    for offset in range(16):
        room = np.zeros(11 + 16, np.float32)
        room[offset : offset + 11] = row
        np.testing.assert_array_equal(mlp(room[offset : offset + 11]), mlp(row))


def test_calling_changes_no_argument():
    mlp, row = random_mlp((3, 4, 2)), np.array([1.0, -2.0, 3.0], np.float32)
    row.flags.writeable = False
    mlp(row)
    np.testing.assert_array_equal(row, [1.0, -2.0, 3.0])


def test_heads():
    low, high = np.array([-1.0, 0.0]), np.array([3.0, 0.5])
    x = np.array([0.3, -50.0], np.float32)
    np.testing.assert_allclose(squash(low, high)(x), [1 + 2 * np.tanh(0.3), 0.0], atol=1e-6)
    np.testing.assert_allclose(clip(low, high)(np.array([9.0, 0.25], np.float32)), [3.0, 0.25])
    np.testing.assert_allclose(softmax(np.array([1000.0, 1000.0], np.float32)), [0.5, 0.5])
    np.testing.assert_allclose(softmax(np.log(np.array([0.2, 0.8], np.float32))), [0.2, 0.8], rtol=1e-6)
    assert argmax(3)(np.array([0.0, 2.0, 1.0])) == 4
    groups = argmax_groups(np.array([2, 3]), np.array([0, 10]))
    np.testing.assert_array_equal(groups(np.array([1.0, 0.0, 0.0, 1.0, 5.0])), [0, 12])


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: random_mlp(activation="gelu"), "activation: unknown value 'gelu'"),
        (lambda: Mlp([], [], "relu"), "every layer needs"),
        (lambda: Mlp([np.zeros((2, 3)), np.zeros((4, 1))], [np.zeros(3), np.zeros(1)], "relu"), "layer 1"),
        (lambda: Mlp([np.zeros((2, 3))], [np.zeros(2)], "relu"), "layer 0"),
        (
            lambda: NatureCnn([np.zeros((3, 3, 1, 1))], [np.zeros(1)], np.zeros((1, 1)), np.zeros(1)),
            "3 convolutions",
        ),
    ],
)
def test_layers_that_do_not_fit_are_refused(make, sentence):
    with pytest.raises(UserError, match=sentence):
        make()


@pytest.mark.parametrize("name", ["sac-Hopper-v5", "sac-Walker2d-v5", "lqr-CartPole-v1"])
@pytest.mark.parametrize("n", [2, 3, 17, 256])
def test_a_batch_has_the_bits_of_single_rows(name, n):
    expert = experts.get(name)
    width = expert.observation_space.shape
    rows = np.random.default_rng(n).normal(size=(n, *width))
    alone = np.concatenate([expert.label(row[None]) for row in rows])
    assert expert.label(rows).tobytes() == alone.tobytes()


def test_one_product_of_all_rows_has_other_bits():
    """The control: what a stack of products is for."""
    mlp = experts.get("sac-Hopper-v5").network.mlp
    rows = np.random.default_rng(0).normal(size=(256, 11)).astype(np.float32)
    hidden = rows
    for weight, bias in zip(mlp.weights[:-1], mlp.biases[:-1], strict=True):
        hidden = np.maximum(hidden @ weight + bias, 0)
    plain = hidden @ mlp.weights[-1] + mlp.biases[-1]
    assert np.allclose(plain, mlp.rows(rows), atol=1e-4)
    assert plain.tobytes() != mlp.rows(rows).tobytes()
