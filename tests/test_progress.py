"""Progress: what a line holds at 80 columns, the time that is left, a line per round in a pipe."""

from __future__ import annotations

import io
import math

import pytest

from quick import SIZE
from understudy import imitate
from understudy.progress import Bar, Rounds, count_up, show_bar, stages


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def row(number, size=100, **changes):
    made = {"round": number, "steps": size * number, "labels": 40 * number, "loss": 0.5}
    return made | {"average_loss": 0.6, "regret": math.nan, "return_mean": math.nan} | changes


@pytest.mark.parametrize("width", [20, 40, 60, 80, 120])
def test_a_line_fits_and_loses_the_least_important_first(width):
    time = Clock()
    bar = Bar("adaftrl on HalfCheetah-v5", 25_000, "steps", now=time)
    bar.update(0)
    time.now = 30.0
    bar.update(5_000, "5,000 labels", "round 6: solving", "loss 0.1234", "return 1234")
    line = bar.line(width)
    assert len(line) <= width
    if width >= 80:
        assert "5,000/25,000" in line and "5,000 labels" in line and line.endswith("2:00 left")
    assert ("return 1234" in line) == (width >= 120)


def test_time_left_counts_what_was_done_today_and_forgets_the_compiling():
    time = Clock()
    bar = Bar("run", 1000, now=time)
    bar.update(400)  # resumed
    assert bar.left is None
    time.now = 50.0
    bar.update(500)
    assert bar.left == pytest.approx(250)  # 100 in 50 s, 500 to go; by all 500 it would be 50 s
    bar.restart()
    assert bar.left is None  # nothing has been done since, and compiling says nothing of the rest
    time.now = 60.0
    bar.update(600)
    assert bar.left == pytest.approx(40)


def test_rounds_count_interactions_and_labels_within_a_round():
    bar = told = Rounds("ftl on X", (100, 100, 100), now=Clock())
    told.moves = True
    told.tick("collecting", 30, 12)
    assert bar.done == 30 and bar.notes() == ["12 labels", "round 1: collecting"]
    told.tick("solving")
    assert bar.done == 30 and bar.notes() == ["12 labels", "round 1: solving"]
    told(1, row(1, return_mean=7.0))
    told.tick("collecting", 50, 20)
    assert bar.done == 150
    assert bar.notes()[:3] == ["60 labels", "round 2: collecting", "loss 0.5"]
    told(2, row(2))
    assert "return 7" in bar.notes()  # the last one that was measured
    told(3, row(3))
    told.tick("measuring the expert")
    assert "round 3: measuring the expert" in bar.notes()


def test_in_a_pipe_every_round_is_a_line(capsys):
    run = imitate("CartPole-v1", policy="linear", episodes=1, progress=True, **SIZE)
    assert run.ledger.rounds == 3
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3 and lines[0].startswith(
        "ftl on CartPole-v1: round 1 of 3  40 steps  40 labels  loss"
    )
    assert "left" not in lines[0]  # it compiled
    assert lines[1].endswith("left") and "return" in lines[2] and "left" not in lines[2]


def test_without_progress_nothing_is_said(capsys):
    imitate("CartPole-v1", policy="linear", episodes=0, expert_episodes=0, **SIZE)
    captured = capsys.readouterr()
    assert captured.err == captured.out == ""


def test_on_a_terminal_one_line_moves(monkeypatch):
    class Screen(io.StringIO):
        def isatty(self):
            return True

    screen = Screen()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    with show_bar(Rounds("ftl on X", (100, 100))) as told:
        told.tick("collecting", 50, 50)
        told(1, row(1))
        told(2, row(2))
    assert "200/200" in screen.getvalue() and "\x1b[" in screen.getvalue()


def test_stages_and_counts_are_lines_in_a_pipe(capsys):
    with stages("runs") as told:
        told("coarse", 0, 10)
        told("coarse", 1, 10)
        told("full", 0, 4)
    with count_up("x.mp4", 1000, "steps") as update:
        update(0)
        update(4)
    said = capsys.readouterr().err.splitlines()
    assert said == ["coarse: 0 of 10 runs", "full: 0 of 4 runs", "x.mp4: 0 of 1,000 steps"]


def test_without_an_error_stream_nothing_is_shown(monkeypatch, capsys):
    monkeypatch.setattr("sys.stderr", None)
    with count_up("mine", 3) as update:
        update(1)
    assert capsys.readouterr().out == ""
