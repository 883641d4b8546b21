"""The one error a user is meant to read."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(ValueError):
    """Bad input. The message is one sentence with the field, the value, and what is accepted.

    The command line prints it without a traceback and exits with code 2.
    """


class MissingExtra(UserError):
    """A feature needs an optional dependency that is not installed."""

    def __init__(self, feature: str, extra: str):
        super().__init__(f"{feature} needs the extra '{extra}': pip install 'understudy[{extra}]'.")


def unknown(field: str, value: object, accepted: Iterable[str]) -> UserError:
    """The error for a name that is not registered, with the nearest one that exists.

    >>> str(unknown("loss", "sqared", ["squared", "huber"]))
    "loss: unknown value 'sqared', did you mean 'squared'? Accepted: huber, squared."
    """
    names = sorted(accepted)
    near = difflib.get_close_matches(str(value), names, n=1)
    hint = f", did you mean '{near[0]}'?" if near else "."
    return UserError(f"{field}: unknown value {value!r}{hint} Accepted: {', '.join(names)}.")
