"""A run in a convoy has the ledger of that run alone, bit for bit; one that fails leaves the others alone."""

from __future__ import annotations

import functools

import jax
import numpy as np
import pytest

import understudy
from understudy import experts
from understudy.envs.fleet import Gymnasiums, fleet
from understudy.envs.gymnasium import maker
from understudy.errors import UserError
from understudy.runs import NAMES, World, parts
from understudy.runs.convoy import Convoy, Unkept
from understudy.spec import RunSpec

COMMON = {"rounds": 3, "interactions": 120, "episodes": 2, "evaluate_every": 2}


def convoy(env, runs, *, make=None, expert=None, **options):
    made = maker(env)
    many = functools.partial(fleet, made) if make is None else make
    one = many(1)
    specs = [RunSpec(env=env, expert=expert, **COMMON, **run) for run in runs]
    world = World.of(made, one, specs[0])
    loops = [parts(world, spec).loop(None, None, Unkept()) for spec in specs]
    return Convoy(loops, many, world.expert, **options)


def played(env, runs, **options):
    group = convoy(env, runs, **options)
    while group.round < group.rounds:
        group.advance()
    return group


def same(loop, run):
    theirs = run.ledger
    for name in NAMES:
        a, b = np.asarray(loop.ledger[name]), np.asarray(theirs[name])
        assert a.tobytes() == b.tobytes() if a.dtype.kind != "U" else (a == b).all(), name
    leaves = zip(jax.tree.leaves(loop.policy().params), jax.tree.leaves(run.policy.params), strict=True)
    assert all(np.asarray(a).tobytes() == np.asarray(b).tobytes() for a, b in leaves)


RUNS = [
    {"policy": "linear", "learner": "ftl", "seed": 0, "preset": "paper"},
    {"policy": "linear", "learner": understudy.ftrl(eta=0.1), "seed": 1},
    {"policy": "linear", "learner": understudy.ogd(eta=0.01), "seed": 2, "preset": "paper", "noise": 0.0},
    {"policy": "linear", "learner": "bc", "seed": 0},
    {
        "policy": understudy.MLP(widths=(8, 8)),
        "learner": "ftl",
        "seed": 3,
        "solver_options": {"max_iterations": 20},
    },
    {
        "policy": understudy.MLP(widths=(8, 8)),
        "learner": "adaftrl",
        "seed": 4,
        "beta": 0.5,
        "solver_options": {"max_iterations": 20},
    },
]


def test_a_run_in_a_convoy_is_the_run_alone():
    group = played("Hopper-v5", RUNS)
    assert group.errors == [None] * len(RUNS)
    for loop, run in zip(group.loops, RUNS, strict=True):
        same(loop, understudy.imitate("Hopper-v5", **COMMON, **run))


def test_choices_of_actions_too():
    runs = [{"policy": "linear", "seed": 0}, {"policy": "linear", "seed": 1, "learner": "bc"}]
    group = played("CartPole-v1", runs)
    for loop, run in zip(group.loops, runs, strict=True):
        same(loop, understudy.imitate("CartPole-v1", **COMMON, **run))


def test_the_expert_is_measured_on_the_same_episodes():
    run = {"policy": "linear", "seed": 7}
    group = played("Hopper-v5", [run])
    alone = understudy.imitate("Hopper-v5", **COMMON, **run)
    theirs = group.evaluate_expert(7, 2, 3)
    assert theirs.returns.tobytes() == alone.expert_evaluation.returns.tobytes()
    assert group.loops[0].evaluation.returns.tobytes() == alone.evaluation.returns.tobytes()


def test_together_is_apart_to_rounding_on_a_stream_that_is_the_same():
    """Expert-driven rounds do not depend on the policy, so the vmapped program sees the same data."""
    runs = [
        {"policy": "linear", "learner": understudy.ftrl(eta=eta), "beta": 1.0, "seed": seed}
        for eta in (0.1, 10.0)
        for seed in (0, 1)
    ]
    network = {"policy": understudy.MLP(widths=(8,)), "beta": 1.0, "seed": 2, "comparator": "none"}
    network |= {"solver_options": {"max_iterations": 30}}
    runs += [network | {"learner": one} for one in (understudy.ftl(), understudy.alt_ftrl(eta=1.0))]
    apart, together = played("Pendulum-v1", runs), played("Pendulum-v1", runs, together=True)
    for one, other in zip(apart.loops, together.loops, strict=True):
        for name in ("loss", "average_loss", "regret", "bound", "weight"):
            assert np.allclose(one.ledger[name], other.ledger[name], rtol=1e-5, atol=1e-5, equal_nan=True), (
                name
            )
        assert one.certificate().bound == pytest.approx(other.certificate().bound, rel=1e-5, nan_ok=True)


def test_networks_together_have_no_comparator():
    run = {"policy": understudy.MLP(widths=(8,)), "seed": 2}
    with pytest.raises(UserError, match="comparator: networks trained together have none"):
        convoy("Pendulum-v1", [run], together=True)


class Broken:
    """A fleet whose second slot shows nonsense after a while."""

    def __init__(self, count):
        self._inner = Gymnasiums(maker("Pendulum-v1"), count)
        self.observation_space, self.action_space = self._inner.observation_space, self._inner.action_space
        self.begin, self.infos, self.close = self._inner.begin, self._inner.infos, self._inner.close
        self.steps, self.count, self.broken = 0, count, self._inner.broken

    def step(self, slots, actions):
        self.steps += 1
        return self._inner.step(slots, actions)

    def batch(self, slots):
        seen = self._inner.batch(slots)
        if self.steps > 150 and self.count == 3 and 1 in slots.tolist():
            seen[slots.tolist().index(1)] = np.nan
        return seen


def test_a_run_that_fails_leaves_the_others_as_they_were():
    runs = [{"policy": "linear", "seed": seed, "learner": understudy.ftrl(eta=1.0)} for seed in (0, 1, 2)]
    group = played("Pendulum-v1", runs, make=Broken, expert=experts.get("swingup-Pendulum-v1"))
    assert group.errors[0] is None and group.errors[2] is None
    assert "round 2: environment: an observation is not finite" in group.errors[1]
    assert len(group.loops[1].rows) == 1
    for place in (0, 2):
        same(group.loops[place], understudy.imitate("Pendulum-v1", **COMMON, **runs[place]))
