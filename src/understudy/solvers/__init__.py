"""Solvers: from an objective and a start to a `Solution` with a status."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from jax import Array

from ..losses import Absolute, Loss, Squared, computes
from ..objectives import Objective
from ..policies import Params, Policy
from ..registry import Registry
from .ball import InBall, project
from .base import (
    Descent,
    Direction,
    Progress,
    Solution,
    Solver,
    Status,
    Unsolved,
    block_lbfgs,
    gd,
    lbfgs,
    newton,
)
from .closed_form import ClosedForm, Frequencies, cell_newton, closed_form
from .interior_point import InteriorPoint, interior_point
from .stochastic import SLS, Adam, ProximalSGD, adam, proximal_sgd, sls

NEWTON_LIMIT = 1500
"""Up to this many parameters `auto` forms the Hessian of a linear policy; beyond, L-BFGS
preconditioned by the Hessian's blocks. (512 × 6, 2,000 samples: Newton needs 9 steps of many seconds on two
cores.)
"""


@runtime_checkable
class AnySolver(Protocol):
    """What a solver must be: a callable from (objective, params, key) to a `Solution`, under jit."""

    def __call__(self, objective: Objective, params: Params, key: Array | None = None) -> Solution: ...


_MAKERS: dict[str, Callable[..., AnySolver]] = {
    "closed-form": closed_form,
    "newton": newton,
    "lbfgs": lbfgs,
    "block-lbfgs": block_lbfgs,
    "gd": gd,
    "adam": adam,
    "sls": sls,
    "proximal-sgd": proximal_sgd,
    "interior-point": interior_point,
}
SOLVERS: Registry[AnySolver] = Registry(
    "solver",
    Callable,  # type: ignore[arg-type]
    _MAKERS,
    aliases={name.replace("-", "_"): name for name in _MAKERS if "-" in name},
    group="solvers",
)


def auto_name(policy: Policy, loss: Loss, parameters: int) -> str:
    """The name that `auto` stands for: an exact solver where one exists, else Adam."""
    if not policy.linear:
        return "adam"
    if computes(loss, Squared):
        return "closed-form"
    if computes(loss, Absolute):
        return "interior-point"
    return "newton" if parameters <= NEWTON_LIMIT else "block-lbfgs"


def auto(policy: Policy, loss: Loss, parameters: int) -> Any:
    """An exact solver where one exists (closed form, interior point, Newton, L-BFGS), else Adam."""
    name = auto_name(policy, loss, parameters)
    return adam(batch_size=256) if name == "adam" else SOLVERS.make(name, {})


__all__ = ["NEWTON_LIMIT", "SLS", "SOLVERS", "Adam", "AnySolver", "ClosedForm", "Descent", "Direction"]
__all__ += ["Frequencies", "InBall", "InteriorPoint", "Progress", "ProximalSGD", "Solution", "Solver"]
__all__ += [
    "Status",
    "Unsolved",
    "adam",
    "auto",
    "auto_name",
    "block_lbfgs",
    "cell_newton",
    "closed_form",
    "gd",
]
__all__ += ["interior_point", "lbfgs", "newton", "project", "proximal_sgd", "sls"]
