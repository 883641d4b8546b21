"""Whether a part has a name that a registry knows, and options that it takes."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from ..errors import UserError, unknown

if TYPE_CHECKING:
    from ..registry import Registry


_KNOWN: set[tuple[str, str, str]] = set()
"""Names and options that were found to fit; a study has many runs and few learners."""


@functools.cache
def registries() -> dict[str, Registry[Any]]:
    """The registry of each part but the expert."""
    from ..learners import LEARNERS
    from ..losses import LOSSES
    from ..policies import POLICIES
    from ..solvers import SOLVERS

    return {"learner": LEARNERS, "policy": POLICIES, "loss": LOSSES, "solver": SOLVERS}


def fits(part: str, value: Any, given: dict[str, Any]) -> None:
    """Refuses a name that no registry knows, an object of another kind, and options that do not fit."""
    registry = registries()[part]
    if not isinstance(value, str):
        if given:
            raise UserError(f"{part}: it is an object, so {', '.join(given)} cannot be passed on to it.")
        registry.resolve(value)
        return
    if (part, value, repr(given)) in _KNOWN:
        return
    if part == "learner" and value == "bc":
        if given:
            raise UserError("learner: 'bc' takes no options; it is FTL on expert-driven rounds.")
    elif value == "auto" and part != "learner":
        if part == "policy" and given:
            registry.refuse_foreign("mlp", given)
    else:
        if part == "learner" and ":" not in value and value not in registry:
            raise unknown("learner", value, [*registry.names(), "bc"])  # which is FTL, expert-driven
        registry.refuse_foreign(value, given)
        missing = [name for name in registry.needs(value) if name not in given]
        if part == "learner" or not missing:  # what a run decides for a learner is a number
            registry.make(value, given | dict.fromkeys(missing, 1.0))
    _KNOWN.add((part, value, repr(given)))
