"""The one error a user is meant to read."""

from __future__ import annotations

import contextlib
import difflib
import importlib
import traceback
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

MANY = 25
"""Most names that a sentence lists."""


class UserError(ValueError):
    """Bad input. The message is one sentence with the field, the value, and what is accepted.

    The command line prints it without a traceback and exits with code 2.
    """


class ContractError(UserError):
    """A part of someone's own does not do what its kind must do."""


class MissingExtra(UserError):
    """A feature needs an optional dependency that is not installed."""

    def __init__(self, feature: str, extra: str):
        super().__init__(f"{feature} needs the extra '{extra}': pip install 'understudy[{extra}]'.")


def import_extra(module: str, feature: str, extra: str) -> ModuleType:
    """An optional module, or the sentence that says how to install it.

    >>> import_extra("math", "counting", "numbers").floor(1.5)
    1
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        raise MissingExtra(feature, extra) from None


def unknown(field: str, value: object, accepted: Iterable[str]) -> UserError:
    """The error for a name that is not registered, with the nearest one that exists.

    >>> str(unknown("loss", "sqared", ["squared", "huber"]))
    "loss: unknown value 'sqared', did you mean 'squared'? Accepted: huber, squared."
    """
    names = sorted(accepted)
    listed = f"Accepted: {', '.join(names)}."
    if len(names) > MANY:
        close = difflib.get_close_matches(str(value), names, n=5, cutoff=0.3) or names[:5]
        listed = f"Accepted are {len(names)}, such as {', '.join(close)}."
    return UserError(f"{field}: unknown value {value!r}{suggest(value, names)} {listed}")


def check_name(field: str, value: str | None, accepted: Collection[str]) -> None:
    """Refuses a name that is not among those accepted.

    >>> check_name("loss", "huber", ["squared", "huber"])
    """
    if value not in accepted:
        raise unknown(field, value, accepted)


def check_int(field: str, value: Any, least: int = 1) -> int:
    """The value as Python's `int`; what is not a whole number of at least `least` is refused.

    >>> check_int("rounds", 0)
    Traceback (most recent call last):
    understudy.errors.UserError: rounds: 0 is not a whole number ≥ 1.
    """
    # By its kind, and not by the class: this file imports no NumPy.
    kind = getattr(getattr(value, "dtype", None), "kind", "i" if isinstance(value, int) else "")
    if isinstance(value, bool) or kind not in "iu" or not kind or value < least:
        raise UserError(f"{field}: {value!r} is not a whole number ≥ {least}.")
    return int(value)


def suggest(value: object, names: Sequence[str]) -> str:
    """How a sentence about a wrong name ends: with the nearest one, where one is near.

    >>> suggest("Hoper", ["Hopper", "Ant"]), suggest("?", ["Hopper", "Ant"])
    (", did you mean 'Hopper'?", '.')
    """
    near = difflib.get_close_matches(str(value), names, n=1)
    return f", did you mean {near[0]!r}?" if near else "."


def shorten(error: BaseException | str) -> str:
    """What an exception or a file says, on one line and not too long; for an exception also the line of the
    user's own file that raised it.

    That line is the innermost one outside this package, installed libraries and Python's own.

    >>> shorten(KeyError("torso")), shorten("two\\nlines")
    ("KeyError: 'torso'", 'two lines')
    """
    text = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
    return " ".join(text.split())[:300] + ("" if isinstance(error, str) else _place(error))


def failure(who: str, error: BaseException) -> UserError:
    """An error as a sentence of `who`, with the error behind it.

    >>> str(failure("expert", KeyError("torso")))
    "expert: KeyError: 'torso'"
    """
    if isinstance(error, UserError):
        return error
    made = UserError(f"{who}: {shorten(error)}")
    made.__cause__ = error
    return made


_TRACED = ("TracerBoolConversionError", "TracerArrayConversionError", "TracerIntegerConversionError")
_TRACED += ("ConcretizationTypeError",)


@contextlib.contextmanager
def calling(kind: str, part: object, method: str) -> Iterator[None]:
    """Whatever a user's own part raises in the block becomes one sentence that names the part.

    Errors of the package's own parts pass as they are.

    >>> with calling("learner", [].append, "update"):
    ...     raise KeyError("eta")
    Traceback (most recent call last):
    understudy.errors.ContractError: learner 'append': its update failed (KeyError: 'eta').
    """
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        if not is_own(part):
            raise
        said = shorten(error)
        if type(error).__name__ in _TRACED:
            said = f"it needs the value of an array while JAX compiles it{_place(error)}; write jnp in place "
            said += "of np and float, and jnp.where or jax.lax.cond in place of if"
        raise ContractError(f"{kind} {name_of(part)!r}: its {method} failed ({said}).") from error


def is_own(part: object) -> bool:
    """Whether a part (an object, a class or a function) is a user's own, and not one of this package."""
    home = getattr(part, "__module__", None) or type(part).__module__  # a class and an object have the same
    return not f"{home}.".startswith("understudy.")


def name_of(part: object) -> str:
    """What a sentence calls a part: its name, or that of its class.

    >>> name_of(max), name_of(1)
    ('max', 'int')
    """
    said = None if isinstance(part, type) else getattr(part, "name", None)  # which a class may inherit
    names = (said, getattr(part, "__name__", None))
    return next((name for name in names if isinstance(name, str)), type(part).__name__)


def kind_of(value: object) -> str:
    """What a sentence calls a value that is not what it should be.

    >>> kind_of([1]), kind_of(None)
    ('list', 'None')
    """
    name = type(value).__name__
    return "None" if value is None else "an array" if "Tracer" in name else name


def _place(error: BaseException) -> str:
    library = tuple(str(Path(file).parent) for file in (__file__, traceback.__file__))
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        foreign = frame.filename.startswith((*library, "<")) or "site-packages" in frame.filename
        if not foreign:
            path, here = Path(frame.filename), Path.cwd()
            near = path.relative_to(here) if path.is_relative_to(here) else path
            return f", at {near}:{frame.lineno} in {frame.name}"
    return ""


_DAMAGE = (ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, RecursionError)
_DAMAGE += (TypeError, ValueError)


@contextlib.contextmanager
def damaged(what: str) -> Iterator[None]:
    """Whatever data of a shape that nobody writes raise in the block becomes one sentence about `what`.

    >>> with damaged("card 'mine.json'"):
    ...     {}["policy"]
    Traceback (most recent call last):
    understudy.errors.UserError: card 'mine.json' is damaged (KeyError: 'policy').
    """
    try:
        yield
    except UserError:
        raise
    except _DAMAGE as error:
        raise UserError(f"{what} is damaged ({shorten(error)}).") from None
