"""What can be refused before anything runs: environments, experts, and parts that do not fit each other."""

from __future__ import annotations

from typing import Any

from .. import experts
from ..envs.gymnasium import maker
from ..interaction import presets
from ..policies import Actions
from .shard import keywords
from .study import Study

SHAPING = ("env", "env_kwargs", "expert", "expert_options", "policy", "widths", "loss", "learner", "solver")
SHAPING += ("preset", "squash", "eta", "alpha", "learning_rate", "max_iterations", "batch_size", "tolerance")
"""What decides whether the parts of a run fit; of numbers, only whether they are there."""


def check(study: Study) -> None:
    """Makes every environment once and the parts of every kind of run; what does not fit is one sentence."""
    seen: set[str] = set()
    spaces: dict[str, Any] = {}
    for entry in study.runs:
        kind = repr([_shape(entry.settings.get(name)) for name in SHAPING])
        if kind not in seen:
            seen.add(kind)
            _fits(keywords(entry.settings), spaces)


def _shape(value: Any) -> Any:
    return "a number" if isinstance(value, (int, float)) and not isinstance(value, bool) else value


def _fits(run: dict[str, Any], spaces: dict[str, Any]) -> None:
    env_kwargs, expert = run.get("env_kwargs"), run.get("expert")
    name = repr((run["env"], env_kwargs, expert, run.get("expert_options")))
    if name not in spaces:
        make = maker(run["env"], env_kwargs)
        env = make()
        observations, actions = env.observation_space, env.action_space
        env.close()
        options = dict(run.get("expert_options") or {})
        if env_kwargs and (expert is None or expert in experts.names()):
            options = {"env_kwargs": dict(env_kwargs), **options}
        experts.resolve(
            expert, env_id=make.name, observation_space=observations, action_space=actions, **options
        )
        spaces[name] = observations, actions
    space, action_space = spaces[name]
    chosen, actions = presets.preset(run.get("preset", "practical")), Actions.of(action_space)
    policy = run.get("policy", "auto")
    # "auto" is a network, or linear on a frozen one's features of images: what fits here fits there.
    policy = "mlp" if policy == "auto" else policy
    made = presets.make_policy(policy, space, actions, chosen, run.get("squash"))
    presets.make_loss(run.get("loss", "auto"), actions)
    learner, _ = presets.make_learner("ftl" if run["learner"] == "bc" else run["learner"], made, chosen)
    presets.make_solver(run.get("solver", "auto"), made, learner, run.get("solver_options", {}), chosen)
