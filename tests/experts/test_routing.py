"""Several experts: each labels the states that the route gives it, and has an account of its own."""

from __future__ import annotations

import json

import gymnasium as gym
import numpy as np
import pytest

from runs.counting import Counting
from understudy import Study, UserError, experts, imitate, load, write_report
from understudy.experts import batched
from understudy.runs import Run
from understudy.spec import RunSpec
from understudy.studies import run as run_study

SMALL = {"policy": "linear", "loss": "squared", "episodes": 0, "comparator": "none"}
STATES = {"task": np.array([[1], [0], [1], [2]]), "x": np.array([[0.5], [0.6], [0.7], [0.8]], np.float32)}
INFOS = [{"who": name} for name in ("walk", "run", "walk", "a b")]
"""The experts of `three`, in an order that is not that of the alphabet."""


def three(asked: dict[str, list[float]] | None = None) -> dict:
    def one(name: str, value: float):
        def act(observation):
            if asked is not None:
                asked.setdefault(name, []).append(float(observation["x"][0]))
            return np.array([value], np.float32)

        return act

    return {"run": one("run", 0.1), "walk": one("walk", 0.2), "a b": one("a b", 0.3)}


def by_function(observation):
    return int(observation["task"][0])


@batched
def by_batch(observations):
    return np.array(["run", "walk", "a b"])[observations["task"][:, 0]]


def by_info(observation, info):
    return info["who"]


@pytest.mark.parametrize("route", ["task", "info:who", "task[0:1]", by_function, by_batch, by_info])
def test_each_state_is_labelled_by_its_own_expert(route):
    asked: dict[str, list[float]] = {}
    one = experts.several(three(asked), route)
    assert one.label(STATES, INFOS)[:, 0] == pytest.approx([0.2, 0.1, 0.2, 0.3])
    assert {name: np.round(x, 1).tolist() for name, x in asked.items()} == {
        "run": [0.6],
        "walk": [0.5, 0.7],
        "a b": [0.8],
    }
    assert one.names == ("run", "walk", "a b") and one.route(STATES, INFOS).tolist() == [1, 0, 1, 2]
    assert one.needs_infos == (route in ("info:who", by_info))


@pytest.mark.parametrize(
    ("given", "route", "message"),
    [
        ({}, "task", "experts: there is none"),
        ({"a": 3}, "task", "experts: 'a': expert: int is not accepted"),
        ({"a": {"expert_sees": "x"}}, "task", "experts: 'a' is a table without expert"),
        ({"a": "person"}, "task", "experts: 'a' is a person"),
        (None, "x", r"route: 0.5 in state 0 is none of the experts; they are run, walk, a b \(0 to 2\)"),
        (None, lambda observation: "jump", "route: 'jump' in state 0 is none"),
        (None, lambda observation: 3, "route: 3 in state 0 is none"),
        (None, lambda observation: None, "route: .* gives object"),
        (None, lambda observation: [0, 1], "route: .* gives 2 numbers a state"),
        (None, "task,x", "route: 'task,x' is several things"),
        (None, "no_such:thing", "route: "),
    ],
)
def test_what_does_not_fit_is_one_sentence(given, route, message):
    with pytest.raises(UserError, match=f"^{message}"):
        experts.several(three() if given is None else given, route).label(STATES, INFOS)


def test_a_key_that_is_not_there_is_refused_before_anyone_is_asked():
    space = gym.spaces.Dict(task=gym.spaces.Discrete(2), x=gym.spaces.Box(0, 1, (1,)))
    with pytest.raises(UserError, match=r"^route: .*no such key.*did you mean 'task'"):
        experts.several(three(), "tsk", observation_space=space)


def test_experts_of_two_kinds_answer_with_actions():
    soft = experts.Expert("soft", ask=lambda o, i: np.tile([0.2, 0.8], (len(o), 1)), kind="distribution")
    hard = experts.Expert("hard", ask=lambda o, i: np.zeros(len(o), np.int64))
    one = experts.several({"soft": soft, "hard": hard}, lambda observation: int(observation[0]))
    assert one.kind == "action" and one.label(np.array([[0.0], [1.0]])).tolist() == [1, 0]


CALLS: list[str] = []
"""A line for every call of the pair below; where the first says stop, the sixtieth is an interrupt."""


def slow_side(observation):
    CALLS.append("slow")
    return np.array([0.5], np.float32)


def fast_side(observation):
    CALLS.append("fast")
    if CALLS[0] == "stop" and len(CALLS) > 60:
        raise KeyboardInterrupt
    return np.array([-0.5 + observation[1] / 100], np.float32)


def side(observation, info):
    return "slow" if info["privileged"] % 2 else "fast"


PAIR = {"slow": slow_side, "fast": fast_side}
RUN = SMALL | {"rounds": 3, "steps_per_round": 40, "experts": PAIR, "route": side}


def test_the_account_adds_up_to_the_ledger():
    run = imitate(Counting, **RUN)
    account, ledger = run.experts, run.ledger
    assert account["expert"].tolist() == ["slow", "fast"] * 3
    assert account["round"].tolist() == [1, 1, 2, 2, 3, 3]
    both = account["labels"].reshape(3, 2)
    assert both.sum(axis=1).tolist() == ledger["labels"].tolist() and (both[0] > 0).all()
    new = np.diff(both, axis=0, prepend=0)
    shares = new / new.sum(axis=1, keepdims=True)
    assert (shares * account["loss"].reshape(3, 2)).sum(axis=1) == pytest.approx(ledger["loss"])
    # Negative control: the same labels under another name make another account.
    other = imitate(
        Counting,
        **RUN
        | {
            "route": lambda o, info: int(info["privileged"] % 2),
            "experts": {"fast": fast_side, "slow": slow_side},
        },
    )
    assert other.ledger.to_csv() == ledger.to_csv() and other.experts.to_csv() != account.to_csv()
    assert run.summary()["experts"]["slow"]["labels"] == both[2, 0]


def test_a_budget_counts_all_of_them():
    run = imitate(Counting, **RUN | {"rounds": None, "budget": 50, "ask": "random:7", "preset": "paper"})
    last = {name: about["labels"] for name, about in run.summary()["experts"].items()}
    assert sum(last.values()) == run.ledger["labels"][-1] == 50 and len(last) == 2


@pytest.mark.parametrize("workers", [None, 3])
def test_a_run_that_is_interrupted_goes_on_with_the_same_account(workers, tmp_path):
    settings = RUN | {"expert_workers": workers}
    CALLS.clear()
    whole = imitate(Counting, **settings, out=tmp_path / "whole")
    needed, out = len(CALLS), tmp_path / "run"
    CALLS.clear()
    CALLS.append("stop")
    with Run(Counting, **settings, out=out) as run, pytest.raises(KeyboardInterrupt):
        list(run)
    kept = json.loads((out / "config.json").read_text())["settings"]
    assert [name for name, _ in kept["experts"]] == ["slow", "fast"], "in the order that was given"
    CALLS.clear()
    again = imitate(Counting, **settings, out=out, resume=True)
    assert 0 < len(CALLS) < needed, "what is in the journal is not asked again"
    assert again.experts.to_csv() == whole.experts.to_csv() and again.ledger.to_csv() == whole.ledger.to_csv()
    assert (out / "experts.csv").read_bytes() == (tmp_path / "whole" / "experts.csv").read_bytes()
    assert load(out).experts.to_csv() == whole.experts.to_csv()


def test_experts_are_said_in_a_file_and_as_an_option(tmp_path):
    file = tmp_path / "run.toml"
    file.write_text(
        'env = "CartPole-v1"\nroute = "[2:3]"\n[experts]\nwalk = "m:walk"\n'
        '[experts.run]\nexpert = "m:run"\nexpert_sees = "[0:2]"\n'
    )
    spec = RunSpec.read(file)
    assert dict(spec.experts or ()) == {"walk": "m:walk", "run": {"expert": "m:run", "expert_sees": "[0:2]"}}
    typed = '{"walk": "m:walk", "run": {"expert": "m:run", "expert_sees": "[0:2]"}}'
    assert RunSpec(env="CartPole-v1", route="[2:3]", experts=typed) == spec
    assert RunSpec.of(json.loads(json.dumps(spec.changes(), sort_keys=True))) == spec


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"experts": {"a": "m:a"}}, "route: it says which"),
        ({"route": "task"}, "route: 'task' is for several experts"),
        ({"experts": {"a": "m:a"}, "route": "task", "expert": "m:b"}, "experts: 'm:b' is the expert already"),
        ({"experts": {"a": "m:a"}, "route": "task", "expert_sees": "x"}, "expert_sees: each of several"),
        ({"experts": {"a": "ray:m:a"}, "route": "task"}, "experts: a pool on Ray is one for all"),
        ({"experts": "a,b", "route": "task"}, "experts: 'a,b' is not a JSON object"),
        ({"experts": [("a", "m:a"), ("a", "m:b")], "route": "task"}, "experts: 'a' is there twice"),
    ],
)
def test_what_does_not_go_with_several_is_refused(settings, message):
    with pytest.raises(UserError, match=f"^{message}"):
        RunSpec(env="CartPole-v1", **settings)


def test_a_study_and_a_report_tell_them_apart(tmp_path):
    named = {"slow": "experts.test_routing:slow_side", "fast": "experts.test_routing:fast_side"}
    settings = RUN | {"experts": named, "route": "experts.test_routing:side"}
    study = Study("runs.counting:Counting", seeds=2, **settings)
    done = run_study(study, tmp_path / "study", engine="inline")
    assert np.add(done.summary["labels_of_slow"], done.summary["labels_of_fast"]).tolist() == [120, 120]
    page = write_report(tmp_path / "study", out=tmp_path / "page.html", seconds=0).read_text()
    assert f'"fast": {{"labels": {done.summary["labels_of_fast"][0]}' in page
