"""From what was typed to an object: a registered name, or the user's own ``module:function``."""

from __future__ import annotations

import difflib
import importlib
import inspect
import os
import sys
from collections.abc import Callable
from typing import Any

from ..errors import UserError
from ..registry import Registry


def make(registry: Registry[Any], text: str, given: dict[str, Any]) -> Any:
    """The object that `text` names, constructed with the options `given`.

    >>> from understudy.learners import LEARNERS
    >>> make(LEARNERS, "ftrl", {"eta": 0.1}).name
    'ftrl'
    """
    thing = load(registry.field, text) if ":" in text else registry.maker(text)
    if not _is_one(thing, registry.kind):
        thing = _call(registry.field, text, thing, given)
    elif given:
        raise UserError(
            f"{registry.field}: {text!r} is an object, so {_dashed(given)} cannot be passed on to it."
        )
    return registry.resolve(thing)


def load(field: str, text: str) -> Any:
    """What ``module:name`` stands for; modules of the current folder are found too."""
    module, _, name = text.partition(":")
    if not module or not name:
        raise UserError(f"{field}: {text!r} is not of the form module:function.")
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        home = importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise UserError(f"{field}: cannot import {module!r} ({error}).") from None
    if not hasattr(home, name):
        near = difflib.get_close_matches(name, vars(home), n=1)
        hint = f", did you mean {near[0]!r}?" if near else "."
        raise UserError(f"{field}: the module {module!r} has no {name!r}{hint}")
    return getattr(home, name)


def _is_one(thing: Any, kind: Any) -> bool:
    """Whether `thing` is what is wanted, and not what makes it."""
    if not isinstance(thing, kind) or inspect.isclass(thing):  # a class has the methods of its objects
        return False
    if not inspect.isroutine(thing):
        return True
    # A solver may be a plain function of (objective, params, key); what makes one has no such arguments.
    return len(_needed(inspect.signature(thing).parameters, positional=True)) >= 2


def _needed(takes: Any, *, positional: bool = False) -> list[str]:
    """The parameters without a default; only those that can be given by position, if asked."""
    kinds = {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}
    kinds |= set() if positional else {inspect.Parameter.KEYWORD_ONLY}
    return [name for name, p in takes.items() if p.default is p.empty and p.kind in kinds]


def _call(field: str, text: str, maker: Callable[..., Any], given: dict[str, Any]) -> Any:
    if not callable(maker):
        raise UserError(f"{field}: {text!r} is a {type(maker).__name__}, not a function that makes one.")
    takes = inspect.signature(maker).parameters
    if not any(p.kind is inspect.Parameter.VAR_KEYWORD for p in takes.values()):
        foreign = sorted(name for name in given if name not in takes)
        if foreign:
            offer = f"it takes {_dashed(takes)}" if takes else "it takes no options"
            raise UserError(f"{field}: {text!r} does not take {_dashed(foreign)}; {offer}.")
    missing = [name for name in _needed(takes) if name not in given]
    if missing:
        raise UserError(f"{field}: {text!r} needs {_dashed(missing)}.")
    return maker(**given)


def _dashed(names: Any) -> str:
    return ", ".join(f"--{name.replace('_', '-')}" for name in names)
