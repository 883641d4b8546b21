"""Which games the proofs cover, in one rule.

The proof is about the steps, weights and outputs that the shipped classes compute: a learner, a schedule or
a policy that overrides a part of its class has others. A solver may be anybody's, since what it left is
measured, and so may a loss, of which the proof needs a few statements (`convex`, `dual`, `least`,
`steepness`, `curvature`): they are its author's to prove, and `stated` tries them on the data.
"""

from __future__ import annotations

from typing import Any

from ..learners import Learner
from ..learners.schedules import Schedule
from ..losses import Loss
from ..losses.base import overridden
from ..policies import Linear, Policy, Tabular
from ..solvers import Unsolved


def why_not(policy: Policy, loss: Loss, learner: Any, hindsight: Any) -> str:
    """Why regret and bound of a game of these parts prove nothing, in one sentence; empty where they do.

    >>> import understudy
    >>> why_not(Linear(), understudy.Squared(), understudy.ftl(), None)
    ''
    >>> why_not(understudy.policies.MLP(), understudy.Squared(), understudy.ftl(), None)
    "the policy 'mlp' is not linear in its parameters: the losses are not convex."
    """
    if policy.memory:
        return (
            f"the policy {policy.name!r} is not linear in its parameters, and its losses are taken "
            "along sequences that begin with an empty memory."
        )
    name = policy.config()["policy"]  # a subclass is not called what it was made from
    if not policy.linear:
        return f"the policy {name!r} is not linear in its parameters: the losses are not convex."
    if not isinstance(policy, Linear | Tabular):
        return f"the policy {name!r} is not one that the proof knows: linear and tabular are."
    if not (loss.convex and loss.own("dual")):
        return f"the loss {type(loss).__name__} gives no conjugate, which a proof needs."
    if not isinstance(learner, Learner):
        return "the learner is not one of the family that the proof is about."
    if isinstance(hindsight, Unsolved):
        return "the best policy in hindsight is looked for elsewhere."
    parts = {"policy": policy, "learner": learner, "schedule": learner.schedule}
    for (role, part), kinds in zip(parts.items(), ((Linear, Tabular), (Learner,), (Schedule,)), strict=True):
        kind = next((one for one in kinds if isinstance(part, one)), kinds[0])
        if other := overridden(type(part), kind):
            return (
                f"the {role} {type(part).__name__} has its own {other!r}, and the proof is about that of "
                f"{kind.__name__}."
            )
    return ""
