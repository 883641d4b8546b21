"""`understudy check`: the conformance suites, for named parts and for your own."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from ..errors import UserError
from ..progress import stages
from ..report import tables
from ..spec import OPTIONS, registries
from .options import Folder, Name, Options

if TYPE_CHECKING:
    from ..checks.base import Report
    from ..checks.certificates import Finding


class CheckLearner(Options, settings=OPTIONS["learner"]):
    """Put a learner through the conformance suite."""

    learner: Positional[Annotated[str, arg(metavar="LEARNER")]]
    """A learner's name, or your own as module:function."""


class CheckSolver(Options):
    """Put a solver through the conformance suite."""

    solver: Positional[Annotated[str, arg(metavar="SOLVER")]]
    """A solver's name, or your own as module:function."""


class CheckPolicy(Options):
    """Put a policy through the conformance suite."""

    policy: Positional[Annotated[str, arg(metavar="POLICY")]]
    """A policy's name, or your own as module:Class."""


class CheckLoss(Options):
    """Put a loss through the conformance suite."""

    loss: Positional[Annotated[str, arg(metavar="LOSS")]]
    """A loss's name, or your own as module:Class."""


class CheckAsk(Options):
    """Put an ask rule through the conformance suite."""

    ask: Positional[Annotated[str, arg(metavar="RULE")]]
    """A rule with its number, as in random:10, or your own as module:Class."""


class CheckEnv(Options):
    """Put an environment through the conformance suite."""

    env: Positional[Annotated[str, arg(metavar="ENV")]]
    """A Gymnasium id, or your own as module:function."""


class CheckExpert(Options):
    """Put an expert through the conformance suite, on states of random play."""

    expert: Positional[Annotated[str, arg(metavar="EXPERT")]]
    """What train takes as --expert: a name, an archive, module:function."""
    env: Positional[Annotated[str, arg(metavar="ENV")]]
    """The environment: a Gymnasium id, or your own as module:function."""


class CheckCertificate(Options, settings=OPTIONS["learner"]):
    """Search for streams on which the regret is above its certified bound."""

    learner: Positional[Annotated[str, arg(metavar="LEARNER")]] = "all"
    """A learner's name, your own as module:function, or all: every shipped learner, solver and memory."""
    minutes: float = 1.0
    """How long to search."""
    seed: int = 0
    """Seed of the first restart; the table says which seed found the worst stream."""
    kind: Name = None
    """Search one kind of game only, by its name in the table, and restart once."""
    out: Folder = None
    """Write the streams on which a claim is false to this folder, as `understudy replay` reads them."""


def _suite(kind: str) -> Callable[[Options], int]:
    """The command of one kind of part: 0 when the part passes every check, else 1."""

    def run(options: Options) -> int:
        from .. import checks

        name = part = getattr(options, kind)
        if kind in ("learner", "solver"):  # made here, as `train` makes it
            part = registries()[kind].make(name, options.given())
        around = (options.env,) if isinstance(options, CheckExpert) else ()
        return _show_report(name, functools.partial(getattr(checks, kind), part, *around))

    return run


learner, solver, policy, loss, ask, env, expert = map(
    _suite, ("learner", "solver", "policy", "loss", "ask", "env", "expert")
)


def certificate(options: CheckCertificate) -> int:
    """0 when the search finds no false claim, else 1."""
    from .. import checks
    from ..learners import LEARNERS

    given = options.given()
    if options.learner == "all" and given:
        raise UserError(f"learner: 'all' takes no options of a learner, such as {next(iter(given))!r}.")
    search = functools.partial(
        checks.certificate,
        None if options.learner == "all" else LEARNERS.make(options.learner, given),
        minutes=options.minutes,
        restarts=None if options.kind is None else 1,
        seed=options.seed,
        kind=options.kind,
        out=options.out,
    )
    return _show_report(options.learner, search, progress=_tell)


def _tell(finding: Finding) -> None:
    """One line a restart on the error stream: a long search should not look dead."""
    print(f"{finding.kind}: seed {finding.seed}, worst {finding.worst:+.1e}", file=sys.stderr, flush=True)


def _show_report(name: str, suite: Callable[..., Report], **how: Callable[..., None]) -> int:
    """Prints what a suite finds; its progress, where `how` has none, as a bar: compiling takes a while."""
    from .. import checks

    with stages("checks") as update:
        how = how or {"progress": lambda done, total, name: update("checking", done, total)}
        try:
            report, failed = suite(**how), False
        except checks.CheckError as error:
            report, failed = error.report, True
    tables.show(tables.verdicts(f"checks of {name}", report.rows))
    return int(failed)
