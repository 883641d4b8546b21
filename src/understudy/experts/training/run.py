"""Training experts with SBX (SAC, TD3, PPO, DQN in JAX), to weights and a card that `resolve` reads.

What is evaluated, kept and written is the NumPy network that will be loaded later, not SBX's own model, so
the return on the card is that of the file. The best network so far is on disk after every evaluation that
improves.
"""

from __future__ import annotations

import contextlib
import dataclasses
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np

from ...envs.gymnasium import Maker, derive, maker
from ...errors import MissingExtra, UserError
from ...policies import TrainedPolicy
from .. import networks
from ..base import Expert
from .recipes import recipe


class Evaluated(NamedTuple):
    """One look at the policy under way: after how many steps and seconds, its mean return and spread."""

    steps: int
    seconds: float
    mean: float
    std: float


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
    try:
        import sbx  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise MissingExtra("expert train", "train") from None
    return sbx


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
    from . import algorithms, checkpoint

    make = maker(env, env_kwargs)
    algo = algo or algorithms.usual(make)
    chosen = recipe(algo, make.name, {**(settings or {}), **({} if steps is None else {"steps": steps})})
    total, every = chosen["steps"], _every(evaluate_every, chosen["steps"])
    for name, value in (("seed", seed), ("episodes", episodes - 1)):
        if type(value) is not int or value < 0:
            raise UserError(f"{name}: a whole number ≥ {0 if name == 'seed' else 1} is needed.")
    name = f"{algo}-{make.name.replace('/', '-').replace(':', '-')}"
    path = Path(out) if out is not None else Path("experts", f"{name}.safetensors")
    path = path.with_name(f"{path.name.removesuffix('.safetensors')}.safetensors")
    checkpoint.refuse_taken(path, resume)
    with _random_state_kept(), _first_interrupt() as stopped:
        model = algorithms.build(algo, chosen, make, seed)
        run = _Run(model, algo, make, chosen, seed, episodes, path, dict(env_kwargs or {}), name)
        if resume:
            run.restore(checkpoint)
        ended = "stopped"

        def step(_locals: Any, _globals: Any) -> bool:
            nonlocal ended
            if progress is not None:
                progress(model.num_timesteps, total, run.curve)
            if model.num_timesteps >= run.next_look:
                run.look(every)
                if target is not None and run.curve[-1].mean >= target:
                    ended = "target"
                    return False
                if not stopped and run.overdue():
                    checkpoint.write(path, model, run.record())
            return not stopped

        run.next_look = (model.num_timesteps // every + 1) * every
        done = model.num_timesteps
        if done < total:
            model.learn(total - done, callback=step, reset_num_timesteps=done == 0)
        if ended != "target" and not stopped:
            ended = "steps"
        if ended != "stopped" and (not run.curve or run.curve[-1].steps < total):
            run.look(every)
        if ended == "stopped":
            if not run.curve:
                run.look(every, episodes=1)
            checkpoint.write(path, model, run.record())
        else:
            run.finish()
            checkpoint.remove(path)
        model.env.close()
    return Trained(networks.load(path), path, run.curve, ended)


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


class _Run:
    """The part of a training run that is not SBX's: the curve, the best network and its card."""

    def __init__(self, model, algo, make, chosen, seed, episodes, path, env_kwargs, name):
        self.model, self.algo, self.make, self.chosen = model, algo, make, chosen
        self.seed, self.episodes, self.path, self.env_kwargs = seed, episodes, path, env_kwargs
        self.name = name
        self.curve: list[Evaluated] = []
        self.best: Evaluated | None = None
        self.began, self.before, self.written = time.perf_counter(), 0.0, time.perf_counter()
        self.next_look = 0

    def seconds(self) -> float:
        return self.before + time.perf_counter() - self.began

    def overdue(self) -> bool:
        """Whether the checkpoint, which may be large, is five minutes old; then it counts as new again."""
        late = time.perf_counter() - self.written > 300
        if late:
            self.written = time.perf_counter()
        return late

    def look(self, every: int, *, episodes: int | None = None) -> None:
        """Evaluates the network as it is now and, if it is the best yet, writes it."""
        from . import algorithms

        done, took = self.model.num_timesteps, self.seconds()
        policy, card = algorithms.extract(self.model, self.algo, self.make)
        expert = networks.of(policy, card)
        returns = play(
            expert, self.make, episodes=episodes or self.episodes, seed=self.seed, number=len(self.curve)
        )
        self.curve.append(Evaluated(done, took, float(returns.mean()), float(returns.std())))
        self.next_look = (done // every + 1) * every
        if self.best is None or self.curve[-1].mean > self.best.mean:
            self.best = self.curve[-1]
            networks.save(self.path, policy, {**card, **self._about(returns, "while training")})

    def finish(self) -> None:
        """Measures the best network over 20 fresh episodes, since the best of many looks flatters itself."""
        policy, card = TrainedPolicy.read(self.path, "expert")
        card = {name: card[name] for name in ("algorithm", "kind")}
        returns = play(networks.of(policy, card), self.make, episodes=20, seed=self.seed, number=1_000_000)
        networks.save(self.path, policy, {**card, **self._about(returns, "after training, fresh episodes")})

    def _about(self, returns: np.ndarray, when: str) -> dict[str, Any]:
        from . import algorithms

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
            f"{self.best.seconds / 60:.1f} minutes, {algorithms.software()}.",
            "training": {
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

    def restore(self, checkpoint: Any) -> None:
        kept = checkpoint.read(self.path, self.model, self.record())
        self.curve = [Evaluated(int(row[0]), *row[1:]) for row in kept["curve"]]
        # What is on disk may be better than anything the checkpoint, which is older, has seen.
        card = networks.load(self.path).card
        looks = [*self.curve, *(Evaluated(*row) for row in card["training"]["curve"])]
        self.best = max(looks, key=lambda one: one.mean, default=None)
        self.before, self.began = float(kept["seconds"]), time.perf_counter()


def _every(given: int | None, total: int) -> int:
    if given is None:
        return max(1, min(10_000, total // 10))
    if type(given) is not int or given < 1:
        raise UserError(f"evaluate_every: {given!r} is not a whole number ≥ 1.")
    return given


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
