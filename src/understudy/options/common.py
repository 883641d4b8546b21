"""What several commands can be told, and the types that the parser reads. Nothing here may import jax."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import OmitArgPrefixes, UseAppendAction, arg

# No "(default: None)" in the help: an option that was not given leaves the choice to whoever takes it.
UNSET = arg(help_behavior_hint="")
Number = Annotated[float | None, UNSET]
Whole = Annotated[int | None, UNSET]
Name = Annotated[str | None, UNSET]
Flag = Annotated[bool, UNSET]
Folder = Annotated[Path | None, UNSET]
Names = Annotated[tuple[str, ...], UNSET]
Repeated = UseAppendAction[Annotated[tuple[str, ...], UNSET]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Group:
    """Options that are handed on where they were given."""

    def given(self) -> dict[str, Any]:
        """Those that were given, by name."""
        # By identity: a step size of 0.0 equals False, and must reach whoever refuses it.
        return {k: v for k, v in dataclasses.asdict(self).items() if v is not None and v is not False}


@dataclasses.dataclass(frozen=True, kw_only=True)
class LearnerOptions(_Group):
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


Learning = Annotated[LearnerOptions, OmitArgPrefixes]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExpertOptions(_Group):
    """They say how to read or ask the expert; one that the expert has no use for is refused."""

    sees: Name = None
    """What a privileged expert sees: info:KEY or observation:KEY."""
    activation: Name = None
    """Activation of an archive's network, where the archive does not say."""
    vec_normalize: Folder = None
    """VecNormalize statistics that go with an archive."""
    revision: Name = None
    """Which revision of a hub's repository."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class SolverOptions(_Group):
    """They reach the solver; one that the solver does not take is refused."""

    learning_rate: Number = None
    """First step size of adam or proximal-sgd."""
    max_iterations: Whole = None
    """Steps of the solver in a round."""
    batch_size: Whole = None
    """Samples per step of a solver that can take minibatches."""
    tolerance: Number = None
    """The solver stops at this gradient norm of (whole objective)/t."""
