"""Evaluation: whole episodes, its own seeds, no steps and no labels of the run."""

from __future__ import annotations

import functools
import re

import gymnasium as gym
import numpy as np
import pytest

from quick import SIZE
from runs.counting import Counting
from understudy import UserError, experts, imitate
from understudy.envs.gymnasium import derive, maker, vector
from understudy.policies import Actions, Linear, Normaliser, Observations, TrainedPolicy
from understudy.runs.evaluate import JUDGED, Evaluation, play_episodes
from understudy.runs.players import acting, evaluate


def test_returns_and_lengths_are_those_of_whole_seeded_episodes():
    found = evaluate(lambda observation, info: np.zeros(1), Counting, episodes=6, number=2, seed=4)
    lengths = [3 + derive(4, "evaluate", 2, episode) % 5 for episode in range(6)]
    assert found.lengths.tolist() == lengths and found.returns.tolist() == lengths
    assert found.mean == np.mean(lengths) and found.std == np.std(lengths)


def test_evaluating_more_changes_nothing_that_is_learnt():
    options = SIZE | {"policy": "linear", "expert_episodes": 0}
    seldom = imitate("CartPole-v1", episodes=1, **options)
    often = imitate("CartPole-v1", episodes=4, evaluate_every=1, **options)
    for column in ("loss", "labels", "steps", "regret"):
        assert seldom.ledger[column].tobytes() == often.ledger[column].tobytes()
    assert np.isfinite(often.ledger["return_mean"]).all()
    assert np.isfinite(seldom.ledger["return_mean"]).tolist() == [False, False, True]


def test_a_run_alone_plays_its_episodes_side_by_side_to_the_same_bytes(monkeypatch):
    options = SIZE | {"policy": "linear", "episodes": 5, "expert_episodes": 4}
    found = []
    for lanes in (10, 1):
        monkeypatch.setattr("understudy.runs.evaluate.LANES", lanes)
        run = imitate("CartPole-v1", **options)
        found.append([*run.evaluation, *run.expert_evaluation])
    assert all(one.tobytes() == other.tobytes() for one, other in zip(*found, strict=True))
    # Only where that is known to be right: an environment of one's own is opened once.
    assert vector(maker("CartPole-v1"), 1).many and not vector(maker(Counting), 1).many


@pytest.mark.parametrize(
    ("env", "slots"), [("Hopper-v5", "MujocoVector"), ("CartPole-v1", "GymnasiumVector")]
)
def test_a_policy_plays_side_by_side_what_it_plays_alone(env, slots, monkeypatch):
    with gym.make(env) as made:
        seen, acts = Observations.of(made.observation_space), Actions.of(made.action_space)
    params = np.random.default_rng(0).normal(size=(seen.width, acts.outputs)).astype(np.float32)
    policy, opened = TrainedPolicy(Linear(), params, seen, acts, Normaliser.identity(seen.width)), []

    def open_slots(make, count, **how):
        opened.append((type(made := vector(make, count, **how)).__name__, count))
        return made

    monkeypatch.setattr("understudy.runs.players.vector", open_slots)
    together = evaluate(policy, env, episodes=7, seed=3, number=4)
    alone = evaluate(lambda observation: policy.act(observation), env, episodes=7, seed=3, number=4)
    assert opened == [(slots, 1), (slots, 7), ("GymnasiumVector", 1)]
    assert all(one.tobytes() == other.tobytes() for one, other in zip(together, alone, strict=True))
    assert len(set(together.returns.tolist())) > 1


def test_an_environment_that_never_ends_is_told(monkeypatch):
    class Endless(Counting):
        def step(self, action):
            return np.zeros(2), 0.0, False, False, {}

    monkeypatch.setattr("understudy.runs.evaluate.STEP_LIMIT", 50)
    with pytest.raises(UserError, match="has lasted 50 steps"):
        evaluate(lambda observation, info: np.zeros(1), Endless, episodes=1)
    for limit in (7, 60):  # also one that is larger than what is taken for endless
        found = evaluate(lambda observation, info: np.zeros(1), Endless, episodes=2, limit=limit)
        assert found.lengths.tolist() == [limit, limit]


@pytest.mark.parametrize(
    "wrong", [{"episodes": 0}, {"seed": -1}, {"seed": 1.5}, {"limit": 0}, {"limit": 2.5}, {"number": -1}]
)
def test_numbers_of_an_evaluation_are_whole(wrong):
    with pytest.raises(UserError, match=f"{next(iter(wrong))}: .* is not a whole number ≥"):
        evaluate(lambda observation, info: np.zeros(1), Counting, **wrong)


def test_only_a_second_argument_that_is_no_option_gets_the_info():
    def plain(observation, gain=0.5):
        return np.full(1, gain)

    def needy(observation, info):
        return np.full(1, info["privileged"] / 7)

    players = [plain, functools.partial(plain, gain=0.25), needy, lambda observation, info={}: needy(0, info)]
    played = [acting(one)(np.zeros(2), {"privileged": 7.0}).tolist() for one in players]
    assert played == [[0.5], [0.25], [1.0], [1.0]]
    with pytest.raises(UserError, match="stream: unknown value 'colect', did you mean 'collect'"):
        evaluate(plain, Counting, stream="colect")


def act(seen, slots, fresh):
    return np.zeros((len(slots), 1), np.float32)


@pytest.mark.parametrize("episodes", [6, 1])
def test_lanes_do_not_change_returns(episodes):
    one, many = (
        play_episodes(vector(maker(Counting), lanes), "counting", (4, episodes, 0), act, lanes=lanes)
        for lanes in (1, 4)
    )
    assert one.lengths.tolist() == [3 + derive(4, "evaluate", 0, i) % 5 for i in range(episodes)]
    assert one.returns.tobytes() == many.returns.tobytes() and one.seeds.tolist() == many.seeds.tolist()


def test_an_environment_that_raises_is_one_sentence():
    class Raises(Counting):
        def step(self, action):
            if self.seed == derive(5, "evaluate", 0, 1):
                raise ZeroDivisionError("no")
            return super().step(action)

    with pytest.raises(UserError) as told:
        play_episodes(vector(maker(Raises), 1), "raises", (5, 3, 0), act)
    # The line of the user's file that raised it is said.
    where = r", at .*test_evaluate.py:\d+ in step"
    assert re.fullmatch(f"environment: ZeroDivisionError: no{where}", str(told.value))


def test_policy_and_expert_of_every_run_play_the_same_episodes():
    run = imitate("Pendulum-v1", policy="linear", episodes=3, seed=5, **SIZE)
    env, returns = gym.make("Pendulum-v1"), []
    from understudy import experts

    teacher = experts.resolve(None, env_id="Pendulum-v1")
    for episode in range(3):
        observation, _ = env.reset(seed=derive(JUDGED[0], "evaluate", JUDGED[1], episode))
        total, over = 0.0, False
        while not over:
            observation, reward, terminated, truncated, _ = env.step(teacher.act(observation[None])[0])
            total, over = total + float(reward), terminated or truncated
        returns.append(total)
    assert run.expert_evaluation is not None and run.expert_evaluation.returns.tolist() == returns
    alone = evaluate(run.policy, "Pendulum-v1", episodes=3)  # those are what `evaluate` plays too
    assert alone.returns.tolist() == run.evaluation.returns.tolist()
    other = imitate("Pendulum-v1", policy="linear", keep_best=True, expert_episodes=2, **SIZE)
    mine, theirs = run.evaluation.seeds, other.evaluation.seeds
    assert len(set(theirs.tolist())) == 30 and mine.tolist() == theirs[:3].tolist()
    assert other.expert_evaluation.seeds.tolist() == theirs[:2].tolist()
    assert not {derive(5, "evaluate", t, 0) for t in range(9)} & set(theirs.tolist())


def test_a_run_that_chooses_nothing_looks_at_the_first_of_the_episodes_that_judge_it():
    options = SIZE | {"policy": "linear", "expert_episodes": 0, "comparator": "none"}
    run = imitate("Pendulum-v1", evaluate_every=1, **options)  # no two of its returns are equal
    assert len(run.evaluation.returns) == 20  # a look has ten
    assert run.ledger["return_mean"][-1] == run.evaluation.returns[:10].mean()
    short = imitate("Pendulum-v1", evaluate_every=1, **options | {"rounds": 2})
    assert short.ledger["return_mean"].tolist() == run.ledger["return_mean"][:2].tolist()


def test_a_player_that_remembers_is_marked():
    def act(observation):
        return 0

    assert not acting(experts.from_callable(act)).remembers
    act.on_reset = lambda: None
    assert acting(experts.from_callable(act)).remembers


@pytest.mark.parametrize(("spread", "precise"), [(1.7, True), (1.9, False)])
def test_a_mean_is_known_where_its_standard_error_is_a_hundredth_of_it(spread, precise):
    """s/√n with s² = Σ(x − x̄)²/(n − 1): 1.7 · √(4/3)/2 is 0.98, 1.9 · √(4/3)/2 is 1.10."""
    returns = np.array([100 - spread, 100 + spread] * 2)
    assert Evaluation(returns, np.ones(4, int), np.arange(4)).precise == precise
