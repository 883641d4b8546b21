"""How experts are trained: settings per algorithm, and what some environments need instead.

The recipe for SAC is the one that made the shipped experts: a critic that learns three times as fast as the
actor, and a temperature that starts at 0.2 and adapts fast. Starting it at 1 with everything at 3e-4 was seen
to fail on Hopper.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ...errors import UserError, among

_OFF_POLICY: dict[str, Any] = {
    "steps": 300_000,
    "envs": 1,
    "widths": [256, 256],
    "learning_rate": 3e-4,
    "critic_learning_rate": 1e-3,
    "batch_size": 128,
    "gamma": 0.99,
    "tau": 0.005,
    "buffer_size": 1_000_000,
    "learning_starts": 5_000,
    # Updates are made in bursts of one compiled loop: Python is entered once a burst, not once an update.
    "update_every": 32,
    "updates_per_step": 1.0,
}

RECIPES: dict[str, dict[str, Any]] = {
    "sac": {**_OFF_POLICY, "temperature": 0.2, "temperature_learning_rate": 1e-3},
    "td3": {**_OFF_POLICY, "noise": 0.1},
    "ppo": {
        "steps": 1_000_000,
        "envs": 8,
        "widths": [64, 64],
        "learning_rate": 3e-4,
        "decay": True,
        "batch_size": 64,
        "gamma": 0.99,
        "gae_lambda": 0.95,
        "rollout": 256,
        "epochs": 10,
        "clip": 0.2,
        "entropy": 0.0,
        "standardise": True,
    },
    "dqn": {
        "steps": 100_000,
        "envs": 1,
        "learning_rate": 1e-3,
        "batch_size": 64,
        "gamma": 0.99,
        "buffer_size": 100_000,
        "learning_starts": 1_000,
        "update_every": 64,
        "updates_per_step": 0.5,
        "target_every": 256,
        "exploration": 0.2,
        "final_exploration": 0.04,
    },
}

# By the id without its version; what is not said here is as above.
FOR_ENVS: dict[tuple[str, str], dict[str, Any]] = {
    ("sac", "Pendulum"): {
        "steps": 15_000,
        "learning_starts": 1_000,
        "learning_rate": 1e-3,
        "widths": [64, 64],
    },
    ("sac", "MountainCarContinuous"): {"steps": 50_000, "gamma": 0.999, "update_every": 16},
    ("sac", "Hopper"): {"steps": 250_000},
    ("sac", "InvertedPendulum"): {"steps": 20_000, "learning_starts": 1_000},
    ("sac", "InvertedDoublePendulum"): {"steps": 40_000, "learning_starts": 1_000},
    ("sac", "Reacher"): {"steps": 100_000, "learning_starts": 1_000},
    ("sac", "Walker2d"): {"steps": 1_000_000, "batch_size": 256, "learning_starts": 10_000},
    ("sac", "HalfCheetah"): {"steps": 1_000_000, "batch_size": 256, "learning_starts": 10_000},
    ("sac", "Ant"): {"steps": 1_500_000, "batch_size": 256, "learning_starts": 10_000},
    ("sac", "Humanoid"): {"steps": 2_000_000, "batch_size": 256, "learning_starts": 10_000},
    ("td3", "Pendulum"): {"steps": 15_000, "learning_starts": 1_000, "widths": [64, 64]},
    ("ppo", "CartPole"): {
        "steps": 100_000,
        "rollout": 32,
        "batch_size": 256,
        "epochs": 20,
        "gamma": 0.98,
        "gae_lambda": 0.8,
        "learning_rate": 1e-3,
    },
    ("ppo", "Acrobot"): {"steps": 300_000, "envs": 16, "gae_lambda": 0.94},
    ("ppo", "Pendulum"): {"steps": 200_000, "gamma": 0.9, "learning_rate": 1e-3},
    ("dqn", "CartPole"): {"steps": 60_000},
}


def recipe(algo: str, env_id: str, changes: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The settings for an algorithm on an environment, with the user's changes; unknown ones are refused.

    >>> recipe("sac", "Hopper-v5", {"gamma": 0.98})["gamma"], recipe("sac", "Hopper-v5")["steps"]
    (0.98, 250000)
    """
    among("algo", algo, RECIPES)
    base = RECIPES[algo]
    family = re.sub(r"-v\d+$", "", env_id).rpartition(":")[2]
    given = (changes or {}).items()
    changes = {key: value.tolist() if hasattr(value, "tolist") else value for key, value in given}  # of NumPy
    for key, value in changes.items():
        among(f"settings of {algo}", key, base)
        _check(key, value, base[key])
    return {**base, **FOR_ENVS.get((algo, family), {}), **changes}


def _check(key: str, value: Any, like: Any) -> None:
    """Refuses a value of another kind than the recipe's own, or one that cannot be meant."""
    if isinstance(like, bool):
        good, wanted = isinstance(value, bool), "true or false"
    elif isinstance(like, list):
        whole = isinstance(value, list | tuple) and all(type(one) is int and one > 0 for one in value)
        good, wanted = whole and len(value) > 0, "a list of whole numbers ≥ 1"
    elif isinstance(like, int):
        least = 0 if key == "learning_starts" else 1
        good, wanted = type(value) is int and value >= least, f"a whole number ≥ {least}"
    else:
        least = 0.0 if key in ("entropy", "noise", "final_exploration") else 1e-12
        shares = ("gamma", "tau", "gae_lambda", "exploration", "final_exploration")
        upper = 1.0 if key in shares else 1e300
        good = type(value) in (int, float) and least <= value <= upper
        wanted = "a number in (0, 1]" if upper == 1.0 else "a positive number"
    if not good:
        raise UserError(f"settings: {key} = {value!r} is not {wanted}.")
