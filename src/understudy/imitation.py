"""Imitate an expert in any Gymnasium environment, and keep the account."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from .envs.gymnasium import Slots, maker
from .errors import UserError
from .losses import Squared
from .online import draws
from .runs import Book, Evaluation, Evaluator, Folder, Loop, Run, World, acting, parts, temporary_folder
from .spec import RunSpec


def imitate(
    env: Any = None,
    *,
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    progress: Callable[[int, dict[str, Any]], None] | None = None,
    **settings: Any,
) -> Run:
    """Learns to act as the expert does, round by round, and returns the policy with its account.

    Args:
      env: a Gymnasium id, a function that makes an environment, or a whole `understudy.RunSpec`.
      out, resume: keep the run in this folder; continue an unfinished one. The end is the same, bit for bit.
      progress: called after every round with its number and its row of the ledger.
      settings: every other field of `understudy.RunSpec`, where each is described with its default: expert,
        learner, policy, loss, solver, their options, rounds, interactions, preset, beta, episodes, seed, ….
        Learner, policy, loss, solver and expert may be objects, such as ``understudy.MLP(widths=(64, 64))``;
        an expert may be any callable from observations to actions, or an object with `predict`.

    >>> import understudy
    >>> run = understudy.imitate("CartPole-v1", policy="linear", rounds=2, interactions=200, episodes=2)
    >>> run.ledger["queries"].tolist(), run.policy([0.0, 0.0, 0.1, 0.0])
    ([200, 400], np.int64(1))
    """
    began = time.perf_counter()
    if isinstance(env, RunSpec):
        spec = env.replace(**settings) if settings else env
    else:
        spec = RunSpec.of({"env": env, **settings})
    make = maker(spec.env, spec.env_kwargs)
    slots = Slots(make, min(spec.envs, spec.interactions), spec.seed)
    made = parts(World.of(make, slots, spec), spec)
    game = made.game
    memory_limit = spec.memory_limit
    if resume and out is None:
        raise UserError("resume: there is no folder to resume from; give out.")
    folder = None if out is None else Folder(out, made.settings, resume=resume)
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
        loop = made.loop(slots, Evaluator(make, seed=spec.seed), book, mapped=mapped)
        _play(loop, folder, progress)
        evaluation, theirs = _final(loop, made.expert, spec.expert_measured)
        seconds = {
            part: sum(one[part] for one in loop.times) for part in ("collect", "solve", "judge", "evaluate")
        }
        seconds["evaluate"] += theirs[1]
        seconds["total"] = time.perf_counter() - began
        run = Run(
            loop.policy(),
            loop.ledger,
            loop.certificate(),
            made.settings,
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
