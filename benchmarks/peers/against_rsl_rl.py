"""rsl_rl's `Distillation` beside ours inside its runner: equal environment steps, gradient steps and batches.

    make bench-rsl-rl

The task is that of the tests (`tests/rsl_rl_pendulum.py`): pendulums that are swung up, all begun together,
in rollouts of 8 of an episode's 200 steps. A score is the mean reward of a step over 64 whole episodes that
no run has seen, the same for all. Seconds are of one thread, collecting included.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))
from rsl_rl.runners import DistillationRunner

from rsl_rl_pendulum import Pendulums, Swinger, score

SERIES = {
    "rsl_rl": {"class_name": "Distillation"},
    "ours": {"class_name": "understudy.rsl_rl:Distillation"},
    "ours, memory of one rollout": {"class_name": "understudy.rsl_rl:Distillation", "memory": "window:1"},
    "ours, staggered": {"class_name": "understudy.rsl_rl:Distillation", "stagger": True},
    "ours, staggered, β linear:20": {
        "class_name": "understudy.rsl_rl:Distillation",
        "stagger": True,
        "beta": "linear:20",
    },
}


def learnt(series: str, updates: int, seed: int, envs: int) -> tuple[float, float]:
    """Score and seconds of a run."""
    torch.manual_seed(seed)
    noise = {"class_name": "GaussianDistribution", "init_std": 0.1}
    fit = {"num_learning_epochs": 5, "gradient_length": 4, "learning_rate": 1e-3}
    config = {
        "num_steps_per_env": 8,
        "save_interval": 10**9,
        "obs_groups": {"student": ["student"], "teacher": ["teacher"]},
        "algorithm": fit | SERIES[series],
        "student": {"class_name": "MLPModel", "hidden_dims": [32, 32], "distribution_cfg": noise},
        "teacher": {"class_name": Swinger},
    }
    began = time.perf_counter()
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runner = DistillationRunner(Pendulums(envs, seed=seed), config)
        runner.alg.teacher_loaded = True
        runner.learn(updates)
    return score(runner.alg.get_policy()), time.perf_counter() - began


def main() -> None:
    reader = argparse.ArgumentParser()
    reader.add_argument("--updates", type=int, nargs="*", default=[50, 100])
    reader.add_argument("--seeds", type=int, nargs="*", default=[101, 102, 103, 104, 105])
    reader.add_argument("--envs", type=int, default=32)
    asked = reader.parse_args()
    torch.set_num_threads(1)
    teacher = score(Swinger(None, None, None, 1))
    print(f"teacher {teacher:.2f}; {asked.envs} environments, seeds {asked.seeds}\n")
    print("| updates | series | score, median (least to most) | seconds, median |\n|---|---|---|---|")
    for updates in asked.updates:
        for series in SERIES:
            runs = [learnt(series, updates, seed, asked.envs) for seed in asked.seeds]
            scores, seconds = zip(*runs, strict=True)
            spread = f"{np.median(scores):.2f} ({min(scores):.2f} to {max(scores):.2f})"
            print(f"| {updates} | {series} | {spread} | {np.median(seconds):.1f} |", flush=True)


if __name__ == "__main__":
    main()
