"""understudy: online imitation learning, with the regret in numbers.

The names below are the public ones. They are loaded when first used, so that importing the package (and
asking the command line for help) does not wait for JAX.
"""

from __future__ import annotations

import importlib
import sys
import types

__version__ = "0.1.0"
TYPE_CHECKING = False  # that of `typing`, which takes longer to import than all of this

_NAMES = {
    "student": "Understudy",
    "runs": "Record Run",
    "runs.imitate": "imitate",
    "explaining": "explain Explanation",
    "runs.evaluate": "evaluate",
    "exports": "export Exported",
    "loading": "load",
    "report.page": "write_report",
    "spec": "RunSpec",
    "envs.pure": "PureEnv",
    "policies": "TrainedPolicy Policy Linear Tabular MLP GRU NatureCNN Camera",
    "replay": "Replay",
    "learners": "ftl ftrl alt_ftrl adaftrl ogd adagrad linearised schedule theorem Learner",
    "regret": "Ledger Certificate",
    "solvers": "Status Solution Solver closed_form newton lbfgs gd adam sls proximal_sgd interior_point",
    "losses": "Loss Squared Absolute Huber CrossEntropy BinaryCrossEntropy",
    "studies": "Study tune",
    "experts": "Expert",
    "errors": "UserError",
    "machine": "use_cache",
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}
_ROOMS = ("asking", "checks", "losses", "policies", "objectives", "solvers", "learners", "regret", "experts")
_ROOMS += ("sinks", "studies")

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from . import asking, checks, experts, learners, losses, objectives, policies, regret, sinks, solvers
    from . import studies as studies
    from .asking import Rule
    from .envs.pure import PureEnv
    from .errors import UserError
    from .experts import Expert
    from .explaining import Explanation, explain
    from .exports import Exported, export
    from .learners import (
        AnyLearner,
        Learner,
        adaftrl,
        adagrad,
        alt_ftrl,
        ftl,
        ftrl,
        linearised,
        ogd,
        schedule,
        theorem,
    )
    from .loading import load
    from .losses import Absolute, BinaryCrossEntropy, CrossEntropy, Huber, Loss, Squared
    from .machine import use_cache
    from .policies import GRU, MLP, Camera, Linear, NatureCNN, Policy, Tabular, TrainedPolicy
    from .regret import Certificate, Ledger
    from .replay import Replay, replay
    from .report.page import write_report
    from .runs import Record, Run
    from .runs.evaluate import evaluate
    from .runs.imitate import imitate
    from .sinks import Sink
    from .solvers import (
        AnySolver,
        Solution,
        Solver,
        Status,
        adam,
        closed_form,
        gd,
        interior_point,
        lbfgs,
        newton,
        proximal_sgd,
        sls,
    )
    from .spec import RunSpec
    from .student import Understudy
    from .studies import Study, tune


def register_learner(name: str, maker: Callable[..., AnyLearner]) -> None:
    """Makes ``maker()`` available as the learner `name`, wherever a learner's name is accepted."""
    importlib.import_module(".learners", __name__).LEARNERS.register(name, maker)


def register_loss(name: str, maker: Callable[..., Loss]) -> None:
    """Makes ``maker(**options)`` available as the loss `name`."""
    importlib.import_module(".losses", __name__).LOSSES.register(name, maker)


def register_policy(name: str, maker: Callable[..., Policy]) -> None:
    """Makes ``maker(**options)`` available as the policy `name`; a class can also be read back from a run."""
    importlib.import_module(".policies", __name__).POLICIES.register(name, maker)


def register_expert(name: str, maker: Callable[..., Any]) -> None:
    """Makes ``maker(**options)`` available as the expert `name`: it returns an `Expert`, a function of an
    observation, or an object with `predict`.
    """
    experts = importlib.import_module(".experts", __name__)
    if name in experts.names():
        raise importlib.import_module(".errors", __name__).UserError(
            f"expert: the name {name!r} is taken; register another."
        )
    experts.EXPERTS.register(name, maker)


def register_ask(name: str, maker: Callable[..., Rule]) -> None:
    """Makes ``maker(**options)`` available as the ask rule `name`; of ``name:50`` the 50 is its option
    `number`.
    """
    importlib.import_module(".asking", __name__).RULES.register(name, maker)


def register_sink(name: str, maker: Callable[..., Sink]) -> None:
    """Makes ``maker(**options)`` available as the sink `name`; of ``name:here`` the text is its option
    `place`.
    """
    importlib.import_module(".sinks", __name__).SINKS.register(name, maker)


def register_solver(name: str, maker: Callable[..., AnySolver]) -> None:
    """Makes ``maker(**options)`` available as the solver `name`."""
    importlib.import_module(".solvers", __name__).SOLVERS.register(name, maker)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    elif name in _ROOMS:
        value = importlib.import_module(f".{name}", __name__)
    else:
        raise AttributeError(f"module 'understudy' has no attribute {name!r}")
    globals()[name] = value
    return value


class _Front(types.ModuleType):
    """This package: `replay` stays a function when the module of that name is imported."""

    @property
    def replay(self) -> Any:
        return importlib.import_module(".replay", __name__).replay

    @replay.setter
    def replay(self, module: Any) -> None:
        """Python would put the module here as soon as anyone imports it."""


sys.modules[__name__].__class__ = _Front


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_ROOMS, "replay"})
