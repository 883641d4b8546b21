"""Imitate an expert in any Gymnasium environment, and keep the account."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from . import experts
from .envs.gymnasium import Slots, derive, maker
from .errors import UserError, unknown
from .interaction import (
    Book,
    Collector,
    Evaluation,
    Evaluator,
    Loop,
    Plan,
    acting,
    mixing,
    presets,
    temporary_folder,
)
from .losses import Squared
from .online import draws, make_game
from .policies import Actions, Encoded, Observations, Policy
from .store import Folder, Run

MEMORY_LIMIT = 2 << 30
"""Bytes of samples that are kept in memory; beyond, they are mapped from files."""


def imitate(
    env: Any,
    *,
    expert: Any = None,
    learner: Any = "ftl",
    policy: Any = "auto",
    loss: Any = "auto",
    solver: Any = "auto",
    rounds: int = 25,
    interactions: int = 1000,
    envs: int = 1,
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
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    encoder: Any = "auto",
    labels: str = "expert",
    env_kwargs: Mapping[str, Any] | None = None,
    expert_options: Mapping[str, Any] | None = None,
    solver_options: Mapping[str, Any] | None = None,
    memory_limit: int = MEMORY_LIMIT,
    progress: Callable[[int, dict[str, Any]], None] | None = None,
) -> Run:
    """Learns to act as the expert does, round by round, and returns the policy with its account.

    Args:
      env: a Gymnasium id, or a function that makes an environment; `envs` of them are stepped side by side.
      expert: None for the shipped one; a name, an archive, "module:function", a callable or an object with
      `predict`
        (see `understudy.experts.resolve`, which gets `expert_options`).
      learner: "ftl" (DAgger), "adaftrl", "ftrl", "alt_ftrl", "bc" (FTL on expert-driven rounds), or an
      object.
      policy: "auto" (mlp, or linear on the expert's features of images), "mlp", "linear", "tabular",
        "nature_cnn", or an object such as ``understudy.MLP(widths=(64, 64))``.
      loss: "auto", "squared", "absolute", "huber", "cross-entropy" or an object.
      solver: "auto" (closed form or another exact method for linear policies; 1000 steps of Adam a round for
        networks), a name or an object; `solver_options` such as learning_rate go with a name.
      rounds, interactions: how many rounds of how many environment steps, each of them one query.
      preset: "practical" or "paper"; decides first_round, standardise, squash and noise where they are not
      given.
      beta: who acts: the expert with probability β: a number, "linear:ROUNDS" or "exponential:RATE".
      budget: stop when so many queries are used; the last round may be shorter.
      episodes: episodes of the last evaluation, and of those every `evaluate_every` rounds (0: only the
      last).
      expert_episodes: episodes to measure the expert by (default: `episodes`).
      comparator: rounds after which the best in hindsight is found: "every", "last", "none" or numbers; for
      networks
        by `search` steps of Adam, an estimate.
      encoder: for a linear policy on images, whose frozen features it is linear in: "auto" (the expert's),
        another expert's name or file, or None (the pixels themselves).
      labels: "expert" (a distribution where the expert gives one) or "mode" (its most probable action).
      out, resume: keep the run in this folder; continue an unfinished one. The end is the same, bit for bit.
      memory_limit: bytes of samples kept in memory; larger runs map them from files.

    >>> import understudy
    >>> run = understudy.imitate("CartPole-v1", policy="linear", rounds=2, interactions=200, episodes=2)
    >>> run.ledger["queries"].tolist(), run.policy([0.0, 0.0, 0.1, 0.0])
    ([200, 400], np.int64(1))
    """
    began = time.perf_counter()
    name = learner if isinstance(learner, str) else getattr(learner, "name", type(learner).__name__)
    if learner == "bc":
        learner, beta = "ftl", 1.0
    for field, value, least in (
        ("rounds", rounds, 1),
        ("interactions", interactions, 1),
        ("envs", envs, 1),
        ("seed", seed, 0),
        ("episodes", episodes, 0),
        ("evaluate_every", evaluate_every, 0),
        ("search", search, 0),
        ("expert_episodes", expert_episodes, 0),
        ("budget", budget, 1),
        ("memory_limit", memory_limit, 0),
    ):
        whole(field, value, least)
    chosen = presets.preset(preset)
    mix = mixing(beta, first_round=chosen.first_round if first_round is None else first_round)
    sound = chosen.noise if noise is None else noise
    if isinstance(sound, bool) or not isinstance(sound, (int, float)) or not 0 <= sound < math.inf:
        raise UserError(f"noise: {noise!r} is not a finite number ≥ 0.")
    make = maker(env, env_kwargs)
    slots = Slots(make, min(envs, interactions), seed)
    teacher = experts.resolve(
        expert,
        env_id=make.name if make.by_id else None,
        observation_space=slots.observation_space,
        action_space=slots.action_space,
        **_expert_options(expert, env_kwargs, expert_options),
    )
    actions = Actions.of(slots.action_space)
    if isinstance(policy, str) and policy == "auto":
        policy = "linear" if _sees(slots.observation_space) and _own(teacher) else "mlp"
    architecture = presets.make_policy(policy, slots.observation_space, actions, chosen, squash)
    seen = Observations.of(slots.observation_space, tabular=architecture.name == "tabular")
    seen = _encoded(seen, architecture, teacher, encoder)
    teacher = _labelling(teacher, labels)
    divergence = presets.make_loss(loss, actions)
    if teacher.kind == "distribution" and not divergence.categorical and loss != "auto":
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
        "env": make.name,
        "env_kwargs": presets.describe(dict(env_kwargs or {})),
        "expert": teacher.name,
        "expert_options": {k: str(v) for k, v in (expert_options or {}).items()},
        "name": name,
        "learner": presets.describe(game.learner),
        "automatic": automatic is not None,
        "policy": architecture.config(),
        "loss": presets.describe(divergence),
        "solver": presets.describe(game.solver),
        "rounds": rounds,
        "interactions": interactions,
        "envs": len(slots),
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
        "memory_limit": memory_limit,
        "labels": labels,
        "encoder": getattr(getattr(seen, "encoder", None), "name", None),
    }
    if resume and out is None:
        raise UserError("resume: there is no folder to resume from; give out.")
    folder = None if out is None else Folder(out, settings, resume=resume)
    try:
        if folder is not None and folder.finished:
            return Run.load(folder.path)
        keep = None
        book = Book(seen, actions, folder=None if folder is None else folder.samples)
        large = total * book.width() > memory_limit
        # Statistics of linear policies hold no samples, so it does not matter to them how many there are.
        streams = architecture.linear and isinstance(divergence, Squared) and not draws(game.solver)
        mapped = large and not streams
        if large:
            if mapped and not draws(game.solver):
                raise UserError(
                    f"memory_limit: {total} samples need {total * book.width()} bytes, more than "
                    f"{memory_limit}, and this solver reads them all at once; raise the limit or take one "
                    "that draws minibatches, as adam does."
                )
            if folder is None:
                where, keep = temporary_folder()
                book = Book(seen, actions, folder=where)
        collector = Collector(slots, teacher, seen, actions, seed=seed, noise=float(sound))
        loop = Loop(plan, game, params, collector, Evaluator(make, seed=seed), book, automatic, mapped=mapped)
        _play(loop, folder, progress)
        evaluation, theirs = _final(loop, teacher, episodes if expert_episodes is None else expert_episodes)
        seconds = {
            part: sum(one[part] for one in loop.times) for part in ("collect", "solve", "judge", "evaluate")
        }
        seconds["evaluate"] += theirs[1]
        seconds["total"] = time.perf_counter() - began
        run = Run(
            loop.policy(),
            loop.ledger,
            loop.certificate(),
            settings,
            evaluation,
            theirs[0],
            book,
            seconds,
            None if folder is None else folder.path,
            keep,
        )
        if folder is not None:
            folder.finish(run.outcome())
        return run
    finally:
        slots.close()
        if folder is not None:
            folder.close()


def _play(loop: Loop, folder: Folder | None, progress: Callable[[int, dict[str, Any]], None] | None) -> None:
    if folder is not None:
        folder.begin(loop) if folder.fresh else folder.restore(loop)
    while not loop.finished:
        row = loop.advance()
        if folder is not None:
            folder.commit(loop)
        if progress is not None:
            progress(loop.round, row)


def _final(
    loop: Loop, teacher: Any, episodes: int
) -> tuple[Evaluation | None, tuple[Evaluation | None, float]]:
    """The last evaluation (made again where a resumed run had it already) and the expert's on the same
    seeds.
    """
    last, mine = len(loop.plan.sizes), loop.evaluation
    if mine is None and loop.plan.episodes:
        mine = loop.evaluator(acting(loop.policy()), episodes=loop.plan.episodes, number=last)
    began = time.perf_counter()
    theirs = loop.evaluator(acting(teacher), episodes=episodes, number=last) if episodes else None
    loop.evaluator.close()
    return mine, (theirs, time.perf_counter() - began)


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
    from .experts.encoders import encoder as of

    if not image or policy.name != "linear":
        raise UserError(f"encoder: {encoder!r} is for a linear policy on images; this one is {policy.name}.")
    return Encoded(seen, of(teacher if encoder == "auto" else experts.resolve(encoder)))


def _labelling(teacher: Any, labels: str) -> Any:
    if labels not in ("expert", "mode"):
        raise unknown("labels", labels, ("expert", "mode"))
    from .experts.encoders import mode

    return mode(teacher) if labels == "mode" else teacher
