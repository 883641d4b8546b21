"""DAgger of `imitation` until it has reached a share of its expert's return; runs in that package's venv.

    python imitation_side.py WEIGHTS.safetensors --env Hopper-v4 --seed 0

Prints one JSON object. What is timed: everything from the making of the trainer on (collecting, storing and
loading of demonstrations, training), except for the evaluations made here. Its own rollouts for the log are
switched off, since they would count as training time and teach nothing. Everything else is as it comes: 4
epochs a round, batches of 32, Adam at 1e-3, β falling linearly over 15 rounds, at least 3 episodes a round;
the network is the one asked for.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time

import gymnasium as gym
import numpy as np
import torch
from imitation.algorithms import bc
from imitation.algorithms.dagger import SimpleDAggerTrainer
from imitation.data.wrappers import RolloutInfoWrapper
from safetensors.numpy import load_file
from stable_baselines3.common.policies import ActorCriticPolicy, BasePolicy
from stable_baselines3.common.vec_env import DummyVecEnv


class Expert(BasePolicy):
    """The shipped network in NumPy, with the interface that the trainer wants; it counts what it is asked."""

    def __init__(self, path: str, observation_space: gym.Space, action_space: gym.Space):
        super().__init__(observation_space, action_space)
        tensors = load_file(path)
        count = sum(name.endswith(".weight") for name in tensors)
        self.layers = [(tensors[f"layers.{i}.weight"], tensors[f"layers.{i}.bias"]) for i in range(count)]
        self.queries = 0

    def _predict(self, observation, deterministic=False):
        raise NotImplementedError

    def predict(self, observation, state=None, episode_start=None, deterministic=False):
        x = np.atleast_2d(np.asarray(observation, np.float32))
        self.queries += len(x)
        for weight, bias in self.layers[:-1]:
            x = np.maximum(x @ weight + bias, 0)
        weight, bias = self.layers[-1]
        return np.tanh(x @ weight + bias), state  # the bounds of these actions are -1 and 1


def evaluate(policy: BasePolicy, env_id: str, episodes: int, seed: int) -> float:
    """The mean return of a policy without exploration, in episodes of their own."""
    env, returns = gym.make(env_id), []
    for episode in range(episodes):
        observation, _ = env.reset(seed=10_000 + 1_000 * seed + episode)
        total, over = 0.0, False
        while not over:
            action = policy.predict(observation[None], deterministic=True)[0][0]
            observation, reward, terminated, truncated, _ = env.step(action)
            total, over = total + float(reward), terminated or truncated
        returns.append(total)
    return float(np.mean(returns))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("weights")
    parser.add_argument("--env", default="Hopper-v4")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--share", type=float, default=0.9)
    parser.add_argument("--episodes", type=int, default=10)
    parser.add_argument("--interactions", type=int, default=1000)
    parser.add_argument("--limit", type=int, default=40_000, help="give up after so many queries")
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    rng = np.random.default_rng(options.seed)
    judge = gym.make(options.env)
    expert = Expert(options.weights, judge.observation_space, judge.action_space)
    theirs = evaluate(expert, options.env, 20, options.seed)
    expert.queries = 0

    began, cpu_began = time.perf_counter(), time.process_time()
    venv = DummyVecEnv([lambda: RolloutInfoWrapper(gym.make(options.env))])
    venv.seed(options.seed)
    policy = ActorCriticPolicy(
        venv.observation_space,
        venv.action_space,
        lr_schedule=lambda _: 1e-3,
        net_arch=[256, 256],
        activation_fn=torch.nn.ReLU,
    )
    cloning = bc.BC(
        observation_space=venv.observation_space, action_space=venv.action_space, rng=rng, policy=policy
    )
    curve, apart, cpu_apart = [], 0.0, 0.0
    with tempfile.TemporaryDirectory() as folder:
        trainer = SimpleDAggerTrainer(
            venv=venv, scratch_dir=folder, expert_policy=expert, bc_trainer=cloning, rng=rng
        )
        while expert.queries < options.limit:
            # One step more than none is one round, whose size the other arguments say.
            trainer.train(
                1,
                rollout_round_min_timesteps=options.interactions,
                bc_train_kwargs={"log_rollouts_venv": None, "progress_bar": False, "log_interval": 10**9},
            )
            paused, cpu_paused = time.perf_counter(), time.process_time()
            value = evaluate(trainer.policy, options.env, options.episodes, options.seed)
            print(f"{expert.queries} queries: {value:.0f}", file=sys.stderr, flush=True)
            curve.append([expert.queries, value, paused - began - apart, cpu_paused - cpu_began - cpu_apart])
            apart += time.perf_counter() - paused
            cpu_apart += time.process_time() - cpu_paused
            if value >= options.share * theirs:
                break
    print(json.dumps({"expert": theirs, "curve": curve}))


if __name__ == "__main__":
    main()
