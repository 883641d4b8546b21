"""A label once given is kept: through interrupts, errors and repeated states; some states may have none."""

from __future__ import annotations

import dataclasses
import math
import subprocess
import threading
import time

import gymnasium as gym
import numpy as np
import pytest

from quick import SIZE
from runs.counting import Counting, answering, half
from understudy import UserError, imitate
from understudy.envs.gymnasium import Observed
from understudy.experts import Expert, checked, from_callable
from understudy.runs import processes, spaces_of
from understudy.runs.journal import Journal
from understudy.runs.labelling import Quick
from understudy.runs.patient import Slow
from understudy.samples import BREAK
from understudy.spec import RunSpec

BOX = gym.spaces.Box(-1, 1, (1,), np.float32)
SMALL = {"policy": "linear", "loss": "squared", "rounds": 3, "steps_per_round": 20}
SMALL |= {"episodes": 1, "expert_episodes": 0}


def states(*values: float) -> tuple[Observed, np.ndarray]:
    rows = np.array(values, np.float64)[:, None]
    return Observed(rows, []), rows


def slow(function, workers: int = 4, timeout: float = math.inf, retries: int = 0) -> Slow:
    expert = dataclasses.replace(checked(from_callable(function), BOX), workers=workers)
    return Slow(expert, Journal(keep=True), timeout, retries, backoff=0.0)


def test_a_slow_expert_is_asked_side_by_side_and_about_a_state_once():
    asked, together = [], threading.Barrier(4)
    lock = threading.Lock()

    def act(observation):
        with lock:
            asked.append(float(observation[0]))
            early = len(asked) <= 4
        if early:
            together.wait(30)  # for three others; alone, it would be given up
        return observation / 10

    one = slow(act)
    one.begin(1)
    found = one.label(*states(1, 2, 1, 3, 4, 5, 2))
    assert found.values[:, 0] == pytest.approx([0.1, 0.2, 0.1, 0.3, 0.4, 0.5, 0.2])
    assert found.new.tolist() == [True, True, False, True, True, True, False]
    one.begin(2)
    assert one.label(*states(5, 6)).new.tolist() == [False, True]
    assert sorted(asked) == [1, 2, 3, 4, 5, 6]


def test_a_quick_expert_is_asked_about_every_visit():
    expert = answering(lambda observations: observations / 10)
    one = Quick(expert, Journal())
    one.begin(1)
    assert one.label(*states(1, 1, 1)).new.all() and expert.card["asked"] == [3]


def test_a_quick_expert_that_fails_keeps_the_labels_it_has_given(tmp_path):
    asked: list[float] = []

    def act(observation):
        asked.append(float(observation[0]))
        if observation[0] == 3:
            raise RuntimeError("no idea")
        return observation / 10

    one = Quick(checked(from_callable(act), BOX), Journal(tmp_path / "labels.bin"))
    one.begin(1)
    with pytest.raises(UserError, match="no idea"):
        one.label(*states(1, 2, 3, 4, 5))
    assert asked == [1, 2, 3] and one.journal.count == 2
    one.journal.close()
    one = Quick(one.expert, Journal(tmp_path / "labels.bin"))
    one.begin(1)  # the round is played again
    assert one.label(*states(1, 2)).values[:, 0] == pytest.approx([0.1, 0.2]) and asked == [1, 2, 3]


def test_states_without_an_answer_are_told_and_the_others_have_theirs():
    tries: dict[float, int] = {}

    def act(observation):
        value = float(observation[0])
        tries[value] = tries.get(value, 0) + 1
        if value == 3:
            raise RuntimeError("no idea")
        if value == 5:
            return np.array([np.nan])
        if value == 7:
            time.sleep(5)
        if value == 2 and tries[value] < 3:
            raise ConnectionError("busy")
        return observation / 10

    one = slow(act, workers=8, retries=2, timeout=0.3)
    one.begin(1)
    found = one.label(*states(*range(10)))
    assert np.flatnonzero(~found.answered).tolist() == [3, 5, 7]
    assert tries[2] == tries[3] == tries[5] == tries[7] == 3  # raised, was not finite, came late
    assert found.values[2, 0] == pytest.approx(0.2) and not found.new[[3, 5, 7]].any()


def test_an_expert_that_fails_on_most_states_ends_the_run():
    def act(observation):
        if observation[0] > 2:
            raise RuntimeError("out of order")
        return observation / 10

    one = slow(act, workers=1)
    one.begin(4)
    with pytest.raises(UserError, match=r"^the expert gave no answer in 5 of 8 .*out of order"):
        one.label(*states(0, 1, 2, 3, 4, 5, 6, 7, 8, 9))


def test_the_journal_has_each_label_at_once_and_leaves_out_what_is_damaged(tmp_path):
    file = tmp_path / "labels.bin"
    one = Journal(file)
    one.begin(1)
    sizes = []
    for i in range(4):
        one.add(bytes([i]) * 16, np.array([i / 2], np.float32), np.array([i, i], np.float32))
        sizes.append(file.stat().st_size)
    assert np.diff(sizes).tolist() == [4 + 16 + 4 + 8 + 4] * 3
    data = bytearray(file.read_bytes()[:-3])  # cut short by a kill
    data[sizes[0] + 25] ^= 1
    file.write_bytes(data)
    with pytest.warns(UserWarning, match="1 labels .* are damaged and are asked again"):
        again = Journal(file)
    assert sorted(key[0] for key in again.kept) == [0, 2]
    again.begin(1)
    assert again.count == 2 and again.kept[b"\2" * 16].label.tolist() == [1.0]
    again.add(b"\7" * 16, np.array([7], np.float32), np.array([7, 7], np.float32))
    again.close()
    with pytest.warns(UserWarning, match="damaged"):
        assert sorted(key[0] for key in Journal(file).kept) == [0, 2, 7]
    file.write_bytes(b"understudy labels 1 <f4 1 <f4 9 00000000\n" + bytes(100))
    with pytest.warns(UserWarning, match="is damaged"):
        assert not Journal(file).kept


def test_labels_of_the_next_round_outlive_a_round_that_is_played_again(tmp_path):
    """The record of round 2 is damaged, so it is played again: those of round 3 are still known."""
    one = Journal(tmp_path / "labels.bin")
    for number in (2, 3):
        one.begin(number)
        one.add(bytes([number]) * 16, np.array([0.5], np.float32), np.zeros(1, np.float32))
        one.commit() if number == 2 else one.close()
    again = Journal(tmp_path / "labels.bin")
    again.begin(2)
    again.commit()
    assert [key[0] for key in again.kept] == [3] == [key[0] for key in Journal(again.path).kept]


@pytest.mark.parametrize("kind", [KeyboardInterrupt, RuntimeError])
@pytest.mark.parametrize("workers", [None, 3])
def test_no_label_is_lost_when_a_round_ends_early_and_the_end_is_the_same(tmp_path, kind, workers):
    """In the middle of round 2: resumed, the expert is asked about the other states only."""
    calls: list[bytes] = []
    limit = 33

    def act(observation):
        if len(calls) >= limit and threading.current_thread() is threading.main_thread():
            raise kind("enough")
        if len(calls) >= limit:
            raise SystemExit  # in a thread of its own: neither an answer nor a failure that is tried again
        calls.append(observation.tobytes())
        return int(observation[2] > 0)

    def go(out, **more):
        expert = from_callable(act, name="mine", action_space=gym.spaces.Discrete(2))
        expert = dataclasses.replace(expert, workers=workers)
        return imitate("CartPole-v1", expert=expert, out=tmp_path / out, **SMALL, **more)

    told = (UserError, KeyboardInterrupt, SystemExit)
    with pytest.raises(told) as ended:
        go("cut")
    if kind is KeyboardInterrupt and workers is None:
        assert "1 round and 13 labels of round 2 are kept" in str(ended.value)
        assert "go on with --resume" in str(ended.value)
    assert len(calls) == 33
    limit = 1000
    resumed = go("cut", resume=True)
    assert len(calls) == 60 == len(set(calls))
    calls.clear()
    whole = go("whole")
    assert resumed.ledger.to_csv() == whole.ledger.to_csv()
    assert resumed.ledger["labels"].tolist() == [20, 40, 60]


def test_a_run_that_cannot_replay_goes_on_with_a_new_episode_and_keeps_its_labels(tmp_path):
    """A machine that is somewhere else each time: its labels of the round under way are its first samples."""

    class Real(Counting):
        begun = 0

        def reset(self, *, seed=None, options=None):
            Real.begun += 1
            return super().reset(seed=Real.begun)

    calls = []

    def act(observation):
        if len(calls) == 27:
            raise KeyboardInterrupt
        calls.append(observation.tobytes())
        return np.array([0.5])

    def go(**more):
        return imitate(Real, expert=act, out=tmp_path / "run", **SMALL, **more)

    with pytest.raises(KeyboardInterrupt, match="1 round and 7 labels"):
        go()
    with pytest.raises(UserError, match=r"does not replay.*--resume=new-episode"):
        go(resume=True)
    calls.append(b"")
    run = go(resume="new-episode")
    assert len(calls) == 61  # 60 labels, none of them asked twice
    assert run.ledger["breaks"].tolist() == [0, 1, 1] and run.ledger["labels"].tolist() == [20, 40, 60]
    flags = run.samples("flags")
    assert np.flatnonzero(flags & BREAK).tolist() == list(range(20, 27))
    assert np.isnan(run.samples("rewards")[20:27]).all()
    kept = {np.float32(np.frombuffer(one)).tobytes() for one in calls[20:27]}
    assert {row.tobytes() for row in run.samples("inputs")[20:27]} == kept


@pytest.mark.parametrize(("beta", "before"), [(0.0, 34), (0.3, 36)])
def test_labels_from_before_a_break_are_some_of_those_that_the_rule_asks_for(tmp_path, beta, before):
    """Two labels of the last round that the budget pays for are there already, fewer than environments."""
    left = [before]

    def ask(observations, infos):
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return half(observations)

    def go(**more):
        settings = SMALL | {"rounds": None if beta == 0.0 else 20, "episodes": 0, "num_envs": 3, "beta": beta}
        settings |= {"ask": "random:6", "budget": 38, "preset": "paper"}
        settings |= {"first_steps": 20, "first_round": "expert"}
        expert = Expert("counted", ask=ask, batch=1)
        return imitate(Counting, expert=expert, out=tmp_path / "run", **settings, **more)

    with pytest.raises(KeyboardInterrupt, match=r"\d+ labels of round"):
        go()
    left[0] = 1000
    run = go(resume="new-episode")
    kept = np.flatnonzero(run.samples("flags") & BREAK)
    assert len(kept) == 2 and run.ledger["labels"][-1] == 38 == before + 1000 - left[0]
    weights = run.samples("weights")
    assert np.count_nonzero(weights) == 38 and np.allclose(weights[kept], 1 / 20)  # they are sure
    if beta == 0.0:
        assert run.ledger["samples"].tolist() == [20, 6, 6, 6]
        assert run.samples("slots")[60:68].tolist() == [1, 2, 0, 1, 2, 0, 1, 2]


def test_labels_of_another_kind_are_refused_when_a_run_goes_on(tmp_path):
    left = [10]

    def choices(observation):
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return int(observation[2] > 0)

    def go(expert, **more):
        settings = SMALL | {"loss": "auto", "rounds": 1, "episodes": 0}
        return imitate("CartPole-v1", expert=expert, out=tmp_path / "run", **settings, **more)

    with pytest.raises(KeyboardInterrupt):
        go(from_callable(choices, name="mine", action_space=gym.spaces.Discrete(2)))
    chances = Expert("mine", ask=lambda seen, infos: np.full((len(seen), 2), 0.5), kind="distribution")
    with pytest.raises(UserError, match=r"labels\.bin have shape \(\), and .* have \(2,\) now"):
        go(chances, resume=True)


def test_a_run_that_has_just_begun_has_no_break(tmp_path):
    where = {"out": tmp_path / "run", "resume": "new-episode"}
    run = imitate(Counting, expert=answering(half), **SMALL | {"rounds": 1, "episodes": 0}, **where)
    assert run.ledger["breaks"].tolist() == [0]


@pytest.mark.parametrize("kind", ["quick", "says so", "takes long"])
def test_calls_to_measure_the_expert_are_counted_and_a_slow_one_is_not_measured_unasked(kind):
    calls = []

    def act(observation):
        calls.append(1)
        time.sleep(0.011 if kind == "takes long" else 0)
        return np.array([0.5])

    def go(**more):
        calls.clear()
        options = SMALL | {"expert_workers": 2 if kind == "says so" else None, "expert_episodes": None} | more
        return imitate(Counting, expert=act, **options).summary()

    unasked = go(rounds=1)
    assert len(calls) - unasked["labels"] == unasked["expert_evaluation_calls"]
    assert (unasked["expert_evaluation_calls"] > 0) == (kind == "quick")
    assert (unasked["expert_return_mean"] is not None) == (kind == "quick")
    if kind == "says so":
        asked = go(rounds=1, expert_episodes=2)
        assert asked["expert_evaluation_calls"] == len(calls) - asked["labels"] > 2


def test_the_return_of_a_slow_expert_is_that_of_its_card():
    options = SMALL | SIZE | {"expert_workers": 2, "expert_episodes": None}
    run = imitate("CartPole-v1", **options)
    assert run.expert_evaluation is None and run.summary()["expert_return_mean"] == 500.0


def test_the_time_in_which_a_process_starts_is_not_the_experts(tmp_path, monkeypatch):
    (tmp_path / "late.py").write_text("import time\ntime.sleep(1.5)\ndef act(observation):\n    return 1\n")
    monkeypatch.chdir(tmp_path)
    how = SMALL | {"expert_workers": "processes:1", "expert_timeout": 1.0, "expert_retries": 0, "rounds": 1}
    run = imitate("CartPole-v1", **how | {"expert": "late:act", "episodes": 0, "first_round": "agent"})
    assert run.ledger["unanswered"].tolist() == [0]


def test_an_expert_in_processes_answers_as_it_does_here(tmp_path, monkeypatch):
    """Batches of dicts and tuples, what it prints, and its errors."""
    (tmp_path / "slowly.py").write_text(
        "import time\n"
        "def act(observation):\n"
        "    print('thinking')\n"
        "    if observation[2] > 1: raise RuntimeError('too far')\n"
        "    return int(observation[2] > 0)\n"
    )
    monkeypatch.chdir(tmp_path)
    spec = RunSpec(env="CartPole-v1", expert="slowly:act", expert_workers="processes:1", expert_timeout=20.0)
    expert = spaces_of(spec).expert
    seen = np.array([[0, 0, 0.5, 0], [0, 0, -0.5, 0]], np.float32)
    assert expert.label(seen).tolist() == [1, 0] and expert.workers == 1
    with pytest.raises(UserError, match="too far"):
        expert.label(seen + 1)
    assert expert.label(seen).tolist() == [1, 0]
    for batch in ({"a": seen, "b": ({"c": seen}, seen)}, (seen, {"x": seen})):
        again = processes.unnamed(processes.named(batch))
        assert repr(again) == repr(batch)
    answer = open(tmp_path / "answer", "w+b")  # noqa: SIM115
    processes._send(answer, {"error": np.frombuffer(b"expert: unknown", np.uint8)})
    answer.close()
    start, made = subprocess.Popen, []

    def refuses(command, **how):
        made.append(start(["sh", "-c", f"cat {answer.name}; exec sleep 60"], **how))
        return made[-1]

    monkeypatch.setattr(subprocess, "Popen", refuses)
    pool = processes.Pool(lambda: processes.Process("{}"), 1, None)
    with pytest.raises(UserError, match="expert: unknown"):
        pool.ask(seen)
    assert made[0].wait(5) < 0, "a process without an expert does not stay"
    with pytest.raises(UserError, match="expert_workers: 'processes:0' is not"):
        RunSpec(env="CartPole-v1", expert_workers="processes:0")


def test_a_worker_that_is_lost_is_replaced_and_the_new_one_is_asked():
    started: list[Answers] = []

    class Answers:
        """Lost at its first question, or at every one, or late."""

        def __init__(self):
            self.number, self.ended = len(started), False
            started.append(self)

        def ask(self, arrays, timeout):
            if fails == "always" or (fails == "once" and self.number == 0):
                raise processes.Lost("gone")
            if fails == "late":
                raise TimeoutError("late")
            return {"labels": arrays["[]"] / 10}

        def end(self):
            self.ended = True

    pool = processes.Pool(Answers, 1, None)
    fails = "once"
    assert pool.ask(np.array([1.0, 2.0])).tolist() == [0.1, 0.2]
    assert [one.ended for one in started] == [True, False]
    fails = "no"
    assert pool.ask(np.array([3.0])).tolist() == [0.3] and len(started) == 2
    fails = "always"
    with pytest.raises(processes.Lost):
        pool.ask(np.array([1.0]))
    assert [one.ended for one in started] == [True] * 3
    fails = "late"  # its time is over, so that nobody is asked again
    with pytest.raises(TimeoutError):
        pool.ask(np.array([1.0]))
    assert len(started) == 4 and started[3].ended


def test_a_pool_on_ray_has_one_spelling_and_says_how_many():
    spec = RunSpec(env="CartPole-v1", expert="ray:slowly:act", expert_workers=32)
    assert spec == RunSpec(env="CartPole-v1", expert="slowly:act", expert_workers="ray:32")
    assert spec.workers == (32, "ray") and spec.expert == "slowly:act"
    with pytest.raises(UserError, match=r"^expert_workers: 'ray:slowly:act' needs a number of actors"):
        RunSpec(env="CartPole-v1", expert="ray:slowly:act")
    with pytest.raises(UserError, match="'processes:2'"):
        RunSpec(env="CartPole-v1", expert="ray:slowly:act", expert_workers="processes:2")
