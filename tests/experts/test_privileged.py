"""Experts that see what the policy does not."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from understudy import evaluate, experts, imitate
from understudy.errors import UserError
from understudy.experts import Expert
from understudy.policies.sight import Sight, info_at
from understudy.runs import maker_of, read_config

DOUBLE = Expert(
    "double", ask=lambda o, i: np.asarray(o)[:, :1] * 2.0, observation_space=spaces.Box(-1, 1, (2,))
)


def test_the_expert_sees_info_and_not_the_observation():
    expert = experts.seeing(DOUBLE, "info:state")
    infos = [{"state": np.array([1.0, 0])}, {"state": np.array([2.0, 0])}]
    np.testing.assert_array_equal(expert.label(np.full((2, 9), np.nan), infos), [[2.0], [4.0]])
    vector = {
        "state": np.array([[1.0, 0], [2.0, 0]]),
        "_state": np.array([True, True]),
        "t": np.array([0, 0]),
    }
    np.testing.assert_array_equal(expert.label(np.full((2, 9), np.nan), vector), [[2.0], [4.0]])
    assert expert.needs_infos
    assert expert.card["sees"] == "info:state"


def test_the_expert_sees_one_key_of_a_dict():
    expert = experts.seeing(DOUBLE, "state")
    observations = {"state": np.array([[1.0, 0], [2.0, 0]]), "picture": np.zeros((2, 8, 8))}
    np.testing.assert_array_equal(expert.label(observations), [[2.0], [4.0]])


@pytest.mark.parametrize(
    ("infos", "sentence"),
    [
        (None, r"info\['state'\] is to be seen, but there are no infos"),
        ([{"state": [1, 2]}, {"other": 1}], "no key 'state' in environment 1; its keys: other"),
        ([{"state": [1, 2]}, {"state": [1]}], "same shape everywhere"),
        ([{"state": [1, 2]}], "one dict per environment"),
        ({"state": np.ones((2, 2)), "_state": np.array([True, False])}, "environment 1; its keys: none"),
        (7, "one dict per environment is expected, got int"),
    ],
)
def test_infos_that_do_not_have_it_are_told(infos, sentence):
    with pytest.raises(UserError, match=sentence):
        experts.seeing(DOUBLE, "info:state").label(np.zeros((2, 4)), infos)


def test_observations_that_do_not_have_it_are_told():
    expert = experts.seeing(DOUBLE, "state")
    for wrong in ({"states": np.zeros((2, 2))}, np.zeros((2, 2))):
        with pytest.raises(UserError, match="it has no part 'state'"):
            expert.label(wrong)


def test_infos_of_a_real_vector_environment():
    class Telling(gymnasium.Env):
        observation_space, action_space = spaces.Box(-1, 1, (1,)), spaces.Discrete(3)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return np.zeros(1, np.float32), {"best": int(self.np_random.integers(3)), "deep": {"x": 1}}

        def step(self, action):
            return np.zeros(1, np.float32), 0.0, False, False, {"best": int(action)}

    env = gymnasium.vector.SyncVectorEnv([Telling] * 4)
    observations, infos = env.reset(seed=3)
    expert = experts.resolve(
        lambda best: int(best),
        expert_sees="info:best",
        observation_space=Telling.observation_space,
        action_space=spaces.Discrete(3),
    )
    np.testing.assert_array_equal(expert.label(observations, infos), infos["best"])
    observations, _, _, _, infos = env.step(np.array([2, 0, 1, 1]))
    np.testing.assert_array_equal(expert.label(observations, infos), [2, 0, 1, 1])
    assert info_at(infos, 1) == {"best": 0}


def test_resolve_checks_what_the_expert_sees():
    shown = spaces.Dict({"state": spaces.Box(-1, 1, (2,)), "picture": spaces.Box(0, 1, (8, 8))})
    expert = experts.resolve(DOUBLE, expert_sees="state", observation_space=shown)
    action, _ = expert.predict({"state": np.array([0.5, 0.0]), "picture": np.zeros((8, 8))})
    assert action == [1.0]
    with pytest.raises(UserError, match="made for observations"):
        experts.resolve(DOUBLE, expert_sees="picture", observation_space=shown)
    with pytest.raises(UserError, match="no such key: unknown value 'stat', did you mean 'state'"):
        experts.resolve(DOUBLE, expert_sees="stat", observation_space=shown)
    for wrong in ("", "info:", "state[1]", "state[", "state[::0]", "state,,picture", "a+b,c"):
        with pytest.raises(UserError, match="expert_sees: "):
            experts.resolve(DOUBLE, expert_sees=wrong, observation_space=shown)
    with pytest.raises(UserError, match=r"expert_sees: 'deep' is Dict.*plus signs join arrays only"):
        deep = spaces.Dict(deep=shown, state=shown["state"])
        experts.resolve(DOUBLE, expert_sees="state+deep", observation_space=deep)


@pytest.mark.parametrize(
    ("sees", "wanted"),
    [
        ("joints", [0.0, 1.0, 2.0]),
        ("joints[1:]", [1.0, 2.0]),
        ("joints[::2]", [0.0, 2.0]),
        ("deep.goal", [7.0]),
        ("joints[:1]+deep.goal+info:x", [0.0, 7.0, 9.0]),
        ("joints,info:x", {"joints": [0.0, 1.0, 2.0], "info:x": 9.0}),
    ],
)
def test_groups_are_keys_slices_and_infos(sees, wanted):
    batch = {"joints": np.arange(3.0)[None], "deep": {"goal": np.array([[7.0]])}}
    found = Sight.of(sees, "expert_sees").seen(batch, [{"x": 9.0}])
    if isinstance(wanted, dict):
        assert {key: value[0].tolist() for key, value in found.items()} == wanted
    else:
        assert found[0].tolist() == wanted
    assert Sight.of("[1:2]", "x").seen(np.arange(3.0)[None], None).tolist() == [[1.0]]


class Sighted(gymnasium.Env):
    """Reward for saying the number that is in the teacher's key, and in the info; the student's is a hint."""

    observation_space = spaces.Dict(
        hint=spaces.Box(-1, 1, (3,), np.float32), teacher=spaces.Box(-1, 1, (1,), np.float32)
    )
    action_space = spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left = 10
        return self._look()

    def _look(self):
        self.hint = self.np_random.uniform(-1, 1, 3).astype(np.float32)
        answer = self.hint[:1] / 2
        return {"hint": self.hint, "teacher": answer}, {"answer": answer, "noise": self.hint[1]}

    def step(self, action):
        self.left -= 1
        reward = -abs(float(action[0]) - float(self.hint[0]) / 2)
        seen, info = self._look()
        return seen, reward, self.left == 0, False, info


HOW = {"policy": "linear", "rounds": 2, "steps_per_round": 40, "episodes": 2, "standardise": False}


@pytest.mark.parametrize(
    ("teacher", "student", "width", "error"),
    [
        ("info:answer", None, 4, 1e-6),
        ("teacher", "hint", 3, 1e-6),
        ("teacher", "hint[:1]", 1, 1e-6),
        ("teacher", "hint[1:]", 2, 0.05),
        ("info:answer", "hint[:1],info:noise", 2, 1e-6),
    ],
)
def test_each_side_sees_its_own(teacher, student, width, error):
    """The student's row holds what it may see and nothing else: where that is not enough, it cannot learn."""
    run = imitate(Sighted, expert=lambda seen: seen, expert_sees=teacher, student_sees=student, **HOW)
    assert run.policy.observations.width == width == run.samples("inputs").shape[1]
    assert (run.ledger["loss"][-1] < error) == (error < 0.01)
    seen = {"hint": np.array([0.5, 0.1, -0.2], np.float32), "info:noise": 0.1}
    if student is not None and error < 0.01:  # the teacher's key is not needed
        assert run.policy(seen)[0] == pytest.approx(0.25, abs=1e-4)


def test_a_run_that_sees_infos_is_evaluated_from_its_folder(tmp_path):
    how = HOW | {"expert": lambda seen: seen["teacher"]}
    run = imitate(Sighted, student_sees="hint[:1]+info:noise", out=tmp_path / "a", **how)
    again = evaluate(run.policy, maker_of(read_config(tmp_path / "a")["settings"]), episodes=2)
    assert again.returns.tolist() == run.evaluation.returns.tolist()
    with pytest.raises(UserError, match="student_sees: info has no key 'nois'; its keys: answer, noise"):
        imitate(Sighted, student_sees="info:nois", **how)
    with pytest.raises(UserError, match="no such key: unknown value 'hnt', did you mean 'hint'"):
        imitate(Sighted, student_sees="hnt", **how)


def test_a_plain_observation_has_slices_and_infos_beside_it():
    class Plain(gymnasium.ObservationWrapper):
        observation_space = Sighted.observation_space["hint"]

        def observation(self, observation):
            return observation["hint"]

    how = HOW | {"expert": lambda seen: seen[:1] / 2}
    run = imitate(lambda: Plain(Sighted()), student_sees="[:2],info:noise", **how)
    assert run.policy.observations.width == 3 and run.ledger["loss"][-1] < 1e-6
    with pytest.raises(UserError, match="names a key, and the observations are Box"):
        imitate(lambda: Plain(Sighted()), student_sees="hint", **how)


@pytest.mark.parametrize("text", ["[9:12]", "[2:1]", "joints[4:]+joints"])
def test_a_slice_that_takes_nothing_is_refused_and_is_not_all_of_it(text):
    whole = spaces.Dict(joints=spaces.Box(-1, 1, (4,))) if "joints" in text else spaces.Box(-1, 1, (4,))
    for look in (Sight.of(text, "student_sees").observations, Sight.of(text, "expert_sees").space):
        with pytest.raises(UserError, match=r"_sees: '.*\[.*\]' takes none of 4 numbers\."):
            look(whole)
