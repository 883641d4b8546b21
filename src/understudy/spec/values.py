"""Values of settings, each in its one spelling, and parts with options that they take; or one sentence with
the field, the value and what fits.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import math
import os
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import UserError, unknown, whole

if TYPE_CHECKING:
    from ..registry import Registry

_KNOWN: set[tuple[str, str, str]] = set()
"""Names and options that were found to fit; a study has many runs and few learners."""


def read_toml(path: str | os.PathLike[str], field: str) -> dict[str, Any]:
    """A TOML file, or one sentence about `field`."""
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8-sig"))  # some editors begin with a mark
    except OSError as error:
        raise UserError(f"{field}: cannot read {str(path)!r} ({error.strerror or error}).") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{field}: {str(path)!r} is not TOML ({error}).") from None


def stated(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that were given. None counts as not given, but an encoder of None is the pixels."""
    return {name: value for name, value in settings.items() if value is not None or name == "encoder"}


def describe(part: Any) -> Any:
    """A part of a run as plain data, for the record and to compare when a run is resumed.

    >>> from understudy import ftrl
    >>> describe(ftrl(eta=0.5))["name"]
    'ftrl'
    """
    if isinstance(part, (str, int, float, bool)) or part is None:
        return part
    if isinstance(part, Mapping):
        return {str(name): describe(value) for name, value in part.items()}
    if isinstance(part, (list, tuple)):
        return [describe(one) for one in part]
    if isinstance(part, os.PathLike):
        return os.fspath(part)
    if hasattr(part, "label") or hasattr(part, "predict"):  # an expert, which may hold a network
        return str(getattr(part, "name", type(part).__qualname__))
    if dataclasses.is_dataclass(part) and not isinstance(part, type):
        fields = {field.name: describe(getattr(part, field.name)) for field in dataclasses.fields(part)}
        return {"kind": type(part).__name__, **fields}
    if (listed := getattr(part, "tolist", None)) is not None:
        return listed()
    name = getattr(part, "__qualname__", None)
    return f"{part.__module__}:{name}" if name else type(part).__qualname__


def checked(field: dataclasses.Field[Any], value: Any) -> Any:
    """The value in its one spelling, by the field's type and limits, or one sentence."""
    if value is None and field.default is None:
        return None
    listed = None if isinstance(value, type) else getattr(value, "tolist", None)
    value = value if listed is None else listed()  # NumPy's numbers and arrays
    read = READERS.get(str(field.type).removesuffix(" | None"))
    return value if read is None else read(field.name, value, field.metadata)


def _whole(name: str, value: Any, rules: Mapping[str, Any]) -> int:
    if not _within(value, rules) or value != int(value):
        raise UserError(f"{name}: {value!r} is not a whole number{_limit(rules, value)}.")
    return int(value)


def _number(name: str, value: Any, rules: Mapping[str, Any]) -> float:
    if not _within(value, rules):
        raise UserError(f"{name}: {value!r} is not a finite number{_limit(rules, value)}.")
    return float(value)


def _within(value: Any, rules: Mapping[str, Any]) -> bool:
    real = isinstance(value, (int, float)) and not isinstance(value, bool)
    low, high = rules.get("least", -math.inf), rules.get("most", math.inf)
    return real and low <= value <= high and abs(value) <= sys.float_info.max


def _limit(rules: Mapping[str, Any], value: Any) -> str:
    if isinstance(value, (int, float)) and value > rules.get("most", math.inf):
        return f" ≤ {rules['most']:,}"
    return f" ≥ {rules['least']:g}" if "least" in rules else ""


def _truth(name: str, value: Any, rules: Mapping[str, Any]) -> bool:
    if value not in ("yes", "no") and not isinstance(value, bool):
        raise UserError(f"{name}: {value!r} is not accepted; say yes or no.")
    return value is True or value == "yes"


def _word(name: str, value: Any, rules: Mapping[str, Any]) -> str:
    if "among" in rules and value not in rules["among"]:
        raise unknown(name, value, rules["among"])
    if not isinstance(value, (str, os.PathLike)):
        raise UserError(f"{name}: {value!r} is not a word.")
    return str(os.fspath(value))


def _widths(name: str, value: Any, rules: Mapping[str, Any]) -> tuple[int, ...]:
    listed = value if isinstance(value, Sequence) and not isinstance(value, str) else (value,)
    try:
        for one in listed:
            whole(name, one)
    except UserError:
        raise UserError(f"{name}: {value!r} must be positive whole numbers, as in (256, 256).") from None
    return tuple(map(int, listed))


def mapping(name: str, value: Any, rules: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A mapping, or the JSON of one."""
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            value = json.loads(value)
    if not isinstance(value, Mapping):
        raise UserError(f"{name}: {value!r} is not a JSON object such as '{{\"max_episode_steps\": 200}}'.")
    return {str(key): one for key, one in value.items()}


READERS: dict[str, Callable[[str, Any, Mapping[str, Any]], Any]] = {
    "int": _whole,
    "float": _number,
    "bool": _truth,
    "str": _word,
    "tuple[int, ...]": _widths,
    "Mapping[str, Any]": mapping,
}
"""By the type of a field; what has no type here, such as a learner, is checked with its registry."""


def number_or_word(value: Any) -> Any:
    """A number in its one spelling, and what is none as it is.

    >>> number_or_word("0.5"), number_or_word(1), number_or_word("linear:3")
    (0.5, 1.0, 'linear:3')
    """
    if isinstance(value, (str, int)) and not isinstance(value, bool):
        with contextlib.suppress(ValueError, OverflowError):
            return float(value)
    return value


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
