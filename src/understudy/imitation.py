"""Imitate an expert in any Gymnasium environment, and keep the account."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Any

from .envs.gymnasium import Slots, maker
from .errors import UserError
from .losses import Squared
from .online import draws
from .runs import Book, Evaluation, Evaluator, Folder, Loop, Run, World, acting, parts, temporary_folder
from .runs.parts import whole

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
    whole("envs", envs, 1)
    whole("interactions", interactions, 1)
    whole("seed", seed, 0)
    whole("memory_limit", memory_limit, 0)
    make = maker(env, env_kwargs)
    slots = Slots(make, min(envs, interactions), seed)
    world = World.of(make, slots, expert, env_kwargs=env_kwargs, expert_options=expert_options)
    made = parts(
        world,
        learner=learner,
        policy=policy,
        loss=loss,
        solver=solver,
        rounds=rounds,
        interactions=interactions,
        seed=seed,
        preset=preset,
        beta=beta,
        first_round=first_round,
        standardise=standardise,
        squash=squash,
        noise=noise,
        budget=budget,
        episodes=episodes,
        evaluate_every=evaluate_every,
        expert_episodes=expert_episodes,
        comparator=comparator,
        search=search,
        encoder=encoder,
        labels=labels,
        solver_options=solver_options,
    )
    game = made.game
    settings = made.settings | {"envs": len(slots), "memory_limit": memory_limit}
    if resume and out is None:
        raise UserError("resume: there is no folder to resume from; give out.")
    folder = None if out is None else Folder(out, settings, resume=resume)
    try:
        if folder is not None and folder.finished:
            return Run.load(folder.path)
        keep = None
        codecs, total = (made.observations, made.actions), made.total
        book = Book(*codecs, folder=None if folder is None else folder.samples)
        large = total * book.width() > memory_limit
        # Statistics of linear policies hold no samples, so it does not matter to them how many there are.
        streams = game.policy.linear and isinstance(game.loss, Squared) and not draws(game.solver)
        # Frames are kept once in the book, and minibatches of stacks rebuilt from it.
        mapped = (large and not streams) or (book.frames is not None and draws(game.solver))
        if large:
            if not streams and not draws(game.solver):
                raise UserError(
                    f"memory_limit: {total} samples need {total * book.width()} bytes, more than "
                    f"{memory_limit}, and this solver reads them all at once; raise the limit or take one "
                    "that draws minibatches, as adam does."
                )
            if folder is None:
                where, keep = temporary_folder()
                book = Book(*codecs, folder=where)
        loop = made.loop(slots, Evaluator(make, seed=seed), book, mapped=mapped)
        _play(loop, folder, progress)
        evaluation, theirs = _final(
            loop, made.expert, episodes if expert_episodes is None else expert_episodes
        )
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
