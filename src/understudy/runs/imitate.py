"""Imitate an expert in any Gymnasium environment, and keep the account."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import inspect
import json
import os
import warnings
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from .. import machine
from ..defaults import Timetable
from ..progress import (
    COLLECTING,
    EVALUATING,
    EXPERT,
    KEEPING,
    SEARCHING,
    SOLVING,
    TRAINING,
    Rounds,
    interruptible,
    show_bar,
)
from ..sinks import Source, Started, Watch, make_sinks
from ..spec import Environment, RunSpec, Settings
from .evaluate import STEP_LIMIT
from .proof import longest_episode
from .record import Record
from .run import Run

if TYPE_CHECKING:
    from ..student import Row

WIDE = 2000
"""Numbers of an observation beyond which a linear policy is worth a word."""
SAME_PACE = ("seed", "rounds", "budget", "eta", "alpha", "episodes", "expert_episodes", "evaluate_every")
"""Settings on which the time that a unit of a phase takes hardly depends."""
LONG = 1000
"""Steps from which an episode that has not ended is worth a word: the limit of most environments."""
P = ParamSpec("P")
R = TypeVar("R")


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class _Call(Settings):
    """What `imitate` takes: the settings of a run, and what else a call says."""

    env: Environment | RunSpec | None = dataclasses.field(default=None, kw_only=False)  # pyright: ignore[reportIncompatibleVariableOverride]
    out: str | os.PathLike[str] | None = None
    resume: bool | str = False
    progress: bool | Callable[[int, Row], None] = False
    sinks: Iterable[Source] = ()


def _takes(call: Callable[P, Any]) -> Callable[[Callable[..., R]], Callable[P, R]]:
    """Gives a function the parameters of another: editors complete them, type checkers check them."""

    def named(function: Callable[..., R]) -> Callable[P, R]:
        returns = inspect.signature(function).return_annotation
        function.__signature__ = inspect.signature(call).replace(return_annotation=returns)  # type: ignore[attr-defined]
        return function

    return named


@_takes(_Call)
def imitate(
    env: Environment | RunSpec | None = None,
    *,
    out: str | os.PathLike[str] | None = None,
    resume: bool | str = False,
    progress: bool | Callable[[int, Row], None] = False,
    sinks: Iterable[Source] = (),
    **settings: Any,
) -> Record:
    """Learns to act as the expert does, round by round, and returns the policy with its account.

    Args:
      env: a Gymnasium id, a function that makes an environment, or a whole `understudy.RunSpec`.
      out: the folder that keeps the run.
      resume: continue the run in `out`, or begin it where there is none. Settings that are not given are
        those it was begun with, and the end is the same, bit for bit. More rounds or a larger budget extend
        it. "new-episode" goes on with a new episode where the old one cannot be played again (real machines),
        and "other-machine" on other cores or libraries, whose last bits may differ.
      progress: True shows a bar on a terminal and a line per round elsewhere; a function is called after
        every round with its number and its row of the ledger.
      sinks: who else gets every row, see `understudy.sinks.sink`: ``["tensorboard", "wandb:mine"]``, objects
        with `begin`, `row` and `end`, or functions of a round's number and row. One that fails is
        left out with a warning; the run goes on.
      settings: every other field of `understudy.RunSpec`, where each is described with its default: expert,
        learner, policy, loss, solver, their options, rounds, steps_per_round, preset, beta, episodes, ….
        Learner, policy, loss, solver and expert may be objects, such as ``understudy.ftrl(eta=0.1)``; an
        expert may be any callable from observations to actions, or an object with `predict`.

    >>> import understudy
    >>> run = understudy.imitate("CartPole-v1", policy="linear", rounds=3, steps_per_round=40, episodes=2)
    >>> run.ledger["labels"].tolist(), run.policy([0.0, 0.0, 0.1, 0.0])
    ([40, 80, 120], np.int64(1))
    """
    watch = Watch(make_sinks(sinks)) if sinks else None
    with contextlib.ExitStack() as opened:
        run = opened.enter_context(contextlib.closing(Run(env, out=out, resume=resume, **settings)))
        if run.student.finished:
            return run.finish()
        searched = set(filter(run.student.searches, run.student.timetable.comparator_rounds))
        _warn_spent(run.spec, run.student.timetable)
        _warn_short(run)
        _warn_wide(run)
        title = f"{run.spec.name} on {run.world.make.name}"
        tell = opened.enter_context(show_bar(_bar(title, run, searched))) if progress is True else progress
        run.progress = getattr(tell, "tick", run.progress)
        with interruptible(lambda: _left(run)):
            if watch is not None:
                opened.callback(watch.end)
                place = None if run.folder is None else run.folder.path
                watch.begin(Started(title, run.student.parts.settings, place, run.student.round))
            for row in run:
                if watch is not None:
                    watch.row(int(row["round"]), row)
                if callable(tell):
                    tell(int(row["round"]), row)
                if not run.world.ends:
                    _warn_endless(run)
            record = run.finish()
        if (person := run.labelling.expert.person) is not None:
            person.tell("the end", score=None if record.evaluation is None else record.evaluation.mean)
            person.close(_farewell(record))
        if watch is not None:
            watch.summary = record.summary()
        if isinstance(tell, Rounds) and machine.paces is not None:
            machine.keep_pace(_kind(run.spec), tell.finish())
        return record


def _bar(title: str, run: Run, searched: set[int]) -> Rounds:
    """The progress of a run, with what is due in each round and behind the last."""
    student, spec = run.student, run.spec
    plan, several = student.timetable, student.resolved.ensemble > 1
    known = None if machine.paces is None else machine.recall_pace(_kind(spec))
    work: list[dict[str, float]] = []
    for number, (steps, labels) in enumerate(plan.rounds, 1):
        solving = SEARCHING if number in searched else SOLVING
        here: dict[str, float] = {COLLECTING: steps, solving: 1}
        if run.labelling.expensive:
            here["asking"] = labels
        if number in plan.evaluated:
            last = number == len(plan.rounds) and not plan.keep_best
            here |= {TRAINING: 1} if several else {}
            here[EVALUATING] = plan.judging if last else plan.looks
        work.append(here)
    judged = len(plan.rounds) in plan.evaluated and not plan.keep_best
    last = {KEEPING: 0 if judged else plan.judging, EXPERT: plan.measures(expensive=run.labelling.expensive)}
    return Rounds(
        title,
        [*work, last],
        known=known,
        rounds=len(plan.rounds),
        rows=student.rows,
        search=spec.comparator_steps,
    )


def _kind(spec: RunSpec) -> str:
    """A name for the runs that take as long as this one: its settings, but for those that hardly matter."""
    told = {name: text for name, text in spec.plain().items() if name not in SAME_PACE}
    return hashlib.sha256(json.dumps(told, sort_keys=True, default=str).encode()).hexdigest()[:16]


def _farewell(record: Record) -> str:
    """What a person who was the expert reads last."""
    got, rounds, kept_round = record.evaluation, record.ledger.rounds, record.kept_round
    which = f"round {kept_round} of {rounds} (the best)" if kept_round < rounds else "the last round"
    text = f"The run has ended: {record.ledger['labels'][-1]:,} labels. The student of {which} is kept."
    if got is None:
        return text
    return f"{text} Its return is {got.mean:.3g}, the mean of {len(got.returns)} new episodes."


def _warn_spent(spec: RunSpec, plan: Timetable) -> None:
    """Says that a budget is spent before the rounds that were asked for are over."""
    played, wanted = len(plan.sizes) - (spec.demos is not None), plan.last
    if plan.budget is not None and wanted is not None and plan.rule is None and played < wanted:
        each = max(1, plan.budget // wanted)
        warnings.warn(
            f"budget: {plan.budget} labels are spent in {played} of {wanted} rounds, as every state is "
            f"asked about; --steps-per-round {each} spreads them, or --budget without --rounds.",
            stacklevel=3,
        )


def _warn_short(run: Run) -> None:
    """Says that a larger budget will not be spent whole: the smaller one had cut its last round short."""
    plan, done = run.student.timetable, run.student.round
    budget = plan.budget
    if budget is None or plan.last is not None or not done:
        return
    short = budget - run.student.labels - sum(most for _, most in plan.rounds[done:])
    if short > 0:
        warnings.warn(
            f"budget: {budget - short} of {budget} labels will be asked for: a round that is played already "
            f"had {short} fewer than the plan has now. --budget {budget + short} would ask for {budget}.",
            stacklevel=3,
        )


def _warn_wide(run: Run) -> None:
    """Says, before it begins, that a linear policy on so many numbers is slow: it is solved for exactly."""
    game, width = run.student.game, run.student.parts.observations.width
    if game.policy.name == "linear" and width > WIDE:
        warnings.warn(
            f"policy: a linear policy on {width:,} numbers an observation is solved for exactly, which may "
            "take minutes a round; a network (--policy mlp, or nature_cnn or camera on images) is quicker.",
            stacklevel=3,
        )


def _warn_endless(run: Run) -> None:
    """Once, after the round in which an episode has become long, and none has ended: long before the last
    evaluation, which such an environment would keep from ending.
    """
    rows, limit, name = run.student.rows, run.spec.episode_limit, run.world.make.name
    if limit is None and not run.student.timetable.evaluated:
        return
    before = int(rows[-2]["steps"]) if len(rows) > 1 else 0
    # With a limit, an evaluation starts anew where the training never does.
    long = before < (limit or LONG) * run.spec.num_envs < int(rows[-1]["steps"]) + (limit is None)
    if not long or any(row["episodes"] for row in rows):
        return
    what = (
        "and it has no limit of its own; an evaluation stops with an error after "
        f"{STEP_LIMIT:,} steps of one episode, unless episode_limit (--episode-limit N) ends it before"
    )
    if limit is not None:
        if longest_episode({"env_kwargs": run.spec.env_kwargs, "episode_limit": None}, name):
            return
        what = (
            f"and episode_limit ({limit}) ends those of evaluations alone; where the environment has no "
            "limit of its own, the training sees one start; gymnasium.wrappers.TimeLimit around it gives more"
        )
    warnings.warn(
        f"env: no episode of {name} ended in the first {rows[-1]['steps']:,} steps, {what}.", stacklevel=3
    )


def _left(run: Run) -> str:
    """What an interrupt leaves, and how to go on."""
    folder, done = run.folder, run.student.round
    if folder is None:
        return "nothing is kept; with out (--out FOLDER) it could go on from here"
    under_way = folder.journal.count
    labels = f" and {under_way:,} labels of round {done + 1}" if under_way else ""
    rounds = "1 round" if done == 1 else f"{done} rounds"
    return f"{rounds}{labels} are kept in {str(folder.path)!r}; go on with --resume"
