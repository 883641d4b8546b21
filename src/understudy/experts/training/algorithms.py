"""SBX's models: made from a recipe, and turned into a policy with a card. No pickle is made or read."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...envs.gymnasium import Maker
from ...errors import UserError
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
