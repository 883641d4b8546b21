"""Training experts with SBX (SAC, TD3, PPO, DQN in JAX), to weights and a card that `resolve` reads.

What is evaluated, kept and written is the NumPy network that will be loaded later, not SBX's own model, so
the return on the card is that of the file. The best network so far is on disk after every evaluation that
improves. Settings are in `recipes.toml`.

A checkpoint is one npz of plain arrays beside the expert; no pickle is made or read. In it are the networks,
their optimisers, the random key, the replay buffer, the statistics of observations and the curve. Not in it
are the episode under way, which begins anew, and NumPy's generator, which draws minibatches. A resumed run is
therefore as good as an uninterrupted one, but not the same number by number.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeStubs=false, reportUnknownLambdaType=false
# pyright: reportPrivateUsage=false
# SBX and Stable-Baselines3 are extras, which may be absent where types are checked.

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import random
import re
import signal
import threading
import time
import tomllib
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, final

import jax
import numpy as np
from gymnasium import spaces

from .. import disk
from ..envs.gymnasium import Maker, derive, maker, raise_broken, vector
from ..errors import UserError, check_int, check_name, damaged, import_extra
from ..machine import versions
from ..policies import MLP, Actions, Normaliser, Observations, TrainedPolicy
from ..policies.trained import place
from . import Expert, networks

if TYPE_CHECKING:
    from ..disk import Json

_RECIPES = tomllib.loads(Path(__file__).with_name("recipes.toml").read_text("utf-8"))
Recipe: TypeAlias = dict[str, Any]
"""Settings of an algorithm: numbers, switches and lists of widths."""
Model: TypeAlias = Any
"""A model of SBX, which may be absent where types are checked."""
RECIPES: dict[str, Recipe] = _RECIPES["algorithms"]
FOR_ENVS: dict[str, dict[str, Recipe]] = _RECIPES["environments"]
CONTINUOUS, CHOICES = ("sac", "td3", "ppo"), ("ppo", "dqn")
CLIP = 10.0  # standardised observations are clipped there, as is usual for PPO


def recipe(algo: str, env_id: str, changes: Mapping[str, Any] | None = None) -> Recipe:
    """The settings for an algorithm on an environment, with the user's changes; unknown ones are refused.

    >>> recipe("sac", "Hopper-v5", {"gamma": 0.98})["gamma"], recipe("sac", "Hopper-v5")["steps"]
    (0.98, 250000)
    """
    check_name("algo", algo, RECIPES)
    base, family = RECIPES[algo], re.sub(r"-v\d+$", "", env_id).rpartition(":")[2]
    said = {k: v.tolist() if hasattr(v, "tolist") else v for k, v in (changes or {}).items()}
    for key, value in said.items():
        check_name(f"settings of {algo}", key, base)
        _check_setting(key, value, base[key])
    return {**base, **FOR_ENVS[algo].get(family, {}), **said}


def _check_setting(key: str, value: Any, usual: Json) -> None:
    """Refuses a value of another kind than the recipe's own, or one that cannot be meant."""
    if isinstance(usual, bool):
        good, wanted = isinstance(value, bool), "true or false"
    elif isinstance(usual, list):
        counts = list(value) if isinstance(value, list | tuple) else []
        good, wanted = all(type(n) is int and n > 0 for n in counts or [0]), "a list of whole numbers ≥ 1"
    elif isinstance(usual, int):
        least = 0 if key == "learning_starts" else 1
        good, wanted = type(value) is int and value >= least, f"a whole number ≥ {least}"
    else:
        least = 0.0 if key in ("entropy", "noise", "final_exploration") else 1e-12
        share = key in ("gamma", "tau", "gae_lambda", "exploration", "final_exploration")
        good = type(value) in (int, float) and least <= value <= (1.0 if share else 1e300)
        wanted = "a number in (0, 1]" if share else "a positive number"
    if not good:
        raise UserError(f"settings: {key} = {value!r} is not {wanted}.")


# SBX's models: made from a recipe, and turned into a policy with a card.

SAME = ("learning_rate", "batch_size", "gamma", "tau", "learning_starts", "gae_lambda")
RENAMED = {
    "rollout": "n_steps",
    "epochs": "n_epochs",
    "clip": "clip_range",
    "entropy": "ent_coef",
    "target_every": "target_update_interval",
    "exploration": "exploration_fraction",
    "final_exploration": "exploration_final_eps",
}
"""Settings that SBX has too: under the same name, and under another."""


def build(algo: str, chosen: Recipe, make: Maker, seed: int) -> Model:
    """A fresh model of SBX for an environment, seeded, with the recipe's settings."""
    import sbx  # pyright: ignore[reportMissingImports]
    from stable_baselines3.common.noise import NormalActionNoise  # pyright: ignore[reportMissingImports]
    from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor, VecNormalize  # pyright: ignore[reportMissingImports]

    _, action = _check_spaces(make)
    accepted = CONTINUOUS if isinstance(action, spaces.Box) else CHOICES
    if algo not in accepted:
        raise UserError(
            f"algo: {algo!r} does not train for the {type(action).__name__} actions of {make.name}; "
            f"accepted here: {', '.join(accepted)}."
        )
    venv = VecMonitor(DummyVecEnv([make for _ in range(chosen["envs"])]))
    if chosen.get("standardise"):
        venv = VecNormalize(venv, gamma=chosen["gamma"], clip_obs=CLIP)
    options: Recipe = {RENAMED.get(key, key): chosen[key] for key in (*SAME, *RENAMED) if key in chosen}
    options["seed"] = seed
    if "widths" in chosen:
        options["policy_kwargs"] = {"net_arch": list(chosen["widths"])}
    if "update_every" in chosen:
        options["buffer_size"] = min(chosen["buffer_size"], chosen["steps"])
        options["train_freq"] = (max(1, chosen["update_every"] // chosen["envs"]), "step")
        options["gradient_steps"] = max(1, round(chosen["update_every"] * chosen["updates_per_step"]))
    if "critic_learning_rate" in chosen:
        options["qf_learning_rate"] = float(chosen["critic_learning_rate"])
    if "noise" in chosen:
        size = Actions.of(action).outputs
        options["action_noise"] = NormalActionNoise(np.zeros(size), np.full(size, chosen["noise"]))
    if "temperature" in chosen:
        options["ent_coef"] = f"auto_{chosen['temperature']}"
    if chosen.get("decay"):
        options["learning_rate"] = lambda left: left * chosen["learning_rate"]
    model = getattr(sbx, algo.upper())("MlpPolicy", venv, **options)
    if "temperature" in chosen:  # SBX lets it learn at the actor's rate; ours has one of its own
        import optax
        from flax.training.train_state import TrainState  # pyright: ignore[reportMissingImports]

        old, adam = model.ent_coef_state, optax.adam(chosen["temperature_learning_rate"])
        model.ent_coef_state = TrainState.create(apply_fn=old.apply_fn, params=old.params, tx=adam)
    return model


def extract(model: Model, algo: str, make: Maker) -> tuple[TrainedPolicy, dict[str, Json]]:
    """The acting network of a model as a policy, and the part of the card that says how to play it."""
    seen, action = _check_spaces(make)
    state = model.policy.qf_state if algo == "dqn" else model.policy.actor_state
    layers = state.params["params"]
    # SAC has one layer more, for the standard deviation, which is left out.
    count = sum(name.startswith("Dense_") for name in layers) - (algo == "sac")
    dense = [layers[f"Dense_{i}"] for i in range(count)]
    params = [{"weight": np.asarray(each["kernel"]), "bias": np.asarray(each["bias"])} for each in dense]
    policy = MLP([layer["bias"].size for layer in params[:-1]], "tanh" if algo == "ppo" else "relu")
    if isinstance(action, spaces.Box) and algo != "ppo":
        policy = dataclasses.replace(policy, head="tanh", low=action.low, high=action.high)
    observations, statistics = Observations.of(seen), model.get_vec_normalize_env()
    normaliser = Normaliser.identity(observations.width)
    if statistics is not None:
        rms = statistics.obs_rms
        normaliser = Normaliser(rms.mean, np.sqrt(rms.var + statistics.epsilon), CLIP)
    soft = algo == "ppo" and isinstance(action, spaces.Discrete)
    card: dict[str, Json] = {"algorithm": algo.upper(), "kind": "distribution" if soft else "action"}
    return TrainedPolicy(policy, params, observations, Actions.of(action), normaliser), card


def _check_spaces(make: Maker) -> tuple[spaces.Box, spaces.Box | spaces.Discrete]:
    """The spaces of an environment that training can deal with, or a sentence."""
    with contextlib.closing(make()) as env:
        seen, action = env.observation_space, env.action_space
    if not isinstance(seen, spaces.Box) or len(seen.shape) != 1:
        raise UserError(
            f"env: {make.name} shows {seen}; experts are trained on vectors, a Box of one dimension "
            "(gymnasium.wrappers.FlattenObservation makes one)."
        )
    bounded = isinstance(action, spaces.Box) and len(action.shape) == 1 and action.is_bounded()
    if bounded or (isinstance(action, spaces.Discrete) and action.start == 0):
        return seen, action
    raise UserError(
        f"env: {make.name} takes {action}; experts are trained for Box actions of one dimension with "
        "finite bounds and for Discrete actions that start at 0."
    )


# The checkpoint.

STATES = ("actor_state", "qf_state", "vf_state")
BUFFER = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")


def checkpoint_of(path: Path) -> Path:
    """Where the checkpoint of the expert in `path` is."""
    return path.with_suffix(".resume.npz")


def trees(model: Model) -> dict[str, dict[str, Any]]:
    """All that a model learns and draws from, by its holder; what an algorithm lacks is left out."""
    holders = {"policy": (model.policy, (*STATES, "key")), "model": (model, ("ent_coef_state", "key"))}
    return {
        name: {field: getattr(holder, field) for field in fields if hasattr(holder, field)}
        for name, (holder, fields) in holders.items()
    }


def _statistics(model: Model) -> dict[str, Any]:
    """The running means and variances of observations and returns, where there are any."""
    env = model.get_vec_normalize_env()
    return {} if env is None else {"obs_rms": env.obs_rms, "ret_rms": env.ret_rms}


def write_checkpoint(path: Path, model: Model, record: Mapping[str, Json]) -> None:
    """Writes the checkpoint whole and synced."""
    arrays = {f"leaf.{i}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(trees(model)))}
    counters = {"num_timesteps": model.num_timesteps, "n_updates": model._n_updates}
    buffer = getattr(model, "replay_buffer", None)
    if buffer is not None:
        size = buffer.buffer_size if buffer.full else buffer.pos
        arrays |= {f"buffer.{name}": getattr(buffer, name)[:size] for name in BUFFER}
        counters |= {"pos": buffer.pos, "full": bool(buffer.full)}
    for name, rms in _statistics(model).items():
        arrays |= {f"{name}.{part}": np.asarray(getattr(rms, part)) for part in ("mean", "var", "count")}
    arrays["record"] = np.frombuffer(json.dumps({**record, "counters": counters}).encode(), np.uint8)
    disk.write_npz(checkpoint_of(path), arrays)


def read_checkpoint(path: Path, model: Model, record: Mapping[str, Json]) -> dict[str, Any]:
    """Puts a checkpoint into a fresh model; one that was made with other settings is refused."""
    try:
        arrays = disk.read_npz(checkpoint_of(path), "resume")
    except UserError as error:
        raise UserError(f"{str(error)[:-1]}: the checkpoint is damaged.") from None
    with damaged(f"resume: the checkpoint {checkpoint_of(path)}"):
        old = json.loads(arrays.pop("record").tobytes())
        for name in ("algo", "env", "env_kwargs", "recipe", "seed"):
            if old[name] != json.loads(json.dumps(record[name])):
                raise UserError(f"resume: it was made with {name} {old[name]!r}, not {record[name]!r}.")
        _restore(model, arrays, old["counters"])
    return old


def _restore(model: Model, arrays: dict[str, np.ndarray], counters: Mapping[str, int]) -> None:
    leaves, structure = jax.tree.flatten(trees(model))
    fresh: list[int | jax.Array] = []
    for i, old in enumerate(leaves):
        new = arrays[f"leaf.{i}"]
        if new.shape != np.shape(old):
            raise ValueError(f"array {i} has the shape {new.shape}, not {np.shape(old)}")
        # A step count is a plain int in a fresh model; as an array it would make the program compile again.
        fresh.append(int(new) if isinstance(old, int) else jax.numpy.asarray(new))
    restored = jax.tree.unflatten(structure, fresh)
    for owner, holder in (("policy", model.policy), ("model", model)):
        for name, value in restored[owner].items():
            setattr(holder, name, value)
    model.num_timesteps, model._n_updates = counters["num_timesteps"], counters["n_updates"]
    if "pos" in counters:
        buffer, size = model.replay_buffer, len(arrays["buffer.rewards"])
        if size > buffer.buffer_size:
            raise UserError(f"resume: its {size} samples are more than these steps leave room for.")
        for name in BUFFER:
            getattr(buffer, name)[:size] = arrays[f"buffer.{name}"]
        # A buffer that was full has room again where more steps are asked for now.
        grown = counters["full"] and size < buffer.buffer_size
        buffer.pos, buffer.full = (size, False) if grown else (counters["pos"], counters["full"])
    for name, rms in _statistics(model).items():
        rms.mean, rms.var = arrays[f"{name}.mean"], arrays[f"{name}.var"]
        rms.count = float(arrays[f"{name}.count"])


# Evaluations.


class Evaluated(NamedTuple):
    """One look at the policy under way: after how many steps and seconds, its mean return and spread."""

    steps: int
    seconds: float
    mean: float
    std: float


def play_episodes(expert: Expert, make: Maker, *, episodes: int, seed: int, number: int) -> np.ndarray:
    """Returns (episodes,) of an expert in episodes of their own, all under way side by side."""
    env, returns, alive = vector(make, episodes), np.zeros(episodes), np.arange(episodes)
    env.begin(alive, [derive(seed, "evaluate", number, i) for i in range(episodes)])
    while len(alive):
        raise_broken(env)
        rewards, terminated, truncated = env.step(alive, expert.act(env.observe(alive).batch))
        returns[alive] += rewards
        alive = alive[~(terminated | truncated)]
    raise_broken(env)
    env.close()
    return returns


@final
@dataclasses.dataclass
class Looks:
    """The evaluations of a policy while it is trained: the curve, the best network, its file and its card."""

    model: Model
    algo: str
    make: Maker
    chosen: Recipe
    seed: int
    episodes: int
    path: Path
    env_kwargs: dict[str, Json]
    name: str
    curve: list[Evaluated] = dataclasses.field(default_factory=list[Evaluated])
    best: Evaluated | None = None
    began: float = dataclasses.field(default_factory=lambda: time.perf_counter())
    saved: float = dataclasses.field(default_factory=lambda: time.perf_counter())

    def look(self, episodes: int | None = None) -> None:
        """Evaluates the network as it is now and, if it is the best yet, writes it."""
        steps, seconds = self.model.num_timesteps, time.perf_counter() - self.began
        policy, card = extract(self.model, self.algo, self.make)
        returns = self._play(policy, card, episodes or self.episodes, len(self.curve))
        self.curve.append(Evaluated(steps, seconds, float(returns.mean()), float(returns.std())))
        if self.best is None or math.isnan(self.best.mean) or self.curve[-1].mean > self.best.mean:
            self.best = self.curve[-1]
            self._write(policy, card, returns, "while training")

    def finish(self) -> None:
        """Measures the best network over 20 fresh episodes; the highest of many means is no fair estimate."""
        policy, card = TrainedPolicy.read(self.path, "expert")
        card = {name: card[name] for name in ("algorithm", "kind")}
        returns = self._play(policy, card, 20, 1_000_000)
        self._write(policy, card, returns, "after training, fresh episodes")
        checkpoint_of(self.path).unlink(missing_ok=True)

    def _play(self, policy: TrainedPolicy, card: dict[str, Json], episodes: int, number: int) -> np.ndarray:
        expert = networks.from_policy(policy, card)
        return play_episodes(expert, self.make, episodes=episodes, seed=self.seed, number=number)

    def _write(self, policy: TrainedPolicy, card: dict[str, Json], returns: np.ndarray, when: str) -> None:
        """Writes the expert, with what it was measured at on its card."""
        assert self.best is not None
        measured = {"mean": returns.mean(), "std": returns.std(), "lowest": returns.min()}
        returned: dict[str, Json] = {name: round(float(value), 1) for name, value in measured.items()}
        returned |= {"episodes": len(returns), "policy": "deterministic", "measured": when}
        settings = f"made with {self.env_kwargs}" if self.env_kwargs else "Gymnasium defaults"
        software = versions(("sbx-rl", "jax", "gymnasium", "mujoco")).items()
        card |= {
            "name": self.name,
            "environments": [self.make.name],
            "settings": f"{settings}; plays without exploration.",
            "returns": {self.make.name: returned},
            "made": f"{self.best.steps:,} of {self.chosen['steps']:,} environment steps, seed {self.seed}, "
            f"{', '.join(f'{name} {version}' for name, version in software)}.",
            "training": {  # what took how long is here alone: the rest is the same for the same seed
                "recipe": self.chosen,
                "seed": self.seed,
                "curve": [[row.steps, *(round(x, 1) for x in row[1:])] for row in self.curve],
            },
        }
        networks.save(self.path, policy, card)

    def record(self) -> dict[str, Json]:
        """What a checkpoint has to say besides the arrays."""
        return {
            "algo": self.algo,
            "env": self.make.name,
            "env_kwargs": self.env_kwargs,
            "recipe": {**self.chosen, "steps": 0},
            "seed": self.seed,
            "seconds": time.perf_counter() - self.began,
            "curve": [list(row) for row in self.curve],
        }

    def save(self, every: float = 0.0) -> None:
        """Writes the checkpoint, which may be large, where the last one is more than `every` seconds old."""
        if time.perf_counter() - self.saved >= every:
            write_checkpoint(self.path, self.model, self.record())
            self.saved = time.perf_counter()

    def restore(self) -> None:
        """Puts the checkpoint into the model, and goes on with its curve."""
        old = read_checkpoint(self.path, self.model, self.record())
        self.curve = [Evaluated(int(row[0]), *row[1:]) for row in old["curve"]]
        # What is on disk may be better than anything the checkpoint, which is older, has seen.
        with damaged(f"resume: the card beside {self.path}"):
            rows = networks.load(self.path).card["training"]["curve"]
            # A mean that is no number is null in JSON.
            looks = [Evaluated(row[0], *(math.nan if x is None else x for x in row[1:])) for row in rows]
            known = [row for row in (*self.curve, *looks) if not math.isnan(row.mean)]
            self.best = max(known, key=lambda row: row.mean, default=None)
        self.began = time.perf_counter() - float(old["seconds"])


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


def require_sbx() -> ModuleType:
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
    settings: Mapping[str, Json] | None = None,
    env_kwargs: Mapping[str, Json] | None = None,
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
    algo = algo or ("sac" if isinstance(_check_spaces(make)[1], spaces.Box) else "ppo")
    chosen = recipe(algo, make.name, {**(settings or {}), **({} if steps is None else {"steps": steps})})
    total: int = chosen["steps"]
    every = max(1, min(10_000, total // 10)) if evaluate_every is None else evaluate_every
    check_int("evaluate_every", every)
    check_int("seed", seed, 0)
    check_int("episodes", episodes)
    name = f"{algo}-{make.name.replace('/', '-').replace(':', '-')}"
    path = place(Path("experts", f"{name}.safetensors") if out is None else out)
    if resume and not checkpoint_of(path).is_file():
        raise UserError(f"resume: there is no checkpoint {checkpoint_of(path)} to go on from.")
    if not resume and (path.exists() or checkpoint_of(path).exists()):
        raise UserError(f"out: {path} or its checkpoint exists; name another file, or resume it.")
    with contextlib.ExitStack() as after, _first_interrupt() as stopped:
        # SBX draws from NumPy's and Python's global generators; their owner gets them back as they were.
        after.callback(np.random.set_state, np.random.get_state())  # noqa: NPY002
        after.callback(random.setstate, random.getstate())
        model = build(algo, chosen, make, seed)
        looks = Looks(model, algo, make, chosen, seed, episodes, path, dict(env_kwargs or {}), name)
        if resume:
            looks.restore()
        done, reached = model.num_timesteps, False
        next_look = (done // every + 1) * every

        def step(*_: object) -> bool:
            nonlocal reached, next_look
            if progress is not None:
                progress(model.num_timesteps, total, looks.curve)
            if model.num_timesteps >= next_look:
                looks.look()
                next_look = (model.num_timesteps // every + 1) * every
                if target is not None and looks.curve[-1].mean >= target:
                    reached = True
                    return False
                if not stopped:
                    looks.save(every=300.0)
            return not stopped

        if done < total:
            model.learn(total - done, callback=step, reset_num_timesteps=done == 0)
        ended = "target" if reached else "stopped" if stopped else "steps"
        if ended == "steps" and (not looks.curve or looks.curve[-1].steps < total):
            looks.look()
        if ended == "stopped":
            if not looks.curve:
                looks.look(episodes=1)
            looks.save()
        else:
            looks.finish()
        model.env.close()
    return Trained(networks.load(path), path, looks.curve, ended)


@contextlib.contextmanager
def _first_interrupt() -> Generator[list[int]]:
    """A list that the first Ctrl-C fills; the second one interrupts as usual."""
    stopped: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield stopped
        return
    usual = signal.getsignal(signal.SIGINT)

    def hear(number: int, _frame: FrameType | None) -> None:
        stopped.append(number)
        signal.signal(signal.SIGINT, usual)

    signal.signal(signal.SIGINT, hear)
    try:
        yield stopped
    finally:
        signal.signal(signal.SIGINT, usual)
