"""A student in PyTorch beside ours in JAX, and beside a plain loop in PyTorch.

    OMP_NUM_THREADS=1 python benchmarks/students.py                   # both parts, seeds 101 to 105
    OMP_NUM_THREADS=1 python benchmarks/students.py --part overhead --seeds 101

*Scores*: Hopper-v5 with a budget of 400 labels, one network of 128-128, everything else as `train` decides,
in JAX and in torch: the share of the expert's return that the kept policy has, in 30 episodes.
*Overhead*: DAgger for ten rounds of 1,000 steps, every state labelled, without evaluations: `Run` with a
torch student, and the loop below, which is what somebody would write who needs nothing else. CPU seconds of
the process, imports apart, compiling included, one after the other with each seed.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from pathlib import Path

import gymnasium as gym
import numpy as np
import seeds
import torch
from safetensors.numpy import load_file
from torch import nn

import understudy
from understudy import intervals

ENV, WIDTH, ROUNDS, STEPS, TRAINING, BATCH, RATE = "Hopper-v5", 128, 10, 1000, 1000, 256, 1e-3


def network() -> nn.Module:
    """The student: 128-128, ReLU, and a tanh for actions between −1 and 1."""
    inner = nn.Linear(11, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU()
    return nn.Sequential(*inner, nn.Linear(WIDTH, 3), nn.Tanh())


def shipped() -> nn.Module:
    """The expert that comes with the package, as a module."""
    place = Path(understudy.__file__).parent / "experts" / "weights" / "sac-Hopper-v5.safetensors"
    held, layers = load_file(place), []
    for key in sorted(key for key in held if key.endswith("weight")):
        weight, bias = held[key], held[key.replace("weight", "bias")]
        layers += [nn.Linear(*weight.shape), nn.ReLU()]
        layers[-2].load_state_dict({"weight": torch.tensor(weight.T), "bias": torch.tensor(bias)})
    return nn.Sequential(*layers[:-1], nn.Tanh())


def plain(seed: int) -> float:
    """DAgger in torch, with nothing else; the last round's loss."""
    torch.manual_seed(seed)
    env, student, expert = gym.make(ENV), network(), shipped()
    states, labels, mean, std = [], [], torch.zeros(11), torch.ones(11)
    observation, _ = env.reset(seed=seed)
    for t in range(ROUNDS):
        visited = []
        with torch.inference_mode():
            for _ in range(STEPS):
                row = torch.as_tensor(observation, dtype=torch.float32)
                visited.append(row)
                action = expert(row) if t == 0 else student((row - mean) / std)
                observation, _, terminated, truncated, _ = env.step(action.numpy())
                if terminated or truncated:
                    observation, _ = env.reset()
            new = torch.stack(visited)
            if t == 0:
                mean, std = new.mean(0), new.std(0)
            states.append((new - mean) / std)
            labels.append(expert(new))
            loss = ((student(states[-1]) - labels[-1]) ** 2).sum(1).mean().item()
        x, y = torch.cat(states), torch.cat(labels)
        adam = torch.optim.Adam(student.parameters(), lr=RATE)
        for k in range(TRAINING):
            adam.param_groups[0]["lr"] = RATE * (0.5 + 0.5 * math.cos(math.pi * k / TRAINING))
            index = torch.randint(len(x), (BATCH,))
            error = ((student(x[index]) - y[index]) ** 2).sum(1).mean()
            adam.zero_grad()
            error.backward()
            adam.step()
    return loss


def ours(seed: int) -> float:
    """The same as a `Run`, without evaluations."""
    run = understudy.imitate(
        ENV,
        policy=understudy.students.torch(network),
        loss="squared",
        seed=seed,
        rounds=ROUNDS,
        steps_per_round=STEPS,
        max_iterations=TRAINING,
        batch_size=BATCH,
        learning_rate=RATE,
        episodes=0,
        comparator="none",
    )
    return float(run.ledger["loss"][-1])


def seconds(job, seed: int) -> tuple[float, float]:
    """CPU seconds of a job, and the loss that it came to."""
    began = time.process_time()
    loss = job(seed)
    return time.process_time() - began, loss


def overhead(numbers: list[int]) -> None:
    print(f"overhead: {ENV}, {ROUNDS} × {STEPS} steps, CPU seconds")
    ratios = []
    for seed in numbers:
        (bare, theirs), (run, mine) = seconds(plain, seed), seconds(ours, seed)
        ratios.append(run / bare)
        told = f"plain loop {bare:.2f} s, Run {run:.2f} s, ratio {run / bare:.2f}"
        print(f"  seed {seed}: {told}; last loss {theirs:.4f}, {mine:.4f}", flush=True)
    print(f"  ratio: median {statistics.median(ratios):.2f}, {min(ratios):.2f} to {max(ratios):.2f}")


def scores(numbers: list[int]) -> None:
    print(f"scores: {ENV}, 400 labels, one network of {WIDTH}-{WIDTH}, share of the expert's return")
    found: dict[str, list[float]] = {"jax": [], "torch": []}
    for seed in numbers:
        for name in found:
            policy = "mlp" if name == "jax" else understudy.students.torch(network)
            wide = {"widths": (WIDTH, WIDTH)} if name == "jax" else {}
            run = understudy.imitate(ENV, policy=policy, budget=400, ensemble=1, seed=seed, **wide)
            found[name].append(run.evaluation.mean / run.expert_evaluation.mean)
        print(
            f"  seed {seed}: " + ", ".join(f"{name} {each[-1]:.3f}" for name, each in found.items()),
            flush=True,
        )
    gaps = np.subtract(found["torch"], found["jax"])
    for name, each in found.items():
        print(f"  {name}: mean {np.mean(each):.3f}, least {min(each):.3f}, most {max(each):.3f}")
    _, low, high, *_ = intervals.mean(gaps)
    print(f"  torch less jax, paired by seed: {gaps.mean():+.3f} [95 % interval {low:+.3f}, {high:+.3f}]")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--part", choices=["scores", "overhead", "both"], default="both")
    parser.add_argument("--seeds", type=int, nargs="+", default=[101, 102, 103, 104, 105])
    options = parser.parse_args()
    chosen = seeds.reporting(options.seeds)
    torch.set_num_threads(1)
    if options.part != "scores":
        overhead(chosen)
    if options.part != "overhead":
        scores(chosen)


if __name__ == "__main__":
    main()
