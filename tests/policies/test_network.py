"""Forward passes: right against a slow reference, and the same bits alone and in any batch."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from gymnasium import spaces

from understudy import UserError, experts
from understudy.policies import MLP, Actions, Encoder, NatureCNN, Network, require_fit, softmax
from understudy.policies.acting import features, forward, forward_rows
from understudy.policies.mlp import ACTIVATIONS

REFERENCE = {  # in double precision, from their definitions
    "relu": lambda x: (abs(x) + x) / 2,
    "tanh": lambda x: 1 - 2 / (np.exp(2 * x) + 1),
    "gelu": lambda x: 0.5 * x * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3))),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "elu": lambda x: np.where(x > 0, x, np.exp(np.minimum(x, 0)) - 1),
    "selu": lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * (np.exp(-abs(x)) - 1)),
    "leaky_relu": lambda x: np.where(x > 0, x, x / 100),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "identity": lambda x: x,
}


def layer(rng: np.random.Generator, *shape: int) -> dict[str, np.ndarray]:
    weight = rng.standard_normal(shape).astype(np.float32) * np.prod(shape[:-1]) ** -0.5
    return {"weight": weight.astype(np.float32), "bias": rng.standard_normal(shape[-1]).astype(np.float32)}


def layers(*widths: int, seed: int = 0) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(seed)
    return [layer(rng, *shape) for shape in itertools.pairwise(widths)]


def cnn(size=(36, 36), method="single") -> tuple[NatureCNN, dict]:
    rng, policy = np.random.default_rng(0), NatureCNN(stack=3, size=size, width=10, method=method)
    conv = [layer(rng, k, k, a, b) for k, a, b in ((8, 3, 32), (4, 32, 64), (3, 64, 64))]
    return policy, {
        "conv": conv,
        "dense": layer(rng, int(np.prod(policy.places)) * 64, 10),
        "head": layer(rng, 10, 4),
    }


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations_are_what_their_names_say(activation):
    x = np.concatenate([np.linspace(-6, 6, 101), [-200.0, 200.0]]).astype(np.float32)
    expected = REFERENCE[activation](x.astype(np.float64))
    for function in ACTIVATIONS[activation]:
        np.testing.assert_allclose(function(x.copy()), expected, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("head", ["identity", "tanh", "sb3-tanh"])
def test_mlp_is_its_formula_in_double_precision(activation, head):
    low, high = (-1.0, 0.0), (3.0, 0.5)
    bounds = {} if head == "identity" else {"low": low, "high": high}
    policy, params = MLP(widths=(8, 6), activation=activation, head=head, **bounds), layers(5, 8, 6, 2)
    x = np.random.default_rng(1).standard_normal(5)
    h = x
    for number, one in enumerate(params):
        weight, bias = one["weight"].astype(float), one["bias"].astype(float)
        h = np.array([sum(h[i] * weight[i, j] for i in range(len(h))) + bias[j] for j in range(len(bias))])
        h = np.asarray(REFERENCE[activation](h), np.float64) if number < 2 else h
    if bounds:
        h = np.array(low) + (np.tanh(h) + 1) * (np.array(high) - np.array(low)) / 2
    np.testing.assert_allclose(forward(policy, params)(x), h, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(policy.apply(params, x[None].astype(np.float32))[0], h, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("method", ["single", "conv"])
def test_cnn_is_its_formula_in_double_precision(method):
    policy, params = cnn((36, 44), method)
    image = np.random.default_rng(1).integers(0, 256, (3, 36, 44), dtype=np.uint8)
    x = image.transpose(1, 2, 0) / 255
    for one, stride in zip(params["conv"], (4, 2, 1), strict=True):
        kernel = one["weight"].astype(float)
        k = len(kernel)
        rows, columns = (range(0, side - k + 1, stride) for side in x.shape[:2])
        places = [
            [np.tensordot(x[i : i + k, j : j + k], kernel, 3) + one["bias"] for j in columns] for i in rows
        ]
        x = np.maximum(np.array(places), 0)
    x = np.maximum(x.reshape(-1) @ params["dense"]["weight"] + params["dense"]["bias"], 0)
    found = features(policy, params)(image)
    np.testing.assert_allclose(found, x, rtol=1e-5, atol=1e-5)
    outputs = x @ params["head"]["weight"] + params["head"]["bias"]
    np.testing.assert_allclose(forward(policy, params)(image), outputs, rtol=1e-5, atol=1e-5)
    fractions = (image / np.float32(255)).astype(np.float32)
    np.testing.assert_allclose(features(policy, params)(fractions), x, rtol=1e-5, atol=1e-5)
    assert np.abs(features(policy, params)(image.astype(np.float32)) - x).max() > 1  # bytes alone are scaled


@pytest.mark.parametrize("kind", ["mlp", "tanh mlp", "cnn", "mlp on features"])
def test_an_answer_does_not_depend_on_its_batch(kind):
    rng, box = np.random.default_rng(2), Actions.of(spaces.Box(-1, 1, (3,)))
    if kind == "cnn":
        network = Network(*cnn(), np.asarray, softmax)
    elif kind == "mlp on features":
        encoder = Encoder(*cnn(), "it")
        network = Network(MLP(widths=(5,)), layers(10, 5, 4), np.asarray, softmax, encoder=encoder)
    else:
        policy = MLP(activation="tanh" if "tanh" in kind else "relu", head="tanh")
        network = Network(policy, layers(11, 256, 256, 3), np.asarray, box.plays)
    observations = rng.standard_normal((40, 11)).astype(np.float32)
    if kind.split()[-1] != "mlp":
        observations = rng.integers(0, 256, (40, 3, 36, 36), dtype=np.uint8)
    alone = np.concatenate([network(observations[i : i + 1]) for i in range(40)])
    for batch in (observations, observations[::-1][::-1], np.asfortranarray(observations)):
        np.testing.assert_array_equal(network(batch), alone)
    for size in (2, 3, 8, 17):
        picked = rng.permutation(40)[:size]
        np.testing.assert_array_equal(network(observations[picked]), alone[picked])
    assert len(np.unique(alone, axis=0)) == 40  # forty different answers, so that equal bits mean something


def test_an_answer_does_not_depend_on_where_the_observation_lies_in_memory():
    mlp = forward(MLP(), layers(11, 256, 256, 3))
    row = np.random.default_rng(3).standard_normal(11).astype(np.float32)
    for offset in range(16):
        room = np.zeros(11 + 16, np.float32)
        room[offset : offset + 11] = row
        np.testing.assert_array_equal(mlp(room[offset : offset + 11]), mlp(row))


def test_calling_changes_no_argument():
    row = np.array([1.0, -2.0, 3.0], np.float32)
    row.flags.writeable = False
    forward(MLP(widths=(4,)), layers(3, 4, 2))(row)
    np.testing.assert_array_equal(row, [1.0, -2.0, 3.0])


def test_softmax_is_a_distribution_row_by_row():
    np.testing.assert_allclose(softmax(np.array([[1000.0, 1000.0]], np.float32)), [[0.5, 0.5]])
    rows = np.log(np.array([[0.2, 0.8], [0.5, 0.5]], np.float32))
    np.testing.assert_allclose(softmax(rows), [[0.2, 0.8], [0.5, 0.5]], rtol=1e-6)


@pytest.mark.parametrize(
    ("policy", "params", "sentence"),
    [
        (MLP(widths=(4,)), layers(3, 4, 4, 2), r"\[1\]\['bias'\] has the shape \(4,\), \(2,\) is needed"),
        (MLP(widths=(5,)), layers(3, 4, 2), r"\[0\]\['bias'\] has the shape \(4,\), \(5,\) is needed"),
        (MLP(widths=(4,)), layers(9, 4, 2), r"\[0\]\['weight'\] has the shape \(9, 4\), \(3, 4\) is needed"),
        (MLP(widths=(4,)), layers(3, 4), r"\[1\]\['bias'\] has the shape None, \(2,\) is needed"),
    ],
)
def test_parameters_that_do_not_fit_are_refused(policy, params, sentence):
    with pytest.raises(UserError, match=f"^it: .*{sentence}"):
        require_fit("it", policy, params, 3, 2)


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
    network = experts.get("sac-Hopper-v5").network
    rows = np.random.default_rng(0).normal(size=(256, 11)).astype(np.float32)
    hidden = rows
    for one in network.params[:-1]:
        hidden = np.maximum(hidden @ one["weight"] + one["bias"], 0)
    plain = network.policy.head_function(np, np.float32)(
        hidden @ network.params[-1]["weight"] + network.params[-1]["bias"]
    )
    stacked = forward_rows(network.policy, network.params)(rows)
    assert np.allclose(plain, stacked, atol=1e-4)
    assert plain.tobytes() != stacked.tobytes()
