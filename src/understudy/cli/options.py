"""Types that the parser reads, and options that are settings of a run. Nothing here may import jax."""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import itertools
import textwrap
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

from tyro.conf import UseAppendAction, arg

from ..spec import FIELDS, Settings

T = TypeVar("T", bound="WithSettings")

# No "(default: None)" in the help: an option that was not given leaves the choice to its reader.
UNSET = arg(help_behavior_hint="")
Number = Annotated[float | None, UNSET]
Whole = Annotated[int | None, UNSET]
Name = Annotated[str | None, UNSET]
Flag = Annotated[bool, UNSET]
JSON_HELP = "Print the result as one line of JSON, and all else to the error stream."
Json = Annotated[bool, arg(help=JSON_HELP, help_behavior_hint="")]
Folder = Annotated[Path | None, UNSET]
Names = Annotated[tuple[str, ...], UNSET]
Repeated = UseAppendAction[Annotated[tuple[str, ...], UNSET]]

KINDS: dict[str, tuple[Any, Any]] = {
    "int": (int | None, None),
    "int | None": (int | None, None),
    "float | None": (float | None, None),
    "bool": (bool, False),
    "tuple[int, ...] | None": (tuple[int, ...], ()),
}
"""Types of settings and what stands for not given; all others are words, which the spec reads."""


class WithSettings:
    """Options among which are settings of a run."""

    SETTINGS: ClassVar[tuple[str, ...]] = ()

    def given(self) -> dict[str, Any]:
        """The settings that were typed, by name."""
        found = {name: getattr(self, name) for name in self.SETTINGS}
        # By identity: a step size of 0.0 equals False, and must reach what refuses it.
        return {k: v for k, v in found.items() if v is not None and v is not False and v != ()}


def settings(names: Iterable[str]) -> Callable[[type[T]], type[T]]:
    """A decorator: adds settings of a run to a command's options, with their help and none of them given."""

    def extend(options: type[T]) -> type[T]:
        listed, texts, made = tuple(names), _docs(), []
        for name in listed:
            kind, empty = KINDS.get(str(FIELDS[name].type), (str | None, None))
            default = FIELDS[name].default
            plain = default not in (dataclasses.MISSING, None, False)
            # An empty hint hides "(default: None)", which would say nothing.
            hint = arg(help=texts[name], help_behavior_hint=f"(default: {default})" if plain else "")
            made.append((name, Annotated[kind, hint], dataclasses.field(default=empty)))
        own = {"SETTINGS": listed, "__doc__": options.__doc__, "__module__": options.__module__}
        return dataclasses.make_dataclass(
            options.__name__, made, bases=(options,), namespace=own, frozen=True, kw_only=True
        )

    return extend


@functools.cache
def _docs() -> dict[str, str]:
    """The text below each field of `Settings`."""
    body = ast.parse(textwrap.dedent(inspect.getsource(Settings))).body[0].body  # type: ignore[attr-defined]
    found = {}
    for field, text in itertools.pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
            found[field.target.id] = " ".join(text.value.value.split())  # type: ignore[attr-defined]
    return found
