"""`understudy sweep`: a grid of runs planned, played, kept; tuned where asked."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from ..errors import UserError, check_name
from ..progress import interruptible, stages
from ..report import tables
from ..spec import FIELDS
from .options import Flag, Folder, Json, Name, Names, Options, Repeated, Whole

if TYPE_CHECKING:
    from ..intervals import Interval
    from ..studies import Results, Study, Tuned
    from ..studies.folder import Columns
    from ..studies.study import Axis


class Sweep(Options, settings=(name for name in FIELDS if name not in ("env", "learner", "seed"))):
    """Train a whole grid of runs on every core, in a folder that a kill does not harm.

    The same command again goes on where it was. A plan is printed first.
    """

    main = ("learners", "grid", "seeds", "tune", "out", "plan", "workers", "expert", "policy", "rounds")
    main += ("steps_per_round", "budget")

    study: Positional[Annotated[str, arg(metavar="ENV|STUDY.toml")]]
    """A Gymnasium id such as Hopper-v5, or a file that says it all (options given here win)."""
    out: Folder = None
    """The folder that keeps the study: every run, results.csv, summary.csv."""
    learners: Names = ()
    """The axis of learners: ftl, ftrl, alt_ftrl, adaftrl, ogd, adagrad, bc."""
    grid: Repeated = ()
    """One more axis, NAME=VALUES: step=1e-5:1e5:log11, loss=squared,huber, noise=0:1:lin5. `step` is η or α,
    whichever the learner has. Again for each axis."""
    seeds: Whole = None
    """Seeds per setting, from 0."""
    tune: Names = ()
    """Tune these axes: a coarse pass, the best three in full, the best of those."""
    candidates: Whole = None
    """How many candidates of the coarse pass are played in full (3)."""
    keep: Name = None
    """best: keep the folder of the run with the highest return of each environment, with policy and samples;
    all: that of every run. evaluate, play, export and report then take the study."""
    engine: str = "local"
    """local (worker processes), ray (a cluster, extra `ray`) or inline (this process)."""
    address: Name = None
    """The Ray cluster, such as auto or HOST:6379; one of this machine alone if it is not given."""
    workers: Whole = None
    """Processes at once (default: one per core; one on an accelerator)."""
    shard: Whole = None
    """Most runs played side by side in a process."""
    retries: int = 2
    """How often a shard is played again when its worker dies."""
    retry_failed: Flag = False
    """Play again the runs that have failed; without it they count as finished."""
    plan: Flag = False
    """Print the plan and stop."""
    sink: Repeated = ()
    """Give every run that has ended to tensorboard, wandb or module:sink too, with a place after a colon;
    each has a folder, or a run of its own, there. May be repeated."""
    json: Json = False


TUNING = ("over", "candidates", "coarse", "seeds")
SHOWN = 40
"""Most settings that are printed; all are in summary.csv."""


WHERE, HOW = ("engine", "workers", "shard", "retry_failed"), ("address", "retries", "keep")
"""Options that a plan takes, and those that running takes beside them."""


def run(options: Sweep) -> int:
    """Prints the plan and, unless that is all, plays the study and prints what came of it."""
    from ..studies import Tuned, plan, plans, tune
    from ..studies import run as run_study
    from ..studies.running import check_keep

    study, tuning = study_of(options)
    if options.keep is not None and options.keep.isdecimal():
        raise UserError(f"keep: {options.keep} is not best or all; --candidates is a number, for tuning.")
    check_keep(options.keep, options.out)
    if options.out is None and not options.plan:
        raise UserError("out: name the folder that keeps the study, as in --out studies/hopper.")
    where: dict[str, Any] = {name: getattr(options, name) for name in WHERE}
    with stages() as show:
        if tuning:
            planned = plans(study, out=options.out, **tuning, **where, progress=show)
        else:
            planned = {"plan": plan(study, options.out, **where, progress=show)}
    for title, each in planned.items():
        tables.show(tables.facts(title if title == "plan" else f"plan: {title} pass", each.rows()))
    if options.plan:
        told = ("runs", "finished", "steps", "seconds")
        tables.json_line({title: {k: getattr(each, k) for k in told} for title, each in planned.items()})
        return 0
    began = time.perf_counter()
    how = where | {name: getattr(options, name) for name in HOW}
    ended = f"what has ended is kept in {str(options.out)!r}; the same command goes on"
    with interruptible(lambda: ended), stages() as show:
        if tuning:
            done: Results | Tuned = tune(
                study, out=options.out, **tuning, **how, sinks=options.sink, progress=show
            )
        else:
            done = run_study(
                study, options.out, **how, sinks=options.sink, progress=lambda d, t: show("rounds", d, t)
            )
    full = done.full if isinstance(done, Tuned) else done
    _show(study, done)
    failed = full.failed
    if failed:
        first = next(iter(failed.values()))
        print(f"{len(failed)} of {len(full)} runs failed (--retry-failed plays them again); first: {first}")
    seconds = time.perf_counter() - began
    print(f"{len(full)} runs in {options.out} after {seconds:.1f} s: results.csv, summary.csv")
    tables.json_line({"runs": len(full), "failed": len(failed), "out": str(options.out)})
    return int(len(failed) == len(full))


def study_of(options: Sweep) -> tuple[Study, dict[str, Any]]:
    """The study that was typed, or that a file holds, and how to tune it (empty: not at all)."""
    from ..studies import Study, read
    from ..studies.study import parse_axis

    given = options.given() | ({} if options.seeds is None else {"seeds": options.seeds})
    axes: dict[str, Axis] = {"learner": tuple(options.learners)} if options.learners else {}
    for text in options.grid:
        name, values = parse_axis(text)
        if name in axes:
            raise UserError(f"grid: the axis {name} is there twice; join its values with commas.")
        axes[name] = values
    tuning: dict[str, Any] = {}
    if options.study.endswith(".toml"):
        study, tuning = read(options.study, given | {"grid": axes})
        for name in tuning:
            check_name("tune", name, TUNING)
    else:
        study = Study(options.study, grid=axes, **given)
    if options.tune:
        tuning = {**tuning, "over": tuple(options.tune)}
    if options.candidates is not None:
        if not tuning:
            raise UserError("candidates: they are for tuning; add --tune step.")
        tuning["candidates"] = options.candidates
    return study, tuning


def _show(study: Study, done: Results | Tuned) -> None:
    """One line per setting, best average loss first, and below them the expert's; for a tuned study the
    choices.
    """
    from ..report.account import ELSEWHERE, group_by_loss
    from ..studies import Tuned

    if isinstance(done, Tuned):
        return _show_table("chosen", done.table())
    groups = group_by_loss(done.entries, done.results)
    rows = [
        {
            **group.labels,
            "runs": len(group.sources),
            "failed": sum(bool(run.trouble) for run in group.sources),
            "average loss": group.average_loss.middle,
            "return": _spread(group.returned),
            "minus the expert's": _spread(group.difference),
        }
        for group in groups
    ]
    names = [n for n in rows[0] if n in study.grid or any(repr(row[n]) != repr(rows[0][n]) for row in rows)]
    names += [name for name in ("average loss", "return") if name not in names]
    experts = {group.env: group.expert for group in groups if math.isfinite(group.expert.middle)}
    rows += [
        dict.fromkeys(names)
        | {"env": env, "return": _spread(expert)}
        | {names[0]: f"expert, {env}" if names[0] == "env" else "expert"}
        for env, expert in experts.items()
    ]
    title = "by average loss: means over seeds, ± half a 95 % interval"
    _show_table(title, {name: [row[name] for row in rows] for name in names})
    if len({group.by_expert for group in groups}) > 1:
        who = ", ".join(dict.fromkeys(str(group.labels["learner"]) for group in groups if group.by_expert))
        print(f"{who} stands last: {ELSEWHERE}.")


def _spread(interval: Interval) -> str | None:
    """A mean ± half of its interval, where there is one."""
    middle, low, high, _ = interval
    if not math.isfinite(middle):
        return None
    mean, half = (tables.returned(one, beside=interval[:3]) for one in (middle, (high - low) / 2))
    return f"{mean} ± {half}" if math.isfinite(high - low) else mean


def _show_table(title: str, columns: Columns) -> None:
    rows = [
        ["–" if cell is None or cell != cell else cell for cell in row]
        for row in zip(*columns.values(), strict=True)
    ]
    tables.show(tables.listed(title, columns, rows[:SHOWN]))
    if len(rows) > SHOWN:
        print(f"and {len(rows) - SHOWN} more settings")
