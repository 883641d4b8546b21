"""Policies: shapes, biases, tables, and networks whose architecture is data."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

from understudy import TrainedPolicy, UserError
from understudy.experts.networks import start
from understudy.learners import ftl
from understudy.losses import Squared
from understudy.online import make_game
from understudy.policies import (
    GRU,
    MLP,
    POLICIES,
    Actions,
    Camera,
    Committee,
    Linear,
    NatureCNN,
    Normaliser,
    Observations,
    Tabular,
    from_config,
)
from understudy.policies.acting import forward, forward_rows


def test_linear_is_a_product_and_a_bias_a_last_row():
    rng = np.random.default_rng(0)
    X, W = rng.normal(size=(5, 3)).astype(np.float32), rng.normal(size=(4, 2)).astype(np.float32)
    np.testing.assert_allclose(Linear().apply(jnp.asarray(W[:3]), X), X @ W[:3], rtol=1e-5)
    np.testing.assert_allclose(Linear(bias=True).apply(jnp.asarray(W), X), X @ W[:3] + W[3], rtol=1e-5)
    assert not Linear(bias=True).init(jax.random.key(0), 3, 2).any()
    assert Linear(bias=True).init(jax.random.key(0), 3, 2).shape == (4, 2)


def test_tabular_is_linear_on_one_hot_rows():
    policy, table = Tabular(states=4), jnp.arange(8.0).reshape(4, 2)
    states = jnp.array([[3.0], [0.0], [3.0]])
    np.testing.assert_array_equal(policy.apply(table, states), table[jnp.array([3, 0, 3])])
    np.testing.assert_array_equal(policy.design(states) @ table, policy.apply(table, states))


@pytest.mark.parametrize("widths", [(), (6,), (6, 5, 4)])
@pytest.mark.parametrize("head", ["identity", "tanh"])
def test_a_network_is_its_layers(widths, head):
    policy = MLP(widths=widths, activation="tanh", head=head)
    params = policy.init(jax.random.key(1), 3, 2)
    params = jax.tree.map(lambda leaf: 3 * leaf + 0.1, params)
    x = np.random.default_rng(1).normal(size=(5, 3)).astype(np.float32)
    out = x
    for layer in params[:-1]:
        out = np.tanh(out @ np.asarray(layer["weight"]) + np.asarray(layer["bias"]))
    out = out @ np.asarray(params[-1]["weight"]) + np.asarray(params[-1]["bias"])
    np.testing.assert_allclose(policy.apply(params, x), np.tanh(out) if head == "tanh" else out, atol=1e-6)
    sizes = (3, *widths, 2)
    assert sum(leaf.size for leaf in jax.tree.leaves(params)) == sum(
        a * b + b for a, b in itertools.pairwise(sizes)
    )
    assert from_config(policy.config()) == policy


def test_a_new_network_does_almost_nothing_and_depends_on_its_key():
    policy = MLP(widths=(64,))
    one, other = (policy.init(jax.random.key(k), 3, 2) for k in (0, 1))
    x = np.random.default_rng(0).normal(size=(100, 3)).astype(np.float32)
    assert np.abs(policy.apply(one, x)).max() < 0.05
    assert not np.array_equal(one[0]["weight"], other[0]["weight"])


def test_a_table_gives_the_row_of_a_state():
    table = jnp.array([[0.1, 0.9], [0.8, 0.2]])
    np.testing.assert_array_equal(Tabular(states=2).apply(table, jnp.array([1, 0])), table[::-1])


@pytest.mark.parametrize("states", [0, -1, 2.5, True])
def test_a_table_needs_a_positive_number_of_states(states):
    with pytest.raises(UserError, match="states"):
        Tabular(states=states)


def test_one_width_is_a_network_of_one_layer_and_no_width_is_refused():
    assert MLP(widths=3).widths == (3,)
    with pytest.raises(UserError, match="widths"):
        MLP(widths=None)


@pytest.mark.parametrize(
    ("kind", "options", "field"),
    [
        (GRU, {"widths": None}, "widths"),
        (Camera, {"shape": (8, 8, 3), "widths": 0}, "widths"),
        (Camera, {"shape": 8}, "shape"),
        (Camera, {"shape": (8, 8, 3), "width": 0}, "width"),
        (Camera, {"shape": (8, 8, 3), "place": -1}, "place"),
        (NatureCNN, {"size": "large"}, "size"),
        (NatureCNN, {"stack": 0}, "stack"),
        (NatureCNN, {"width": 2.5}, "width"),
    ],
)
def test_what_is_no_architecture_is_one_sentence(kind, options, field):
    with pytest.raises(UserError, match=f"^{field}: "):
        kind(**options)
    assert GRU(widths=3).widths == (3,)


def test_bounds_are_numbers_whatever_holds_them_and_fit_the_outputs():
    made = MLP(head="tanh", low=[-1, 0], high=np.ones(2, np.float32))
    assert made == MLP(head="tanh", low=(-1.0, 0.0), high=(1.0, 1.0)) and hash(made) is not None
    with pytest.raises(UserError, match="there are 1 and 2 bounds"):
        GRU(head="tanh", low=(0.0,), high=(1.0, 1.0))
    with pytest.raises(UserError, match="2 bounds do not fit 3 outputs"):
        made.init(jax.random.key(0), 4, 3)


class Squares(Linear):
    """Linear in the squares of its inputs."""

    def design(self, inputs):
        return super().design(inputs) ** 2


class Squashed(Linear):
    def apply(self, params, inputs):
        return jnp.tanh(super().apply(params, inputs))


class Reversed(Tabular):
    def design(self, inputs):
        return super().design(inputs)[:, ::-1]


class Twice(MLP):
    def apply(self, params, inputs):
        return 2 * super().apply(params, inputs)


class Halves(Committee):
    def apply(self, params, inputs):
        return super().apply(params, inputs) / 2


def test_a_subclass_is_linear_where_design_tells_what_apply_does():
    """Else the losses would be those of another policy, and the certificate would be about that one."""
    assert Linear().linear and Tabular(states=2).linear and Squares().linear
    for policy in (Squashed(), Reversed(states=2)):
        game = make_game(policy, Squared(), ftl(), "auto", jnp.zeros((2, 1)))
        assert not policy.linear
        assert f"the policy {type(policy).__name__!r} is not linear in its parameters" in game.uncertified


@pytest.mark.parametrize("policy", [Squares(), Squares(bias=True), Twice(widths=(4,)), Halves(widths=(4,))])
def test_a_subclass_acts_as_it_learns(policy):
    """It computes what its own `apply` says, not what the policy does that it was made from."""
    x = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    params = jax.tree.map(lambda leaf: leaf + 0.3, policy.init(jax.random.key(0), 3, 2))
    learnt = np.asarray(policy.apply(params, x))
    np.testing.assert_allclose(forward_rows(policy, params)(x), learnt, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(forward(policy, params)(x[0]), learnt[0], rtol=1e-5, atol=1e-6)


def test_a_subclass_without_a_name_is_not_read_back_as_the_policy_it_was_made_from(tmp_path, monkeypatch):
    policy, seen = Twice(widths=(4,)), Observations.of(spaces.Box(-1, 1, (3,)))
    params = jax.tree.map(lambda leaf: leaf + 0.3, policy.init(jax.random.key(0), 3, 2))
    acts, row = Actions.of(spaces.Box(-9, 9, (2,))), np.ones(3, np.float32)
    trained = TrainedPolicy(policy, params, seen, acts, Normaliser.identity(3))
    trained.save(tmp_path / "policy")
    with pytest.raises(UserError, match="policy: unknown value 'Twice'"):
        TrainedPolicy.load(tmp_path)
    monkeypatch.setitem(POLICIES.makers, "my-twice", Twice)
    trained.save(tmp_path / "policy")
    assert TrainedPolicy.load(tmp_path)(row).tolist() == trained(row).tolist()
    plain = MLP(widths=(4,))
    with pytest.raises(UserError, match="is the policy my-twice and the student is mlp"):
        start(trained, plain, plain.init(jax.random.key(0), 3, 2), seen, 2)
