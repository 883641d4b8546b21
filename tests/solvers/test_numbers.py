"""The numbers of solvers are data: their values share one compiled program."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import understudy
from reference import FEW, stream
from understudy import Huber, Linear, ftrl, sls
from understudy.data import batch
from understudy.making import make_game
from understudy.objectives import Objective, plain
from understudy.programs import program
from understudy.solvers import SOLVERS, lbfgs, newton
from understudy.solvers.base import Task, alike, solved_in_turn

SHAPES = ("batch_size", "memory")
"""Numbers that decide shapes, and so the program."""


def game(solver):
    return make_game(Linear(), Huber(), ftrl(eta=0.1), solver, jnp.zeros((3, 2)))


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
    """They share their samples and differ in tolerance, objective and start; unlike ones are told apart."""
    with jax.enable_x64(True):
        params, far = jnp.zeros((3, 2)), jnp.full((3, 2), 5.0)
        rows = batch(*stream("huber", rounds=1)[0])
        losses = game(newton()).empty(params, rows, 8).add(rows)
        heavy = Objective(losses, far, far, jnp.asarray(2.0))
        tasks = Task(newton(tolerance=1e-3), plain(losses, far), far), Task(newton(), heavy, params)
        assert alike(*tasks) and not alike(tasks[0], tasks[1]._replace(solver=lbfgs()))
        assert not alike(tasks[0], tasks[1]._replace(objective=plain(losses.add(rows), far)))
        found = jax.jit(lambda wanted: solved_in_turn(*tasks, wanted, None))
        alone = [jax.jit(lambda task=task: task.solver(*task[1:]))() for task in tasks]
        for solution, single in zip(found(True), alone, strict=True):
            assert int(solution.iterations) == int(single.iterations)
            np.testing.assert_allclose(solution.params, single.params, rtol=1e-13)
        nothing, second = found(False)
        assert not np.any(nothing.params) and int(nothing.iterations) == 0
        np.testing.assert_allclose(second.params, alone[1].params, rtol=1e-13)
    assert int(alone[0].iterations) != int(alone[1].iterations)


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
