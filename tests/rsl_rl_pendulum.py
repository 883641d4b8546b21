"""Pendulums that are swung up, many at a time, in the shape of rsl_rl's vectorised environments.

All begin at the bottom, and a rollout is a small part of an episode: each shows one phase of it only. The
teacher knows the state; the student sees the angle as a point on the circle, and the speed.
"""

from __future__ import annotations

import math

import torch
from rsl_rl.env import VecEnv
from tensordict import TensorDict
from torch import nn

STEP, PUSH = 0.05, 2.0


class Pendulums(VecEnv):
    """Angle 0 is upright; one action in [−1, 1]; the reward is cos(angle)."""

    num_actions = 1

    def __init__(self, num_envs: int, length: int = 200, seed: int = 0, tasks: int = 1):
        self.num_envs, self.max_episode_length, self.device = num_envs, length, "cpu"
        self.cfg = {}
        self._generator = torch.Generator().manual_seed(seed)
        self.episode_length_buf = torch.zeros(num_envs, dtype=torch.long)
        self.angle, self.speed = torch.zeros(num_envs), torch.zeros(num_envs)
        self.task = (torch.arange(num_envs) % tasks).float()
        self._begin(torch.ones(num_envs, dtype=torch.bool))

    def _begin(self, which: torch.Tensor) -> None:
        noise = torch.rand(2, self.num_envs, generator=self._generator) - 0.5
        self.angle[which], self.speed[which] = (math.pi + noise[0])[which], noise[1][which]
        self.episode_length_buf[which] = 0

    def get_observations(self) -> TensorDict:
        point = torch.stack([self.angle.cos(), self.angle.sin(), self.speed / 4], dim=1)
        state = torch.stack([self.angle, self.speed], dim=1)
        groups = {"student": point, "teacher": state, "task": self.task[:, None]}
        return TensorDict({name: value.clone() for name, value in groups.items()}, batch_size=[self.num_envs])

    def step(self, actions: torch.Tensor) -> tuple[TensorDict, torch.Tensor, torch.Tensor, dict]:
        push = actions.reshape(-1).clamp(-1, 1) * torch.where(self.task > 0, -1.0, 1.0)
        self.speed += STEP * (9.81 * self.angle.sin() + PUSH * 3 * push)
        self.speed.clamp_(-8, 8)
        self.angle += STEP * self.speed
        self.episode_length_buf += 1
        rewards = self.angle.cos().clone()
        over = self.episode_length_buf >= self.max_episode_length
        self._begin(over)
        return self.get_observations(), rewards, over, {"time_outs": over}


class Swinger(nn.Module):
    """Pumps energy until the pendulum is upright, and holds it there. sign: −1 where pushes are reversed."""

    is_recurrent, distribution = False, None

    def __init__(self, obs, obs_groups, obs_set, output_dim, sign: float = 1.0):
        super().__init__()
        self.sign = nn.Parameter(torch.tensor(sign), requires_grad=False)

    def forward(self, obs, **_):
        angle, speed = obs["teacher"].unbind(dim=1)
        near = torch.remainder(angle + math.pi, 2 * math.pi) - math.pi
        energy = 0.5 * speed**2 + 9.81 * (near.cos() - 1)
        pump = torch.tanh(-2 * energy * torch.where(speed.abs() < 0.05, 0.05, speed))
        hold = (-6 * near - 2 * speed).clamp(-1, 1)
        upright = ((near.abs() < 0.4) & (speed.abs() < 1.5)).float()
        return (self.sign * (upright * hold + (1 - upright) * pump))[:, None]

    def reset(self, dones=None, hidden_state=None): ...

    def get_hidden_state(self): ...

    def detach_hidden_state(self, dones=None): ...


@torch.no_grad()
def score(policy: nn.Module, seed: int = 99, num_envs: int = 64, tasks: int = 1) -> float:
    """The mean reward of a step over whole episodes that no run has seen."""
    env = Pendulums(num_envs, seed=seed, tasks=tasks)
    obs, total = env.get_observations(), 0.0
    policy.reset()
    for _ in range(env.max_episode_length):
        obs, rewards, over, _ = env.step(policy(obs))
        policy.reset(over)
        total += float(rewards.mean())
    return total / env.max_episode_length


class Doubtful(Swinger):
    """A teacher with a distribution: the swinger's action, with a fixed deviation."""

    distribution = "normal"

    def forward(self, obs, **_):
        self.output_mean = super().forward(obs)
        return self.output_mean

    @property
    def output_distribution_params(self):
        return self.output_mean, torch.full_like(self.output_mean, 0.3)
