"""The gridworld study: counts say all, Newton by cells is Newton, and the comparator is the best there is."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from understudy.data import Batch
from understudy.envs import gridworld as env
from understudy.losses import CrossEntropy
from understudy.objectives import Objective, empty_samples, plain
from understudy.paper import gridworld, gridworld_claims, gridworld_figures
from understudy.paper.counts import CellNewton, cell_newton, empty_counts
from understudy.policies import Tabular
from understudy.solvers import InBall, newton


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def both(rounds: int = 6):
    """The same rounds as counts and as kept samples."""
    counts = empty_counts(49, 5, jnp.float64)
    weights, size = jnp.full(5, 0.2), jnp.asarray(5, jnp.int32)
    kept = None
    for t in range(1, rounds + 1):
        walk = env.episode(jax.random.fold_in(jax.random.key(0), t), jnp.zeros((49, 5)), t)
        batch = Batch(walk.cells, jax.nn.one_hot(walk.labels, 5, dtype=jnp.float64), weights, size)
        kept = kept or empty_samples(Tabular(states=49), CrossEntropy(), batch, capacity=5 * rounds)
        kept, counts = kept.add(batch), counts.add(env.tally(walk))
    return counts, kept


def test_counts_equal_the_sum_over_all_samples():
    counts, kept = both()
    params, vector = (jax.random.normal(jax.random.key(i), (49, 5), jnp.float64) for i in (1, 2))
    assert int(counts.rounds) == int(kept.rounds)
    np.testing.assert_allclose(counts.value(params), kept.value(params), rtol=1e-13)
    np.testing.assert_allclose(counts.gradient(params), kept.gradient(params), atol=1e-13)
    np.testing.assert_allclose(
        counts.hessian_vector(params, vector), kept.hessian_vector(params, vector), atol=1e-13
    )


def test_newton_by_cells_is_the_dense_newton_step_and_finds_the_dense_solution():
    counts, kept = both()
    zero = jnp.zeros((49, 5))
    params = jax.random.normal(jax.random.key(3), (49, 5), jnp.float64)
    objective = Objective(counts, zero, zero, jnp.asarray(0.7))
    gradient = objective.gradient(params)
    step, _ = CellNewton()(objective, params, gradient, ())
    dense = Objective(kept, zero, zero, jnp.asarray(0.7)).hessian(params)
    shift = 0.01 * jnp.linalg.norm(gradient) + 1e-14
    expected = -jnp.linalg.solve(dense + shift * jnp.eye(245), gradient.reshape(-1))
    np.testing.assert_allclose(step.reshape(-1), expected, atol=1e-12)
    mine = cell_newton()(objective, params)
    other = newton()(Objective(kept, zero, zero, jnp.asarray(0.7)), params)
    np.testing.assert_allclose(mine.params, other.params, atol=1e-8)


@pytest.fixture(scope="module")
def study():
    return gridworld.study(seeds=2, rounds=20)


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


def test_on_the_ball_the_comparator_is_the_constrained_minimum():
    counts, kept = both()
    zero = jnp.zeros((49, 5))
    mine = InBall(cell_newton(), 3.0)(plain(counts, zero), zero)
    other = InBall(newton(), 3.0)(plain(kept, zero), zero)
    assert float(mine.value) == pytest.approx(float(other.value), rel=1e-8)
    assert float(jnp.linalg.norm(mine.params)) == pytest.approx(3.0)
    assert float(mine.value * counts.rounds) > float(env.least(counts.table))
    # No point of a cloud on the ball does better.
    cloud = jax.random.normal(jax.random.key(0), (200, 49, 5)) + 0.5 * mine.params
    cloud = 3.0 * cloud / jnp.linalg.norm(cloud, axis=(1, 2), keepdims=True)
    assert (np.asarray(jax.vmap(counts.value)(cloud)) > float(mine.value * counts.rounds)).all()


@pytest.mark.slow
def test_on_the_ball_every_tenth_round_is_judged(study):
    comparator = study.runs.where(variant="ball", learner="ftl", seed=0)["comparator"][0]
    assert np.isfinite(comparator).nonzero()[0].tolist() == [9, 19]
    assert np.isfinite(study.runs.where(variant="own")["comparator"]).all()


@pytest.mark.slow
def test_ftrl_and_alt_ftrl_are_one_learner(study):
    a, b = (study.runs.where(variant="recorded", learner=name)["cost"] for name in ("ftrl", "alt_ftrl"))
    np.testing.assert_allclose(a, b, atol=1e-6)


def test_threads_equal_serial():
    wanted = gridworld.configs({("own", "ftl"): (np.nan,), ("own", "ftrl"): (1.0,)})
    serial, threads = (
        gridworld.play(10, wanted, seeds=2, seed=3, method=method) for method in ("serial", "threads")
    )
    np.testing.assert_array_equal(serial["cost"], threads["cost"])


@pytest.mark.slow
def test_figures_and_files_are_written_the_same_twice(study, tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        names = gridworld_figures.write(tmp_path / name, study, gridworld_claims.claims(study))
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
