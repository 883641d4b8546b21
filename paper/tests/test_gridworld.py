"""The gridworld study: its regret is against label frequencies, its variants are what they say."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import understudy
from paper import gridworld, gridworld_figures
from paper import gridworld_env as env
from paper.mapping import Table
from paper.protocol import Outcome
from understudy.policies import Tabular


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="module")
def study():
    return gridworld.study(seeds=2, tuning=2, rounds=20)


@pytest.mark.slow
def test_regret_is_against_label_frequencies(study):
    run = study.runs.where(variant="recorded", learner="ogd", seed=0)
    key = jax.random.fold_in(jax.random.key(0), 0)
    counts, least = np.zeros((49, 5)), []
    for t in range(1, 21):
        walk = env.episode(jax.random.fold_in(key, t), jnp.zeros((49, 5)), t, own=False)
        for cell, label in zip(np.asarray(walk.cells), np.asarray(walk.labels), strict=True):
            counts[cell, label] += 0.2
        share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1e-300)
        least.append(-np.sum(counts * np.log(np.where(share > 0, share, 1.0))))
    np.testing.assert_allclose(run["comparator"][0], least, atol=1e-12)
    np.testing.assert_allclose(run["regret"][0], np.cumsum(run["cost"][0]) - least, atol=1e-9)
    assert ((run["reward"] >= 0) & (run["reward"] <= 5)).all()


@pytest.mark.slow
def test_a_recorded_stream_is_the_same_for_all_learners_and_an_own_walk_is_not(study):
    def spread(variant):
        return np.ptp(
            [study.runs.where(variant=variant, learner=n)["comparator"] for n in ("ftl", "ftrl", "ogd")],
            axis=0,
        )

    assert spread("recorded").max() < 1e-12 < spread("own").max()


@pytest.mark.slow
def test_on_the_ball_every_tenth_round_is_judged(study):
    comparator = study.runs.where(variant="ball", learner="ftl", seed=0)["comparator"][0]
    assert np.isfinite(comparator).nonzero()[0].tolist() == [9, 19]
    assert np.isfinite(study.runs.where(variant="own")["comparator"]).all()


@pytest.mark.slow
def test_ftrl_and_alt_ftrl_are_one_learner(study):
    a, b = (study.runs.where(variant="recorded", learner=name)["cost"] for name in ("ftrl", "alt_ftrl"))
    np.testing.assert_allclose(a, b, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ogd", "ftrl"])
def test_a_run_is_what_replay_plays(name):
    """The recorded walks, played again as a list of rounds, with samples kept instead of counts."""
    key, rounds, double = jax.random.fold_in(jax.random.key(0), 0), [], np.float64
    episode = jax.jit(lambda key, t: env.episode(key, jnp.zeros((49, 5)), t, own=False))
    for t in range(1, 9):
        walk = episode(jax.random.fold_in(key, t), t)
        rounds.append((np.asarray(walk.cells), np.eye(5)[np.asarray(walk.labels)].astype(double)))
    # A table of the cells that were visited is a smaller problem for Newton: the others have no gradient.
    visited = np.unique([cells for cells, _ in rounds])
    rounds = [(np.searchsorted(visited, cells), labels) for cells, labels in rounds]
    learner = {"ftrl": understudy.ftrl, "ogd": understudy.ogd}[name](eta=1.0)
    table = gridworld.play(8, gridworld.configs({("recorded", name): (1.0,)}), seeds=1, seed=0)
    same = understudy.replay(
        rounds, policy=Tabular(states=len(visited)), loss="cross-entropy", learner=learner, comparator="last"
    )
    np.testing.assert_allclose(table["cost"][0], same.ledger["loss"], atol=1e-8)
    # Samples have a solver for a comparator, which comes near the infimum that counts know.
    assert table["regret"][0, -1] == pytest.approx(same.certificate.regret, abs=1e-6)


def test_a_study_too_short_to_have_a_half_says_nothing_of_its_growth():
    rows = [(v, n, s) for v in gridworld.VARIANTS for n in ("ftl", "ftrl", "alt_ftrl") for s in (0, 1)]
    labels = dict(zip(("variant", "learner", "seed"), zip(*rows, strict=True), strict=True))
    for rounds, count in ((14, 0), (20, 3)):
        ones = np.ones((len(rows), rounds))
        table = Table({**labels, "step": np.ones(len(rows))}, {"regret": ones, "cumulative": ones})
        found = gridworld.judged(Outcome(table, [], table, rounds))
        assert sum("R(" in one.claim for one in found) == count


def test_threads_equal_serial():
    wanted = gridworld.configs({("own", "ftrl"): (0.1, 1.0)})
    serial, threads = (
        gridworld.play(10, wanted, seeds=2, seed=3, method=method) for method in ("serial", "threads")
    )
    np.testing.assert_array_equal(serial["cost"], threads["cost"])


@pytest.mark.slow
def test_figures_and_files_are_written_the_same_twice(study, tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        names = gridworld_figures.write(tmp_path / name, study, gridworld.judged(study))
    assert {
        "experts.png",
        "experts.svg",
        "regret_reward.png",
        "rounds.csv.gz",
        "claims.csv",
        "steps.csv",
    } <= set(names)
    for name in names:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name
