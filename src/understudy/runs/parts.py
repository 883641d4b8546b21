"""From what a user says to the parts of a run: the world it happens in, its game and its plan."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple, final

import jax
import numpy as np

from .. import experts
from ..envs.gymnasium import Maker, derive
from ..errors import UserError, unknown
from ..online import Game, make_game
from ..policies import Actions, Encoded, Observations, Params, Policy
from . import presets
from .automatic import Automatic
from .collect import Collector
from .loop import Loop, Plan
from .mixing import mixing


@final
class World(NamedTuple):
    """Where runs happen: how to make the environment, its spaces, and the expert in it."""

    make: Maker
    observation_space: Any
    action_space: Any
    expert: Any
    env_kwargs: Mapping[str, Any]
    expert_options: Mapping[str, Any]

    @classmethod
    def of(
        cls,
        make: Maker,
        spaces: Any,
        expert: Any = None,
        *,
        env_kwargs: Mapping[str, Any] | None = None,
        expert_options: Mapping[str, Any] | None = None,
    ) -> World:
        """The world of `make`, whose spaces an object such as `Slots` or a fleet knows."""
        seen, acts = spaces.observation_space, spaces.action_space
        teacher = experts.resolve(
            expert,
            env_id=make.name if make.by_id else None,
            observation_space=seen,
            action_space=acts,
            **_expert_options(expert, env_kwargs, expert_options),
        )
        return cls(make, seen, acts, teacher, dict(env_kwargs or {}), dict(expert_options or {}))


@final
class Parts(NamedTuple):
    """A run that has not begun: everything but the environments, the evaluator and the book."""

    expert: Any
    observations: Observations | Encoded
    actions: Actions
    game: Game
    params: Params
    plan: Plan
    automatic: Automatic | None
    noise: float
    settings: dict[str, Any]

    @property
    def total(self) -> int:
        return sum(self.plan.sizes)

    def loop(self, slots: Any, evaluator: Any, book: Any, *, mapped: bool = False) -> Loop:
        """The run, ready to be advanced; without `slots` by a convoy only."""
        seed = self.plan.seed
        collector = Collector(
            slots, self.expert, self.observations, self.actions, seed=seed, noise=self.noise
        )
        parts = self.plan, self.game, self.params, collector, evaluator, book, self.automatic
        return Loop(*parts, mapped=mapped)


def parts(
    world: World,
    *,
    learner: Any = "ftl",
    policy: Any = "auto",
    loss: Any = "auto",
    solver: Any = "auto",
    rounds: int = 25,
    interactions: int = 1000,
    seed: int = 0,
    preset: str = "practical",
    beta: Any = 0.0,
    first_round: str | None = None,
    standardise: bool | None = None,
    squash: bool | None = None,
    noise: float | None = None,
    budget: int | None = None,
    episodes: int = 10,
    evaluate_every: int = 0,
    expert_episodes: int | None = None,
    comparator: Any = "last",
    search: int = 2000,
    encoder: Any = "auto",
    labels: str = "expert",
    solver_options: Mapping[str, Any] | None = None,
) -> Parts:
    """The parts of a run in `world`; what the options mean is told by `understudy.imitate`."""
    name = learner if isinstance(learner, str) else getattr(learner, "name", type(learner).__name__)
    if learner == "bc":
        learner, beta = "ftl", 1.0
    for field, value, least in (
        ("rounds", rounds, 1),
        ("interactions", interactions, 1),
        ("seed", seed, 0),
        ("episodes", episodes, 0),
        ("evaluate_every", evaluate_every, 0),
        ("search", search, 0),
        ("expert_episodes", expert_episodes, 0),
        ("budget", budget, 1),
    ):
        whole(field, value, least)
    chosen = presets.preset(preset)
    mix = mixing(beta, first_round=chosen.first_round if first_round is None else first_round)
    sound = chosen.noise if noise is None else noise
    if isinstance(sound, bool) or not isinstance(sound, (int, float)) or not 0 <= sound < math.inf:
        raise UserError(f"noise: {noise!r} is not a finite number ≥ 0.")
    teacher = world.expert
    actions = Actions.of(world.action_space)
    if isinstance(policy, str) and policy == "auto":
        policy = "linear" if _sees(world.observation_space) and _own(teacher) else "mlp"
    architecture = presets.make_policy(policy, world.observation_space, actions, chosen, squash)
    seen = Observations.of(world.observation_space, tabular=architecture.name == "tabular")
    seen = _encoded(seen, architecture, teacher, encoder)
    teacher = _labelling(teacher, labels)
    divergence = presets.make_loss(loss, actions)
    if teacher.kind == "distribution" and not divergence.logits and loss != "auto":
        raise UserError(
            f"loss: {loss!r} does not fit an expert that gives distributions; cross-entropy does."
        )
    made, automatic = presets.make_learner(learner, architecture, chosen)
    inner, options = presets.make_solver(solver, architecture, made, dict(solver_options or {}), chosen)
    key = jax.random.key(derive(seed, "params"))
    with jax.enable_x64(architecture.linear):
        params = architecture.init(key, seen.width, actions.outputs)
        game = make_game(architecture, divergence, made, inner, params, **options)
    total = rounds * interactions if budget is None else min(budget, rounds * interactions)
    sizes = tuple(min(interactions, total - first) for first in range(0, total, interactions))
    plan = Plan(
        sizes=sizes,
        mixing=mix,
        judged=_judged(comparator, len(sizes)),
        evaluated=_evaluated(evaluate_every, len(sizes)) if episodes else frozenset(),
        episodes=episodes,
        standardise=chosen.standardise if standardise is None else bool(standardise),
        search=search,
        seed=seed,
    )
    settings = {
        "env": world.make.name,
        "env_kwargs": presets.describe(dict(world.env_kwargs)),
        "expert": teacher.name,
        "expert_options": {k: str(v) for k, v in world.expert_options.items()},
        "name": name,
        "learner": presets.describe(game.learner),
        "automatic": automatic is not None,
        "policy": architecture.config(),
        "loss": presets.describe(divergence),
        "solver": presets.describe(game.solver),
        "rounds": rounds,
        "interactions": interactions,
        "seed": seed,
        "preset": preset,
        "beta": str(mix),
        "first_round": "expert" if mix.expert_first else "agent",
        "noise": float(sound),
        "standardise": plan.standardise,
        "budget": budget,
        "episodes": episodes,
        "evaluate_every": evaluate_every,
        "expert_episodes": expert_episodes,
        "comparator": sorted(plan.judged),
        "search": search,
        "labels": labels,
        "encoder": getattr(getattr(seen, "encoder", None), "name", None),
    }
    return Parts(teacher, seen, actions, game, params, plan, automatic, float(sound), settings)


def _expert_options(expert: Any, env_kwargs: Any, given: Mapping[str, Any] | None) -> dict[str, Any]:
    """Planners plan in the environment itself, so a shipped expert is told how it is made."""
    options = dict(given or {})
    shipped = expert is None or (isinstance(expert, str) and expert in experts.names())
    return {"env_kwargs": dict(env_kwargs), **options} if shipped and env_kwargs else options


def _judged(comparator: Any, rounds: int) -> frozenset[int]:
    named = {"every": range(1, rounds + 1), "last": (rounds,), "none": ()}
    if isinstance(comparator, str) and comparator in named:
        return frozenset(named[comparator])
    chosen = () if isinstance(comparator, str) else comparator
    if chosen and all(isinstance(t, (int, np.integer)) and 1 <= t <= rounds for t in chosen):
        return frozenset(int(t) for t in chosen)
    raise UserError(
        f"comparator: {comparator!r} is not 'every', 'last', 'none' or a list of rounds 1 … {rounds}."
    )


def _evaluated(every: int, rounds: int) -> frozenset[int]:
    return frozenset({rounds} | (set(range(every, rounds + 1, every)) if every else set()))


def whole(field: str, value: Any, least: int) -> None:
    """Refuses what is not a whole number ≥ `least`; None stands for not given."""
    if value is None and field in ("budget", "expert_episodes"):
        return
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise UserError(f"{field}: {value!r} is not a whole number ≥ {least}.")


def _sees(space: Any) -> bool:
    """Whether observations are images of bytes."""
    return len(getattr(space, "shape", None) or ()) == 3 and getattr(space, "dtype", None) == np.uint8


def _own(teacher: Any) -> bool:
    return getattr(teacher.network, "cnn", None) is not None


def _encoded(seen: Observations, policy: Policy, teacher: Any, encoder: Any) -> Any:
    """For a linear policy on images: what a frozen network, the expert's own by default, makes of them."""
    leaf = seen.leaves[0]
    image = len(seen.leaves) == 1 and leaf.kind == "byte" and len(leaf.shape) == 3
    if encoder is None or (encoder == "auto" and not (policy.name == "linear" and image and _own(teacher))):
        return seen
    from ..experts.encoders import encoder as of

    if not image or policy.name != "linear":
        raise UserError(f"encoder: {encoder!r} is for a linear policy on images; this one is {policy.name}.")
    return Encoded(seen, of(teacher if encoder == "auto" else experts.resolve(encoder)))


def _labelling(teacher: Any, labels: str) -> Any:
    if labels not in ("expert", "mode"):
        raise unknown("labels", labels, ("expert", "mode"))
    from ..experts.encoders import mode

    return mode(teacher) if labels == "mode" else teacher
