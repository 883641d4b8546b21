"""understudy: online imitation learning, with the regret in numbers.

The names below are the public ones; rooms such as `understudy.losses` have the rest. They are loaded when
first used, so that importing the package (and asking the command line for help) does not wait for JAX.
"""

from __future__ import annotations

import importlib as _importlib

__version__ = "1.0.0"
TYPE_CHECKING = False  # that of `typing`, which takes longer to import than all of this

_NAMES = {
    "student": "Understudy",
    "runs": "Record Run",
    "runs.imitate": "imitate",
    "runs.players": "evaluate",
    "studies": "Study tune",
    "spec": "RunSpec",
    "explaining": "Explanation explain",
    "exports": "Exported export",
    "loading": "load",
    "report.page": "write_report",
    "report.card": "write_card",
    "report.figures": "write_plot",
    "streams": "Replay replay",
    "learners": "adaftrl adagrad alt_ftrl ftl ftrl ogd",
    "regret": "Certificate Ledger",
    "policies": "TrainedPolicy",
    "experts": "Expert",
    "envs.pure": "PureEnv",
    "errors": "UserError",
    "machine": "use_cache",
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}
_ROOMS = [
    "asking",
    "checks",
    "experts",
    "learners",
    "losses",
    "objectives",
    "policies",
    "regret",
    "sinks",
    "solvers",
    "students",
    "studies",
]
_REGISTRIES = {
    "learner": "learners:LEARNERS",
    "loss": "losses:LOSSES",
    "policy": "policies:POLICIES",
    "solver": "solvers:SOLVERS",
    "ask": "asking:RULES",
    "expert": "experts:EXPERTS",
    "sink": "sinks:SINKS",
}

if TYPE_CHECKING:
    from collections.abc import Callable as _Callable

    from . import asking as asking
    from . import checks as checks
    from . import experts as experts
    from . import learners as learners
    from . import losses as losses
    from . import objectives as objectives
    from . import policies as policies
    from . import regret as regret
    from . import sinks as sinks
    from . import solvers as solvers
    from . import students as students
    from . import studies as studies
    from .envs.pure import PureEnv as PureEnv
    from .errors import UserError as UserError
    from .experts import Expert as Expert
    from .explaining import Explanation as Explanation
    from .explaining import explain as explain
    from .exports import Exported as Exported
    from .exports import export as export
    from .learners import adaftrl as adaftrl
    from .learners import adagrad as adagrad
    from .learners import alt_ftrl as alt_ftrl
    from .learners import ftl as ftl
    from .learners import ftrl as ftrl
    from .learners import ogd as ogd
    from .loading import load as load
    from .machine import use_cache as use_cache
    from .policies import TrainedPolicy as TrainedPolicy
    from .regret import Certificate as Certificate
    from .regret import Ledger as Ledger
    from .report.card import write_card as write_card
    from .report.figures import write_plot as write_plot
    from .report.page import write_report as write_report
    from .runs import Record as Record
    from .runs import Run as Run
    from .runs.imitate import imitate as imitate
    from .runs.players import evaluate as evaluate
    from .spec import RunSpec as RunSpec
    from .streams import Replay as Replay
    from .streams import replay as replay
    from .student import Understudy as Understudy
    from .studies import Study as Study
    from .studies import tune as tune


def register(part: str, name: str, maker: _Callable[..., object]) -> None:
    """Makes ``maker(**options)`` available under `name`, wherever the name of such a part is accepted.

    Args:
      part: learner, loss, policy, solver, ask, expert or sink.
      name: a name that is not taken. Of an ask rule ``name:50`` the 50 is its option `number`; of a sink
        ``name:here`` the text is its option `place`.
      maker: returns the part. An expert may be an `Expert`, a function of an observation, or an object with
        `predict`. A policy's class can also be read back from a run.

    >>> import understudy
    >>> understudy.register("loss", "halved", lambda: understudy.losses.Huber(delta=0.5))
    """
    errors = _importlib.import_module(".errors", __name__)
    errors.check_name("part", part, _REGISTRIES)
    home, _, registry = _REGISTRIES[part].partition(":")
    room = _importlib.import_module(f".{home}", __name__)
    if part == "expert" and name in room.names():
        raise errors.UserError(f"expert: the name {name!r} is taken; register another.")
    getattr(room, registry).register(name, maker)


def __getattr__(name: str) -> object:
    if name in _HOMES:
        value = getattr(_importlib.import_module(f".{_HOMES[name]}", __name__), name)
    elif name in _ROOMS:
        value = _importlib.import_module(f".{name}", __name__)
    else:
        raise AttributeError(f"module 'understudy' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*_HOMES, *_ROOMS, "register"])


if not TYPE_CHECKING:
    __all__ = __dir__()
