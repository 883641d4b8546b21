"""Memory, compilation, determinism and precision of a run."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import understudy
from reference import FEW, stream
from understudy import adaftrl, alt_ftrl, ftl, ftrl
from understudy.losses import Huber, Squared
from understudy.objectives import batch
from understudy.online import make_game
from understudy.policies import MLP, Linear
from understudy.programs import compiled


def size(tree) -> int:
    return sum(leaf.nbytes for leaf in jax.tree.leaves(tree) if hasattr(leaf, "nbytes"))


def played(learner, loss, rounds, capacity):
    """The state after some rounds, and the one after the first."""
    with jax.enable_x64(True):
        listed = stream("squared", rounds=20)
        params = jnp.zeros((3, 2))
        game = make_game(Linear(), loss, learner, "auto", params, max_iterations=3)
        state = game.init(params, game.empty(params, batch(*listed[0]), capacity))
        rounds_made = [batch(*one) for one in listed]
        play, sizes = compiled(game), {}
        for t in range(1, rounds + 1):
            state, _ = play(state, rounds_made[t % 20], jax.random.key(t), None)
            sizes[t] = size(state.learner), size(state)
        return sizes


@pytest.mark.parametrize("learner", [ftrl(eta=0.1), alt_ftrl(eta=0.1)], ids=["ftrl", "alt_ftrl"])
def test_the_state_has_the_same_size_in_round_10_and_in_round_1000(learner):
    sizes = played(learner, Squared(), 1000, capacity=0)
    assert sizes[10] == sizes[1000]
    # Linear and squared keep no data, a (d + k)² factor instead; samples would need 24 numbers a round.
    assert sizes[1000][1] < 1000
    assert len(set(sizes.values())) == 1


def test_on_other_losses_only_the_data_have_room_and_the_learner_stays_small():
    sizes = played(ftrl(eta=0.1), Huber(), 20, capacity=80)
    learner, whole = sizes[20]
    assert sizes[1] == sizes[20] and learner < 400 and whole > 80 * 6 * 8


@pytest.mark.parametrize("loss", ["squared", pytest.param("huber", marks=pytest.mark.slow)])
def test_one_program_for_all_rounds_step_sizes_and_offline_learners(loss, compilations, streamed):
    listed = stream(loss, rounds=7, samples=5)
    understudy.replay(listed, loss=loss, learner=ftrl(eta=0.1))
    first = len(compilations)
    assert first > 0
    for learner in (ftrl(eta=0.5), ftrl(eta=2.0, schedule="constant"), alt_ftrl(eta=0.3), adaftrl(), ftl()):
        understudy.replay(listed, loss=loss, learner=learner)
    assert len(compilations) == first
    assert streamed.cache_info().currsize == 1
    understudy.replay(listed, loss=loss, learner=understudy.ogd(eta=0.1))  # the linearised ones share another
    assert len(compilations) > first and streamed.cache_info().currsize == 2


CASES = {
    "exact": {"learner": ftrl(eta=0.2)},
    "minibatch": {
        "learner": ftrl(eta=0.2),
        "solver": understudy.solvers.sls(batch_size=4, max_iterations=20),
    },
    "network": {
        "policy": MLP(widths=(8,)),
        "learner": "ftl",
        "solver": understudy.solvers.adam(learning_rate=0.05, max_iterations=60),
        "comparator": "last",  # a thousand steps in every round otherwise
    },
}


@pytest.mark.parametrize("kind", CASES)
def test_the_same_seed_gives_the_same_bytes(kind):
    listed, options = stream("squared", rounds=FEW), CASES[kind] | {"keep_iterates": True}
    first, again, other = (understudy.replay(listed, seed=s, **options).ledger.to_csv() for s in (3, 3, 4))
    assert first == again
    assert (first != other) == (kind != "exact")


def test_nothing_global_is_touched():
    np.random.seed(7)  # noqa: NPY002 - the point is the global state
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    assert not jax.config.jax_enable_x64
    result = understudy.replay(stream("squared", rounds=FEW), learner=ftrl(eta=0.2), keep_iterates=True)
    assert not jax.config.jax_enable_x64
    assert jnp.zeros(1).dtype == jnp.float32
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002
    assert result.iterates[-1].dtype == np.float64 and result.ledger["loss"].dtype == np.float64


def test_a_game_in_float32_outside_of_x64():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(32, 3)).astype(np.float32)
    Y = np.tanh(X @ rng.normal(size=(3, 2)).astype(np.float32))
    policy = MLP(widths=(16,))
    params = policy.init(jax.random.key(0), 3, 2)
    game = make_game(
        policy,
        Squared(),
        adaftrl(alpha=10.0),
        understudy.solvers.adam(learning_rate=0.01, max_iterations=200),
        params,
    )
    one = batch(X, Y, dtype=np.float32)
    state = game.init(params, game.empty(params, one, 96))
    losses, play = [], compiled(game)
    for t in range(3):
        state, record = play(state, one, jax.random.key(t), jnp.asarray(t == 2))
        losses.append(float(record["loss"]))
        assert record["loss"].dtype == jnp.float32
    floats = [leaf.dtype for leaf in jax.tree.leaves(state) if jnp.issubdtype(leaf.dtype, jnp.floating)]
    assert set(floats) == {jnp.dtype("float32")}
    assert losses[2] < 0.5 * losses[0]


def test_networks_get_better_and_promise_nothing():
    listed = [(X, np.tanh(Y)) for X, Y in stream("squared", rounds=FEW, noise=0.0)]
    result = understudy.replay(
        listed,
        keep_iterates=True,
        **CASES["network"],
    )
    assert result.ledger["loss"][-1] < 0.5 * result.ledger["loss"][0]
    assert result.certificate.kind == "estimate" and result.bounds() == []
    assert "not linear" in result.certificate.reason
    assert result.iterates[0][0]["weight"].shape == (3, 8)
    assert not np.array_equal(result.iterates[0][0]["weight"], result.iterates[1][0]["weight"])


def test_the_public_name_is_the_function_whatever_was_imported():
    import importlib

    importlib.import_module("understudy.replay")
    assert understudy.Replay is importlib.import_module("understudy.replay").Replay
    assert callable(understudy.replay) and understudy.replay.__name__ == "replay"
