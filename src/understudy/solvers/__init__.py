"""Solvers: from an objective and a start to a `Solution` with a status."""

from __future__ import annotations

from collections.abc import Callable

from ..losses import Absolute, Loss, Squared, computes
from ..policies import Policy
from ..registry import Registry
from .ball import InBall, project
from .base import (
    AnySolver,
    Descent,
    Direction,
    Progress,
    Solution,
    Solver,
    Status,
    Task,
    Unsolved,
    block_lbfgs,
    check_number,
    draws,
    gd,
    is_data,
    lbfgs,
    newton,
    same_program,
    solve_in_turn,
)
from .closed_form import ClosedForm, Frequencies, cell_newton, closed_form
from .interior_point import InteriorPoint, interior_point
from .stochastic import SLS, Adam, ProximalSGD, adam, proximal_sgd, sls

NEWTON_LIMIT = 1500
"""Up to this many parameters `auto` forms the Hessian of a linear policy; beyond, L-BFGS
preconditioned by the Hessian's blocks. (512 × 6, 2,000 samples: Newton needs 9 steps of many seconds on two
cores.)
"""


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


def auto(policy: Policy, loss: Loss, parameters: int) -> AnySolver:
    """An exact solver where one exists (closed form, interior point, Newton, L-BFGS), else Adam."""
    name = auto_name(policy, loss, parameters)
    return adam(batch_size=256) if name == "adam" else SOLVERS.make(name, {})


__all__ = ["NEWTON_LIMIT", "SLS", "SOLVERS", "Adam", "AnySolver", "ClosedForm", "Descent", "Direction"]
__all__ += ["Frequencies", "InBall", "InteriorPoint", "Progress", "ProximalSGD", "Solution", "Solver"]
__all__ += ["Status", "Task", "Unsolved", "adam", "auto", "auto_name", "block_lbfgs", "cell_newton"]
__all__ += ["check_number", "closed_form", "draws", "gd", "interior_point", "is_data", "lbfgs", "newton"]
__all__ += ["project", "proximal_sgd", "same_program", "sls", "solve_in_turn"]
