"""A run beside others has the ledger of that run alone, bit for bit; one that fails leaves the others."""

from __future__ import annotations

import gymnasium as gym
import jax
import numpy as np
import pytest

import understudy
from quick import SIZE
from understudy.envs.gymnasium import maker
from understudy.errors import UserError
from understudy.runs import NAMES, Runner, RunState, World, parts, play_all, storage
from understudy.spec import RunSpec
from understudy.studies import play

COMMON = SIZE | {"episodes": 2, "expert_episodes": 1, "evaluate_every": 2}


def runner(env, runs, *, expert=None, envs=1, **options):
    make = maker(env)
    specs = [RunSpec.of({"env": env, "expert": expert, "envs": envs, **COMMON, **run}) for run in runs]
    first = make()
    world = World.of(make, first, specs[0])
    made = [parts(world, spec) for spec in specs]
    states = [RunState(one, storage(one, keep=False)) for one in made]
    return Runner(states, make, first=first, **options)


def played(env, runs, **options):
    with runner(env, runs, **options) as group:
        play_all(group)
    return group


def same(state, run):
    for name in NAMES:
        a, b = np.asarray(state.ledger[name]), np.asarray(run.ledger[name])
        assert a.tobytes() == b.tobytes() if a.dtype.kind != "U" else (a == b).all(), name
    leaves = zip(jax.tree.leaves(state.params), jax.tree.leaves(run.policy.params), strict=True)
    assert all(np.asarray(a).tobytes() == np.asarray(b).tobytes() for a, b in leaves)
    assert state.evaluation.returns.tobytes() == run.evaluation.returns.tobytes()
    assert state.expert_evaluation.returns.tobytes() == run.expert_evaluation.returns.tobytes()


NETWORK = {"policy": understudy.MLP(widths=(8,)), "solver_options": {"max_iterations": 20}, "search": 20}
RUNS = [
    {"policy": "linear", "learner": "ftl", "seed": 0, "preset": "paper"},
    {"policy": "linear", "learner": understudy.ftrl(eta=0.1), "seed": 1, "episodes": 3},
    {"policy": "linear", "learner": understudy.ogd(eta=0.01), "seed": 2, "preset": "paper", "noise": 0.0},
    {"policy": "linear", "learner": "bc", "seed": 0, "comparator": "every"},
    NETWORK | {"learner": "ftl", "seed": 3},
    NETWORK | {"learner": "adaftrl", "seed": 4, "beta": 0.5, "comparator": "none"},
]


def test_a_run_beside_others_is_the_run_alone():
    runs = [run | {"episode_limit": 60} for run in RUNS]  # a thousand steps of the expert show no more
    group = played("Hopper-v5", runs)
    assert group.errors == [None] * len(RUNS)
    for state, run in zip(group.runs, runs, strict=True):
        same(state, understudy.imitate("Hopper-v5", **COMMON | run))


def test_several_environments_a_run_too():
    """With choices of actions, and a last step of a round that is played in some of the slots only."""
    runs = [{"policy": "linear", "seed": 0, "beta": 0.3}, {"policy": "linear", "seed": 1, "learner": "bc"}]
    group = played("CartPole-v1", runs, envs=7)
    for state, run in zip(group.runs, runs, strict=True):
        same(state, understudy.imitate("CartPole-v1", envs=7, **COMMON | run))


@pytest.mark.parametrize("kind", ["linear", pytest.param("network", marks=pytest.mark.slow)])
def test_a_gpu_solves_and_acts_together_to_rounding_on_a_stream_that_is_the_same(monkeypatch, kind):
    """Expert-driven rounds do not depend on the policy, so the vmapped programs see the same data."""
    last, none = [False, False, True], [False] * 3
    if kind == "linear":
        runs = [
            {"policy": "linear", "learner": understudy.ftrl(eta=eta), "beta": 1.0, "seed": seed}
            for eta in (0.1, 10.0)
            for seed in (0, 1)
        ]
        runs[0] |= {"comparator": "every"}  # the others are judged after their last rounds all the same
        judged = [[True] * 3, last, last, last]
    else:
        network = NETWORK | {"beta": 1.0, "seed": 2}
        learners = understudy.ftl(), understudy.alt_ftrl(eta=1.0)
        runs = [
            network | {"learner": one, "comparator": after} for one in learners for after in ("last", "none")
        ]
        judged = [last, none, last, none]
    apart = played("Pendulum-v1", runs)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    together = played("Pendulum-v1", runs)
    assert any(group.together for group in together._programs)
    for one, other in zip(apart.runs, together.runs, strict=True):
        for name in ("loss", "average_loss", "regret", "bound", "weight"):
            assert np.allclose(one.ledger[name], other.ledger[name], rtol=1e-5, atol=1e-5, equal_nan=True), (
                name
            )
        np.testing.assert_allclose(one.ledger["return_mean"], other.ledger["return_mean"], rtol=1e-2)
        mine, theirs = one.certificate(), other.certificate()
        assert mine.bound == pytest.approx(theirs.bound, rel=1e-5, nan_ok=True)
        assert mine.constants == pytest.approx(theirs.constants, rel=1e-4, nan_ok=True)
    regrets = [np.isfinite(one.ledger["regret"]).tolist() for one in together.runs]
    assert regrets == judged


def test_a_run_that_fails_is_not_the_judge_of_its_neighbours():
    base = {"env": "Pendulum-v1", "policy": "linear", "preset": "paper", "rounds": 6, "interactions": 40}
    base |= {"learner": "ogd", "schedule": "constant", "episodes": 0}
    runs = [base | {"eta": eta} for eta in (1e80, 1e-3, 1e-4)]
    for together in (False, True):
        found = play(runs, together=together)
        assert "left the finite numbers" in found[0].error
        for one in found[1:]:
            assert one.error is None and np.isfinite([one.summary["regret"], one.summary["bound"]]).all()


class Broken(gym.Wrapper):
    """An environment that shows nonsense, or raises, when a run of seed 1 has played 50 steps in all."""

    fault = "nan"

    def __init__(self, env):
        super().__init__(env)
        self.mine, self.steps = False, 0

    def reset(self, *, seed=None, options=None):
        from understudy.envs.gymnasium import derive

        self.mine |= seed == derive(1, "collect", 0, 0)
        if self.mine and self.fault == "reset":
            raise ZeroDivisionError("division by zero")
        return self.env.reset(seed=seed)

    def step(self, action):
        observation, *rest = self.env.step(action)
        self.steps += 1
        if self.mine and self.steps > 50:
            if self.fault == "raise":
                raise ZeroDivisionError("division by zero")
            observation = observation * np.nan
        return observation, *rest


def fragile():
    return Broken(gym.make("Pendulum-v1"))


@pytest.mark.parametrize("fault", ["nan", "raise", "reset"])
def test_a_run_that_fails_leaves_the_others_as_they_were(monkeypatch, fault):
    monkeypatch.setattr(Broken, "fault", fault)
    teacher = understudy.experts.get("swingup-Pendulum-v1")
    runs = [{"policy": "linear", "seed": seed, "learner": understudy.ftrl(eta=1.0)} for seed in (0, 1, 2)]
    group = played(fragile, runs, expert=teacher)
    sentence = str(group.errors[1])
    rounds = 0 if fault == "reset" else 1
    assert sentence.startswith(f"round {rounds + 1}: environment: ")
    assert ("is not finite" in sentence) == (fault == "nan")
    assert ("ZeroDivisionError: division by zero" in sentence) == (fault != "nan")
    assert group.errors[0] is None and group.errors[2] is None and len(group.runs[1].rows) == rounds
    for i in (0, 2):
        same(group.runs[i], understudy.imitate("Pendulum-v1", expert=teacher, **COMMON | runs[i]))
    with pytest.raises(UserError, match=f"round {rounds + 1}: environment"):
        understudy.imitate(fragile, expert=teacher, **COMMON | runs[1])


def test_an_expert_that_fails_on_a_state_of_one_run_ends_that_run():
    asked = 0

    def teach(observation):
        nonlocal asked
        if observation[0] < 0:  # a pendulum that hangs down
            raise LookupError("no page on this")
        asked += 1
        return np.tanh(observation[1:2])

    short = {"policy": "linear", "rounds": 1, "interactions": 3, "episodes": 0, "expert_episodes": 0}
    runs = [short | {"seed": seed} for seed in range(6)]
    group = played("Pendulum-v1", runs, expert=teach)
    failed = [error is not None for error in group.errors]
    assert any(failed) and not all(failed)
    # Each state once, and once more those of the call that it raised in.
    assert 3 * failed.count(False) <= asked <= 3 * len(runs) + 6
    for run, error, alone in zip(group.runs, group.errors, runs, strict=True):
        if error is None:
            assert run.finished
        else:
            with pytest.raises(UserError, match="no page on this") as found:
                understudy.imitate("Pendulum-v1", expert=teach, **COMMON | alone)
            assert str(found.value) == str(error)
