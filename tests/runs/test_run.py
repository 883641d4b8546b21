"""A run round by round; students in somebody else's loop; runs one after another and together."""

from __future__ import annotations

import contextlib

import gymnasium as gym
import jax
import numpy as np
import pytest

import understudy
from quick import SIZE
from runs.counting import Counting, answering, half
from understudy import Run, Understudy, UserError, imitate, together
from understudy.envs.gymnasium import derive
from understudy.runs import NAMES, World
from understudy.spec import RunSpec
from understudy.studies import play

COMMON = SIZE | {"episodes": 2, "expert_episodes": 1, "evaluate_every": 2}


def same(one, other):
    """The same ledger, but for returns, and the same parameters, byte for byte."""
    for name in NAMES:
        a, b = np.asarray(one.ledger[name]), np.asarray(other.ledger[name])
        if not name.startswith("return_"):
            assert a.tobytes() == b.tobytes() if a.dtype.kind != "U" else (a == b).all(), name
    leaves = zip(jax.tree.leaves(one.policy.params), jax.tree.leaves(other.policy.params), strict=True)
    assert all(np.asarray(a).tobytes() == np.asarray(b).tobytes() for a, b in leaves)


def test_a_run_is_iterated_over_and_is_what_imitate_returns():
    settings = COMMON | {"policy": "linear", "learner": "ftrl", "eta": 0.1}
    with Run("CartPole-v1", **settings) as run:
        assert "0 of 3 rounds" in repr(run) and not run.finished
        rows = []
        for row in run:
            rows.append(row)
            assert run.policy.act(np.zeros(4)) in (0, 1) and run.ledger.rounds == len(rows)
        assert run.finished and run.evaluate(episodes=1).mean > 0
        record = run.finish()
    whole = imitate("CartPole-v1", **settings)
    same(record, whole)
    assert [row["labels"] for row in rows] == [40, 80, 120]
    assert record.evaluation.returns.tobytes() == whole.evaluation.returns.tobytes()
    assert record.certificate == whole.certificate


def test_a_loop_of_ones_own_has_the_ledger_and_the_policy_of_a_run():
    """Thirty lines: the environment, the expert and the episodes are the caller's."""
    settings = {"policy": "linear", "rounds": 3, "steps_per_round": 40, "seed": 5}
    env = gym.make("CartPole-v1")

    def expert(observation):
        return int(3 * observation[2] + observation[3] > 0)

    student = Understudy(env.observation_space, env.action_space, **settings)
    episode, observation = 0, env.reset(seed=derive(5, "collect", 0, 0))[0]
    while not student.finished:
        path, plan, states = student.path(), student.plan, []
        while path.filled < plan.size:
            row = student.parts.observations.rows(observation[None])
            drives = plan.beta == 1.0
            action = expert(observation) if drives else student.act(observation)
            path.by_expert[path.filled] = drives
            states.append(observation)
            observation, reward, terminated, truncated, _ = env.step(action)
            path.record(row, np.array([action]), reward, np.array([terminated]), np.array([truncated]))
            if terminated or truncated:
                episode += 1
                observation, _ = env.reset(seed=derive(5, "collect", 0, episode))
        question = student.choose(path)
        student.learn(question, [expert(states[i]) for i in question.index])
    run = imitate("CartPole-v1", expert=expert, episodes=0, expert_episodes=0, **settings)
    same(student, run)
    assert repr(student.certificate) == repr(run.certificate)


def test_answers_may_come_late_and_some_not_at_all():
    """Two questions are open at once; what is learnt follows the order in which they are answered."""
    box = gym.spaces.Box(-1, 1, (2,)), gym.spaces.Box(-1, 1, (1,))
    rng = np.random.default_rng(0)
    states = rng.uniform(-1, 1, (2, 8, 2))

    def learn(order):
        student = Understudy(*box, policy="linear", rounds=2, steps_per_round=8, standardise=False)
        questions = [student.choose(one) for one in states]
        rows = []
        for number in order:
            labels = states[number][:, :1] * 0.5
            labels[2] = np.nan  # no answer
            rows.append(student.learn(questions[number], labels, answered=np.arange(8) != 2))
        with pytest.raises(UserError, match="question: number 1 is not open"):
            student.learn(questions[0], np.zeros((8, 1)))
        return student, rows

    student, rows = learn([0, 1])
    other, _ = learn([1, 0])
    assert [row["unanswered"] for row in rows] == [1, 2] and rows[-1]["samples"] == 7
    # A loss is a mean; the answered stand for the silent, of whom nothing is known.
    assert np.allclose(student.samples.column("weights").reshape(2, 8), np.where(np.arange(8) == 2, 0, 1 / 7))
    assert np.isnan([row["visited_high"] for row in rows]).all()
    np.testing.assert_allclose(student.params, other.params, atol=1e-12)  # the same sum of losses
    assert student.act([0.5, 0.1]) == pytest.approx([0.25], abs=1e-6)
    with pytest.raises(UserError, match="rounds: all 2 are over"):
        _ = student.plan


@pytest.mark.parametrize("settings", [{"policy": "linear"}, {"widths": (8,), "max_iterations": 20}])
def test_a_student_is_saved_with_its_open_questions(tmp_path, settings):
    """The expert answers tomorrow, in another process: the end is that of a student that waited."""
    box = gym.spaces.Box(-1, 1, (2,)), gym.spaces.Box(-1, 1, (1,))
    rounds = np.random.default_rng(0).uniform(-1, 1, (3, 8, 2))
    settings = {"rounds": 3, "steps_per_round": 8, "ask": "random:4", "comparator_steps": 10, **settings}

    def go(path=None):
        student = Understudy(*box, **settings)
        for number, states in enumerate(rounds):
            question = student.choose(states, driven=np.arange(8) < 2)
            if path is not None and number > 0:
                file = student.save(path / f"{number}")
                student = Understudy.load(file, *box)
                question = student.open[question.id]
            student.learn(question, np.tanh(states[question.index, :1]))
        return student

    waited, saved = go(), go(tmp_path)
    same(saved, waited)
    assert saved.ledger["labels"].tolist() == waited.ledger["labels"].tolist() and not saved.open
    longer = Understudy.load(saved.save(tmp_path / "end"), *box, rounds=4)
    assert longer.plan.number == 4 and not longer.finished


@pytest.mark.parametrize(
    ("labels", "wrong"),
    [
        (np.zeros((3, 1)), "there are 3 for the 8 states"),
        (np.full((8, 1), np.nan), "not all are finite"),
    ],
)
def test_labels_that_do_not_fit_are_refused_and_the_question_stays_open(labels, wrong):
    student = Understudy(gym.spaces.Box(-1, 1, (2,)), gym.spaces.Box(-1, 1, (1,)), policy="linear", rounds=1)
    question = student.choose(np.zeros((8, 2)))
    with pytest.raises(UserError, match=f"labels: {wrong}"):
        student.learn(question, labels)
    assert student.learn(question, np.zeros((8, 1)))["labels"] == 8


def test_open_questions_count_against_the_budget_and_the_rounds():
    box = gym.spaces.Box(-1, 1, (2,)), gym.spaces.Box(-1, 1, (1,))
    student = Understudy(*box, policy="linear", rounds=3, steps_per_round=8, budget=12, ask="random:8")
    states = np.random.default_rng(1).uniform(-1, 1, (8, 2))
    questions = [student.choose(states) for _ in range(2)]
    assert [len(question.index) for question in questions] == [8, 4]
    with pytest.raises(UserError, match="rounds: all 2 are over"):
        student.choose(states)
    for question in questions:
        student.learn(question, states[question.index, :1])
    assert student.labels == 12 and student.finished
    with pytest.raises(UserError, match="states: 9 are more than a round of this student has"):
        Understudy(*box, policy="linear", steps_per_round=8).choose(np.zeros((9, 2)))


def test_an_understudy_has_no_environment():
    with pytest.raises(UserError, match="expert: an Understudy has no such setting"):
        Understudy(gym.spaces.Box(-1, 1, (2,)), gym.spaces.Box(-1, 1, (1,)), expert="sac-Hopper-v5")


NETWORK = {
    "policy": understudy.policies.MLP(widths=(8,)),
    "solver_options": {"max_iterations": 20},
    "comparator_steps": 20,
}
RUNS = [
    {"policy": "linear", "learner": "ftl", "seed": 0, "preset": "paper"},
    {"policy": "linear", "learner": understudy.ftrl(eta=0.1), "seed": 1, "episodes": 3},
    {"policy": "linear", "learner": "bc", "seed": 0, "comparator": "every"},
    NETWORK | {"learner": "adaftrl", "seed": 4, "beta": 0.5, "comparator": "none"},
]


def test_runs_of_one_world_are_the_runs_alone():
    """What they share, environments among it, carries nothing over."""
    runs = [COMMON | run | {"episode_limit": 60} for run in RUNS]
    with contextlib.closing(World(RunSpec(env="Hopper-v5"))) as world:
        for settings in runs:
            with Run("Hopper-v5", world=world, **settings) as run:
                list(run)
                record = run.finish()
            whole = imitate("Hopper-v5", **settings)
            same(record, whole)
            assert record.evaluation.returns.tobytes() == whole.evaluation.returns.tobytes()
            assert record.expert_evaluation.returns.tobytes() == whole.expert_evaluation.returns.tobytes()


@pytest.mark.parametrize("kind", ["linear", pytest.param("network", marks=pytest.mark.slow)])
def test_a_gpu_solves_together_to_rounding_on_a_stream_that_is_the_same(monkeypatch, kind):
    """Expert-driven rounds do not depend on the policy, so the vmapped programs see the same data."""
    last, none = [False, False, True], [False] * 3
    base = COMMON | {"env": "Pendulum-v1", "beta": 1.0}
    if kind == "linear":
        runs = [
            base | {"policy": "linear", "learner": understudy.ftrl(eta=eta), "seed": seed}
            for eta in (0.1, 10.0)
            for seed in (0, 1)
        ]
        runs[0] |= {"comparator": "every"}  # the others are judged after their last rounds all the same
        judged = [[True] * 3, last, last, last]
    else:
        learners = understudy.ftl(), understudy.alt_ftrl(eta=1.0)
        ends = "last", "none"
        runs = [base | NETWORK | {"learner": one, "comparator": after} for one in learners for after in ends]
        judged = [last, none, last, none]
    apart = play(runs)
    widths = []
    play_all = together._play_all
    monkeypatch.setattr(together, "_play_all", lambda asked: widths.append(len(asked)) or play_all(asked))
    beside = play(runs, together=True)
    assert max(widths) > 1
    for one, other in zip(apart, beside, strict=True):
        assert one.error is other.error is None
        for name in ("loss", "average_loss", "regret", "bound", "weight"):
            mine, theirs = ([row[name] for row in result.rows] for result in (one, other))
            np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-5, err_msg=name)
        assert one.summary["return_mean"] == pytest.approx(other.summary["return_mean"], rel=1e-2)
        assert one.summary["bound"] == pytest.approx(other.summary["bound"], rel=1e-5, nan_ok=True)
    assert [[bool(np.isfinite(row["regret"])) for row in one.rows] for one in beside] == judged


def test_a_run_that_fails_is_not_the_judge_of_its_neighbours():
    base = {"env": "Pendulum-v1", "policy": "linear", "preset": "paper", "rounds": 6, "steps_per_round": 40}
    base |= {"learner": "ogd", "schedule": "constant", "episodes": 0}
    runs = [base | {"eta": eta} for eta in (1e80, 1e-3, 1e-4)]
    for side_by_side in (False, True):
        found = play(runs, together=side_by_side)
        assert "left the finite numbers" in found[0].error
        for one in found[1:]:
            assert one.error is None and np.isfinite([one.summary["regret"], one.summary["bound"]]).all()


class Broken(gym.Wrapper):
    """An environment that shows nonsense, or raises, when a run of seed 1 has played 50 steps in all."""

    fault = "nan"

    def __init__(self, env):
        super().__init__(env)
        self.mine, self.steps = False, 0

    def reset(self, *, seed=None, options=None):
        self.mine |= seed == derive(1, "collect", 0, 0)
        if self.mine and self.fault == "reset":
            raise ZeroDivisionError("division by zero")
        return self.env.reset(seed=seed)

    def step(self, action):
        observation, *rest = self.env.step(action)
        self.steps += 1
        if self.mine and self.steps > 50:
            if self.fault == "raise":
                raise ZeroDivisionError("division by zero")
            observation = observation * np.nan
        return observation, *rest


def fragile():
    return Broken(gym.make("Pendulum-v1"))


@pytest.mark.parametrize("fault", ["nan", "raise", "reset"])
def test_a_run_that_fails_leaves_the_others_as_they_were(monkeypatch, fault):
    monkeypatch.setattr(Broken, "fault", fault)
    teacher = understudy.experts.get("swingup-Pendulum-v1")
    base = COMMON | {"env": fragile, "expert": teacher, "policy": "linear"}
    runs = [base | {"seed": seed, "learner": understudy.ftrl(eta=1.0)} for seed in (0, 1, 2)]
    found = play(runs)
    sentence, rounds = found[1].error, 0 if fault == "reset" else 1
    assert sentence.startswith(f"round {rounds + 1}: environment: ")
    assert ("is not finite" in sentence) == (fault == "nan")
    assert ("ZeroDivisionError: division by zero" in sentence) == (fault != "nan")
    assert found[0].error is None and found[2].error is None and len(found[1].rows) == rounds
    for i in (0, 2):
        alone = imitate(**runs[i])
        assert [row["loss"] for row in found[i].rows] == alone.ledger["loss"].tolist()
    with pytest.raises(UserError, match=f"round {rounds + 1}: environment"):
        imitate(**runs[1])


def test_runs_that_meet_end_in_any_order():
    """Together the others go on when one has ended, or has failed."""
    meeting = together.Together(3)

    def run(calls, fails=False):
        got = [meeting.call("sum", number, lambda all: [sum(all)] * len(all)) for number in range(calls)]
        if fails:
            raise KeyError("enough")
        return got

    with pytest.raises(KeyError):
        meeting.each([lambda: run(3), lambda: run(1, fails=True), lambda: run(2)])
    meeting = together.Together(2)
    with pytest.raises(ZeroDivisionError):  # an error of a program is one of every run that plays it
        meeting.each([lambda: meeting.call("a", 1, lambda all: 1 / 0), lambda: meeting.call("b", 1, list)])


def test_labels_are_asked_for_on_the_way_where_memory_is_short():
    """Eight bytes a state, and room for three: the same run, and never more than three states wait."""
    sizes = []

    def value(observations):
        sizes.append(len(observations))
        return half(observations)

    settings = SIZE | {"policy": "linear", "episodes": 0, "expert_episodes": 0, "first_round": "agent"}
    whole = imitate(Counting, expert=answering(half), **settings)
    short = imitate(Counting, expert=answering(value), memory_limit=3 * 8, **settings)
    assert max(sizes) == 3 and sum(sizes) == 120
    assert short.ledger.to_csv() == whole.ledger.to_csv()


def test_a_question_has_the_states_that_the_expert_drove_through():
    box = gym.spaces.Box(-1, 1, (2,)), gym.spaces.Box(-1, 1, (1,))
    settings = {"ask": "random:4", "first_steps": 8, "standardise": True, "average": 2}
    student = Understudy(*box, policy="linear", rounds=4, steps_per_round=8, **settings)
    drove, members = np.arange(8) % 3 == 0, []
    for states in np.random.default_rng(0).uniform(-1, 1, (4, 8, 2)):
        question = student.choose(states, driven=drove)
        assert (
            set(np.flatnonzero(drove)) <= set(question.index)
            and (question.p[drove[question.index]] == 1).all()
        )
        row = student.learn(question, states[question.index, :1])
        assert row["by_expert"] == 3 / 8
        members.append(student.params)
        np.testing.assert_allclose(student.acting()[1], np.mean(members[-2:], axis=0))
    view = student._view(states, 4)  # what the rule sees is what the policy sees
    np.testing.assert_array_equal(view.rows, student.normaliser(states))
    assert not np.allclose(view.rows, states)


def test_a_finished_run_plays_no_other_round_and_keeps_its_folder(tmp_path):
    settings = {"policy": "linear", "rounds": 1, "steps_per_round": 40, "episodes": 0, "expert_episodes": 0}
    understudy.imitate("CartPole-v1", out=tmp_path / "run", **settings)
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    with understudy.Run("CartPole-v1", out=tmp_path / "run", resume=True, **settings) as run:
        assert run.finished and list(run) == []
        with pytest.raises(UserError, match="finished; resume it with more rounds"):
            run.step()
    after = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    assert {path.name: data for path, data in after.items()} == {p.name: d for p, d in before.items()}
