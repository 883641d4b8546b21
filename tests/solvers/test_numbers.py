"""The numbers of solvers are data: their values share one compiled program."""

from __future__ import annotations

import dataclasses
import gc
import weakref

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import understudy
from reference import FEW, stream
from understudy import ftl, ftrl
from understudy.losses import Huber, Squared
from understudy.objectives import Objective, batch, plain
from understudy.online import make_game
from understudy.policies import Linear
from understudy.programs import compiled, program
from understudy.solvers import SOLVERS, Solution, adam, closed_form, lbfgs, newton, sls
from understudy.solvers.base import Task, same_program, solve_in_turn

SHAPES = ("batch_size", "memory")
"""Numbers that decide shapes, and so the program."""


def game(solver):
    return make_game(Linear(), Huber(), ftrl(eta=0.1), solver, jnp.zeros((3, 2)))


def test_what_is_remembered_of_a_game_goes_with_it():
    one, other = game(newton()), game(newton(tolerance=0.5))
    play = compiled(one)
    assert compiled(one) is play and compiled(other) is not play
    gone = weakref.ref(one)
    del one, play
    gc.collect()
    assert gone() is None
    found = [compiled(made) for made in (game(newton()), game(newton()))]  # perhaps in the place of the first
    assert found[0] is not found[1]


@pytest.mark.parametrize("name", [name for name in SOLVERS.names() if name != "closed-form"])
def test_every_number_of_every_solver_is_data_but_those_that_decide_shapes(name):
    solver = SOLVERS.resolve(name)
    if hasattr(solver, "batch_size"):
        solver = dataclasses.replace(solver, batch_size=4)
    whole = program(game(solver))
    parts = {"": solver} | ({"direction": solver.direction} if hasattr(solver, "direction") else {})
    numbers = [
        (part, field.name, value)
        for part, owner in parts.items()
        for field in dataclasses.fields(owner)
        if isinstance(value := getattr(owner, field.name), (int, float)) and not isinstance(value, bool)
    ]
    assert len(numbers) >= 2
    for part, field, value in numbers:
        other = dataclasses.replace(parts[part], **{field: value * 2})
        other = dataclasses.replace(solver, **{part: other}) if part else other
        assert (program(game(other)) == whole) == (field not in SHAPES), field


def test_two_tasks_in_one_loop_are_the_tasks_alone():
    """They share their samples and differ in tolerance, objective and start. `alike` refuses other pairs."""
    with jax.enable_x64(True):
        params, far = jnp.zeros((3, 2)), jnp.full((3, 2), 5.0)
        rows = batch(*stream("huber", rounds=1)[0])
        losses = game(newton()).empty(params, rows, 8).add(rows)
        heavy = Objective(losses, far, far, jnp.asarray(2.0))
        tasks = Task(newton(tolerance=1e-3), plain(losses, far), far), Task(newton(), heavy, params)
        assert same_program(*tasks) and not same_program(tasks[0], tasks[1]._replace(solver=lbfgs()))
        assert not same_program(tasks[0], tasks[1]._replace(objective=plain(losses.add(rows), far)))
        found = jax.jit(lambda wanted: solve_in_turn(*tasks, wanted, None))
        alone = [jax.jit(lambda task=task: task.solver(*task[1:]))() for task in tasks]
        for solution, single in zip(found(True), alone, strict=True):
            assert int(solution.iterations) == int(single.iterations)
            np.testing.assert_allclose(solution.params, single.params, rtol=1e-13)
        nothing, second = found(False)
        assert not np.any(nothing.params) and int(nothing.iterations) == 0
        np.testing.assert_allclose(second.params, alone[1].params, rtol=1e-13)
    assert int(alone[0].iterations) != int(alone[1].iterations)


class Steps(eqx.Module):
    """A solver of someone's own, which is no `Solver`: its whole number selects the program."""

    count: int

    def __call__(self, objective, params, key=None):
        turns = jnp.zeros(self.count)  # a shape: no number that is data can be here

        def step(params, _):
            return params - 0.1 * objective.gradient(params), None

        params, _ = jax.lax.scan(step, params, turns)
        value, gradient = objective.value_and_gradient(params)
        count = jnp.asarray(self.count, jnp.int32)
        size = jnp.linalg.norm(gradient)
        return Solution(params, count, value, size, count, count, gradient, jnp.zeros_like(value))


def played(learner, solver, hindsight, loss):
    """The state and the record after two judged rounds, compiled."""
    with jax.enable_x64(True):
        params, rows = jnp.zeros((3, 2)), [batch(*one) for one in stream("squared", rounds=2)]
        made = make_game(Linear(), loss, learner, solver, params, comparator_solver=hindsight)
        state, play = made.init(params, made.empty(params, rows[0], 8)), compiled(made)
        for number, one in enumerate(rows):
            state, record = play(state, one, jax.random.key(number), np.asarray(True))
        return state, record


@pytest.mark.parametrize(
    ("own", "best"),
    [
        (Steps(2), Steps(3)),
        (Steps(1000), Steps(int("1000"))),  # equal, and not the same object
        (adam(max_iterations=3, weight_decay=0.1), adam(max_iterations=4)),
        (adam(max_iterations=3), adam(max_iterations=4, weight_decay=0.1)),
    ],
    ids=["whole numbers", "equal whole numbers", "a number and None", "None and a number"],
)
def test_solvers_that_differ_in_more_than_data_are_solved_apart(own, best):
    with jax.enable_x64(True):
        params = jnp.zeros((3, 2))
        rows = batch(*stream("huber", rounds=1)[0])
        losses = game(newton()).empty(params, rows, 8).add(rows)
        tasks = Task(own, plain(losses, params), params), Task(best, plain(losses, params), params)
        assert same_program(*tasks) == (own == best)
        if own == best:
            both = jax.jit(lambda: solve_in_turn(*tasks, True, None)[0].params)()
            np.testing.assert_allclose(both, jax.jit(own)(*tasks[0][1:]).params, rtol=1e-12)
            return
    state, record = played(ftl(), own, best, Huber())
    assert int(record["solver_iterations"]) == int(own.count if isinstance(own, Steps) else 3)
    assert np.any(state.comparator != state.learner.params)


class EverySecond(eqx.Module):
    """A learner of someone's own: it solves in every second round, inside a branch."""

    inner: object

    def init(self, params):
        return self.inner.init(params)

    def update(self, state, losses, gradient, solve):
        def solved():
            return self.inner.update(state, losses, gradient, solve)

        def waited():
            nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(solved)[1])
            return state._replace(round=state.round + 1), nothing

        return jax.lax.cond(losses.rounds % 2 == 0, solved, waited)


def test_a_learner_may_solve_inside_a_branch():
    """With one solver for it and for the best in hindsight, which is not to come out of that branch."""
    for learner in (EverySecond(ftl()), ftl()):
        state, record = played(learner, closed_form(), closed_form(), Squared())
        np.testing.assert_allclose(state.learner.params, state.comparator, rtol=1e-9)
        assert abs(float(record["comparator"] - record["objective"])) <= 1e-9
        assert float(record["regret"]) > 1e-3


def test_the_numbers_reach_the_program_that_they_share(compilations):
    listed, options = stream("squared", rounds=FEW), {"batch_size": 4, "max_iterations": 20}

    def losses(**changed):
        solver = sls(**options | changed)
        played = understudy.replay(
            listed, learner=ftrl(eta=0.1), solver=solver, comparator="none", keep_iterates=True
        )
        return played.ledger["loss"]

    first = losses()
    before = len(compilations)
    for changed in ({"max_iterations": 7}, {"c": 0.9}, {"shrink": 0.3}, {"growth": 4.0}):
        assert np.abs(losses(**changed) - first).max() > 1e-6, changed
    losses(tolerance=1e-3)
    assert len(compilations) == before
    np.testing.assert_array_equal(losses(), first)
    jax.jit(lambda number: 7 * number)(1.0)  # control: a program that is compiled is counted
    assert len(compilations) > before
