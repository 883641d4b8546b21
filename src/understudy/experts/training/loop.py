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
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, final

import numpy as np

from ...envs.gymnasium import maker
from ...errors import needs, whole
from ...policies.trained import place
from .. import Expert, networks
from . import algorithms, checkpoint
from .looks import Evaluated, Looks
from .recipes import recipe


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
    return needs("sbx", "expert train", "train")


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
    algo = algo or algorithms.usual(make)
    chosen = recipe(algo, make.name, {**(settings or {}), **({} if steps is None else {"steps": steps})})
    total = chosen["steps"]
    every = max(1, min(10_000, total // 10)) if evaluate_every is None else evaluate_every
    whole("evaluate_every", every)
    whole("seed", seed, 0)
    whole("episodes", episodes)
    name = f"{algo}-{make.name.replace('/', '-').replace(':', '-')}"
    path = place(Path("experts", f"{name}.safetensors") if out is None else out)
    checkpoint.refuse_taken(path, resume)
    with _random_state_kept(), _first_interrupt() as stopped:
        model = algorithms.build(algo, chosen, make, seed)
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
                    checkpoint.write(path, model, looks.record())
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
            checkpoint.write(path, model, looks.record())
        else:
            looks.finish()
            checkpoint.remove(path)
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
