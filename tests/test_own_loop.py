"""A robot of your own: answers come late, in pieces, in any order, and through several processes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from understudy import Understudy, UserError

BOXES = Box(-1, 1, (2,)), Box(-1, 1, (1,))
SETTINGS = {"policy": "linear", "ask": "random:9", "rounds": 3, "steps_per_round": 30, "preset": "paper"}
ORDERS = ([0, 1, 2], [2, 0, 1], [1, 2, 0])


def states(number: int) -> np.ndarray:
    return np.random.default_rng(number).uniform(-1, 1, (30, 2)).astype(np.float32)


def expert(seen: np.ndarray) -> np.ndarray:
    return (seen[:, :1] - seen[:, 1:]) / 2


def taught(path, order, pieces: int, *, reload: bool, flip: bool = False) -> bytes:
    """The file of a student after two rounds, whose answers came in pieces in this order."""
    student = Understudy(*BOXES, **SETTINGS)
    for number in range(2):
        question = student.choose(states(number))
        parts = np.array_split(np.random.default_rng(pieces).permutation(len(question.index)), pieces)
        for turn in order:
            places = parts[turn] if turn < pieces else parts[0]
            if reload:
                student = Understudy.load(student.save(path), *BOXES)
            labels = expert(states(number)[question.index][places])
            left = student.answer(student.open[question.id], places, -labels if flip else labels)
        assert left == 0
        student.learn(student.open[question.id])
    return student.save(path).read_bytes()


def test_what_is_learnt_is_the_same_in_any_order(tmp_path):
    file = tmp_path / "student"
    student = Understudy(*BOXES, **SETTINGS)
    for number in range(2):
        question = student.choose(states(number))
        student.learn(question, expert(states(number)[question.index]))
    at_once = student.save(file).read_bytes()
    for order, reload in itertools.product(ORDERS, (False, True)):
        assert taught(file, order, 3, reload=reload) == at_once
    assert taught(file, [0, 1, 0, 2, 1], 3, reload=True) == at_once, "an answer may come twice"
    assert taught(file, [0, 1, 2], 3, reload=False, flip=True) != at_once  # negative control


def test_another_label_for_the_same_state_is_refused_and_the_first_stays():
    student = Understudy(*BOXES, **SETTINGS)
    question = student.choose(states(0))
    assert student.answer(question, [3, 0], [[0.5], [0.25]]) == 7
    with pytest.raises(UserError, match=r"^labels: state 0 of question 1 has another label already"):
        student.answer(question, [1, 0], [[0.5], [0.75]])
    with pytest.raises(UserError, match=r"^labels: state 2 of question 1 has another label"):
        student.answer(question, [2, 2], [[0.1], [0.2]])
    assert student.answer(question, [0], [[0.25]]) == 5
    for places, labels, message in (
        ([9], [[0.0]], "places: 9 is none of its 9 states"),
        ([-1], [[0.0]], "places: -1 is none"),
        ([4, 5], [[0.0]], "labels: there are 1 for the 2 states"),
        ([4], [[np.nan]], "labels: not all are finite"),
    ):
        with pytest.raises(UserError, match=f"^{message}"):
            student.answer(question, places, labels)


def test_a_state_that_nobody_answers_is_told():
    student = Understudy(Box(-1, 1, (2,)), Discrete(2), **SETTINGS)
    question = student.choose(states(0))
    student.answer(question, range(5), [0, 1, 1, 0, 1])
    row = student.learn(question)
    assert (row["labels"], row["unanswered"], row["samples"]) == (5, 4, 5)
    with pytest.raises(UserError, match=r"^question: number 1 is not open"):
        student.answer(question, [7], [1])
    silent = student.choose(states(1))
    with pytest.raises(UserError, match="no answer in any of 9 states"):
        student.learn(silent)
    assert student.answer(silent, [0], [1]) == 8 and student.learn(silent)["labels"] == 6


def test_what_came_before_counts_and_what_nobody_answered_does_not():
    """Some answers by `answer`, others by `learn`: as if all had come at once, and a budget counts labels."""
    labels, has = expert(states(0)), np.arange(9) < 5
    early, at_once, all_late = (Understudy(*BOXES, **SETTINGS | {"budget": 27}) for _ in range(3))
    for student in (early, at_once, all_late):
        question = student.choose(states(0))
        given = labels[question.index]
        if student is early:
            student.answer(question, [0, 1], given[:2])
            row = student.learn(question, given, answered=has & (np.arange(9) > 1))
        elif student is at_once:
            row = student.learn(question, given, answered=has)
        else:
            student.answer(question, np.flatnonzero(has), given[has])
            row = student.learn(question)
        assert (row["labels"], row["unanswered"]) == (5, 4)
        assert student.samples.column("targets").any(axis=1).sum() == 5
    assert early.ledger.to_csv() == at_once.ledger.to_csv() == all_late.ledger.to_csv()
    assert at_once.left == 9, "a label that did not come is not spent"


def test_a_plan_beside_open_questions_is_that_of_the_round_after_them():
    student = Understudy(*BOXES, **SETTINGS | {"first_steps": 4, "budget": 40, "rounds": None})
    first = student.choose(states(0)[: student.plan.size])
    assert student.plan.number == 2 and student.plan.size == student.path().size == 30 != len(first.weights)
    while student.left:
        student.choose(states(1))
    with pytest.raises(UserError, match=r"^rounds: all \d+ are over, or open \(\d+\); more rounds"):
        student.choose(states(2))
