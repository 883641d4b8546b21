"""Imitate an expert in any Gymnasium environment, and keep the account."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import os
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

from .defaults import Timetable, plan_of
from .envs.gymnasium import has_limit, maker
from .errors import UserError, interruptible
from .progress import Rounds, shown
from .runs import TIMES, Folder, Run, Runner, RunState, World, parts, resumed, resuming, storage
from .runs.evaluate import LIMIT
from .runs.resume import begun
from .sinks import Started
from .sinks import sinks as made_sinks
from .sinks.base import Watch
from .spec import Environment, RunSpec, Settings

LONG = 1000
"""Steps from which an episode that has not ended is worth a word: the limit of most environments."""
P = ParamSpec("P")
R = TypeVar("R")


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class _Call(Settings):
    """What `imitate` takes: the settings of a run, and what else a call says."""

    env: Environment | RunSpec | None = dataclasses.field(default=None, kw_only=False)
    out: str | os.PathLike[str] | None = None
    resume: bool | str = False
    progress: bool | Callable[[int, dict[str, Any]], None] = False
    sinks: Iterable[Any] = ()


def _takes(call: Callable[P, Any]) -> Callable[[Callable[..., R]], Callable[P, R]]:
    """Gives a function the parameters of another: editors complete them, type checkers check them."""

    def named(function: Callable[..., R]) -> Callable[P, R]:
        returns = inspect.signature(function).return_annotation
        function.__signature__ = inspect.signature(call).replace(return_annotation=returns)  # type: ignore[attr-defined]
        return function

    return named


@_takes(_Call)
def imitate(
    env: Any = None,
    *,
    out: str | os.PathLike[str] | None = None,
    resume: bool | str = False,
    progress: bool | Callable[[int, dict[str, Any]], None] = False,
    sinks: Iterable[Any] = (),
    **settings: Any,
) -> Run:
    """Learns to act as the expert does, round by round, and returns the policy with its account.

    Args:
      env: a Gymnasium id, a function that makes an environment, or a whole `understudy.RunSpec`.
      out: the folder that keeps the run.
      resume: continue the run in `out`. Settings that are not given are those it was begun with, and the end
        is the same, bit for bit. More rounds or a larger budget extend it. "new-episode" goes on with a new
        episode where the old one cannot be played again (real machines), and "other-machine" on other cores
        or libraries, whose last bits may differ.
      progress: True shows a bar on a terminal and a line per round elsewhere; a function is called after
        every round with its number and its row of the ledger.
      sinks: who else gets every row, see `understudy.sinks.sink`: ``["tensorboard", "wandb:mine"]``, objects
        with `begin`, `row` and `end`, or functions of a round's number and row. One that fails is
        left out with a warning; the run goes on.
      settings: every other field of `understudy.RunSpec`, where each is described with its default: expert,
        learner, policy, loss, solver, their options, rounds, interactions, preset, beta, episodes, seed, ….
        Learner, policy, loss, solver and expert may be objects, such as ``understudy.MLP(widths=(64, 64))``;
        an expert may be any callable from observations to actions, or an object with `predict`.

    >>> import understudy
    >>> run = understudy.imitate("CartPole-v1", policy="linear", rounds=3, interactions=40, episodes=2)
    >>> run.ledger["queries"].tolist(), run.policy([0.0, 0.0, 0.1, 0.0])
    ([40, 80, 120], np.int64(1))
    """
    began, watch = time.perf_counter(), Watch(made_sinks(sinks))
    ways = resuming(resume)
    if ways and out is None:
        raise UserError("resume: there is no folder to resume from; give out.")
    if isinstance(env, RunSpec):
        spec = env.replace(**settings) if settings else env
    else:
        given = settings if env is None else {"env": env, **settings}
        spec = RunSpec.of(resumed(out, given) if ways and out is not None else given)
    before = begun(out) if ways else None
    plan = plan_of(spec, before)
    _warn_spent(spec, plan)
    make = maker(spec.env, spec.env_kwargs, spec.student_infos)
    with contextlib.ExitStack() as opened:
        first = make()
        unused = opened.enter_context(contextlib.ExitStack())
        unused.callback(first.close)
        made = parts(World.of(make, first, spec), spec, before)
        slow = made.expert.workers is not None
        folder = None if out is None else Folder(out, made.settings, resume=ways, slow=slow)
        if folder is not None:
            opened.callback(folder.close)
            if folder.finished:
                return Run.load(folder.path)
        run = RunState(made, storage(made, folder))
        ends = spec.episode_limit is not None or has_limit(first)
        tell, title = progress, f"{spec.name} on {make.name}"
        if progress is True:
            tell = opened.enter_context(shown(Rounds(title, plan.sizes)))
        runner = opened.enter_context(
            Runner([run], make, folders=[folder], first=first, tick=getattr(tell, "tick", None))
        )
        unused.pop_all()  # the runner closes it
        with interruptible(lambda: _kept(run, folder)):
            runner.begin()
            _warn_short(run)
            began -= sum(sum(one.values()) for one in run.times)  # rounds of before it was resumed
            opened.callback(watch.end)
            watch.begin(Started(title, made.settings, None if folder is None else folder.path, run.round))
            while not run.finished:
                runner.advance()
                _raise(runner)
                watch.row(run.round, run.rows[-1])
                if callable(tell):
                    tell(run.round, run.rows[-1])
                if plan.evaluated and not ends:
                    _warn_endless(run.rows, spec.envs, make.name)
            runner.finish()
            _raise(runner)
        if made.expert.person is not None:
            made.expert.person.close(_farewell(run))
        seconds = {part: sum(one[part] for one in run.times) for part in TIMES}
        seconds["total"] = time.perf_counter() - began
        done = Run(
            run.policy(),
            run.ledger,
            run.certificate(),
            made.settings,
            run.evaluation,
            run.expert_evaluation,
            run.samples,
            seconds,
            None if folder is None else folder.path,
            run.calls,
            run.kept_round,
        )
        if folder is not None:
            folder.finish(done.outcome(), done.policy)
        watch.summary = done.summary()
        return done


def _farewell(run: RunState) -> str:
    """What a person who was the expert reads last."""
    got = run.evaluation
    score = "" if got is None else f", and your student's return is {got.mean:.4g}"
    return f"The run has ended: {run.queries:,} labels{score}."


def _warn_spent(spec: RunSpec, plan: Timetable) -> None:
    """Says that a budget is spent before the rounds that were asked for are over."""
    played, wanted = len(plan.sizes) - (spec.demos is not None), plan.last
    if plan.budget is not None and wanted is not None and plan.rule is None and played < wanted:
        each = max(1, plan.budget // wanted)
        warnings.warn(
            f"budget: {plan.budget} labels are spent in {played} of {wanted} rounds, as every state is "
            f"asked about; --interactions {each} spreads them, or --budget without --rounds.",
            stacklevel=3,
        )


def _warn_short(run: RunState) -> None:
    """Says that a larger budget will not be spent whole: the smaller one had cut its last round short."""
    budget = run.plan.budget
    if budget is None or run.plan.last is not None or not run.round:
        return
    short = budget - run.queries - sum(most for _, most in run.plan.rounds[run.round :])
    if short > 0:
        warnings.warn(
            f"budget: {budget - short} of {budget} labels will be asked for: a round that is played already "
            f"had {short} fewer than the plan has now. --budget {budget + short} would ask for {budget}.",
            stacklevel=3,
        )


def _warn_endless(rows: Sequence[Mapping[str, Any]], envs: int, name: str) -> None:
    """Once, after the round in which an episode has become long, and none has ended: long before the last
    evaluation, which such an environment would keep from ending.
    """
    before = rows[-2]["interactions"] if len(rows) > 1 else 0
    if not before < LONG * envs <= rows[-1]["interactions"] or any(row["episodes"] for row in rows):
        return
    warnings.warn(
        f"env: no episode of {name} ended in the first {rows[-1]['interactions']:,} steps, and it has no "
        f"limit of its own; an evaluation stops with an error after {LIMIT:,} steps of one episode, unless "
        "episode_limit (--episode-limit N) ends it before.",
        stacklevel=3,
    )


def _kept(run: RunState, folder: Folder | None) -> str:
    """What an interrupt leaves, and how to go on."""
    if folder is None:
        return "nothing is kept; with out (--out FOLDER) it could go on from here"
    under_way = folder.journal.count
    labels = f" and {under_way:,} labels of round {run.round + 1}" if under_way else ""
    rounds = "1 round" if run.round == 1 else f"{run.round} rounds"
    return f"{rounds}{labels} are kept in {str(folder.path)!r}; go on with --resume"


def _raise(runner: Runner) -> None:
    if runner.errors[0] is not None:
        raise runner.errors[0]
