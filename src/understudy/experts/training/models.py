"""SBX's models: made from a recipe, turned into a policy with a card, and kept in a checkpoint. No pickle is
made or read.

A checkpoint is one npz of plain arrays beside the expert. Kept: the networks, their optimisers, the random
key, the replay buffer, the statistics of observations, the curve. Not kept: the episode under way, which
begins anew, and NumPy's generator, which draws minibatches. A resumed run is therefore as good as an
uninterrupted one, but not the same number by number.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ... import disk
from ...envs.gymnasium import Maker
from ...errors import UserError, damaged
from ...machine import versions
from ...policies import MLP, Actions, Normaliser, Observations, TrainedPolicy

CONTINUOUS, CHOICES = ("sac", "td3", "ppo"), ("ppo", "dqn")
CLIP = 10.0  # standardised observations are clipped there, as is usual for PPO


def usual(make: Maker) -> str:
    """The algorithm to try first: sac where actions are continuous, ppo where they are choices."""
    return "sac" if type(_spaces(make)[1]).__name__ == "Box" else "ppo"


def build(algo: str, chosen: dict[str, Any], make: Maker, seed: int) -> Any:
    """A fresh model of SBX for an environment, seeded, with the recipe's settings."""
    import sbx  # pyright: ignore[reportMissingImports]
    from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor, VecNormalize  # pyright: ignore[reportMissingImports]

    _, action = _spaces(make)
    fits = CONTINUOUS if type(action).__name__ == "Box" else CHOICES
    if algo not in fits:
        raise UserError(
            f"algo: {algo!r} does not train for the {type(action).__name__} actions of {make.name}; "
            f"accepted here: {', '.join(fits)}."
        )
    venv: Any = VecMonitor(DummyVecEnv([make for _ in range(chosen["envs"])]))
    if chosen.get("standardise"):
        venv = VecNormalize(venv, gamma=chosen["gamma"], clip_obs=CLIP)
    rate = chosen["learning_rate"]
    common: dict[str, Any] = {"gamma": chosen["gamma"], "batch_size": chosen["batch_size"], "seed": seed}
    if algo == "ppo":
        model: Any = sbx.PPO(
            "MlpPolicy",
            venv,
            learning_rate=(lambda left: left * rate) if chosen["decay"] else rate,
            n_steps=chosen["rollout"],
            n_epochs=chosen["epochs"],
            gae_lambda=chosen["gae_lambda"],
            clip_range=chosen["clip"],
            ent_coef=chosen["entropy"],
            policy_kwargs={"net_arch": list(chosen["widths"])},
            **common,
        )
        return model
    common |= {
        "learning_rate": rate,
        "buffer_size": min(chosen["buffer_size"], chosen["steps"]),
        "learning_starts": chosen["learning_starts"],
        "train_freq": (max(1, chosen["update_every"] // chosen["envs"]), "step"),
        "gradient_steps": max(1, round(chosen["update_every"] * chosen["updates_per_step"])),
    }
    if algo == "dqn":
        return sbx.DQN(
            "MlpPolicy",
            venv,
            target_update_interval=chosen["target_every"],
            exploration_fraction=chosen["exploration"],
            exploration_final_eps=chosen["final_exploration"],
            **common,
        )
    common |= {
        "qf_learning_rate": float(chosen["critic_learning_rate"]),
        "tau": chosen["tau"],
        "policy_kwargs": {"net_arch": list(chosen["widths"])},
    }
    if algo == "td3":
        from stable_baselines3.common.noise import NormalActionNoise  # pyright: ignore[reportMissingImports]

        size = action.shape[0]
        noise = NormalActionNoise(np.zeros(size), np.full(size, chosen["noise"]))
        return sbx.TD3("MlpPolicy", venv, action_noise=noise, **common)
    model = sbx.SAC("MlpPolicy", venv, ent_coef=f"auto_{chosen['temperature']}", **common)
    _temperature_rate(model, chosen["temperature_learning_rate"])
    return model


def _temperature_rate(model: Any, rate: float) -> None:
    """SBX lets the temperature learn at the actor's rate; ours has one of its own."""
    import optax
    from flax.training.train_state import TrainState  # pyright: ignore[reportMissingImports]

    old = model.ent_coef_state
    model.ent_coef_state = TrainState.create(apply_fn=old.apply_fn, params=old.params, tx=optax.adam(rate))


def extract(model: Any, algo: str, make: Maker) -> tuple[TrainedPolicy, dict[str, Any]]:
    """The acting network of a model as a policy, and the part of the card that says how to play it."""
    seen, action = _spaces(make)
    state = model.policy.qf_state if algo == "dqn" else model.policy.actor_state
    layers = state.params["params"]
    # SAC has one layer more, for the standard deviation, which is not kept.
    count = sum(name.startswith("Dense_") for name in layers) - (algo == "sac")
    params = [
        {"weight": np.asarray(one["kernel"]), "bias": np.asarray(one["bias"])}
        for one in (layers[f"Dense_{i}"] for i in range(count))
    ]
    observations, actions = Observations.of(seen), Actions.of(action)
    bounds: dict[str, Any] = {}
    if actions.kind == "box" and algo != "ppo":
        bounds = {"head": "tanh", "low": tuple(action.low.tolist()), "high": tuple(action.high.tolist())}
    widths = tuple(int(layer["bias"].size) for layer in params[:-1])
    policy = MLP(widths=widths, activation="tanh" if algo == "ppo" else "relu", **bounds)
    normaliser, statistics = Normaliser.identity(observations.width), model.get_vec_normalize_env()
    if statistics is not None:
        rms = statistics.obs_rms
        normaliser = Normaliser(rms.mean, np.sqrt(rms.var + statistics.epsilon), CLIP)
    soft = algo == "ppo" and actions.kind == "discrete"
    card = {"algorithm": algo.upper(), "kind": "distribution" if soft else "action"}
    return TrainedPolicy(policy, params, observations, actions, normaliser), card


def software() -> str:
    """The versions that a result may depend on."""
    found = versions(("sbx-rl", "jax", "gymnasium", "mujoco"))
    return ", ".join(f"{name} {version}" for name, version in found.items())


def _spaces(make: Maker) -> tuple[Any, Any]:
    """The spaces of an environment that training can deal with, or a sentence."""
    from gymnasium import spaces

    env = make()
    seen, action = env.observation_space, env.action_space
    env.close()
    if not isinstance(seen, spaces.Box) or len(seen.shape) != 1:
        raise UserError(
            f"env: {make.name} shows {seen}; experts are trained on vectors, a Box of one dimension "
            "(gymnasium.wrappers.FlattenObservation makes one)."
        )
    bounded = isinstance(action, spaces.Box) and len(action.shape) == 1 and action.is_bounded()
    plain = isinstance(action, spaces.Discrete) and action.start == 0
    if not bounded and not plain:
        raise UserError(
            f"env: {make.name} takes {action}; experts are trained for Box actions of one dimension with "
            "finite bounds and for Discrete actions that start at 0."
        )
    return seen, action


STATES = ("actor_state", "qf_state", "vf_state")
BUFFER = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")


def beside(path: Path) -> Path:
    """Where the checkpoint of the expert in `path` is."""
    return path.with_suffix(".resume.npz")


def refuse_taken(path: Path, resume: bool) -> None:
    """An expert that exists is not written over, unless its own training goes on."""
    if resume:
        if not beside(path).is_file():
            raise UserError(f"resume: there is no checkpoint {beside(path)} to go on from.")
    elif path.exists() or beside(path).exists():
        raise UserError(f"out: {path} or its checkpoint exists; name another file, or resume it.")


def trees(model: Any) -> dict[str, Any]:
    """All that a model learns and draws from, by its holder; what an algorithm lacks is left out."""
    held = {"policy": (*STATES, "key"), "model": ("ent_coef_state", "key")}
    owners = {"policy": model.policy, "model": model}
    return {
        owner: {name: getattr(owners[owner], name) for name in names if hasattr(owners[owner], name)}
        for owner, names in held.items()
    }


def write(path: Path, model: Any, record: dict[str, Any]) -> None:
    """Writes the checkpoint whole and synced."""
    leaves = jax.tree.leaves(trees(model))
    arrays = {f"leaf.{i}": np.asarray(leaf) for i, leaf in enumerate(leaves)}
    counters = {"num_timesteps": model.num_timesteps, "n_updates": model._n_updates}
    buffer = getattr(model, "replay_buffer", None)
    if buffer is not None:
        size = buffer.buffer_size if buffer.full else buffer.pos
        arrays |= {f"buffer.{name}": getattr(buffer, name)[:size] for name in BUFFER}
        counters |= {"pos": buffer.pos, "full": bool(buffer.full)}
    statistics = model.get_vec_normalize_env()
    if statistics is not None:
        for name in ("obs_rms", "ret_rms"):
            rms = getattr(statistics, name)
            arrays |= {f"{name}.{part}": np.asarray(getattr(rms, part)) for part in ("mean", "var", "count")}
    arrays["record"] = np.frombuffer(json.dumps({**record, "counters": counters}).encode(), np.uint8)
    disk.write_npz(beside(path), arrays)


def read(path: Path, model: Any, record: dict[str, Any]) -> dict[str, Any]:
    """Puts a checkpoint into a fresh model; one that was made with other settings is refused."""
    try:
        arrays = disk.read_npz(beside(path), "resume")
    except UserError as error:
        raise UserError(f"{str(error)[:-1]}: the checkpoint is damaged.") from None
    with damaged(f"resume: the checkpoint {beside(path)}"):
        kept = json.loads(arrays.pop("record").tobytes())
        for name in ("algo", "env", "env_kwargs", "recipe", "seed"):
            if kept[name] != json.loads(json.dumps(record[name])):
                raise UserError(f"resume: it was made with {name} {kept[name]!r}, not {record[name]!r}.")
        _restore(model, arrays, kept["counters"])
    return kept


def _restore(model: Any, arrays: dict[str, np.ndarray], counters: dict[str, Any]) -> None:
    leaves, structure = jax.tree.flatten(trees(model))
    fresh = []
    for i, old in enumerate(leaves):
        new = arrays[f"leaf.{i}"]
        if new.shape != np.shape(old):
            raise ValueError(f"array {i} has the shape {new.shape}, not {np.shape(old)}")
        # A step count is a plain int in a fresh model; as an array it would make the program compile again.
        fresh.append(int(new) if isinstance(old, int) else jax.numpy.asarray(new))
    found = jax.tree.unflatten(structure, fresh)
    for owner, holder in (("policy", model.policy), ("model", model)):
        for name, value in found[owner].items():
            setattr(holder, name, value)
    model.num_timesteps, model._n_updates = counters["num_timesteps"], counters["n_updates"]
    if "pos" in counters:
        buffer = model.replay_buffer
        size = len(arrays["buffer.rewards"])
        if size > buffer.buffer_size:
            raise UserError(f"resume: its {size} samples are more than these steps leave room for.")
        for name in BUFFER:
            getattr(buffer, name)[:size] = arrays[f"buffer.{name}"]
        # A buffer that was full has room again where more steps are asked for now.
        grown = counters["full"] and size < buffer.buffer_size
        buffer.pos, buffer.full = (size, False) if grown else (counters["pos"], counters["full"])
    statistics = model.get_vec_normalize_env()
    if statistics is not None:
        for name in ("obs_rms", "ret_rms"):
            rms = getattr(statistics, name)
            rms.mean, rms.var = arrays[f"{name}.mean"], arrays[f"{name}.var"]
            rms.count = float(arrays[f"{name}.count"])


def remove(path: Path) -> None:
    """The checkpoint of a run that has ended is of no more use."""
    beside(path).unlink(missing_ok=True)
