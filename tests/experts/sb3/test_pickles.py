"""Arrays and spaces rebuilt from pickles, against what pickle itself makes of them."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from gymnasium import spaces

from understudy.errors import UserError
from understudy.experts.sb3 import pickles

ARRAYS = [
    np.arange(6, dtype=np.float32).reshape(2, 3),
    np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    np.array([[1, -2]], np.int16),
    np.array([True, False]),
    np.arange(3, dtype=">f4"),
    np.array(3.5),
    np.zeros((0, 4), np.uint8),
    np.float64(2.5),
    np.int64(-3),
]


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("value", ARRAYS, ids=lambda value: f"{np.asarray(value).dtype}{np.shape(value)}")
def test_arrays_are_those_that_were_written(value, protocol):
    found = pickles.array(pickles.read(pickle.dumps(value, protocol=protocol), "it"), "it")
    np.testing.assert_array_equal(found, value)
    assert found.shape == np.shape(value)


def test_old_and_new_numpy_are_read_alike():
    data = pickle.dumps(np.arange(4.0), protocol=2)
    assert b"numpy._core.multiarray" in data
    old = data.replace(b"numpy._core.multiarray", b"numpy.core.multiarray")
    np.testing.assert_array_equal(pickles.array(pickles.read(old, "it"), "it"), np.arange(4.0))


NO_NUMBERS = [np.array(["a"]), np.array([1 + 2j]), np.array([None], object), "text", None, [1.0]]


@pytest.mark.parametrize("value", NO_NUMBERS, ids=repr)
def test_what_is_no_array_of_numbers_is_refused(value):
    with pytest.raises(UserError):
        pickles.array(pickles.read(pickle.dumps(value, protocol=4), "it"), "it")


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(-1, 1, (2, 3)),
        spaces.Box(np.array([-1.0, -np.inf]), np.array([3.0, np.inf]), dtype=np.float64),
        spaces.Box(0, 255, (3, 8, 8), np.uint8),
        spaces.Discrete(5),
        spaces.Discrete(3, start=-1),
        spaces.MultiDiscrete([2, 5]),
        spaces.MultiBinary(4),
        spaces.Dict({"b": spaces.Discrete(2), "a": spaces.Box(-1, 1, (2,))}),
    ],
    ids=str,
)
@pytest.mark.parametrize("protocol", [2, 4, 5])
@pytest.mark.parametrize("seeded", [False, True])
def test_spaces_are_those_that_were_written(space, protocol, seeded):
    if seeded:
        space.seed(3)
        space.sample()
    assert pickles.space(pickles.read(pickle.dumps(space, protocol=protocol), "it"), "it") == space


def test_spaces_of_the_old_gym_are_read_too():
    data = pickle.dumps(spaces.Discrete(5), protocol=2)
    old = data.replace(b"gymnasium.spaces.discrete", b"gym.spaces.discrete")
    assert pickles.space(pickles.read(old, "it"), "it") == spaces.Discrete(5)


@pytest.mark.parametrize(
    "value", [spaces.Text(3), spaces.Tuple([spaces.Discrete(2)]), np.arange(3), {"a": 1}]
)
def test_other_things_are_no_spaces(value):
    with pytest.raises(UserError, match="which is not accepted"):
        pickles.space(pickles.read(pickle.dumps(value, protocol=4), "it"), "it")


def test_bytes_that_do_not_fit_a_shape_are_refused():
    data = pickle.dumps(np.arange(4, dtype=np.float32), protocol=2)
    wrong = data.replace(b"K\x04\x85", b"K\x05\x85")
    assert wrong != data
    with pytest.raises(UserError, match="do not fit"):
        pickles.array(pickles.read(wrong, "it"), "it")
