"""Wrong answers: one sentence each, that names the environment and the value. Right ones pass untouched."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from understudy.errors import UserError
from understudy.experts import Expert
from understudy.experts.answers import checked, require_spaces

BOX = spaces.Box(np.array([-1.0, 0.0], np.float32), np.array([1.0, 5.0], np.float32))
OPEN = spaces.Box(-np.inf, np.inf, (2,))


def ask(answer, space, kind="action", n=2):
    wrapped = checked(Expert("it", ask=lambda observations, infos: answer, kind=kind), space)
    return wrapped.label(np.zeros((n, 4)))


@pytest.mark.parametrize(
    ("answer", "space", "kind", "sentence"),
    [
        ([[0, 0], [np.nan, 0]], BOX, "action", r"\[nan +0\.\] in environment 1 is not finite"),
        ([[0, np.inf], [0, 0]], OPEN, "action", "environment 0 is not finite"),
        ([[0, 0], [1e300, 0]], OPEN, "action", "environment 1 is not finite"),  # in float32, which labels are
        ([[0, 0], [0, 5.1]], BOX, "action", r"\[0\. +5\.1\] in environment 1 is outside the bounds"),
        ([[-1.001, 0], [0, 0]], BOX, "action", "environment 0 is outside"),
        (np.full((2, 40), 2.0), spaces.Box(-1, 1, (40,)), "action", r"2 where -1 to 1 is accepted"),
        ([0, 0], BOX, "action", r"shape \(2,\) for 2 observation\(s\).*\(2, 2\)"),
        ([[0, 0, 0], [0, 0, 0]], BOX, "action", r"shape \(2, 3\)"),
        ([None, None], BOX, "action", r"answered with None; .* needs numbers of shape \(2,\)"),
        ([["a", "b"], ["c", "d"]], BOX, "action", "numbers are expected"),
        ([[0, 0], [0]], BOX, "action", "same shape"),
        ([0, 3], spaces.Discrete(3), "action", "3 in environment 1 is none of Discrete"),
        ([-1, 0], spaces.Discrete(3), "action", "-1 in environment 0"),
        ([0, 1], spaces.Discrete(3, start=1), "action", "0 in environment 0"),
        ([0.5, 1], spaces.Discrete(3), "action", "not whole numbers"),
        ([np.nan, 1], spaces.Discrete(3), "action", "not whole numbers"),
        ([[0.5, 0.25, 0.25]] * 2, spaces.Discrete(3), "action", "kind='distribution'"),
        ([[0, 3], [0, 1]], spaces.MultiDiscrete([2, 3]), "action", r"\[0 3\] in environment 0"),
        ([[0.5, 0.5, 0.5]] * 2, spaces.Discrete(3), "distribution", r"sum is 1\.5"),
        ([[1, 0, 0], [1.5, -0.5, 0]], spaces.Discrete(3), "distribution", "environment 1 is no distribution"),
        ([[np.nan, 0, 1]] * 2, spaces.Discrete(3), "distribution", "no distribution"),
        ([0, 1], spaces.Discrete(3), "distribution", "rows of 3 probabilities"),
        ([[0.5, 0.5]] * 2, BOX, "distribution", "need Discrete actions"),
        ([[0, 1]] * 2, spaces.Text(2), "action", "accepted: Box, Discrete, MultiDiscrete and MultiBinary"),
    ],
)
def test_a_wrong_answer_is_one_sentence(answer, space, kind, sentence):
    with pytest.raises(UserError, match=sentence) as caught:
        ask(answer, space, kind)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("expert 'it': ")


def test_right_answers_pass_and_rounding_is_forgiven():
    np.testing.assert_array_equal(ask([[0.5, 5], [-1, 0]], BOX), np.array([[0.5, 5], [-1, 0]], np.float32))
    over = ask([[1 + 5e-6, 5 + 2e-5], [-1, 0]], BOX)  # what float32 rounding may do is put on the bound
    np.testing.assert_array_equal(over[0], [1, 5])
    np.testing.assert_array_equal(ask([2.0, 0.0], spaces.Discrete(3)), [2, 0])
    np.testing.assert_array_equal(ask([[1, 2], [0, 0]], spaces.MultiDiscrete([2, 3])), [[1, 2], [0, 0]])
    np.testing.assert_array_equal(ask([[1e30, -7], [0, 0]], OPEN), np.array([[1e30, -7], [0, 0]], np.float32))
    rows = np.array([[0.2, 0.8], [1, 0]], np.float32)
    np.testing.assert_array_equal(ask(rows, spaces.Discrete(2), "distribution"), rows)


@given(st.lists(st.floats(-2, 2, width=32), min_size=4, max_size=4))
def test_inside_passes_unchanged_and_outside_never_passes(numbers):
    actions = np.array(numbers, np.float32).reshape(2, 2)
    space = spaces.Box(-1, 1, (2,))
    if (np.abs(actions) <= 1).all():
        np.testing.assert_array_equal(ask(actions, space), actions)
    elif (np.abs(actions) > 1 + 2e-5).any():
        with pytest.raises(UserError):
            ask(actions, space)
    else:
        assert np.abs(ask(actions, space)).max() <= 1


def test_without_a_space_there_is_nothing_to_check_against():
    with pytest.raises(UserError, match="action space is unknown"):
        checked(Expert("it", ask=lambda o, i: o))


def test_an_expert_for_other_spaces_is_refused():
    seen, takes = spaces.Box(-1, 1, (4,)), spaces.Discrete(2)
    made = Expert("it", ask=lambda o, i: o, observation_space=seen, action_space=takes)
    require_spaces(made, spaces.Box(-9, 9, (4,)), spaces.Discrete(2))  # bounds of observations bind nobody
    require_spaces(made)
    with pytest.raises(UserError, match=r"made for observations Box.*\(4,\).*gives Box.*\(5,\)"):
        require_spaces(made, spaces.Box(-1, 1, (5,)))
    with pytest.raises(
        UserError, match=r"made for actions Discrete\(2\), the environment takes Discrete\(3\)"
    ):
        require_spaces(made, seen, spaces.Discrete(3))
    with pytest.raises(UserError, match="observations"):
        require_spaces(made, spaces.Dict({"a": seen}))
    chosen = Expert("it", ask=lambda o, i: o, observation_space=spaces.MultiDiscrete([3, 3]))
    require_spaces(chosen, spaces.MultiDiscrete([3, 3], dtype=np.int8))
    for other in (spaces.MultiDiscrete([3, 4]), spaces.Box(-1, 1, (2,))):  # of the same shape
        with pytest.raises(UserError, match="made for observations MultiDiscrete"):
            require_spaces(chosen, other)
    scaled = Expert("it", ask=lambda o, i: o, action_space=spaces.Box(-1, 1, (1,)))
    with pytest.raises(UserError, match="actions"):
        require_spaces(scaled, None, spaces.Box(-2, 2, (1,)))


def test_images_may_have_their_channels_first_or_last():
    made = Expert("it", ask=lambda o, i: o, observation_space=spaces.Box(0, 255, (4, 84, 80), np.uint8))
    require_spaces(made, spaces.Box(0, 255, (84, 80, 4), np.uint8))
    with pytest.raises(UserError):
        require_spaces(made, spaces.Box(0, 255, (80, 84, 4), np.uint8))
