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
from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from .errors import UserError, shorten, unknown

if TYPE_CHECKING:
    from .spec import Setting

T = TypeVar("T")
_REGISTRIES: dict[str, Registry[Any]] = {}
"""Those whose names reach worker processes, by field."""


class Registry(Generic[T]):
    """Maps names to constructors of objects of one `kind`, and turns names into objects.

    A constructor may be given as ``module:name``, which is imported when it is asked for. `group`: entry
    points of installed packages in the group ``understudy.GROUP`` count as registered. `adopt` makes an
    object of this kind of one that can stand for it.

    >>> numbers = Registry("number", int, {"one": lambda: 1, "power": lambda n: 2**n}, aliases={"1": "one"})
    >>> numbers.resolve("1"), numbers.resolve(7), numbers.make("power", {"n": 3}), numbers.names()
    (1, 7, 8, ['one', 'power'])
    """

    def __init__(
        self,
        field: str,
        kind: Any,
        makers: Mapping[str, Callable[..., T] | str],
        *,
        aliases: Mapping[str, str] | None = None,
        group: str | None = None,
        adopt: Callable[[Any], Any] = lambda value: value,
    ):
        self._adopt = adopt
        self.field, self.kind, self.group = field, kind, group
        self.makers, self.aliases = dict(makers), dict(aliases or {})
        self._own = set(self.makers)
        if group is not None:
            _REGISTRIES[field] = self

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

    def added(self) -> dict[str, str | None]:
        """The names that `register` added, each as ``module:name``; None where no module holds the maker."""
        return {name: place_of(self.makers[name]) for name in self.makers.keys() - self._own}

    def maker(self, name: str) -> Callable[..., T]:
        """The constructor, or for ``module:name`` what that is."""
        key = self.aliases.get(name, name)
        if key in self.makers:
            maker = self.makers[key]
            return load_named(self.field, maker) if isinstance(maker, str) else maker
        if key in self._installed():
            return self._installed()[key].load()
        if ":" in key:
            return load_named(self.field, key)
        raise unknown(self.field, name, self.names())

    def takes(self, name: str) -> tuple[str, ...] | None:
        """The options that a name takes; None where it takes any."""
        takes = self._parameters(name)
        free = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in takes.values())
        return None if free else tuple(takes)

    def needs(self, name: str) -> list[str]:
        """The options without which a name makes nothing."""
        return _needed(self._parameters(name))

    def _parameters(self, name: str) -> Mapping[str, inspect.Parameter]:
        """What the constructor takes; nothing where the name stands for an object."""
        thing: Any = self._adopted(self.maker(name))
        return {} if self._is_one(thing) or not callable(thing) else _parameters(thing)

    def refuse_foreign(self, name: str, options: Iterable[str]) -> None:
        """Refuses a name that does not exist, and options that it does not take."""
        takes = self.takes(name)
        foreign = [] if takes is None else sorted(one for one in options if one not in takes)
        if foreign:
            offer = f"it takes {', '.join(takes or ())}" if takes else "it takes no options"
            raise UserError(f"{self.field}: {name!r} does not take {', '.join(foreign)}; {offer}.")

    def try_out(self, name: str, options: Mapping[str, Setting], *, missing: float | None) -> None:
        """Refuses what `make` would refuse, with the value `missing` for options that are not given. None:
        where some are not given, only options that the name does not take are refused.
        """
        self.refuse_foreign(name, options)
        needed = [option for option in self.needs(name) if option not in options]
        if missing is not None or not needed:
            self.make(name, {**options, **dict.fromkeys(needed, missing)})

    def make(self, name: str, options: Mapping[str, Setting]) -> T:
        """The object that `name` stands for, constructed with `options`."""
        thing: Any = self._adopted(self.maker(name))
        if not self._is_one(thing):
            if not callable(thing):
                kind = type(thing).__name__
                raise UserError(f"{self.field}: {name!r} is a {kind}, not a function that makes one.")
            self.refuse_foreign(name, options)
            if missing := [one for one in self.needs(name) if one not in options]:
                raise UserError(f"{self.field}: {name!r} needs {', '.join(missing)}.")
            for option, takes in self._parameters(name).items():
                value = options.get(option, takes.default)
                # By its name, and not by the class: this file imports no NumPy.
                kind = str(getattr(value, "dtype", type(value).__name__))
                if isinstance(takes.default, bool) and kind != "bool":
                    raise UserError(f"{self.field}: {option} {value!r} is neither true nor false.")
            try:
                thing = thing(**options)
            except UserError:
                raise
            except Exception as error:  # whatever a constructor of the user's own may raise
                raise UserError(f"{self.field}: {name!r} cannot be made ({shorten(error)}).") from error
        elif options:
            raise UserError(f"{self.field}: {name!r} is an object and takes no {', '.join(options)}.")
        return self.resolve(thing)

    def resolve(self, value: Any) -> T:
        """An object of this kind, made with its defaults where `value` is a name."""
        if isinstance(value, str):
            if missing := self.needs(value):
                own = f", as in understudy.{value.replace('-', '_')}(…)" if ":" not in value else ""
                raise UserError(
                    f"{self.field}: {value!r} needs options ({', '.join(missing)}); "
                    f"pass an object instead{own}."
                )
            return self.make(value, {})
        value = self._adopted(value)
        if isinstance(value, self.kind) and not inspect.isclass(value):
            return value  # type: ignore[return-value]
        raise UserError(
            f"{self.field}: expected a name ({', '.join(self.names())}) or an object of that kind, "
            f"got {self._foreign(value)}."
        )

    def _adopted(self, value: Any) -> Any:
        """An object of this kind, where the value can stand for one; else the value."""
        return value if isinstance(value, (str, type, self.kind)) else self._adopt(value)

    def _foreign(self, value: Any) -> str:
        """What a sentence says of an object that is not of this kind."""
        if inspect.isclass(value):
            return f"the class {value.__name__}; make an object of it, as in {value.__name__}()"
        name = type(value).__name__
        if not inspect.isclass(self.kind):
            return name
        if not getattr(self.kind, "_is_protocol", False):
            home = self.kind.__module__.removesuffix(".base")
            return f"{name}, which is no subclass of {home}.{self.kind.__name__}"
        lacks = [one for one in vars(self.kind) if not one.startswith("_") and not hasattr(value, one)]
        return f"{name}, which lacks {', '.join(lacks)}" if lacks else name

    def _installed(self) -> dict[str, importlib.metadata.EntryPoint]:
        return {} if self.group is None else _entry_points(self.group)

    def _is_one(self, thing: Any) -> bool:
        """Whether `thing` is an object of this kind, and not what makes one."""
        if inspect.isclass(thing) or not isinstance(thing, self.kind):  # a class has its objects' methods
            return False
        if not inspect.isroutine(thing):
            return True
        # A solver may be a plain function of (objective, params, key); what makes one has no such arguments.
        return len(_needed(_parameters(thing), positional=True)) >= 2


def registered() -> dict[str, dict[str, str | None]]:
    """What was registered in this process, for `register_again` in another one."""
    return {field: added for field, one in _REGISTRIES.items() if (added := one.added())}


def register_again(names: Mapping[str, Mapping[str, str | None]]) -> None:
    """Registers what another process had registered; its modules are imported here."""
    for field, added in names.items():
        for name, place in added.items():
            maker = _unreachable(field, name) if place is None else load_named(field, place)
            if name not in _REGISTRIES[field]:  # the module may have registered it itself
                _REGISTRIES[field].register(name, maker)


def _unreachable(field: str, name: str) -> Callable[..., NoReturn]:
    def refuse() -> NoReturn:
        raise UserError(
            f"{field}: {name!r} was registered from no module that a worker process can import; put its "
            "maker into a module, or use the engine 'inline'."
        )

    return refuse


def _parameters(thing: Callable[..., T]) -> Mapping[str, inspect.Parameter]:
    """What `thing` takes."""
    try:
        return inspect.signature(thing).parameters
    except ValueError:  # some functions written in C do not say
        return {"options": inspect.Parameter("options", inspect.Parameter.VAR_KEYWORD)}


@functools.cache
def _entry_points(group: str) -> dict[str, importlib.metadata.EntryPoint]:
    return {point.name: point for point in importlib.metadata.entry_points(group=f"understudy.{group}")}


def place_of(thing: Callable[..., T] | str) -> str | None:
    """``module:name`` of what other processes can import too; None where no module holds it.

    >>> place_of(module), place_of(lambda: 1)
    ('understudy.registry:module', None)
    """
    home, name = getattr(thing, "__module__", None), getattr(thing, "__qualname__", "<object>")
    return None if home in (None, "__main__") or "<" in name else f"{home}:{name}"


def load_named(field: str, text: str) -> Any:
    """What ``module:name`` stands for; modules of the current folder are found too.

    >>> load_named("number", "math:tau") > 6
    True
    """
    name, _, attribute = text.partition(":")
    if not name or not attribute:
        raise UserError(f"{field}: {text!r} is not of the form module:function.")
    thing = module(field, name)
    for part in attribute.split("."):
        if not hasattr(thing, part):
            named = getattr(thing, "__dict__", {}).items()
            public = [k for k, one in named if not k.startswith("_") and not inspect.ismodule(one)]
            raise unknown(f"{field}: {name!r} has no such attribute", part, public)
        thing = getattr(thing, part)
    return thing


def module(field: str, name: str) -> ModuleType:
    """The module of this name, installed or in the current folder.

    >>> module("number", "math").pi > 3
    True
    """
    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise UserError(f"{field}: no module {name!r} is installed or in {here}.") from None
        raise UserError(f"{field}: {name!r} needs {error.name!r}, which is not installed.") from error
    except (Exception, SystemExit) as error:  # a script may end the process
        raise UserError(f"{field}: the module {name!r} fails on import ({shorten(error)}).") from error


def _needed(takes: Mapping[str, inspect.Parameter], *, positional: bool = False) -> list[str]:
    """The parameters without a default; with `positional` only those that can be passed by position."""
    kinds = {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}
    kinds |= set() if positional else {inspect.Parameter.KEYWORD_ONLY}
    return [name for name, p in takes.items() if p.default is p.empty and p.kind in kinds]
