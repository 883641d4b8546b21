"""Experts that see what the policy does not."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from understudy import experts
from understudy.errors import UserError
from understudy.experts.base import Expert
from understudy.experts.privileged import info_at

DOUBLE = Expert(
    "double", ask=lambda o, i: np.asarray(o)[:, :1] * 2.0, observation_space=spaces.Box(-1, 1, (2,))
)


def test_the_expert_sees_info_and_not_the_observation():
    expert = experts.from_info(DOUBLE, "state")
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
    expert = experts.from_observation(DOUBLE, "state")
    observations = {"state": np.array([[1.0, 0], [2.0, 0]]), "picture": np.zeros((2, 8, 8))}
    np.testing.assert_array_equal(expert.label(observations), [[2.0], [4.0]])


@pytest.mark.parametrize(
    ("infos", "sentence"),
    [
        (None, r"sees info\['state'\], but no infos were given"),
        ([{"state": [1, 2]}, {"other": 1}], "no key 'state' in environment 1; its keys: other"),
        ([{"state": [1, 2]}, {"state": [1]}], "same shape everywhere"),
        ([{"state": [1, 2]}], "one dict per environment"),
        ({"state": np.ones((2, 2)), "_state": np.array([True, False])}, "environment 1; its keys: none"),
        (7, "one dict per environment is expected, got int"),
    ],
)
def test_infos_that_do_not_have_it_are_told(infos, sentence):
    with pytest.raises(UserError, match=sentence):
        experts.from_info(DOUBLE, "state").label(np.zeros((2, 4)), infos)


def test_observations_that_do_not_have_it_are_told():
    expert = experts.from_observation(DOUBLE, "state")
    with pytest.raises(UserError, match="did you mean 'states'"):
        expert.label({"states": np.zeros((2, 2))})
    with pytest.raises(UserError, match="no dict"):
        expert.label(np.zeros((2, 2)))


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
        sees="info:best",
        observation_space=Telling.observation_space,
        action_space=spaces.Discrete(3),
    )
    np.testing.assert_array_equal(expert.label(observations, infos), infos["best"])
    observations, _, _, _, infos = env.step(np.array([2, 0, 1, 1]))
    np.testing.assert_array_equal(expert.label(observations, infos), [2, 0, 1, 1])
    assert info_at(infos, 1) == {"best": 0}


def test_resolve_checks_what_the_expert_sees():
    shown = spaces.Dict({"state": spaces.Box(-1, 1, (2,)), "picture": spaces.Box(0, 1, (8, 8))})
    expert = experts.resolve(DOUBLE, sees="observation:state", observation_space=shown)
    action, _ = expert.predict({"state": np.array([0.5, 0.0]), "picture": np.zeros((8, 8))})
    assert action == [1.0]
    with pytest.raises(UserError, match="made for observations"):
        experts.resolve(DOUBLE, sees="observation:picture", observation_space=shown)
    for wrong in ("state", "info:", "somewhere:else"):
        with pytest.raises(UserError, match=r"info:KEY or observation:KEY"):
            experts.resolve(DOUBLE, sees=wrong)
