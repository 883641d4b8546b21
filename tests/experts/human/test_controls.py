"""What a person may press for each kind of action, and what a state shows them."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from gymnasium import spaces

from understudy.errors import UserError
from understudy.experts import person
from understudy.experts.human import answer_in_terminal, screen
from understudy.experts.human.controls import Controls, image, table


@pytest.mark.parametrize(
    "space, pressed, action",
    [
        (spaces.Discrete(3), [2], np.int64(2)),
        (spaces.Discrete(3, start=-1), [0], np.int64(-1)),
        (spaces.MultiDiscrete([2, 3]), [1, 2], np.array([1, 2])),
        (spaces.MultiDiscrete([[2, 3], [2, 2]]), [1, 2, 0, 1], np.array([[1, 2], [0, 1]])),
        (spaces.MultiBinary(3), [1, 0, 1], np.array([1, 0, 1])),
        (spaces.Box(-2.0, 2.0, (1,)), [0.5], np.array([0.5], np.float32)),
        (spaces.Box(-2.0, 2.0, ()), [0.5], np.array(0.5, np.float32)),
        # The end of a slider: of single precision is the next number inside.
        (spaces.Box(-0.1, 0.1, (1,), np.float64), [0.1], np.nextafter(np.array([0.1], np.float32), 0)),
        (spaces.Box(-1.0, 1.0, (2, 2)), [0, 1, -1, 0.25], np.array([[0, 1], [-1, 0.25]], np.float32)),
    ],
)
def test_what_is_pressed_becomes_an_action_of_the_space(space, pressed, action):
    made = Controls(space).read(pressed)
    assert np.array_equal(made, action) and np.asarray(made).dtype == np.asarray(action).dtype
    assert space.contains(np.asarray(made).astype(space.dtype))
    for wrong in (
        None,
        "1",
        [],
        [*pressed, 0],
        [99] * len(pressed),
        [None],
        [float("nan")],
        [True],
        {"a": 1},
    ):
        with pytest.raises(UserError, match="answer: "):
            Controls(space).read(wrong)


def test_actions_a_person_cannot_answer_with_are_refused_in_a_sentence():
    for space, word in (
        (spaces.Box(-np.inf, np.inf, (2,)), "bounds"),
        (spaces.Box(-1.0, 1.0, (17,)), "17 numbers"),
        (spaces.Discrete(1000), "1,000 actions"),
        (spaces.Text(3), "Text"),
    ):
        with pytest.raises(UserError, match=f"^expert: .*{word}"):
            Controls(space)
    with pytest.raises(UserError, match="actions: 1 names are given, and 2 are needed"):
        Controls(spaces.Discrete(2), actions=["brake"])
    with pytest.raises(UserError, match=r"person: unknown value 'window'.*page, terminal"):
        person("window")
    with pytest.raises(UserError, match="asked by a run"):
        person().label(np.zeros((1, 4)))


def test_keys_are_one_of_a_kind_and_arrows_go_to_directions():
    for env, space in (
        ("FrozenLake-v1", spaces.Discrete(4)),
        ("FrozenLake8x8-v1", spaces.Discrete(4)),
        ("Taxi-v4", spaces.Discrete(6)),
        ("X", spaces.Discrete(40)),
    ):
        keys = [key for one in Controls(space, env).plain["choices"][0] for key in one["keys"]]
        assert len(keys) == len(set(keys)) and not {"s", "u", "Enter", " "} & set(keys)
        assert (env == "X") != ({"ArrowLeft", "ArrowUp"} <= set(keys))
    named = Controls(spaces.Discrete(2), "X", ["go up", "stay"]).plain["choices"][0]
    assert named == [{"name": "go up", "keys": ["1", "ArrowUp"]}, {"name": "stay", "keys": ["2"]}]


def test_a_state_is_a_table_with_names_and_bounds_and_images_are_pictures():
    space = spaces.Box(np.array([-4.8, -np.inf]), np.array([4.8, np.inf]), dtype=np.float64)
    assert table(np.array([1.0, 2.0]), space, "CartPole-v1") == [
        {"name": "cart position", "value": 1.0, "low": -4.8, "high": 4.8},
        {"name": "cart velocity", "value": 2.0},
    ]
    whole = spaces.Dict({"camera": spaces.Box(0, 255, (8, 9, 3), np.uint8), "n": spaces.Discrete(3)})
    seen = {"camera": np.zeros((8, 9, 3), np.uint8), "n": np.int64(2)}
    assert table(seen, whole) == [{"name": "n 1", "value": 2, "low": 0.0, "high": 2.0}]
    deep = spaces.Dict({"arm": spaces.Dict({"joints": spaces.Box(-1.0, 1.0, (2,))}), "n": spaces.Discrete(3)})
    rows = table({"arm": {"joints": np.array([0.5, -0.5])}, "n": np.int64(2)}, deep)
    assert [(row["name"], row["value"], row["low"]) for row in rows] == [
        ("arm joints 1", 0.5, -1.0),
        ("arm joints 2", -0.5, -1.0),
        ("n 1", 2, 0.0),
    ]
    assert image(seen) is None, "too small"
    assert image(np.zeros((84, 84), np.uint8)).shape == image(np.zeros((84, 84, 3), np.uint8)).shape


def test_in_a_terminal_the_same_questions_are_answered_with_keys(monkeypatch, capsys):
    from experts.human.test_desk import Asking  # the same run

    plain = Controls(spaces.Discrete(2), "CartPole-v1")
    keys = ["1", "x", "u", "s", "ArrowRight", "2"]
    monkeypatch.setattr("understudy.experts.human._keys", lambda: iter(keys))
    run = Asking(
        3, shows=[lambda i=i: {"frames": [], "table": [{"name": "x", "value": i}]} for i in range(3)]
    )
    run.desk._read = plain.read
    answer_in_terminal(run.desk, plain.plain)
    assert {i: int(one) for i, one in run.end().items()} == {1: 1, 2: 1}  # 1, taken back, skipped
    text = capsys.readouterr().err
    assert "state 1 of 3" in text and "[1] push left" in text and "'x' is no key" in text
    with pytest.raises(UserError, match="one choice"):
        answer_in_terminal(run.desk, Controls(spaces.Box(-1, 1, (1,))).plain)
    with pytest.raises(UserError, match="one choice of 34 at most"):  # the others would have no key
        answer_in_terminal(run.desk, Controls(spaces.Discrete(35)).plain)
    assert screen({"question": {}, "at": 1, "of": 1, "facts": {"labels": 0}}, []).endswith("[u] undo")


def test_what_is_no_number_is_shown_all_the_same():
    """A laser that hits nothing: JSON, and so a page, has no infinity."""
    rows = table(np.array([np.inf, np.nan, 0.5]), spaces.Box(-1, 1, (3,)))
    json.loads(json.dumps(rows), parse_constant=pytest.fail)
    text = screen({"question": {"table": rows}, "at": 1, "of": 1, "facts": {"labels": 0}}, [])
    assert "inf" in text and "nan" in text and text.count("●") == 1
    for huge in (10**400, float("inf"), float("nan")):
        for space in (spaces.Discrete(3), spaces.Box(-1, 1, (1,))):
            with pytest.raises(UserError, match="is not an action"):
                Controls(space).read([huge])


def test_an_interrupt_leaves_the_terminal_as_it_was():
    """The thread that waits for a key ends with the program; the terminal would go on without an echo."""
    pty, termios = pytest.importorskip("pty"), pytest.importorskip("termios")
    code = "import threading, time; from understudy.experts.human import _keys;"
    code += "threading.Thread(target=lambda: list(_keys()), daemon=True).start(); print(flush=True);"
    code += "time.sleep(0.2); raise KeyboardInterrupt"
    ours, theirs = pty.openpty()
    before = termios.tcgetattr(ours)
    run = subprocess.run([sys.executable, "-c", code], stdin=theirs, capture_output=True)
    assert b"KeyboardInterrupt" in run.stderr
    assert termios.tcgetattr(ours) == before


@pytest.mark.parametrize("lines", ["1\n2\n", "1\n"])
def test_without_a_terminal_lines_are_answers_and_their_end_ends_the_run(tmp_path, monkeypatch, lines):
    from experts.human.test_desk import Asking

    (tmp_path / "keys").write_text(lines)
    run, plain = Asking(2, shows=2 * [lambda: {"frames": [], "table": []}]), Controls(spaces.Discrete(2))
    run.desk._read = plain.read
    with (tmp_path / "keys").open() as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        answer_in_terminal(run.desk, plain.plain)
        found = run.end()
    if lines == "1\n2\n":
        assert found == {0: 0, 1: 1}
    else:
        assert isinstance(found, UserError) and "no more keys" in str(found) and run.kept == {0: 0}
