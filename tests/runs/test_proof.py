"""Runs that train until a test says that their policy is good enough: their statements, from every door,
after every kill; what they refuse; labels of a test, which count.
"""

from __future__ import annotations

import itertools
import json
from functools import partial
from typing import NamedTuple

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from drift import Drift, back
from runs.pieces import resumed
from test_acceptance import peeking
from understudy import Run, Understudy, UserError, evaluate, explain, imitate, load
from understudy.acceptance import Acceptance
from understudy.cli import main
from understudy.defaults import plan_of
from understudy.envs.gymnasium import Observed, maker, vector
from understudy.policies import Actions
from understudy.runs import read_ledger, read_summary
from understudy.runs import run as running
from understudy.runs.evaluate import EpisodeSet, by_chance, play_episodes
from understudy.runs.proof import OneStateAnEpisode, known_limits
from understudy.spec import RunSpec
from understudy.studies import play

# Of the policies after these rounds several look bad, and one that looks good is not.
CART = {"policy": "linear", "rounds": 12, "steps_per_round": 4, "comparator": "none"}
SHARE = {"env": "CartPole-v1", "until": 0.9, **CART}


@pytest.fixture(scope="module")
def share():
    return imitate(**SHARE)


def test_a_run_ends_with_the_first_policy_that_is_accepted_and_says_so(share):
    said = share.statement
    assert (
        share.ledger.rounds < 12 and said.reached and said.exact and said.labels == share.ledger["labels"][-1]
    )
    assert share.kept_round == share.ledger.rounds
    assert said.low >= 0.9 and share.ledger["score_low"][-1] == said.low
    tested = np.isfinite(share.ledger["score_high"])
    assert tested.sum() == said.candidates and (share.ledger["score_low"][tested][:-1] < 0.9).all()
    assert said.text.startswith(
        "with 95 % confidence the kept policy has at least 0.9 of the expert's return"
    )
    assert f"{said.episodes} common episodes, {said.labels} labels; exact" in said.text
    assert said.text in repr(share) and share.summary()["statement"] == said.text
    assert share.evaluation.mean > 0.85 * 500


def test_the_kept_policy_is_the_one_that_was_tested(share):
    """Its test is played again from the policy alone: the same returns."""
    with Run(**SHARE) as run:
        for _ in run:
            pass
        test = run.judge.proof.tests[run.student.round]
        number = 2**29 + 2**10 * len(run.judge.proof.tests)
        for chunk in range(2):
            again = evaluate(run.policy, "CartPole-v1", episodes=10, seed=0, number=number + chunk)
            assert again.returns.tolist() == test.played.policy[10 * chunk :][:10].tolist()


def test_killed_on_the_way_it_ends_the_same(tmp_path, share):
    go = partial(imitate, **SHARE)
    whole, last = resumed(go, tmp_path, 2, share.ledger.rounds - 1)
    assert whole.statement == last.statement == share.statement
    kept = load(tmp_path / "pieces")
    assert kept.statement == share.statement and kept.summary()["score"] == share.summary()["score"]
    assert read_summary(tmp_path / "pieces")["summary"]["reached"] is True
    # What is finished stays so, and a larger budget has nothing left to do.
    again = go(out=tmp_path / "pieces", resume=True, rounds=14)
    assert again.statement == share.statement and again.ledger.rounds == share.ledger.rounds


def test_every_door_says_the_same(tmp_path, share, capsys):
    words = [f"--{name.replace('_', '-')}={value}" for name, value in SHARE.items() if name != "env"]
    assert main(["train", "CartPole-v1", *words, "--out", str(tmp_path / "run"), "--json"]) == 0
    out = capsys.readouterr()
    assert json.loads(out.out)["statement"] == share.statement.text
    assert "with 95 % confidence" in out.err
    assert (read_ledger(tmp_path / "run")["score_low"] == share.ledger["score_low"]).sum() == 1
    [result] = play([SHARE])
    assert result.summary["statement"] == share.statement.text
    assert [row["labels"] for row in result.rows] == share.ledger["labels"].tolist()


def test_a_run_that_does_not_get_there_says_how_far_it_came():
    run = imitate("CartPole-v1", until=0.9, **CART | {"rounds": 2})
    said = run.statement
    assert not said.reached and run.ledger.rounds == 2 and said.episodes > 0 and said.high < 0.9
    assert said.text.startswith("not reached with 8 labels: 0.") and "more rounds" in said.text
    assert (said.low <= said.score <= said.high) and run.summary()["reached"] is False


def test_what_is_kept_untested_is_tested_in_the_end_and_a_longer_run_knows_nothing_of_it(tmp_path):
    short = imitate("CartPole-v1", until=0.9, out=tmp_path / "run", **CART | {"rounds": 2})
    assert short.statement.candidates == 1 and not np.isfinite(short.ledger["score_high"]).any()
    longer = imitate(resume=True, out=tmp_path / "run", rounds=12)
    whole = imitate(out=tmp_path / "whole", **SHARE)
    assert longer.statement == whole.statement
    for name in ("labels", "loss", "return_mean", "score_low", "score_high"):
        np.testing.assert_allclose(longer.ledger[name], whole.ledger[name], err_msg=name)


def test_a_ceiling_is_not_passed_and_rounds_grow_with_the_labels():
    plan = plan_of(RunSpec(env="Hopper-v5", until=0.95))
    sizes = [labels for _, labels in plan.rounds]
    assert sizes[0] == 200 and sum(sizes) == plan.budget == 5000 and plan.keep_best
    before = np.cumsum(sizes)
    assert sizes[1:-1] == [max(20, int(0.15 * n)) for n in before[:-2]]
    assert plan_of(RunSpec(env="Hopper-v5", until=0.95, budget=100)).rounds[0] == (50, 50)
    said = plan_of(RunSpec(env="Hopper-v5", until=0.95, ask="random:30", budget=300))
    assert {labels for _, labels in said.rounds[1:]} == {30}, "what was said stays"
    [why] = [one for one in explain("Hopper-v5", until=0.95) if one.setting == "until"]
    assert why.value == "0.95" and "test" in why.reason


class Brittle(gym.Env):
    """One step an episode, of a place between 0 and 1: action 1 is paid, but below 0.04 action 0: the score
    of a policy is known exactly from where it plays what.
    """

    observation_space = spaces.Box(0.0, 1.0, (1,))
    action_space = spaces.Discrete(2)
    least = 0.04

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = self.np_random.random()
        return np.float32([self.place]), {}

    def step(self, action):
        return np.float32([0.5]), float(action == (self.place > self.least)), True, False, {}


def knows(observation):
    return np.int64(observation[0] > Brittle.least)


class Offered(NamedTuple):
    """A candidate of a run: its exact score, after how many episodes Student's test for a fixed number of
    them, looked at after every one, would have taken it (0: never), and the test of the run.
    """

    labels: int
    score: float
    peeking: int
    test: Acceptance


def offered(seed: int = 2) -> list[Offered]:
    """The candidates of a run on `Brittle` until 0.95. The first ones have not seen the places where the
    other action pays, and fail there: seldom enough for Student's test to take one that is not good enough.
    """
    settings = {"expert": knows, "policy": "linear", "steps_per_round": 8, "comparator": "none"}
    found, places = [], np.linspace(0, 0.2, 1001, dtype=np.float32)
    with Run(Brittle, until=0.95, rounds=30, return_limits=(0, 1), seed=seed, **settings) as run:
        for row in run:
            if (test := run.judge.proof.tests.get(row["round"])) is None:
                continue
            plays = np.array([run.student.policy([place]) for place in places])
            paid = 0.8 + 0.2 * (plays == (places > Brittle.least)).mean()
            looks = peeking(test.played.differences(0.95)[None])[0, 4:] >= -np.log(0.05)
            taken = 5 + int(looks.argmax()) if looks.any() else 0
            # Random actions are paid every second time.
            found.append(Offered(run.student.labels, 2 * paid - 1, taken, test))
    return found


def test_a_run_that_peeking_would_have_stopped_with_too_bad_a_policy_goes_on():
    found = offered()
    wrong = [one.test.state for one in found if one.peeking and one.score < 0.95]
    assert wrong and "accepted" not in wrong
    assert found[-1].score >= 0.95 and found[-1].test.state == "accepted"


def test_labels_of_a_test_are_paid_for():
    run = imitate("CartPole-v1", policy="linear", until="agreement:0.9", budget=400, first_steps=20)
    said, ledger = run.statement, run.ledger
    assert said.reached and said.exact and said.text.count("fresh labels") == 1
    assert said.labels == ledger["labels"][-1] <= 400
    bought = np.diff([0, *ledger["labels"]]) - ledger["samples"]
    assert bought[-1] == said.episodes and (bought[~np.isfinite(ledger["score_high"])] == 0).all()
    assert not np.isfinite(ledger["return_mean"]).any(), "returns chose nothing"


def test_a_test_by_labels_stops_where_the_labels_do():
    run = imitate("CartPole-v1", policy="linear", until="agreement:0.99", budget=220, first_steps=150)
    assert run.ledger["labels"][-1] <= 220 and not run.statement.reached
    assert "with 220 labels" in run.statement.text


def test_a_loss_is_tested_on_fresh_labels_too(tmp_path):
    go = partial(
        imitate, Drift(), expert=back, policy="linear", until="loss:0.02", budget=300, first_steps=40
    )
    whole, _ = resumed(go, tmp_path, 2)
    said = whole.statement
    assert said.reached and said.score < 0.02 >= said.high and said.low >= 0
    assert "a loss of at most 0.02 in its own states" in said.text and not said.exact


def test_the_device_and_the_host_decide_alike(monkeypatch):
    settings = {"expert": back, "policy": "linear", "until": 0.9, "rounds": 8, "steps_per_round": 16}
    there = imitate(Drift(), num_envs=4, **settings)
    monkeypatch.setattr(running, "possible", lambda *_: False)
    here = imitate(Drift(), num_envs=4, **settings)
    for one in (there, here):
        assert one.statement.reached and not one.statement.exact
    # The same policies, and the same episodes of policy and expert; random actions are drawn apart.
    assert there.ledger.rounds == here.ledger.rounds
    assert there.statement.score == pytest.approx(here.statement.score, abs=0.05)


def test_networks_are_compared_with_the_best_in_hindsight_of_where_they_ended():
    settings = {"widths": (8,), "max_iterations": 300, "comparator_steps": 50, "ensemble": 1}
    run = imitate("CartPole-v1", until=0.5, budget=400, **settings)
    assert run.statement.reached and run.ledger["labels"][-1] < 400
    assert run.ledger["agreement"].max() <= 1.0, "a share of the round, also where labels weigh alike"
    assert np.isfinite(run.certificate.regret) and run.ledger["comparator_status"][-1]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"until": 0}, "until: 0.0 is not a share of the expert's return above 0"),
        ({"until": "agreement:1"}, "below 1"),
        ({"until": "return:3"}, "until: 'return:3' is not a share"),
        ({"until": 0.9, "episodes": 0}, "needs episodes of policy and expert, and episodes is 0"),
        ({"until": 0.9, "expert_episodes": 0}, "and expert_episodes is 0"),
        ({"until": 0.9, "expert": "person"}, "a person says when it is enough"),
        ({"until": 0.9, "expert_workers": 2}, "it is slow or expensive; agreement and loss need labels only"),
        ({"env": "MountainCar-v0", "until": 0.9, "demos": "DEMOS", "rounds": 0}, "demonstrations alone"),
        ({"until": 0.9, "return_limits": (3, 1)}, "not a least and a larger return"),
        ({"until": 0.9, "return_limits": (0, 400)}, "limits: a return of 500 is outside 0 to 400"),
        ({"env": "Pendulum-v1", "until": "agreement:0.9"}, "loss:0.05 is accepted for these actions"),
        ({"until": "agreement:0.9", "policy": "gru"}, "single states, and the policy remembers"),
        ({"until": 0.9, "env_kwargs": {"max_episode_steps": 8}}, "so a share of it says nothing"),
    ],
)
def test_what_cannot_be_tested_is_refused_in_a_sentence(settings, sentence, tmp_path):
    if "demos" in settings:
        settings["demos"] = str(tmp_path / "demos.npz")
        np.savez(settings["demos"], observations=np.zeros((4, 2), np.float32), actions=np.zeros(4, int))
    settings = {"env": "CartPole-v1", "policy": "linear", "rounds": 2, "steps_per_round": 40} | settings
    with pytest.raises(UserError, match=sentence):
        imitate(**settings)


def test_a_student_without_an_environment_has_no_goal():
    with pytest.raises(UserError, match="until: an Understudy has no such setting"):
        Understudy(spaces.Box(-1, 1, (2,)), spaces.Discrete(2), until=0.9)


def test_evaluating_two_says_whether_the_first_is_better(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")  # no line of the table is broken
    good = {"policy": "linear", "rounds": 2, "steps_per_round": 200, "episodes": 0, "comparator": "none"}
    imitate("CartPole-v1", out=tmp_path / "good", **good)
    imitate("CartPole-v1", out=tmp_path / "bad", **good | {"steps_per_round": 4})
    names = [str(tmp_path / name) for name in ("good", "bad", "good")]
    for order, episodes, answer in (((0, 1), 20, "yes"), ((1, 0), 20, "no"), ((0, 2), 20, "not yet")):
        runs = [names[i] for i in order]
        assert main(["evaluate", *runs, "--episodes", str(episodes), "--json"]) == 0
        out = capsys.readouterr()
        told = json.loads(out.out)["runs"][1]
        said = " ".join(out.err.partition("is the first better?")[2].split())
        assert told["first_is_better"] == answer and said.startswith(answer)
        assert (told["episodes_needed"] is None) == (order == (0, 2)), "equals are never told apart"


def test_limits_are_known_where_gymnasium_bounds_the_rewards():
    plain = {"env_kwargs": {}, "episode_limit": None}
    assert known_limits(plain, "CartPole-v1") == (0.0, 500.0)
    assert known_limits(plain | {"episode_limit": 90}, "CartPole-v1") == (0.0, 90.0)
    assert known_limits(plain | {"env_kwargs": {"g": 1}}, "Pendulum-v1") is None
    assert known_limits(plain, "Hopper-v5") is None
    assert known_limits(plain | {"return_limits": [0, 9]}, "Hopper-v5") == (0, 9)


def test_random_actions_of_an_episode_do_not_depend_on_how_many_are_played_side_by_side():
    make, found = maker("CartPole-v1"), []
    for lanes in (1, 4):
        env = vector(make, lanes)
        act = by_chance(Actions.of(env.action_space), EpisodeSet(0, 12, 3))
        found.append(play_episodes(env, make.name, (0, 12, 3), act, lanes=lanes).returns)
        env.close()
    assert (found[0] == found[1]).all() and len(set(found[0])) > 4


def test_random_actions_fill_their_space():
    drawn = np.random.default_rng(0).random((4000, 5))
    box = Actions.of(spaces.Box(np.float32([-1, 0, 2, 3, 4]), np.float32([1, 4, 3, 4, 5])))
    played = box.plays(box.spread(drawn))
    assert np.allclose(played.min(axis=0), [-1, 0, 2, 3, 4], atol=0.01)
    assert np.allclose(played.mean(axis=0), [0, 2, 2.5, 3.5, 4.5], atol=0.1)
    few = Actions.of(spaces.Discrete(5))
    assert np.allclose(np.bincount(few.plays(few.spread(drawn))) / 4000, 0.2, atol=0.03)


def test_one_state_of_an_episode_is_any_of_them():
    counts = np.zeros(4)
    for number in range(2000):
        drawn = OneStateAnEpisode((0, 1, number))
        for step in range(4):
            shown = np.full((1, 1), float(step))
            drawn(Observed(shown, ()), shown, np.array([0]), np.array([step == 0]))
        counts[int(drawn.states()[1][0, 0])] += 1
    assert np.allclose(counts / 2000, 0.25, atol=0.04)


def test_levels_are_not_used_twice(share):
    """Every candidate of a run has a number, a level and episodes of its own."""
    with Run(**SHARE) as run:
        for _ in run:
            pass
        tests = list(run.judge.proof.tests.values())
    assert [test.candidate for test in tests] == list(range(1, len(tests) + 1))
    for one, other in itertools.pairwise(tests):
        assert one.level > other.level
        assert one.played.random[:10].tolist() != other.played.random[:10].tolist()
