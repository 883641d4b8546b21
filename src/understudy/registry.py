"""Names for things: one registry for every kind of part that a user may name or add.

A name is one of ours, one that `register` added, an alias, the entry point of an installed package, or
``module:name`` for a part of the user's own, which worker processes find too.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import inspect
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from .errors import UserError, unknown

T = TypeVar("T")


class Registry(Generic[T]):
    """Maps names to constructors of objects of one `kind`, and turns names into objects.

    `group`: entry points of installed packages in the group ``understudy.GROUP`` count as registered.

    >>> numbers = Registry("number", int, {"one": lambda: 1, "power": lambda n: 2**n}, aliases={"1": "one"})
    >>> numbers.resolve("1"), numbers.resolve(7), numbers.make("power", {"n": 3}), numbers.names()
    (1, 7, 8, ['one', 'power'])
    """

    def __init__(
        self,
        field: str,
        kind: Any,
        makers: Mapping[str, Callable[..., T]],
        *,
        aliases: Mapping[str, str] | None = None,
        group: str | None = None,
    ):
        self.field, self.kind, self.group = field, kind, group
        self.makers, self.aliases = dict(makers), dict(aliases or {})

    def names(self) -> list[str]:
        """Every name but the aliases, in alphabetical order."""
        return sorted({*self.makers, *self._installed()})

    def __contains__(self, name: object) -> bool:
        return name in self.makers or name in self.aliases or name in self._installed()

    def register(self, name: str, maker: Callable[..., T]) -> None:
        """Adds a constructor; a name that is taken is refused."""
        if name in self:
            raise UserError(f"{self.field}: the name {name!r} is taken; register another.")
        if not callable(maker):
            raise UserError(f"{self.field}: {name!r} needs a constructor, got {type(maker).__name__}.")
        self.makers[name] = maker

    def maker(self, name: str) -> Callable[..., T]:
        """The constructor, or for ``module:name`` what that is."""
        key = self.aliases.get(name, name)
        if key in self.makers:
            return self.makers[key]
        if key in self._installed():
            return self._installed()[key].load()
        if ":" in key:
            return load(self.field, key)
        raise unknown(self.field, name, self.names())

    def make(self, name: str, options: Mapping[str, Any]) -> T:
        """The object that `name` stands for, constructed with `options`."""
        thing: Any = self.maker(name)
        if not self._is_one(thing):
            thing = _call(self.field, name, thing, options)
        elif options:
            raise UserError(
                f"{self.field}: {name!r} is an object, so {', '.join(options)} cannot be passed on to it."
            )
        return self.resolve(thing)

    def resolve(self, value: Any) -> T:
        """An object of this kind, made with its defaults where `value` is a name."""
        if isinstance(value, str):
            value, name = self.maker(value), value
            if not self._is_one(value):
                missing = _needed(inspect.signature(value).parameters) if callable(value) else []
                if missing:
                    own = f", as in understudy.{name.replace('-', '_')}(…)" if ":" not in name else ""
                    raise UserError(
                        f"{self.field}: {name!r} needs options ({', '.join(missing)}); "
                        f"pass an object instead{own}."
                    )
                value = _call(self.field, name, value, {})
        if isinstance(value, self.kind) and not inspect.isclass(value):
            return value  # type: ignore[return-value]
        raise UserError(
            f"{self.field}: expected a name ({', '.join(self.names())}) or an object of that kind, "
            f"got {type(value).__name__}."
        )

    def _installed(self) -> dict[str, importlib.metadata.EntryPoint]:
        return {} if self.group is None else _entry_points(self.group)

    def _is_one(self, thing: Any) -> bool:
        """Whether `thing` is an object of this kind, and not what makes one."""
        if not isinstance(thing, self.kind) or inspect.isclass(thing):  # a class has its objects' methods
            return False
        if not inspect.isroutine(thing):
            return True
        # A solver may be a plain function of (objective, params, key); what makes one has no such arguments.
        return len(_needed(inspect.signature(thing).parameters, positional=True)) >= 2


@functools.cache
def _entry_points(group: str) -> dict[str, importlib.metadata.EntryPoint]:
    return {point.name: point for point in importlib.metadata.entry_points(group=f"understudy.{group}")}


def load(field: str, text: str) -> Any:
    """What ``module:name`` stands for; modules of the current folder are found too.

    >>> load("number", "math:tau") > 6
    True
    """
    name, _, attribute = text.partition(":")
    if not name or not attribute:
        raise UserError(f"{field}: {text!r} is not of the form module:function.")
    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:
        sys.path.insert(0, here)
    try:
        found: Any = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise UserError(
                f"{field}: there is no module {name!r}, neither installed nor in {here}."
            ) from None
        raise UserError(
            f"{field}: the module {name!r} needs {error.name!r}, which is not installed."
        ) from error
    except Exception as error:
        why = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise UserError(f"{field}: the module {name!r} fails on import ({why}).") from error
    for part in attribute.split("."):
        if not hasattr(found, part):
            public = [one for one in getattr(found, "__dict__", ()) if not one.startswith("_")]
            raise unknown(f"{field}: {name!r} has no such attribute", part, public)
        found = getattr(found, part)
    return found


def _needed(takes: Mapping[str, inspect.Parameter], *, positional: bool = False) -> list[str]:
    """The parameters without a default; with `positional` only those that can be passed by position."""
    kinds = {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}
    kinds |= set() if positional else {inspect.Parameter.KEYWORD_ONLY}
    return [name for name, p in takes.items() if p.default is p.empty and p.kind in kinds]


def _call(field: str, name: str, maker: Any, options: Mapping[str, Any]) -> Any:
    if not callable(maker):
        raise UserError(f"{field}: {name!r} is a {type(maker).__name__}, not a function that makes one.")
    takes = inspect.signature(maker).parameters
    if not any(p.kind is inspect.Parameter.VAR_KEYWORD for p in takes.values()):
        foreign = sorted(one for one in options if one not in takes)
        if foreign:
            offer = f"it takes {', '.join(takes)}" if takes else "it takes no options"
            raise UserError(f"{field}: {name!r} does not take {', '.join(foreign)}; {offer}.")
    missing = [one for one in _needed(takes) if one not in options]
    if missing:
        raise UserError(f"{field}: {name!r} needs {', '.join(missing)}.")
    return maker(**options)
