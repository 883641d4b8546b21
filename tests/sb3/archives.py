"""Makes the small Stable-Baselines3 archives of tests/fixtures/sb3, with SB3's own predictions for each.

Run with torch and stable-baselines3 installed: python tests/sb3/archives.py [FOLDER]. The same function
makes fresh archives for the tests that compare against the installed SB3.
"""

from __future__ import annotations

import sys
import types
import warnings
from pathlib import Path
from unittest import mock

import gymnasium
import numpy as np
import stable_baselines3 as sb3
import torch
from gymnasium import spaces
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize


class Blank(gymnasium.Env):
    """An environment with the given spaces in which nothing happens: archives need spaces, not tasks."""

    def __init__(self, observation_space, action_space):
        self.observation_space, self.action_space = observation_space, action_space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        return self.observation_space.sample(), 0.0, False, False, {}


UNEVEN = spaces.Box(np.array([-1.0, 0.0], np.float32), np.array([3.0, 0.5], np.float32))
IMAGE = spaces.Box(0, 255, (3, 36, 36), np.uint8)
VECTOR = spaces.Box(-np.inf, np.inf, (5,))
SMALL = {"net_arch": [8, 8]}


def _left(left: float) -> float:
    return left


# A learning rate that SB3 has to pickle with its code. A copy, because code and module tell their folder.
schedule = types.FunctionType(_left.__code__.replace(co_filename="archives.py"), {"__name__": "__main__"})

# name: algorithm, policy, observation space, action space, policy_kwargs, other keywords
CASES = {
    "ppo-discrete": (
        sb3.PPO,
        "MlpPolicy",
        VECTOR,
        spaces.Discrete(3),
        SMALL,
        {"learning_rate": schedule},
    ),
    "ppo-separate": (
        sb3.PPO,
        "MlpPolicy",
        VECTOR,
        UNEVEN,
        {"net_arch": {"pi": [8, 6, 4], "vf": [5]}, "activation_fn": torch.nn.ELU},
        {},
    ),
    "ppo-multi": (sb3.PPO, "MlpPolicy", spaces.Discrete(7), spaces.MultiDiscrete([2, 3]), SMALL, {}),
    "ppo-squash": (sb3.PPO, "MlpPolicy", VECTOR, UNEVEN, {**SMALL, "squash_output": True}, {"use_sde": True}),
    "ppo-cnn": (
        sb3.PPO,
        "CnnPolicy",
        IMAGE,
        spaces.Discrete(4),
        {"features_extractor_kwargs": {"features_dim": 16}},
        {},
    ),
    "a2c-box": (sb3.A2C, "MlpPolicy", VECTOR, UNEVEN, SMALL, {}),
    "sac-box": (sb3.SAC, "MlpPolicy", VECTOR, UNEVEN, SMALL, {"buffer_size": 10}),
    "sac-sde": (sb3.SAC, "MlpPolicy", VECTOR, UNEVEN, SMALL, {"buffer_size": 10, "use_sde": True}),
    "td3-box": (sb3.TD3, "MlpPolicy", VECTOR, UNEVEN, {"net_arch": [8, 6]}, {"buffer_size": 10}),
    "dqn-discrete": (sb3.DQN, "MlpPolicy", VECTOR, spaces.Discrete(3), SMALL, {"buffer_size": 10}),
    "ppo-normalised": (sb3.PPO, "MlpPolicy", VECTOR, UNEVEN, SMALL, {}),
}


def make(folder: Path, cases=CASES, samples: int = 24) -> None:
    """Writes NAME.zip, NAME.npz (observations, actions, probabilities) and, for the normalised, NAME.pkl."""
    for number, (name, (algorithm, policy, seen, action, policy_kwargs, other)) in enumerate(cases.items()):
        torch.manual_seed(number)
        seen.seed(number)
        rng = np.random.default_rng(number)
        env = DummyVecEnv([lambda seen=seen, action=action: Blank(seen, action)])
        if name.endswith("normalised"):
            env = VecNormalize(env, clip_obs=1.5)
            env.obs_rms.mean, env.obs_rms.var = rng.standard_normal(5), rng.uniform(0.2, 3, 5)
            env.save(str(folder / f"{name}.pkl"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = algorithm(
                policy, env, policy_kwargs=dict(policy_kwargs), device="cpu", seed=number, **other
            )
        with torch.no_grad():  # the first weights are nearly zero at the output: any mistake would pass
            for parameter in model.policy.parameters():
                scale = 0.3 if parameter.ndim == 1 else parameter[0].numel() ** -0.5
                parameter.add_(scale * torch.randn_like(parameter) * (1.5 if "sde" in name else 1))
        with mock.patch("platform.platform", lambda: "any"), mock.patch("platform.version", lambda: ""):
            model.save(folder / name)  # archives tell about the machine, which has no place here
        observations = np.stack([seen.sample() for _ in range(samples)])
        shown = env.normalize_obs(observations) if isinstance(env, VecNormalize) else observations
        arrays = {"observations": observations, "actions": model.predict(shown, deterministic=True)[0]}
        if isinstance(action, spaces.Discrete) and algorithm is not sb3.DQN:
            tensor, _ = model.policy.obs_to_tensor(shown)
            with torch.no_grad():
                arrays["probabilities"] = model.policy.get_distribution(tensor).distribution.probs.numpy()
        np.savez_compressed(folder / f"{name}.npz", **arrays)


if __name__ == "__main__":
    make(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1] / "fixtures" / "sb3")
