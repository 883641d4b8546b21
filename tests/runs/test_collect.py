"""Exactly M interactions a round, each one sample and one query, whoever acts and however episodes fall."""

from __future__ import annotations

import dataclasses
import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runs.counting import Counting, answering, half
from understudy import UserError
from understudy.envs.gymnasium import derive, maker, vector
from understudy.policies import Actions, Linear, Normaliser, Observations
from understudy.runs.collect import HostCollector, draw_expert_steps
from understudy.runs.journal import Journal
from understudy.runs.labelling import labelling
from understudy.samples import EXPERT, TERMINATED, TRUNCATED, Labels, Path
from understudy.spec import mixing
from understudy.student import Plan


class Field:
    """The collector of a student that always answers `action`, and its environments."""

    def __init__(self, count: int = 1, seed: int = 0, noise: float = 0.0, expert=None, action=-0.25, **env):
        self.env = vector(maker(lambda: Counting(**env)), count)
        self.expert, self.seed, self.action = expert or answering(half), seed, action
        seen = Observations.of(self.env.observation_space)
        parts = SimpleNamespace(
            observations=seen,
            actions=Actions.of(self.env.action_space),
            kind="action",
        )
        spec = SimpleNamespace(seed=seed, memory_limit=1 << 30, moment="after")
        linear = Linear(bias=True)
        self.student = SimpleNamespace(
            parts=parts,
            spec=spec,
            resolved=SimpleNamespace(noise=noise),
            timetable=SimpleNamespace(budget=None, rule=None, num_envs=count),
            game=SimpleNamespace(policy=linear),
            normaliser=Normaliser.identity(2),
            path=lambda size, envs: Path(size, seen, parts.actions, "action", envs),
            gate=lambda: None,
            acting=lambda: (linear, np.array([[0.0], [0.0], [self.action]], np.float32)),
        )
        asks = labelling(self.expert, Journal(keep=True), timeout=math.inf, retries=0)
        self.labelling = asks
        self.collector = HostCollector(self.env, self.student, asks)
        self.episodes = self.collector.episodes

    def collect(self, size: int, *, beta: float, number: int, action: float = -0.25):
        """One round, in which all states are asked about."""
        self.action = action
        path = self.collector.collect(Plan(number, size, beta, size))
        self.labelling.answer(path, np.ones(size))
        return path.round(np.full(size, 1 / size))


@settings(max_examples=40)
@given(
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=5),
    count=st.integers(1, 5),
    seed=st.integers(0, 1000),
    beta=st.sampled_from([0.0, 0.3, 1.0]),
)
def test_a_round_is_exactly_m_interactions_and_m_queries(sizes, count, seed, beta):
    one = Field(count, seed)
    rows = []
    for number, size in enumerate(sizes, 1):
        round = one.collect(size, beta=beta, number=number)
        assert len(round) == round.labels == size
        rows.append(round)
    asked = sum(one.expert.card["asked"])
    stepped = sum(kind == "step" for env in one.env._envs for kind, _ in env.diary)
    assert asked == stepped == sum(sizes)
    # Every slot's samples are its episodes' steps 0, 1, 2, … in order: nothing skipped, nothing repeated,
    # none after an end.
    for slot, env in enumerate(one.env._envs):
        inputs = np.concatenate([r.inputs[r.slots == slot] for r in rows])
        flags = np.concatenate([r.flags[r.slots == slot] for r in rows])
        episode, step = 0, 0
        for row, flag in zip(inputs, flags, strict=True):
            begun = derive(seed, "collect", slot, episode)
            assert row.tolist() == [begun % 1000, step]
            step += 1
            over = step == 3 + begun % 5
            assert bool(flag & (TERMINATED | TRUNCATED)) == over
            assert bool(flag & TRUNCATED) == (over and begun % 2 == 1)
            if over:
                episode, step = episode + 1, 0
        kept = one.collector.snapshot()[slot]
        assert (kept["episode"], len(kept["actions"]), env.step_number) == (episode, step, step)


def test_the_label_is_the_experts_and_the_executed_action_is_the_agents():
    one = Field(2)
    round = one.collect(50, beta=0.0, number=1)
    assert (
        (round.targets == 0.5).all() and (round.executed == -0.25).all() and not (round.flags & EXPERT).any()
    )
    played = [action for env in one.env._envs for kind, action in env.diary if kind == "step"]
    assert all(action == np.float32(-0.25) for action in played)
    driven = one.collect(50, beta=1.0, number=2)
    assert (driven.targets == 0.5).all() and (driven.executed == 0.5).all() and (driven.flags & EXPERT).all()


def test_the_agents_action_is_clipped_where_it_is_played_and_the_label_is_not_touched():
    one = Field()
    round = one.collect(10, action=7.0, beta=0.0, number=1)
    assert (round.executed == 1.0).all() and (round.targets == 0.5).all()


@pytest.mark.parametrize("beta", [0.1, 0.5, 0.9])
def test_the_expert_acts_with_probability_beta_per_step(beta):
    one = Field(4)
    round = one.collect(4000, beta=beta, number=1)
    by_expert = round.flags & EXPERT > 0
    assert np.array_equal(round.executed[:, 0] == 0.5, by_expert)
    # Four standard deviations, over all and in every slot: it is drawn per environment and per step.
    for chosen in (by_expert, *(by_expert[round.slots == slot] for slot in range(4))):
        assert abs(chosen.mean() - beta) < 4 * np.sqrt(beta * (1 - beta) / len(chosen))
    same = by_expert[1:] == by_expert[:-1]
    assert abs(same.mean() - (beta**2 + (1 - beta) ** 2)) < 0.05  # not per episode, not per round


def test_schedules():
    assert [mixing("linear:4", first_round="agent").beta(t) for t in (1, 2, 3, 5, 9)] == [
        1.0,
        0.75,
        0.5,
        0.0,
        0.0,
    ]
    assert [mixing("exponential:0.5", first_round="agent").beta(t) for t in (1, 2, 4)] == [1.0, 0.5, 0.125]
    assert [mixing(0.3, first_round="expert").beta(t) for t in (1, 2, 9)] == [1.0, 0.3, 0.3]
    assert [mixing(0, first_round="agent").beta(t) for t in (1, 2)] == [0.0, 0.0]


@pytest.mark.parametrize(
    "beta", [-0.1, 1.1, float("nan"), "half", "linear:0", "linear:x", "exponential:2", "cubic:2", True, None]
)
def test_a_beta_that_is_no_probability_is_refused(beta):
    with pytest.raises(UserError, match="beta"):
        mixing(beta)


def test_noise_is_what_was_asked_for_and_seeded():
    one, two, three = Field(noise=0.2), Field(noise=0.2), Field(noise=0.2, seed=1)
    first = one.collect(3000, action=0.0, beta=0.0, number=1).executed[:, 0]
    assert np.array_equal(first, two.collect(3000, action=0.0, beta=0.0, number=1).executed[:, 0])
    assert not np.array_equal(first, three.collect(3000, action=0.0, beta=0.0, number=1).executed[:, 0])
    assert abs(first.std() - 0.2) < 0.01 and abs(first.mean()) < 0.015


def test_an_observation_that_is_not_finite_is_told():
    one = Field(poison=5)
    with pytest.raises(UserError, match=r"environment: the observation .* is not finite"):
        one.collect(50, beta=0.0, number=1)


def test_snapshots_rebuild_the_episode_under_way():
    one, two = Field(3, seed=5), Field(3, seed=5)
    one.collect(37, beta=0.5, number=1)
    two.collector.restore(one.collector.snapshot())
    after = [each.collect(41, beta=0.5, number=2) for each in (one, two)]
    assert after[0].inputs.tobytes() == after[1].inputs.tobytes()
    assert after[0].executed.tobytes() == after[1].executed.tobytes()


def test_gymnasiums_own_autoreset_would_have_been_a_trap():
    """Negative control: in NEXT_STEP mode a vector environment ignores an action after every episode's
    end.
    """
    import gymnasium as gym

    class Plain(Counting):
        def reset(self, *, seed=None, options=None):
            return super().reset(seed=1 if seed is None else seed)

    vector = gym.vector.SyncVectorEnv([Plain], autoreset_mode=gym.vector.AutoresetMode.NEXT_STEP)
    vector.reset(seed=0)
    for _ in range(20):
        vector.step(np.zeros((1, 1), np.float32))
    stepped = sum(kind == "step" for kind, _ in vector.envs[0].diary)
    assert stepped < 20


def test_where_a_slow_expert_is_silent_the_policy_acts_in_its_place():
    """Three environments, of which the expert answers in some, in one step."""

    def ask(observations, infos):
        if (observations[:, 1] == 1).any():
            raise ValueError("no idea")
        return half(observations)

    expert = dataclasses.replace(answering(half), ask=ask, workers=2, batch=1)
    one = Field(3, expert=expert)
    one.collect(3, beta=1.0, number=1)  # all at their first state
    round = one.collect(12, beta=0.7, number=2)
    silent = (round.inputs[:, 1] == 1) & (round.weights == 0)
    assert silent.any() and (round.flags[silent] & EXPERT == 0).all()
    assert (round.executed[silent] == -0.25).all()
    driven = round.flags & EXPERT > 0
    assert driven.any() and np.array_equal(round.executed[driven], round.targets[driven])


def test_what_a_round_says_of_itself():
    """Two slots in turn: one handover, and an episode that begins with the expert, which is none."""
    flags = np.array([0, 0, EXPERT | TRUNCATED, 0, EXPERT, TERMINATED, EXPERT, EXPERT], np.uint8)
    one = Field(count=2).collect(8, beta=0.0, number=1)
    counts = dataclasses.replace(one, flags=flags).counts
    assert counts == (0.5, 1, 2)


def test_environments_take_turns_from_after_a_break():
    path = Field(count=2).student.path(6, 2)
    assert path.slots.tolist() == [0, 1, 0, 1, 0, 1]
    path.begun = 3
    assert path.slots[3:].tolist() == [0, 1, 0]


def test_labels_that_were_known_are_not_counted_as_asked_for():
    path = Field().student.path(4, 1)
    path.enter(np.arange(4), Labels(np.zeros((4, 1)), np.ones(4, bool), np.arange(4) < 1))
    found = path.round(np.full(4, 1 / 4))
    assert (found.labelled, found.labels, found.unanswered) == (4, 1, 0)


def test_an_expert_that_acts_may_spend_all_labels_of_a_round_and_no_more():
    assert draw_expert_steps(Plan(1, 10, 1.0, 4), 0, spent=True).tolist() == [True] * 4 + [False] * 6
    assert draw_expert_steps(Plan(1, 10, 1.0, 4), 0).all()
