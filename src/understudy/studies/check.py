"""What can be refused before anything runs: environments, experts, and parts that do not fit each other.

It must not start JAX: on an accelerator that would take the memory which a worker needs.
"""

from __future__ import annotations

import json
from typing import Any

from ..envs.gymnasium import maker
from ..policies import Actions
from ..runs import World, mixing, presets
from ..runs.parts import whole
from .shard import keywords
from .study import Study

LEAST = {"rounds": 1, "interactions": 1, "envs": 1, "budget": 1, "memory_limit": 0}
LEAST |= dict.fromkeys(("episodes", "evaluate_every", "expert_episodes", "search"), 0)


def check(study: Study) -> None:
    """Makes every environment once, and the parts of every run; what does not fit is one sentence."""
    worlds: dict[str, World] = {}
    seen: set[str] = set()
    for entry in study.runs:
        kind = json.dumps({**entry.settings, "seed": 0}, sort_keys=True)
        if kind not in seen:
            seen.add(kind)
            run = keywords(entry.settings)
            _fits(run, _world(run, worlds))


def _world(run: dict[str, Any], worlds: dict[str, World]) -> World:
    """The environment and expert of a run, made once for all runs that share them."""
    options = {name: run[name] for name in ("env_kwargs", "expert_options") if name in run}
    name = repr((run["env"], run.get("expert"), options))
    if name not in worlds:
        make = maker(run["env"], run.get("env_kwargs"))
        env = make()
        try:
            worlds[name] = World.of(make, env, run.get("expert"), **options)
        finally:
            env.close()
    return worlds[name]


def _fits(run: dict[str, Any], world: World) -> None:
    for name, least in LEAST.items():
        if name in run:
            whole(name, run[name], least)
    chosen, actions = presets.preset(run.get("preset", "practical")), Actions.of(world.action_space)
    mixing(run.get("beta", 0.0), first_round=run.get("first_round", chosen.first_round))
    policy = run.get("policy", "auto")
    # "auto" is a network, or linear on a frozen one's features of images: what fits here fits there.
    policy = "mlp" if isinstance(policy, str) and policy == "auto" else policy
    made = presets.make_policy(policy, world.observation_space, actions, chosen, run.get("squash"))
    presets.make_loss(run.get("loss", "auto"), actions)
    learner = "ftl" if isinstance(run["learner"], str) and run["learner"] == "bc" else run["learner"]
    learner, _ = presets.make_learner(learner, made, chosen)
    presets.make_solver(run.get("solver", "auto"), made, learner, run.get("solver_options", {}), chosen)
