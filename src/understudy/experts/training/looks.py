"""Looking at an expert while it is trained: evaluations, the best network so far, and its card."""

from __future__ import annotations

import math
import time
from typing import Any, NamedTuple

import numpy as np

from ...envs.gymnasium import Maker, derive
from ...errors import damaged
from ...policies import TrainedPolicy
from .. import Expert, networks
from . import algorithms, checkpoint


class Evaluated(NamedTuple):
    """One look at the policy under way: after how many steps and seconds, its mean return and spread."""

    steps: int
    seconds: float
    mean: float
    std: float


def play(expert: Expert, make: Maker, *, episodes: int, seed: int, number: int) -> np.ndarray:
    """Returns (episodes,) of an expert in episodes of their own, all under way side by side."""
    envs = [make() for _ in range(episodes)]
    seen = [env.reset(seed=derive(seed, "evaluate", number, i))[0] for i, env in enumerate(envs)]
    returns, alive = np.zeros(episodes), list(range(episodes))
    while alive:
        actions = expert.act(np.stack([seen[i] for i in alive]))
        going = []
        for i, action in zip(alive, actions):
            seen[i], reward, terminated, truncated, _ = envs[i].step(action)
            returns[i] += float(reward)
            if not (terminated or truncated):
                going.append(i)
        alive = going
    for env in envs:
        env.close()
    return returns


class Looks:
    """The evaluations of a policy while it is trained: the curve, the best network, its file and its card."""

    def __init__(self, model, algo, make, chosen, seed, episodes, path, env_kwargs, name):
        self.model, self.algo, self.make, self.chosen = model, algo, make, chosen
        self.seed, self.episodes, self.path, self.env_kwargs = seed, episodes, path, env_kwargs
        self.name = name
        self.curve: list[Evaluated] = []
        self.best: Evaluated | None = None
        self.began = self.written = time.perf_counter()

    def seconds(self) -> float:
        return time.perf_counter() - self.began

    def overdue(self) -> bool:
        """Whether the checkpoint, which may be large, is five minutes old; then it counts as new again."""
        late = time.perf_counter() - self.written > 300
        if late:
            self.written = time.perf_counter()
        return late

    def look(self, episodes: int | None = None) -> None:
        """Evaluates the network as it is now and, if it is the best yet, writes it."""
        done, took = self.model.num_timesteps, self.seconds()
        policy, card = algorithms.extract(self.model, self.algo, self.make)
        expert = networks.of(policy, card)
        returns = play(
            expert, self.make, episodes=episodes or self.episodes, seed=self.seed, number=len(self.curve)
        )
        self.curve.append(Evaluated(done, took, float(returns.mean()), float(returns.std())))
        if self.best is None or math.isnan(self.best.mean) or self.curve[-1].mean > self.best.mean:
            self.best = self.curve[-1]
            networks.save(self.path, policy, {**card, **self._about(returns, "while training")})

    def finish(self) -> None:
        """Measures the best network over 20 fresh episodes; the highest of many means is no fair estimate."""
        policy, card = TrainedPolicy.read(self.path, "expert")
        card = {name: card[name] for name in ("algorithm", "kind")}
        returns = play(networks.of(policy, card), self.make, episodes=20, seed=self.seed, number=1_000_000)
        networks.save(self.path, policy, {**card, **self._about(returns, "after training, fresh episodes")})

    def _about(self, returns: np.ndarray, when: str) -> dict[str, Any]:
        assert self.best is not None
        kept = {"mean": round(float(returns.mean()), 1), "std": round(float(returns.std()), 1)}
        measured = {**kept, "lowest": round(float(returns.min()), 1), "episodes": len(returns)}
        settings = f"made with {self.env_kwargs}" if self.env_kwargs else "Gymnasium defaults"
        return {
            "name": self.name,
            "environments": [self.make.name],
            "settings": f"{settings}; plays without exploration.",
            "returns": {self.make.name: {**measured, "policy": "deterministic", "measured": when}},
            "made": f"{self.best.steps:,} of {self.chosen['steps']:,} environment steps, seed {self.seed}, "
            f"{algorithms.software()}.",
            "training": {  # what took how long is here alone: the rest is the same for the same seed
                "recipe": self.chosen,
                "seed": self.seed,
                "curve": [[one.steps, *(round(x, 1) for x in one[1:])] for one in self.curve],
            },
        }

    def record(self) -> dict[str, Any]:
        """What a checkpoint has to say besides the arrays."""
        return {
            "algo": self.algo,
            "env": self.make.name,
            "env_kwargs": self.env_kwargs,
            "recipe": {**self.chosen, "steps": 0},
            "seed": self.seed,
            "seconds": self.seconds(),
            "curve": [list(one) for one in self.curve],
        }

    def restore(self) -> None:
        """Puts the checkpoint into the model, and goes on with its curve."""
        kept = checkpoint.read(self.path, self.model, self.record())
        self.curve = [Evaluated(int(row[0]), *row[1:]) for row in kept["curve"]]
        # What is on disk may be better than anything the checkpoint, which is older, has seen.
        with damaged(f"resume: the card beside {self.path}"):
            rows = networks.load(self.path).card["training"]["curve"]
            looks = [*self.curve, *(Evaluated(*row) for row in rows)]
            # A mean that is no number is null in JSON.
            known = [one for one in looks if one.mean is not None and not math.isnan(one.mean)]
            self.best = max(known, key=lambda one: one.mean, default=None)
        self.began = time.perf_counter() - float(kept["seconds"])
