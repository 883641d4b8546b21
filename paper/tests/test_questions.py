"""The open questions: streams that stay frozen, and answers against plain NumPy."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import understudy
from paper import questions, questions_claims, questions_figures, streams
from paper.mapping import Table
from paper.streams import TOY, Stream, play

ROUNDS = 12


@pytest.fixture(scope="module")
def found():
    return streams.streams((TOY,), seeds=2, rounds=ROUNDS, seed=0)


def listed(stream: Stream):
    return list(zip(stream.inputs, stream.targets, strict=True))


def test_a_compiled_stream_is_the_replay(found):
    for learner in (understudy.ftrl(eta=0.3), understudy.adaftrl(), understudy.ftl()):
        record, wanted = play(found[0], learner), understudy.replay(listed(found[0]), learner=learner)
        # FTL has several minimisers before the data have full rank: early losses are large.
        np.testing.assert_allclose(record["loss"], wanted.ledger["loss"], rtol=1e-9)
        np.testing.assert_allclose(record["regret"], wanted.ledger["regret"], rtol=1e-6, atol=1e-8)


def test_a_window_with_room_to_spare_is_that_of_the_replay(found):
    learner = understudy.alt_ftrl(eta=1.0)
    record = play(found[0], learner, "auto", ("window", 3, 6))
    wanted = understudy.replay(listed(found[0]), learner=learner, memory="window:3", comparator="last")
    np.testing.assert_allclose(record["loss"], wanted.ledger["loss"], rtol=1e-8)
    whole = play(found[0], learner)
    assert abs(record["regret"][-1] - whole["regret"][-1]) > 1e-3  # control: it does forget


def test_the_best_in_hindsight_is_least_squares(found):
    X, Y = found[1].inputs[:, 0], found[1].targets[:, 0]
    for t in (ROUNDS - 1, ROUNDS):
        W = np.linalg.lstsq(X[:t], Y[:t], rcond=None)[0]
        assert found[1].least[t - 1] == pytest.approx(np.sum((X[:t] @ W - Y[:t]) ** 2), rel=1e-8)
    np.testing.assert_allclose(found[1].best, W, rtol=1e-7, atol=1e-9)


def wide(stream: Stream) -> Stream:
    """The same problem with enough samples in every round to fix all parameters."""
    rng = np.random.default_rng(3)
    inputs = rng.normal(size=(ROUNDS, 15, 10)) * np.geomspace(0.1, 10, 10)
    targets = inputs @ rng.normal(size=(10, 3)) + rng.normal(size=(ROUNDS, 15, 3))
    return dataclasses.replace(
        stream, name="wide", inputs=inputs, targets=targets, least=np.zeros(ROUNDS), best=np.zeros((10, 3))
    )


def test_ftl_is_indifferent_to_features_and_ftrl_is_not(found):
    table = Table.of(questions.views([wide(found[0])]))
    for view in ("rotated", "random", "scaled", "whitened"):
        assert table.where(learner="ftl", view=view)["apart"].max() < 1e-9
    ftrl = table.where(learner="ftrl", step=1.0)
    assert ftrl.where(view="rotated")["apart"].max() < 1e-9
    for view in ("random", "scaled", "whitened"):
        assert ftrl.where(view=view)["apart"].max() > 1e-2


def test_a_change_of_features_is_undone_by_the_parameters(found):
    matrix = questions.matrices(found[0])["random"]
    seen = found[0].through(matrix)
    np.testing.assert_allclose(seen.inputs @ seen.best, found[0].inputs @ found[0].best, atol=1e-10)
    assert np.linalg.cond(matrix) == pytest.approx(4.0)
    white = found[0].inputs.reshape(-1, 10) @ questions.matrices(found[0])["whitened"].T
    np.testing.assert_allclose(white.T @ white / len(white), np.eye(10), atol=1e-8)


def test_exponents_and_means():
    t = np.arange(1, 101)
    curves = np.stack([3 * t**0.5, 0.1 * t**1.0, 2 * t**0.0])
    np.testing.assert_allclose(questions_claims.exponent(curves), [0.5, 1.0, 0.0], atol=1e-12)
    assert questions_claims.mean(np.array([1.0, np.nan]))[0] == np.inf
    assert questions_claims.either((0.5, 0.4, 0.8)) == (2.0, 1.25, 2.5)
    assert questions_claims.either((1.01, 0.8, 1.04)) == (1.01, 1.0, 1.25)  # not within 5 % for certain
    assert questions_claims.either((0.9, -0.2, 1.6)) == (1 / 0.9, 1.0, np.inf)  # nothing bounds how much less
    assert questions_claims.either((0.0, 0.0, 0.0)) == (np.inf,) * 3  # against a run that diverged


@pytest.mark.slow
def test_a_small_study_is_written_twice_with_the_same_bytes(tmp_path):
    """Without the environments: the toy stream alone."""
    told = {}
    for name in ("one", "two"):
        show = lambda stage, done, total: told.update({stage: (done, total)})  # noqa: E731
        done = questions.study(seeds=2, rounds=ROUNDS, environments=(), progress=show)
        folder = tmp_path / name
        folder.mkdir()
        written = questions_figures.write(folder, done, questions_claims.judged(done))
    assert {
        "inexact_adversarial_toy.png",
        "memory.svg",
        "parameterisation.csv",
        "untuned.csv",
        "claims.md",
    } <= set(written)
    assert all(count == total for count, total in told.values()), told
    for path in (tmp_path / "one").iterdir():
        if path.suffix in (".csv", ".gz", ".md"):
            assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes(), path.name
