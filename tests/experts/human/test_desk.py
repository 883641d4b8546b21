"""The desk between a run that waits and a person who answers: no answer counts twice, none is lost."""

from __future__ import annotations

import threading
import time

import pytest

from understudy.errors import UserError
from understudy.experts.human import screen
from understudy.experts.human.desk import Desk


class Asking:
    """A run that asks about n states in a thread of its own, and what it was told."""

    def __init__(self, count=3, *, grace=0.0, known=False, keep=None, shows=None):
        self.desk, self.kept, self.log, self.found = Desk(grace=grace), {}, [], None
        shows = shows or [lambda i=i: {"frames": [], "table": [i]} for i in range(count)]

        def keeps(i, action):
            self.kept[i] = action
            self.log.append(("keep", i, action))

        def drops(i):
            del self.kept[i]
            self.log.append(("drop", i))

        def run():
            try:
                self.found = self.desk.ask(shows, keep or keeps, drops, known=known)
            except BaseException as error:
                self.found = error

        self.thread = threading.Thread(target=run, daemon=True)
        self.thread.start()
        self.number = self.wait()["number"]

    def wait(self):
        """The question that is shown."""
        limit = time.monotonic() + 10
        while time.monotonic() < limit:
            if (now := self.desk.view()["question"]) is not None:
                return now
            time.sleep(0.001)
        raise AssertionError("no question")

    def end(self):
        self.thread.join(10)
        assert not self.thread.is_alive()
        return self.found


def test_every_answer_is_kept_at_once_and_names_its_question():
    run = Asking(3)
    first = run.number
    assert run.desk.answer(first, "a") and run.kept == {0: "a"}
    assert not run.desk.answer(first, "b"), "a second tab answers what is answered"
    assert not run.desk.answer(first + 2, "c"), "nobody has seen that one yet"
    assert not run.desk.skip(first)
    assert run.wait()["table"] == [1]
    assert run.desk.skip(first + 1) and run.desk.answer(first + 2, "c")
    assert run.end() == {0: "a", 2: "c"} and run.kept == run.found
    view = run.desk.view()
    assert view["facts"] == {"labels": 2, "skipped": 1} and view["mode"] == "wait"
    assert not run.desk.answer(first + 2, "d") and not run.desk.undo()


def test_two_tabs_at_the_same_time_label_once():
    run = Asking(40)
    counted = []

    def tab(name):
        while run.thread.is_alive() and len(run.kept) < 40:
            now = run.desk.view()["question"]
            if now is not None and run.desk.answer(now["number"], name):
                counted.append(now["number"])

    tabs = [threading.Thread(target=tab, args=(name,)) for name in "ab"]
    for one in tabs:
        one.start()
    found = run.end()
    for one in tabs:
        one.join()
    assert len(found) == 40 and sorted(counted) == list(range(run.number, run.number + 40))
    assert [one[1] for one in run.log] == list(range(40)), "each is kept once"


def test_undo_takes_back_answers_and_skips_to_the_last_of_the_round():
    run = Asking(2, grace=30.0)
    first = run.number
    assert not run.desk.undo()
    run.desk.answer(first, "a")
    run.desk.answer(first + 1, "b")
    view = run.desk.view()
    assert view["question"] is None and 25 < view["grace"] <= 30 and view["undo"]
    assert run.desk.undo() and run.desk.undo() and run.kept == {}
    assert run.desk.view()["question"]["number"] == first and run.desk.view()["grace"] is None
    assert run.desk.skip(first) and run.desk.undo() and run.desk.skip(first)
    run.desk.answer(first + 1, "c")
    run.desk.confirm()
    assert run.end() == {1: "c"}
    assert run.log == [("keep", 0, "a"), ("keep", 1, "b"), ("drop", 1), ("drop", 0), ("keep", 1, "c")]


def test_a_round_without_any_label_is_refused():
    run = Asking(2)
    run.desk.skip(run.number)
    with pytest.raises(UserError, match="one state of a round needs a label"):
        run.desk.skip(run.number + 1)
    run.desk.answer(run.number + 1, "a")
    assert run.end() == {1: "a"}
    resumed = Asking(1, known=True)
    assert resumed.desk.skip(resumed.number) and resumed.end() == {}


def test_what_is_wrong_with_the_disk_or_a_picture_ends_the_run():
    def full(i, action):
        raise UserError("out: the disk is full.")

    run = Asking(2, keep=full)
    with pytest.raises(UserError, match="full"):
        run.desk.answer(run.number, "a")
    assert isinstance(run.end(), UserError) and run.desk.view()["facts"]["labels"] == 0


def test_an_answer_that_is_none_is_refused_and_the_question_stays():
    def read(value):
        if value != [1]:
            raise UserError(f"answer: {value!r} is not an action.")
        return value[0]

    run = Asking(1)
    run.desk._read = read
    with pytest.raises(UserError, match="not an action"):
        run.desk.answer(run.number, [7])
    assert run.desk.answer(run.number, [1]) and run.end() == {0: 1}


def drive(desk, steps, kept):
    """An episode of so many steps in which the person may take over; who acted, with what."""
    acted = []
    for step in range(steps):

        def show(step=step):
            return {"frames": [], "table": [step]}

        action = None
        if desk.watch(show):
            action = desk.drive(show, lambda i, action, step=step: kept.__setitem__(step, action))
        acted.append(action)
    return acted


def until(test, what):
    limit = time.monotonic() + 10
    while not test():
        assert time.monotonic() < limit, what
        time.sleep(0.001)


def test_a_person_takes_over_drives_and_gives_back():
    desk, kept, found = Desk(), {}, []
    desk.speed = 0  # one key, one step
    thread = threading.Thread(target=lambda: found.extend(drive(desk, 6, kept)), daemon=True)
    thread.start()

    def at(mode, step):
        def here():
            view = desk.view()
            return view["mode"] == mode and view["question"] and view["question"]["table"] == [step]

        until(here, (mode, step))
        return desk.view()["question"]["number"]

    for step in (0, 1):
        assert desk.skip(at("watch", step))
    at("watch", 2)
    desk.steer(taken=True)
    for step in (2, 3):
        assert not desk.skip(at("drive", step)) and desk.answer(at("drive", step), f"left {step}")
    at("drive", 4)
    desk.steer(taken=False)  # the state that waits for an answer goes to the policy
    assert desk.skip(at("watch", 5))
    thread.join(10)
    assert found == [None, None, "left 2", "left 3", None, None] and kept == {2: "left 2", 3: "left 3"}
    assert desk.view()["facts"]["labels"] == 2


def test_at_a_speed_the_last_key_is_held_and_nothing_moves_where_nobody_looks():
    desk, kept, found = Desk(), {}, []
    desk.speed = 50
    desk.steer(taken=True)
    thread = threading.Thread(target=lambda: found.extend(drive(desk, 5, kept)), daemon=True)
    thread.start()
    until(lambda: desk.view()["mode"] == "drive", "drive")
    desk.hold("left")
    time.sleep(0.1)
    assert not kept, "it is paused, and no page is open"
    desk.steer(paused=False)
    time.sleep(0.1)
    assert not kept, "no page is open"
    desk.look(1)
    began = time.monotonic()
    thread.join(10)
    assert found == ["left"] * 5 and kept == dict.fromkeys(range(5), "left")
    assert time.monotonic() - began > 3 / 50


def test_an_answer_from_a_page_that_does_not_know_of_the_speed_yet_is_played():
    desk, kept, found = Desk(), {}, []
    desk.speed = 50
    desk.steer(taken=True, paused=False)
    desk.look(1)
    thread = threading.Thread(target=lambda: found.extend(drive(desk, 2, kept)), daemon=True)
    thread.start()
    until(lambda: desk.view()["question"], "a question")
    time.sleep(0.1)  # the run waits for a first key
    assert desk.answer(desk.view()["question"]["number"], "left")
    thread.join(10)
    assert found == ["left", "left"]


def test_pages_hear_of_news_and_of_the_end():
    desk = Desk()
    assert not desk.wait(desk.version, 0.01)
    before = desk.version
    desk.tell("solving", labels=3, budget=10)
    assert desk.wait(before, 0) and desk.view()["facts"] == {"labels": 3, "budget": 10, "skipped": 0}
    before = desk.version
    desk.tell("solving")
    assert desk.version == before, "nothing new"
    desk.close("It ended.")
    assert (desk.view()["mode"], desk.view()["stage"]) == ("done", "It ended.")


@pytest.mark.parametrize(("columns", "bar"), [(120, 24), (60, 22), (40, 0)])
def test_a_terminal_s_lines_fit_its_width(columns, bar):
    rows = [{"name": "pole angle", "value": 0.1, "low": -0.4, "high": 0.4}]
    view = {"question": {"table": rows}, "at": 1, "of": 10, "facts": {"labels": 4}}
    line = screen(view, [], columns).splitlines()[2]
    assert len(line) < columns and sum(line.count(one) for one in "─┼●") == bar
