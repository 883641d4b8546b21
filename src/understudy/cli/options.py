"""Types that the parser reads, and what every command's options are. Nothing here may import jax."""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import itertools
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, dataclass_transform

from tyro.conf import UseAppendAction, arg

from ..spec import FIELDS, Settings

if TYPE_CHECKING:
    from types import GenericAlias, UnionType

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

KINDS: dict[str, tuple[type | UnionType | GenericAlias, bool | tuple[()] | None]] = {
    "int": (int | None, None),
    "int | None": (int | None, None),
    "float | None": (float | None, None),
    "bool": (bool, False),
    "tuple[int, ...] | None": (tuple[int, ...], ()),
    "tuple[float, ...] | None": (tuple[float, ...], ()),
}
"""Types of settings and what stands for not given; all others are words, which the spec reads."""


@dataclass_transform(frozen_default=True, kw_only_default=True)
@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """Options of a command: a subclass becomes a frozen dataclass, and gets the `settings` of a run that it
    names, with their help and none of them given.
    """

    from_run: ClassVar[tuple[str, ...]] = ()
    main: ClassVar[tuple[str, ...]] = ()
    """The options that matter to most; empty: all."""

    def __init_subclass__(cls, *, settings: Iterable[str] = ()):
        listed, texts = tuple(settings), docs(Settings) if settings else {}
        for name in listed:
            kind, empty = KINDS.get(str(FIELDS[name].type), (str | None, None))
            default = FIELDS[name].default
            plain = default not in (dataclasses.MISSING, None, False)
            # An empty hint hides "(default: None)", which would say nothing.
            hint = arg(help=texts[name], help_behavior_hint=f"(default: {default})" if plain else "")
            cls.__annotations__[name] = Annotated[kind, hint]
            setattr(cls, name, empty)
        cls.from_run = listed or cls.from_run
        dataclasses.dataclass(frozen=True, kw_only=True)(cls)

    def given(self) -> dict[str, Any]:
        """The settings that were typed, by name."""
        typed = {name: getattr(self, name) for name in self.from_run}
        # By identity: a step size of 0.0 equals False, and must reach what refuses it.
        return {k: v for k, v in typed.items() if v is not None and v is not False and v != ()}


@functools.cache
def docs(options: type) -> dict[str, str]:
    """The text below each field of a class."""
    [body] = ast.parse(textwrap.dedent(inspect.getsource(options))).body
    assert isinstance(body, ast.ClassDef)
    return {
        ast.unparse(field.target): " ".join(str(ast.literal_eval(text.value)).split())
        for field, text in itertools.pairwise(body.body)
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr)
    }
