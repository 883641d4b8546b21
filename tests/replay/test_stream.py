"""Rounds in a compiled loop: the bytes of rounds one by one, few programs, predictions, progress."""

from __future__ import annotations

import importlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import understudy
from compiled import PLAIN
from reference import FEW, rows, stream, value
from understudy import adagrad, ftrl, ogd
from understudy.losses import LOSSES
from understudy.objectives import batch
from understudy.online import make_game
from understudy.policies import Linear
from understudy.programs import compiled

REPLAY = importlib.import_module("understudy.streams")
CASES = {
    "squared": {"learner": ftrl(eta=0.2)},
    "huber": {"learner": ftrl(eta=0.2)},
    "cross-entropy": {"learner": ogd(eta=0.5)},
    "minibatch": {
        "learner": ftrl(eta=0.2),
        "solver": understudy.solvers.sls(batch_size=4, max_iterations=20),
    },
}
SLOW = ("cross-entropy",)
JUDGED = [3, 7]


def one_by_one(loss, listed, learner, solver="auto", seed=0):
    """The records of a game played with one call a round, and the parameters before each."""
    with jax.enable_x64(True):
        key, params = jax.random.key(seed), jnp.zeros((3, 2))
        game = make_game(Linear(), LOSSES.resolve(loss), learner, solver, params)
        batches = [batch(X, rows(Y)) for X, Y in listed]
        samples = sum(len(X) for X, _ in listed)
        state, play = game.init(params, game.empty(params, batches[0], samples)), compiled(game)
        records, iterates = [], []
        for t, one in enumerate(batches, 1):
            iterates.append(np.asarray(state.learner.params))
            asked = jnp.asarray(t in {*JUDGED, len(listed)})
            state, record = play(state, one, jax.random.fold_in(key, t), asked)
            records.append(jax.device_get(record))
        return records, iterates


def same(a, b):
    """Equal bytes as users compile, and equal to rounding without optimisation."""
    np.testing.assert_allclose(a, b, rtol=1e-6 * PLAIN, atol=1e-9 * PLAIN)


@pytest.mark.bits
@pytest.mark.parametrize(
    "case",
    [
        "squared",
        "huber",
        "minibatch",
        *(pytest.param(one, marks=pytest.mark.slow) for one in CASES if one in SLOW),
    ],
)
def test_the_bytes_are_those_of_rounds_one_by_one(case, monkeypatch):
    loss = "squared" if case == "minibatch" else case
    listed, options = stream(loss, rounds=FEW), CASES[case]
    records, iterates = one_by_one(loss, listed, **options)
    for seconds in (0.0, 1e9):  # one round in a call, and as many as there are
        monkeypatch.setattr(REPLAY, "SECONDS", seconds)
        result = understudy.replay(listed, loss=loss, comparator=JUDGED, keep_iterates=True, **options)
        for name in ("loss", "regret", "bound", "weight", "residual", "comparator_error"):
            same(result.ledger[name], [one[name] for one in records])
        same(result.iterates[:-1], iterates)
        np.testing.assert_array_equal(
            np.isnan(result.ledger["regret"]), [t not in (*JUDGED, FEW) for t in range(1, FEW + 1)]
        )
    if case in ("huber", "minibatch"):
        return  # what is kept depends on neither the loss nor the solver
    bare = understudy.replay(listed, loss=loss, comparator=JUDGED, **options)
    assert bare.iterates is None
    for name in bare.ledger:
        column = bare.ledger[name]
        if column.dtype.kind == "f":
            same(column, result.ledger[name])
        else:
            np.testing.assert_array_equal(column, result.ledger[name])


def test_without_a_comparator_the_same_rounds_are_played_by_a_smaller_program():
    listed, options = stream("squared", rounds=FEW), {"learner": ftrl(eta=0.2), "keep_iterates": True}
    whole = understudy.replay(listed, **options)
    bare = understudy.replay(listed, comparator="none", **options)
    same(bare.iterates, whole.iterates)
    for name in ("loss", "weight", "residual", "stability"):
        same(bare.ledger[name], whole.ledger[name])
    assert np.isnan(bare.ledger["regret"]).all() and set(bare.ledger["comparator_status"]) == {""}
    assert bare.comparator is None and "not looked for" in bare.certificate.reason
    for name in ("bounds", "interpolation"):
        with pytest.raises(understudy.UserError, match=f"^{name}: it needs the best in hindsight"):
            getattr(bare, name)()
    with jax.enable_x64(True):
        one, params = batch(*listed[0]), jnp.zeros((3, 2))
        game = make_game(Linear(), LOSSES.resolve("huber"), ftrl(eta=0.2), "auto", params)
        given = game.init(params, game.empty(params, one, 8)), one, jax.random.key(0)
        sizes = [len(str(jax.make_jaxpr(game.play)(*given, judge))) for judge in (None, jnp.asarray(True))]
    assert sizes[0] < 0.75 * sizes[1]


def test_rooms_of_a_few_rounds_change_nothing(monkeypatch):
    listed = stream("squared", rounds=FEW)
    whole = understudy.replay(listed, learner=ftrl(eta=0.2), keep_iterates=True)
    monkeypatch.setattr(REPLAY, "ROOMS", (4, 1))
    parts = understudy.replay(listed, learner=ftrl(eta=0.2), keep_iterates=True)
    assert parts.ledger.to_csv() == whole.ledger.to_csv()
    np.testing.assert_array_equal(parts.predictions, whole.predictions)
    np.testing.assert_array_equal(parts.iterates, whole.iterates)


def test_predictions_are_of_the_parameters_before_they_learned():
    rng = np.random.default_rng(0)
    listed = [(rng.normal(size=(n, 3)), rng.normal(size=(n, 2))) for n in (1, 4, 2, 3)]
    result = understudy.replay(listed, learner=ftrl(eta=0.2), keep_iterates=True)
    assert result.predictions.shape == (10, 2)
    said = np.split(result.predictions, np.cumsum(result.ledger["samples"])[:-1])
    for (X, _), outputs, before, after in zip(
        listed, said, result.iterates[:-1], result.iterates[1:], strict=True
    ):
        np.testing.assert_allclose(outputs, X @ before, atol=1e-14)
        assert np.abs(outputs - X @ after).max() > 1e-3  # control


def test_the_losses_of_the_ledger_their_sum_and_their_mean_are_those_of_the_iterates():
    listed = stream("squared", rounds=FEW)
    result = understudy.replay(listed, learner=ftrl(eta=0.2), keep_iterates=True)
    losses = [value("squared", w, *each) for w, each in zip(result.iterates[:-1], listed, strict=True)]
    np.testing.assert_allclose(result.ledger["loss"], losses, rtol=1e-12)
    np.testing.assert_allclose(result.ledger["cumulative_loss"], np.cumsum(losses), rtol=1e-12)
    means = np.cumsum(losses) / np.arange(1, FEW + 1)
    np.testing.assert_allclose(result.ledger["average_loss"], means, rtol=1e-12)


def test_progress_has_every_round_once_in_order_as_in_the_ledger():
    listed, seen = stream("squared", rounds=20), []
    result = understudy.replay(
        listed, learner=ftrl(eta=0.2), comparator="last", progress=lambda t, row: seen.append((t, row))
    )
    assert [t for t, _ in seen] == list(range(1, 21))
    for name in ("round", "samples", "loss", "solver_status", "comparator_status"):
        assert [row[name] for _, row in seen] == result.ledger[name].tolist()
    assert result.ledger["comparator_status"].tolist() == [""] * 19 + ["converged"]
    assert result.times.shape == (20,) and (result.times > 0).all()


class Scaled(Linear):
    """A policy with an array inside."""

    scale: jax.Array

    def __init__(self, scale):
        self.bias, self.scale = False, jnp.asarray(scale)

    def design(self, inputs):
        return super().design(inputs) * self.scale


def test_a_policy_with_an_array_inside_is_played_with_it():
    listed, scale = stream("squared", rounds=FEW), np.array([1.0, 2.0, 0.5])
    one = understudy.replay(listed, policy=Scaled(scale), learner=ftrl(eta=0.2), keep_iterates=True)
    scaled = [(X * scale, Y) for X, Y in listed]
    other = understudy.replay(scaled, learner=ftrl(eta=0.2), keep_iterates=True)
    np.testing.assert_allclose(one.ledger["loss"], other.ledger["loss"], rtol=1e-9)
    np.testing.assert_allclose(one.predictions, other.predictions, rtol=1e-9)
    np.testing.assert_allclose(one.interpolation(), other.interpolation(), atol=1e-12)


def test_short_rounds_share_calls_and_streams_share_programs(monkeypatch, compilations, streamed):
    """One sample a round: a few calls for all rounds; streams of 300 to 1,250 rounds have two programs."""
    rng, calls = np.random.default_rng(0), []
    monkeypatch.setattr(REPLAY, "SECONDS", 1e9)

    def counted(*args, **options):
        run = made(*args, **options)
        return lambda *inputs: (calls.append(inputs[-2:]), run(*inputs))[1]

    made = REPLAY.compiled_stream
    monkeypatch.setattr(REPLAY, "compiled_stream", counted)
    X, y = rng.normal(size=(1250, 1, 9)), rng.normal(size=(1250, 1))
    understudy.replay(list(zip(X, y, strict=True)), learner=ogd(eta=0.1), comparator="last")
    assert calls == [(0, 1), (1, 9), (9, 73), (73, 585), (585, 1024), (0, 226)]
    understudy.replay(list(zip(X[:300], y[:300], strict=True)), learner=ogd(eta=0.1), comparator="last")
    before = len(compilations)
    for count in (400, 900, 1100, 1200):
        part = list(zip(X[:count], y[:count], strict=True))
        understudy.replay(part, learner=adagrad(alpha=0.1), comparator=[5])
    assert len(compilations) == before
