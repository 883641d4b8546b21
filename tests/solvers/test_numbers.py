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
from understudy.making import make_game
from understudy.programs import program
from understudy.solvers import SOLVERS

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
