"""Stable-Baselines3's `evaluate_policy` takes our policies as its own models, with and without a memory."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy

import understudy
from understudy import TrainedPolicy
from understudy.policies import Actions, Linear, Normaliser, Observations
from understudy.policies.codecs import Recalled

WEIGHTS = np.array([[0.1, -0.1], [0.2, -0.2], [3, -3], [1, -1]], np.float32) * -1


def cart(stack: int = 1) -> TrainedPolicy:
    """A law that balances the pole; with a stack it looks at the last of the observations."""
    env = gymnasium.make("CartPole-v1")
    seen = Observations.of(env.observation_space)
    weights = np.concatenate([*[np.zeros_like(WEIGHTS)] * (stack - 1), WEIGHTS])
    seen = seen if stack == 1 else Recalled(seen, stack)
    return TrainedPolicy(
        Linear(), weights, seen, Actions.of(env.action_space), Normaliser.identity(4 * stack)
    )


@pytest.mark.sb3
@pytest.mark.parametrize("stack", [1, 3])
def test_returns_are_those_of_our_own_evaluation(stack):
    env = make_vec_env("CartPole-v1", n_envs=3, seed=0)
    found, _ = evaluate_policy(cart(stack), env, n_eval_episodes=6)
    ours = understudy.evaluate(cart(stack), "CartPole-v1", episodes=6).mean
    assert found == ours == 500.0


@pytest.mark.sb3
def test_a_policy_that_falls_is_seen_to_fall():
    """The negative control."""
    falls = cart()
    wrong = TrainedPolicy(falls.policy, -falls.params, falls.observations, falls.actions, falls.normaliser)
    found, _ = evaluate_policy(wrong, make_vec_env("CartPole-v1", n_envs=2, seed=0), n_eval_episodes=4)
    assert found < 20
