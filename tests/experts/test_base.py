"""The one class of the room: shapes and types of labels, acting from distributions, SB3's predict."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from gymnasium import spaces

from understudy.errors import UserError
from understudy.experts import Expert, is_single, sample_rows
from understudy.nested import batch_size, stack, take


def expert(answer, **fields) -> Expert:
    return Expert("test", ask=lambda observations, infos: answer, **fields)


@pytest.mark.parametrize(
    ("answer", "kind", "dtype"),
    [
        (np.zeros((2, 3)), "action", np.float32),
        ([[0.0], [1.0]], "action", np.float32),
        (np.zeros(2, np.int32), "action", np.int64),
        ([True, False], "action", np.int64),
        (np.full((2, 2), 0.5), "distribution", np.float32),
        ([[1, 0], [0, 1]], "distribution", np.float32),
    ],
)
def test_labels_have_one_type_per_kind(answer, kind, dtype):
    labels = expert(answer, kind=kind).label(np.zeros((2, 4)))
    assert labels.dtype == dtype
    np.testing.assert_array_equal(labels, np.asarray(answer))


def test_a_distribution_is_played_by_its_mode_or_sampled():
    rows = np.array([[0.2, 0.5, 0.3], [0.9, 0.1, 0.0]], np.float32)
    wise = expert(rows, kind="distribution", action_space=spaces.Discrete(3, start=5))
    np.testing.assert_array_equal(wise.act(np.zeros((2, 1))), [6, 5])
    draws = (
        np.stack([wise.act(np.zeros((2, 1)), rng=np.random.default_rng(seed)) for seed in range(3000)]) - 5
    )
    for column, row in enumerate(rows):
        frequency = np.bincount(draws[:, column], minlength=3) / 3000
        np.testing.assert_allclose(frequency, row, atol=4 * np.sqrt(0.25 / 3000))
    again = wise.act(np.zeros((2, 1)), rng=np.random.default_rng(7))
    np.testing.assert_array_equal(again, wise.act(np.zeros((2, 1)), rng=np.random.default_rng(7)))


def test_sampling_never_leaves_the_support():
    rows = np.tile(np.array([[0.0, 1.0, 0.0]], np.float32), (1000, 1))
    assert set(sample_rows(rows, np.random.default_rng(0))) == {1}
    short = np.tile(np.array([[0.5, 0.4999]], np.float32), (1000, 1))  # sums to a little less than one
    assert set(sample_rows(short, np.random.default_rng(0))) == {0, 1}


def test_predict_tells_one_observation_from_a_batch():
    space = spaces.Box(-1, 1, (3,))
    double = Expert("double", ask=lambda o, i: o[:, :1] * 2, observation_space=space)
    action, state = double.predict(np.array([0.5, 0, 0]), state="kept")
    assert (action.shape, action[0], state) == ((1,), 1.0, "kept")
    actions, _ = double.predict(np.array([[0.5, 0, 0], [0.25, 0, 0]]), deterministic=True)
    np.testing.assert_array_equal(actions, [[1.0], [0.5]])
    np.testing.assert_array_equal(double(np.array([0.5, 0, 0])), [1.0])


def test_predict_with_discrete_and_dict_observations():
    table = Expert("t", ask=lambda o, i: np.asarray(o) % 2, observation_space=spaces.Discrete(6))
    assert table.predict(5)[0] == 1
    np.testing.assert_array_equal(table.predict(np.array([4, 5]))[0], [0, 1])
    both = spaces.Dict({"a": spaces.Box(-1, 1, (2,)), "b": spaces.Discrete(3)})
    sums = Expert("s", ask=lambda o, i: o["a"].sum(axis=1, keepdims=True), observation_space=both)
    assert sums.predict({"a": np.array([0.5, 0.25]), "b": 1})[0] == pytest.approx(0.75)
    assert sums.predict({"a": np.ones((4, 2)), "b": np.ones(4, int)})[0].shape == (4, 1)


def test_predict_without_a_space_is_refused():
    with pytest.raises(UserError, match="observation space is unknown"):
        expert([0]).predict(np.zeros(3))


def test_no_observations_no_labels_and_no_question():
    def never(observations, infos):
        raise AssertionError("asked")

    box = Expert("e", ask=never, action_space=spaces.Box(-1, 1, (3,)))
    assert box.label(np.zeros((0, 4))).shape == (0, 3)
    soft = Expert("e", ask=never, kind="distribution", action_space=spaces.Discrete(4))
    assert soft.label(np.zeros((0, 4))).shape == (0, 4)
    assert Expert("e", ask=never, action_space=spaces.Discrete(4)).label(np.zeros((0, 4))).dtype == np.int64
    with pytest.raises(UserError, match="unknown"):
        Expert("e", ask=never).label(np.zeros((0, 4)))


def test_kind_is_checked_and_the_class_is_frozen():
    with pytest.raises(UserError, match="kind: 'dist'"):
        Expert("e", ask=lambda o, i: o, kind="dist")  # type: ignore[arg-type]
    with pytest.raises(dataclasses.FrozenInstanceError):
        expert([0]).name = "other"  # type: ignore[misc]


def test_batches_of_arrays_and_dicts():
    nested = {"a": np.arange(6).reshape(3, 2), "b": {"c": np.arange(3)}}
    assert batch_size(nested) == 3
    row = take(nested, 2)
    np.testing.assert_array_equal(row["a"], [4, 5])
    assert row["b"]["c"] == 2
    assert stack([row])["a"].shape == (1, 2)
    with pytest.raises(UserError, match="batch"):
        batch_size(3.5)
    with pytest.raises(UserError, match="at least one key"):
        batch_size({})
    with pytest.raises(UserError, match="'z'"):
        is_single({"z": 1}, spaces.Dict({"a": spaces.Discrete(2)}))
