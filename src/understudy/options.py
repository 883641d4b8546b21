"""What each command can be told: frozen dataclasses, read by tyro. Nothing here may import jax or NumPy."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import OmitArgPrefixes, Positional, arg

# No "(default: None)" in the help: an option that was not given leaves the choice to whoever takes it.
_UNSET = arg(help_behavior_hint="")
Number = Annotated[float | None, _UNSET]
Whole = Annotated[int | None, _UNSET]
Name = Annotated[str | None, _UNSET]
Flag = Annotated[bool, _UNSET]
Folder = Annotated[Path | None, _UNSET]


@dataclasses.dataclass(frozen=True, kw_only=True)
class LearnerOptions:
    """They reach the learner's constructor; one that the learner does not take is refused."""

    eta: Number = None
    """Step size η of ftrl, alt_ftrl and ogd."""
    alpha: Number = None
    """Scale α of adaftrl and adagrad."""
    schedule: Name = None
    """How η moves with the rounds: sqrt (η/√t), constant or adaptive."""
    start: Whole = None
    """First round that the schedule counts."""
    radius: Number = None
    """Keep the parameters in the L2 ball of this radius."""
    diagonal: Flag = False
    """AdaGrad per coordinate instead of by the norm."""

    def given(self) -> dict[str, Any]:
        """Those that were given, by name."""
        # By identity: a step size of 0.0 equals False, and must reach whoever refuses it.
        return {k: v for k, v in dataclasses.asdict(self).items() if v is not None and v is not False}


Learning = Annotated[LearnerOptions, OmitArgPrefixes]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Replay:
    """Play a recorded stream of losses to a learner, and report its regret.

    The stream is an npz file with X (rounds, samples, features) and Y (rounds, samples, outputs), or labels
    Y (rounds, samples) for the cross-entropy loss. Rounds of unequal size: X (N, features) and Y (N, ...),
    with `sizes` (rounds,) that add up to N.
    """

    stream: Positional[Annotated[Path, arg(metavar="STREAM")]]
    """The npz file with the stream."""
    learner: str = "ftl"
    """ftl, ftrl, alt_ftrl, adaftrl, ogd, adagrad, or your own as module:function."""
    learning: Learning = LearnerOptions()
    """Options of the learner."""
    policy: str = "linear"
    """linear or mlp."""
    bias: Flag = False
    """Give the linear policy a bias."""
    loss: str = "squared"
    """squared, absolute, huber or cross-entropy."""
    solver: str = "auto"
    """auto, closed-form, newton, lbfgs, gd, adam, sls, proximal-sgd, interior-point, or module:function."""
    tolerance: Number = None
    """The solver stops at this gradient norm of (whole objective)/t."""
    max_iterations: Whole = None
    """The solver stops after this many iterations."""
    batch_size: Whole = None
    """Samples per step of a solver that can take minibatches."""
    seed: int = 0
    """Seed of everything random: first parameters of a network, minibatches."""
    out: Folder = None
    """Write ledger.csv, times.csv, certificate.json and regret.png to this new folder."""
    keep_iterates: Flag = False
    """Also write every iterate, w_1 to w_{T+1}, to iterates.npz."""
    json: Flag = False
    """Print the result as one last line of JSON."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class CheckLearner:
    """Put a learner through the conformance suite."""

    learner: Positional[Annotated[str, arg(metavar="LEARNER")]]
    """A learner's name, or your own as module:function."""
    learning: Learning = LearnerOptions()
    """Options of the learner."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class CheckSolver:
    """Put a solver through the conformance suite."""

    solver: Positional[Annotated[str, arg(metavar="SOLVER")]]
    """A solver's name, or your own as module:function."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class PaperTheorem:
    """The theorem on FTL under interpolation, exhibited without sampling on tabular MDPs."""

    gamma: float = 0.9
    """Discount factor, in [0, 1)."""
    rounds: int = 40
    """Rounds played."""
    seed: int = 0
    """Seed of the random MDP."""
    out: Folder = None
    """Write the numbers and the figure to this new folder."""
    json: Flag = False
    """Print the result as one last line of JSON."""
