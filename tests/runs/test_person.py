"""A run whose expert is a person: what is asked, what is kept, and how it goes on after a break."""

from __future__ import annotations

import contextlib
import json
import threading
import time
import urllib.error
import urllib.request

import numpy as np
import pytest

from understudy import RunSpec, UserError, imitate
from understudy.defaults import plan_of, resolve
from understudy.experts import person
from understudy.policies import Actions
from understudy.runs import spaces_of
from understudy.runs.journal import Journal

SMALL = {"rounds": 2, "ask": "random:4", "steps_per_round": 40, "episodes": 1, "comparator": "none"}
SMALL |= {"policy": "linear", "loss": "squared"}  # of which the program is small


def right(shown):
    """A person with a rule of the thumb: towards where the pole falls."""
    state = {row["name"]: row["value"] for row in shown["table"]}
    return [int(state["pole angle"] + 0.2 * state["pole angular velocity"] > 0)]


class Hand:
    """A person at the desk of an expert, in a thread of its own. `plan(view)` says what to do with a view: a
    function of the desk, called; None answers by the rule.
    """

    def __init__(self, plan=lambda view: None, **options):
        self.expert = person("page", browser=False, grace=0.0, **options)
        self.seen, self.answers, self.plan, self.desk = [], 0, plan, None
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        version = -1
        while not self.stopping.is_set():
            desk = self.expert.person.desk
            if desk is None or not desk.wait(version, 0.05):
                time.sleep(0.001)
                continue
            self.desk, view = desk, desk.view()
            version = view["version"]
            if view["question"] is None:
                continue
            self.seen.append(view)
            with contextlib.suppress(UserError):
                act = self.plan(view)
                if act is not None:
                    act(desk)
                elif desk.answer(view["question"]["number"], right(view["question"])):
                    self.answers += 1

    def stop(self):
        self.stopping.set()
        self.thread.join(10)


def resolved(spec):
    world = spaces_of(spec)
    return resolve(spec, world.shown, Actions.of(world.action_space), world.expert)


def test_defaults_for_a_person_are_small_and_what_is_said_wins():
    spec = RunSpec(env="CartPole-v1", expert="person:terminal")
    assert (spec.expert, spec.expert_options) == ("person", {"door": "terminal"})
    plan = plan_of(spec)
    assert (plan.budget, plan.ask, plan.steps_per_round) == (50, "distance:10", 200)
    assert plan.rounds == ((200, 10),) * 5 and not plan.mixing.expert_first
    assert plan.keep_best and plan.evaluated == frozenset(range(1, 6))
    assert not plan_of(RunSpec(env="CartPole-v1", expert="person", episodes=0)).keep_best
    assert not plan_of(RunSpec(env="CartPole-v1", expert="person", keep_best=False)).keep_best
    assert resolved(spec).noise > 0, "the first policy knows nothing and must not repeat itself"
    said = RunSpec(
        env="CartPole-v1", expert="person", budget=12, ask="random:3", steps_per_round=30, noise=0.0
    )
    plan = plan_of(said)
    assert (plan.budget, plan.ask, plan.steps_per_round, resolved(said).noise) == (12, "random:3", 30, 0.0)
    assert plan_of(RunSpec(env="CartPole-v1", expert="person", rounds=2)).budget is None
    spot = plan_of(RunSpec(env="CartPole-v1", expert="person", moment="spot"))
    assert (spot.ask, spot.budget, spot.last) == ("driven", 300, 10)
    plain = RunSpec(env="CartPole-v1", rounds=25)
    assert resolved(plain).noise == 0.0 and plan_of(plain).budget is None
    with pytest.raises(UserError, match="'driven' on the spot is for a person"):
        RunSpec(env="CartPole-v1", moment="spot", ask="driven")
    with pytest.raises(UserError, match="expert_episodes: a person is not measured"):
        RunSpec(env="CartPole-v1", expert="person", expert_episodes=3)
    with pytest.raises(UserError, match="num_envs: a person"):
        RunSpec(env="CartPole-v1", expert="person", moment="spot", num_envs=2)


def test_a_label_that_is_taken_back_is_not_found_after_a_kill(tmp_path):
    path = tmp_path / "labels.bin"
    journal = Journal(path, keep=True)
    journal.begin(1)
    one, two = b"1" * 16, b"2" * 16
    for key, label in ((one, 0), (two, 1)):
        journal.add(key, np.int64(label), np.zeros(3, np.float32))
    journal.remove(two)
    assert journal.count == 1 and two not in journal.kept
    after = Journal(path, keep=True)  # nothing was closed
    assert {key: int(kept.label) for key, kept in after.kept.items()} == {one: 0}
    journal.add(two, np.int64(7), np.zeros(3, np.float32))
    assert int(Journal(path, keep=True).kept[two].label) == 7


def test_a_session_with_undo_skip_a_kill_and_a_resume(tmp_path):
    out, done = tmp_path / "run", []

    def plan(view):
        number = view["question"]["number"]
        if len(done) < 3:
            step = len(done)
            done.append(step)
            if step == 0:
                return lambda desk: desk.answer(number, [0])  # wrong, and taken back
            if step == 1:
                return lambda desk: desk.undo()
            return lambda desk: desk.skip(number)
        if view["facts"]["labels"] == 2:
            raise UserError("enough")  # the person goes away in the middle of the round
        return None

    hand = Hand(plan)

    def begun():
        with pytest.raises(RuntimeError, match="killed"):
            imitate("CartPole-v1", expert=hand.expert, out=out, **SMALL)

    thread = threading.Thread(target=begun, daemon=True)
    thread.start()
    limit = time.monotonic() + 60
    while hand.answers < 2 and time.monotonic() < limit:
        time.sleep(0.01)
    hand.stop()
    data = (out / "labels.bin").read_bytes()  # as kill -9 leaves it: the run still waits for its expert
    assert len(Journal(_copy(tmp_path, data), keep=True).kept) == 2
    hand.expert.person.desk._wrong = RuntimeError("killed")
    hand.expert.person.desk.steer()
    thread.join(30)
    assert not thread.is_alive()
    again = Hand()
    run = imitate("CartPole-v1", expert=again.expert, out=out, resume=True, **SMALL)
    again.stop()
    # Round 1 had 4 states: 2 labelled before, 1 skipped (asked again), 1 never asked about.
    assert run.ledger["labels"].tolist() == [4, 8] and again.answers == 6
    assert run.ledger["unanswered"].tolist() == [0, 0] and run.evaluation is not None
    assert run.expert_evaluation is None, "nobody is measured"
    first = again.seen[0]
    assert first["facts"]["labels"] == 2 and first["of"] == 2 and first["facts"]["rounds"] == 2
    # The best policy is kept, and the header's number and the last page's are one.
    assert run.settings["resolved"]["keep_best"] and again.seen[-1]["facts"]["best"] is not None
    last = again.desk.view()
    assert last["mode"] == "done" and last["facts"]["score"] == run.evaluation.mean
    which = "the last round" if run.kept_round == 2 else "round 1 of 2 (the best)"
    assert f"The student of {which} is kept. Its return is {run.evaluation.mean:.3g}," in last["stage"]


def _copy(folder, data):
    path = folder / "copy.bin"
    path.write_bytes(data)
    return path


def test_on_the_spot_a_person_takes_over_and_what_they_drive_is_labelled(tmp_path):
    def plan(view):
        number, step = view["question"]["number"], view["question"]["step"]
        if view["mode"] == "watch":
            return lambda desk: desk.steer(taken=True, speed=0) if step == 3 else desk.skip(number)
        if step >= 6:
            return lambda desk: desk.steer(taken=False)
        return None

    hand = Hand(plan)
    run = imitate(
        "CartPole-v1",
        expert=hand.expert,
        moment="spot",
        **SMALL | {"rounds": 1, "ask": None, "steps_per_round": 24, "episodes": 0},
    )
    hand.stop()
    flags = run.samples("flags")
    driven = np.flatnonzero(flags & 4)
    assert len(driven) == run.ledger["labels"][-1] == hand.answers >= 3
    assert run.ledger["handovers"][-1] >= 1 and run.ledger["by_expert"][-1] == len(driven) / 24
    labels = run.samples("targets")[driven].argmax(axis=1)
    assert (labels == run.samples("executed")[driven].reshape(-1)).all()
    assert np.count_nonzero(run.samples("weights")) == len(driven)


def test_a_first_round_that_the_person_drives_is_played_step_by_step():
    hand = Hand()
    settings = {"first_round": "expert", "first_steps": 8, "budget": 12, "rounds": None}
    settings |= {"steps_per_round": 20, "episodes": 0}
    run = imitate("CartPole-v1", expert=hand.expert, **SMALL | settings)
    hand.stop()
    assert run.ledger["by_expert"].tolist() == [1.0, 0.0] and hand.answers == 12
    assert [view["mode"] for view in hand.seen[:3]] == ["drive"] * 3


def test_the_page_answers_who_has_the_token_and_refuses_what_is_no_action():
    hand = Hand(lambda view: lambda desk: None)  # never answers
    thread = threading.Thread(
        target=lambda: imitate("CartPole-v1", expert=hand.expert, **(SMALL | {"rounds": 1})), daemon=True
    )
    thread.start()
    limit = time.monotonic() + 60
    while not hand.seen and time.monotonic() < limit:
        time.sleep(0.01)
    server = hand.expert.person.server

    def call(path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(server.address(path), data, {"Content-Type": "application/json"})
        return json.loads(urllib.request.urlopen(request, timeout=10).read())

    assert b"<html" in urllib.request.urlopen(server.url).read()
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(f"http://127.0.0.1:{server.port}/view")
    setup = call("/setup")
    assert setup["env"] == "CartPole-v1" and setup["controls"]["choices"][0][0]["name"] == "push left"
    for wrong in ([2], ["a"], None, [0, 1]):
        with pytest.raises(urllib.error.HTTPError, match="400"):
            call("/answer", {"question": call("/view")["question"]["number"], "value": wrong})
    assert call("/answer", {"value": [1]})["counted"] is False
    for k in range(4):
        while (view := call("/view"))["question"] is None:  # it is being drawn
            time.sleep(0.01)
        assert view["at"] == k + 1 and view["of"] == 4
        assert call("/answer", {"question": view["question"]["number"], "value": [1]})["counted"] is True
        if k < 3:  # after the last one the run ends, and the page with it
            assert call("/answer", {"question": view["question"]["number"], "value": [1]})["counted"] is False
    thread.join(60)
    hand.stop()
    assert not thread.is_alive()


def test_options_of_a_person_are_those_that_they_have():
    from understudy.experts import resolve

    with pytest.raises(UserError, match="the option 'kind' is not for a person"):
        resolve("person", kind="action")
    assert resolve("person", door="page").person is not None
