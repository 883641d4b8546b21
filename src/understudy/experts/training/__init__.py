"""Training experts with SBX (SAC, TD3, PPO, DQN in JAX), to weights and a card that `resolve` reads.

What is evaluated, kept and written is the NumPy network that will be loaded later, not SBX's own model, so
the return on the card is that of the file. The best network so far is on disk after every evaluation that
improves. `models` makes SBX's models and keeps what resuming needs; how they are trained is in `RECIPES`.

The recipe for SAC is the one that made the shipped experts: a critic that learns three times as fast as the
actor, and a temperature that starts at 0.2 and adapts fast. Starting it at 1 with everything at 3e-4 was seen
to fail on Hopper.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import random
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np

from ...envs.gymnasium import Maker, derive, maker
from ...errors import UserError, check_int, check_name, damaged, import_extra
from ...policies import TrainedPolicy
from ...policies.trained import place
from .. import Expert, networks
from . import models

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
    check_name("algo", algo, RECIPES)
    base = RECIPES[algo]
    family = re.sub(r"-v\d+$", "", env_id).rpartition(":")[2]
    given = (changes or {}).items()
    changes = {key: value.tolist() if hasattr(value, "tolist") else value for key, value in given}  # of NumPy
    for key, value in changes.items():
        check_name(f"settings of {algo}", key, base)
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


__all__ = ["Evaluated", "Trained", "require_sbx", "train"]


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
        policy, card = models.extract(self.model, self.algo, self.make)
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
            f"{models.software()}.",
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
        kept = models.read(self.path, self.model, self.record())
        self.curve = [Evaluated(int(row[0]), *row[1:]) for row in kept["curve"]]
        # What is on disk may be better than anything the checkpoint, which is older, has seen.
        with damaged(f"resume: the card beside {self.path}"):
            rows = networks.load(self.path).card["training"]["curve"]
            looks = [*self.curve, *(Evaluated(*row) for row in rows)]
            # A mean that is no number is null in JSON.
            known = [one for one in looks if one.mean is not None and not math.isnan(one.mean)]
            self.best = max(known, key=lambda one: one.mean, default=None)
        self.began = time.perf_counter() - float(kept["seconds"])


@final
@dataclasses.dataclass(frozen=True)
class Trained:
    """What a training run leaves: the expert, its file, the curve, and why it ended.

    `ended` is "steps" (all were made), "target" (the return asked for was reached) or "stopped" (by Ctrl-C).
    """

    expert: Expert
    path: Path
    curve: list[Evaluated]
    ended: str


def require_sbx() -> Any:
    """SBX, or one sentence that says how to get it."""
    return import_extra("sbx", "expert train", "train")


def train(
    env: str,
    *,
    algo: str | None = None,
    out: str | Path | None = None,
    steps: int | None = None,
    seed: int = 0,
    episodes: int = 5,
    evaluate_every: int | None = None,
    target: float | None = None,
    settings: Mapping[str, Any] | None = None,
    env_kwargs: Mapping[str, Any] | None = None,
    resume: bool = False,
    progress: Callable[[int, int, list[Evaluated]], None] | None = None,
) -> Trained:
    """Trains an expert for `env` and writes it to `out` (default: experts/ALGO-ENV.safetensors).

    `algo`: sac, td3, ppo or dqn; by default sac for continuous actions and ppo for choices. `settings`
    replace entries of the recipe. After every `evaluate_every` steps `episodes` episodes are played without
    exploration; the best network is kept, and measured again over 20 fresh episodes at the end. `target`:
    stop once an evaluation's mean return is at least this. Ctrl-C stops at the next step and keeps the best
    so far, with a checkpoint from which `resume=True` goes on. `progress(steps, total, curve)` is called at
    every step.

    Observations must be vectors (Box) and actions Box with finite bounds or Discrete.
    """
    require_sbx()
    make = maker(env, env_kwargs)
    algo = algo or models.usual(make)
    chosen = recipe(algo, make.name, {**(settings or {}), **({} if steps is None else {"steps": steps})})
    total = chosen["steps"]
    every = max(1, min(10_000, total // 10)) if evaluate_every is None else evaluate_every
    check_int("evaluate_every", every)
    check_int("seed", seed, 0)
    check_int("episodes", episodes)
    name = f"{algo}-{make.name.replace('/', '-').replace(':', '-')}"
    path = place(Path("experts", f"{name}.safetensors") if out is None else out)
    models.refuse_taken(path, resume)
    with _random_state_kept(), _first_interrupt() as stopped:
        model = models.build(algo, chosen, make, seed)
        looks = Looks(model, algo, make, chosen, seed, episodes, path, dict(env_kwargs or {}), name)
        if resume:
            looks.restore()
        ended, done = "stopped", model.num_timesteps
        next_look = (done // every + 1) * every

        def step(_locals: Any, _globals: Any) -> bool:
            nonlocal ended, next_look
            if progress is not None:
                progress(model.num_timesteps, total, looks.curve)
            if model.num_timesteps >= next_look:
                looks.look()
                next_look = (model.num_timesteps // every + 1) * every
                if target is not None and looks.curve[-1].mean >= target:
                    ended = "target"
                    return False
                if not stopped and looks.overdue():
                    models.write(path, model, looks.record())
            return not stopped

        if done < total:
            model.learn(total - done, callback=step, reset_num_timesteps=done == 0)
        if ended != "target" and not stopped:
            ended = "steps"
        if ended == "steps" and (not looks.curve or looks.curve[-1].steps < total):
            looks.look()
        if ended == "stopped":
            if not looks.curve:
                looks.look(episodes=1)
            models.write(path, model, looks.record())
        else:
            looks.finish()
            models.remove(path)
        model.env.close()
    return Trained(networks.load(path), path, looks.curve, ended)


@contextlib.contextmanager
def _random_state_kept() -> Iterator[None]:
    """SBX draws from NumPy's and Python's global generators; their owner gets them back as they were."""
    numpy_state, python_state = np.random.get_state(), random.getstate()  # noqa: NPY002
    try:
        yield
    finally:
        np.random.set_state(numpy_state)  # noqa: NPY002
        random.setstate(python_state)


@contextlib.contextmanager
def _first_interrupt() -> Iterator[list[int]]:
    """A list that the first Ctrl-C fills; the second one interrupts as usual."""
    stopped: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield stopped
        return
    usual = signal.getsignal(signal.SIGINT)

    def heard(number: int, _frame: Any) -> None:
        stopped.append(number)
        signal.signal(signal.SIGINT, usual)

    signal.signal(signal.SIGINT, heard)
    try:
        yield stopped
    finally:
        signal.signal(signal.SIGINT, usual)
