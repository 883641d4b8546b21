"""The page in a browser: thirty labels from the keyboard make a policy, and nothing on the way is lost."""

from __future__ import annotations

import threading

import numpy as np
from gymnasium import spaces

from browsing import browser  # noqa: F401
from experts.human.test_desk import Asking
from understudy import imitate
from understudy.experts import person
from understudy.experts.human import serve
from understudy.experts.human.controls import Controls

WAIT = 300_000
RANDOM = 50
"""More than a policy that pushes at random lasts: 22 steps on average."""


class Run:
    """A run that waits for a person, in a thread of its own."""

    def __init__(self, **settings):
        self.expert, self.result = person("page", browser=False, grace=0.3), None
        self.thread = threading.Thread(target=self.play, args=(settings,), daemon=True)
        self.thread.start()
        while self.expert.person.server is None:
            assert self.thread.is_alive()
            self.thread.join(0.02)
        self.server = self.expert.person.server

    def play(self, settings):
        self.result = imitate("CartPole-v1", expert=self.expert, **settings)


class Person:
    """Reads the angle of the pole from the data of the page and presses a key."""

    def __init__(self, context, url):
        self.page, self.errors = context.new_page(), []
        self.page.on("console", lambda one: self.errors.append(one.text) if one.type == "error" else None)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.goto(url)

    def look(self, after=-1):
        """The view with a question newer than `after`, or the one that says that the run has ended."""
        new = "after => view && (view.mode === 'done' || (view.question && view.question.number > after))"
        self.page.wait_for_function(new, arg=after, timeout=WAIT)
        return self.page.evaluate("view")

    def key(self, view):
        state = {row["name"]: row["value"] for row in view["question"]["table"]}
        return "ArrowRight" if state["pole angle"] + 0.2 * state["pole angular velocity"] > 0 else "ArrowLeft"

    def labels(self):
        return self.page.evaluate("view.facts.labels")

    def settles(self, labels):
        self.page.wait_for_function("n => view.facts.labels === n", arg=labels, timeout=WAIT)


def test_thirty_labels_from_the_keyboard_train_a_policy(browser, tmp_path):  # noqa: F811
    run = Run(
        budget=31,
        ask="distance:10",
        policy="linear",
        seed=1,
        episodes=5,
        comparator="none",
        out=tmp_path / "run",
    )
    context = browser.new_context()
    stranger = context.new_page()
    answer = stranger.goto(f"http://127.0.0.1:{run.server.port}/")
    assert answer.status == 403 and "token" in stranger.content()
    one = Person(context, run.server.url)
    assert "token" not in one.page.url, "the address that a history keeps"
    number, given, skipped = -1, 0, 0
    while (view := one.look(number))["mode"] != "done":
        number = view["question"]["number"]
        assert view["facts"]["labels"] == given and view["facts"]["skipped"] == skipped
        if given == 3 and not skipped:
            one.page.keyboard.press("s")
            skipped = 1
            continue
        if given == 4:  # a wrong one, taken back
            wrong = {"ArrowLeft": "ArrowRight", "ArrowRight": "ArrowLeft"}[one.key(view)]
            one.page.keyboard.press(wrong)
            one.settles(given + 1)
            one.page.keyboard.press("u")
            one.settles(given)
            assert one.look()["question"]["number"] == number
        if given == 6:  # closed and opened again: the same question, and every label is there
            one.page.close()
            one = Person(context, f"http://127.0.0.1:{run.server.port}/")
            assert one.look()["question"]["number"] == number and one.labels() == given
        if given == 12:  # two tabs with one question
            other = Person(context, f"http://127.0.0.1:{run.server.port}/")
            assert other.look()["question"]["number"] == number
            both = "n => { for (const i of [1, 2]) post('/answer', {question: n, value: [1]}); }"
            for tab in (one, other):
                tab.page.evaluate(both, number)
            other.settles(given + 1)
            assert other.errors == []
            other.page.close()
        elif given == 13:  # a click is as good as a key
            one.page.click(f"[data-action='{int(one.key(view) == 'ArrowRight')}']")
        else:
            one.page.keyboard.press(one.key(view))
        given += 1
    run.thread.join(60)
    assert run.result is not None and given == 30
    assert run.result.ledger["labels"][-1] == 30 and run.result.ledger["unanswered"][-1] == 1
    assert run.result.evaluation.mean > RANDOM
    assert "30 labels" in one.page.inner_text("#stage") and one.errors == []
    context.close()


class Held:
    """A page about three states; the reply to an answer, or the answer itself, waits until it is let go."""

    def __init__(self, browser, after=True):  # noqa: F811
        controls = Controls(spaces.Discrete(2), "X")
        self.run = Asking(3, shows=[lambda: {"frames": [], "table": [], "step": 0}] * 3)
        self.run.desk._read = controls.read
        self.page = serve(self.run.desk, {"env": "X", "controls": controls.plain, "why": ""}, browser=False)
        self.go, routes = threading.Event(), self.page.routes
        quick = routes["POST /answer"]

        def slow(request):
            done = quick(request) if after else None
            self.go.wait(20)
            return done or quick(request)

        routes["POST /answer"] = slow
        self.context = browser.new_context()

    def tab(self):
        return Person(self.context, self.page.url)

    def close(self):
        self.page.close()
        self.context.close()


def test_a_key_counts_before_the_reply_to_the_one_before(browser):  # noqa: F811
    """The next question comes by the events, perhaps before the reply to the last answer does."""
    held = Held(browser)
    one = held.tab()
    number = one.look()["question"]["number"]
    one.page.keyboard.press("2")
    one.look(number)
    one.page.keyboard.press("1")
    held.go.set()
    one.look(number + 1)
    one.page.keyboard.press("2")
    assert [int(action) for action in held.run.end().values()] == [1, 0, 1] and one.errors == []
    held.close()


def test_an_undo_does_not_overtake_the_answer_before_it(browser):  # noqa: F811
    held = Held(browser, after=False)
    one = held.tab()
    number = one.look()["question"]["number"]
    for key in "2u1":
        one.page.keyboard.press(key)
    one.page.wait_for_timeout(100)  # as long as an undo needs that does not wait
    held.go.set()
    one.look(number)
    for _ in range(500):
        if len(held.run.log) == 3:
            break
        one.page.wait_for_timeout(20)  # for a busy machine
    assert held.run.log == [("keep", 0, 1), ("drop", 0), ("keep", 0, 0)] and one.errors == []
    held.close()


def test_more_tabs_than_a_browser_has_connections_answer_and_see(browser):  # noqa: F811
    held = Held(browser)
    held.go.set()
    tabs = [held.tab() for _ in range(8)]
    number = tabs[-1].look()["question"]["number"]
    tabs[-1].page.keyboard.press("2")
    for one in tabs:
        assert one.look(number)["facts"]["labels"] == 1 and one.errors == []
        assert not one.page.evaluate("lost")
    held.close()


def test_sliders_answer_for_box_actions_and_a_phone_sees_all_of_it(browser):  # noqa: F811
    controls = Controls(spaces.Box(-2.0, 2.0, (2,)), "X", ["torque", "grip"])
    rows = [{"name": "x", "value": 0.5, "low": -1.0, "high": 1.0}]
    run = Asking(2, shows=[lambda: {"frames": [], "table": rows, "step": 0}] * 2)
    run.desk._read = controls.read
    page = serve(run.desk, {"env": "X", "controls": controls.plain, "why": "none"}, browser=False)
    context = browser.new_context(viewport={"width": 390, "height": 780}, color_scheme="dark")
    one = Person(context, page.url)
    one.look()
    assert one.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (
        "nothing to scroll sideways"
    )
    for key in ("ArrowRight", "ArrowRight", "ArrowDown", "ArrowLeft", "Enter"):
        one.page.keyboard.press(key)
    one.look(run.number)
    one.page.locator("input[type=range]").nth(0).fill("2")
    one.page.click("#enter")
    found = run.end()
    assert np.allclose(found[0], [0.4, -0.2]) and np.allclose(found[1], [2.0, 0.0]) and one.errors == []
    page.close()
    context.close()
