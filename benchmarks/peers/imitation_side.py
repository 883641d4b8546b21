"""DAgger of `imitation` until it has reached a share of its expert's return; runs in that package's venv.

    python imitation_side.py WEIGHTS.safetensors --seed 0 --judge 1 2 3 --fresh 4 5 6

Prints one JSON object. What is timed: everything from the making of the trainer on (collecting, storing and
loading of demonstrations, training), except for the evaluations made here. Its own rollouts for the log are
switched off, since they would count as training time and teach nothing. The network is the one asked for.
Without options everything else is as it comes: 4 epochs a round, batches of 32, Adam at 1e-3, β falling
linearly over 15 rounds, rounds of at least 3 episodes and 500 steps.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence

import gymnasium as gym
import numpy as np
import torch
from imitation.algorithms import bc
from imitation.algorithms.dagger import SimpleDAggerTrainer
from imitation.data.wrappers import RolloutInfoWrapper
from imitation.policies.base import NormalizeFeaturesExtractor
from safetensors.numpy import load_file
from stable_baselines3.common.policies import ActorCriticPolicy, BasePolicy
from stable_baselines3.common.vec_env import DummyVecEnv

BETAS = {"linear": None, "first": lambda t: float(t == 0), "always": lambda t: 1.0}
"""Whose actions are played by round: as the package has it, the expert's at first, always the expert's."""


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


def evaluate(policy: BasePolicy, env_id: str, seeds: Sequence[int]) -> float:
    """The mean return of a policy without exploration, in the episodes of these seeds, side by side."""
    envs = [gym.make(env_id) for _ in seeds]
    seen = np.stack([env.reset(seed=seed)[0] for env, seed in zip(envs, seeds, strict=True)])
    total, going = np.zeros(len(envs)), np.ones(len(envs), bool)
    while going.any():
        at = np.flatnonzero(going)
        for i, action in zip(at, policy.predict(seen[at], deterministic=True)[0], strict=True):
            seen[i], reward, terminated, truncated, _ = envs[i].step(action)
            total[i] += float(reward)
            going[i] = not (terminated or truncated)
    return float(total.mean())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("weights")
    parser.add_argument("--env", default="Hopper-v4")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--share", type=float, default=0.9)
    parser.add_argument("--limit", type=int, default=20_000, help="give up after so many queries")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="give up after so many seconds")
    parser.add_argument(
        "--judge", nargs="+", type=int, required=True, help="seeds of the episodes that judge"
    )
    parser.add_argument("--fresh", nargs="+", type=int, required=True, help="those of the last policy")
    parser.add_argument("--steps", type=int, default=500, help="least number of steps in a round")
    parser.add_argument("--round-episodes", type=int, default=3, help="least number of episodes in a round")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--normalise", action="store_true")
    parser.add_argument("--beta", choices=BETAS, default="linear")
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    rng = np.random.default_rng(options.seed)
    judge = gym.make(options.env)
    expert = Expert(options.weights, judge.observation_space, judge.action_space)
    theirs = evaluate(expert, options.env, options.judge)
    theirs_fresh = evaluate(expert, options.env, options.fresh)
    expert.queries = 0

    began, cpu_began = time.perf_counter(), time.process_time()
    venv = DummyVecEnv([lambda: RolloutInfoWrapper(gym.make(options.env))])
    venv.seed(options.seed)
    policy = ActorCriticPolicy(
        venv.observation_space,
        venv.action_space,
        lr_schedule=lambda _: options.lr,
        net_arch=[256, 256],
        activation_fn=torch.nn.ReLU,
        **({"features_extractor_class": NormalizeFeaturesExtractor} if options.normalise else {}),
    )
    cloning = bc.BC(
        observation_space=venv.observation_space,
        action_space=venv.action_space,
        rng=rng,
        policy=policy,
        batch_size=options.batch,
        # Its optimiser does not read the policy's schedule.
        optimizer_kwargs={"lr": options.lr},
    )
    curve, apart, cpu_apart = [], 0.0, 0.0
    with tempfile.TemporaryDirectory() as folder:
        trainer = SimpleDAggerTrainer(
            venv=venv,
            scratch_dir=folder,
            expert_policy=expert,
            bc_trainer=cloning,
            rng=rng,
            beta_schedule=BETAS[options.beta],
        )
        while expert.queries < options.limit:
            # One step more than none is one round, whose size the other arguments say.
            trainer.train(
                1,
                rollout_round_min_timesteps=options.steps,
                rollout_round_min_episodes=options.round_episodes,
                bc_train_kwargs={
                    "log_rollouts_venv": None,
                    "progress_bar": False,
                    "log_interval": 10**9,
                    "n_epochs": options.epochs,
                },
            )
            paused, cpu_paused = time.perf_counter(), time.process_time()
            value = evaluate(trainer.policy, options.env, options.judge)
            print(f"{expert.queries} queries: {value:.0f}", file=sys.stderr, flush=True)
            curve.append([expert.queries, value, paused - began - apart, cpu_paused - cpu_began - cpu_apart])
            apart += time.perf_counter() - paused
            cpu_apart += time.process_time() - cpu_paused
            if value >= options.share * theirs or curve[-1][2] > options.seconds:
                break
        kept = evaluate(trainer.policy, options.env, options.fresh)
    print(json.dumps({"expert": theirs, "curve": curve, "kept": kept, "kept_expert": theirs_fresh}))


if __name__ == "__main__":
    main()
