"""From what was typed to the options of a command, or one sentence. Nothing here may import jax."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import io
from typing import Any, get_args

from ..errors import UserError, unknown


def options_of(words: str) -> Any:
    """The dataclass that is parsed for a command."""
    return getattr(_module(words), words.title().replace(" ", ""))


def function_of(words: str) -> Any:
    """What is called with the options of a command."""
    return getattr(_module(words), words.partition(" ")[2] or "run")


def _module(words: str) -> Any:
    return importlib.import_module(f".{words.split()[0]}", __package__)


def parse(words: str, args: list[str]) -> Any:
    """The options of a command from what was typed; what does not fit is refused with one sentence."""
    import tyro

    options = options_of(words)
    if any(field.name == "resume" and field.type == "Name" for field in dataclasses.fields(options)):
        args = ["--resume=exact" if one == "--resume" else one for one in args]  # its value may be left out
    _refuse(options, args)
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            return tyro.cli(
                options,
                prog=f"understudy {words}",
                args=args,
                config=(tyro.conf.FlagCreatePairsOff, tyro.conf.DisallowNone),
            )
    except SystemExit as leaving:
        if leaving.code:
            raise UserError(f"{_sentence(complaint.getvalue())} (see understudy {words} --help)") from None
        raise


def _refuse(options: type, args: list[str]) -> None:
    """Refuses, in our own words, an option that does not exist and a number that is not one."""
    listed = [field for field in dataclasses.fields(options) if field.default is not dataclasses.MISSING]
    fields = {f"--{field.name.replace('_', '-')}": field for field in listed}
    for index, given in enumerate(args):
        if given == "--":
            break
        if not given.startswith("--"):
            continue
        typed, _, value = given.partition("=")
        name = typed.replace("_", "-")
        if name == "--help":
            continue
        if name == "--resume" and name not in fields and "--workers" in fields:
            raise UserError("--resume: a study has no such option; the same command goes on where it was.")
        if name not in fields:
            raise unknown("option", typed, fields)
        kind = _number(fields[name].type)
        text = value or next(iter(args[index + 1 :]), "")
        try:
            _ = kind and text and kind(text)
        except ValueError:
            wanted = "a whole number" if kind is int else "a number"
            raise UserError(f"{name}: {text!r} is not {wanted}.") from None


def _number(kind: Any) -> type | None:
    """int or float for an option that is such a number; `kind` is an annotation, or the name of one."""
    if isinstance(kind, str):
        return {"Number": float, "float": float, "Whole": int, "int": int}.get(kind)
    plain = get_args(kind)[0]
    if plain == tuple[int, ...]:
        return int  # the first of them; the spec looks at all
    return next((one for one in (int, float) if plain == one | None), None)


def _sentence(box: str) -> str:
    """The first paragraph inside a box that was drawn for a screen, on one line."""
    lines = [line.strip("│ ").strip() for line in box.splitlines()]
    inside = [line for line in lines if not line.startswith("╭")]
    upto = next((i for i, line in enumerate(inside) if line.startswith(("─", "╰"))), len(inside))
    return " ".join(" ".join(inside[:upto]).split())
