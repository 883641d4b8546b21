"""From what was typed to the options of a command, or one sentence. Nothing here may import jax."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import io
import itertools
import sys
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


def named(words: str) -> dict[str, Any]:
    """The options of a command, `--name` with its field; what is given by its place has no name."""
    fields = (field for field in dataclasses.fields(options_of(words)) if not _placed(field))
    return {f"--{field.name.replace('_', '-')}": field for field in fields}


def _placed(field: dataclasses.Field[Any]) -> bool:
    return "Positional" in str(field.type)


def parse(words: str, args: list[str]) -> Any:
    """The options of a command from what was typed; what does not fit is refused with one sentence."""
    import tyro

    options = options_of(words)
    if any(field.name == "resume" and field.type == "Name" for field in dataclasses.fields(options)):
        args = ["--resume=exact" if one == "--resume" else one for one in args]  # its value may be left out
    _refuse(words, args)
    # Not a terminal: there a complaint would have colours. The help has them, and goes where it should.
    complaint = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    helps = "-h" in args or "--help" in args
    try:
        with (
            contextlib.redirect_stderr(complaint),
            contextlib.redirect_stdout(sys.stdout if helps else complaint),
        ):
            return tyro.cli(
                options,
                prog=f"understudy {words}",
                args=args,
                config=(tyro.conf.FlagCreatePairsOff, tyro.conf.DisallowNone),
            )
    except SystemExit as leaving:
        if leaving.code:
            complaint.seek(0)
            raise UserError(f"{_sentence(complaint.read())} (see understudy {words} --help)") from None
        raise


def _refuse(words: str, args: list[str]) -> None:
    """Refuses, in our own words, an option that does not exist, one without a value, and a number that is
    not one.
    """
    fields = named(words)
    for index, given in enumerate(itertools.takewhile(lambda one: one != "--", args)):
        typed, equals, value = given.partition("=")
        name = typed.replace("_", "-")
        if not given.startswith("--") or name == "--help":
            continue
        if name == "--resume" and name not in fields and "--workers" in fields:
            raise UserError("--resume: a study has no such option; the same command goes on where it was.")
        if name not in fields:
            placed = [field.name for field in dataclasses.fields(options_of(words)) if _placed(field)]
            if name[2:].replace("-", "_") in placed:
                raise UserError(f"{name}: it is given without a name: understudy {words} {name[2:].upper()}.")
            raise unknown("option", typed, fields)
        kind, many = _kind(fields[name].type)
        if kind is bool:
            if equals:
                raise UserError(f"{name}: it takes no value, and {value!r} was given.")
            continue
        after = itertools.takewhile(lambda one: not one.startswith("--"), args[index + 1 :])
        texts = [value] if equals else list(after)
        if not texts or not texts[0]:
            raise UserError(f"{name}: there is no value after it.")
        for text in texts if many else texts[:1]:
            try:
                kind(text)
            except ValueError:
                wanted = "a whole number" if kind is int else "a number"
                raise UserError(f"{name}: {text!r} is not {wanted}.") from None


def _kind(kind: Any) -> tuple[type, bool]:
    """Whether an option is a flag (bool), a number or a word, and whether it takes several; `kind` is an
    annotation, or the name of one.
    """
    if isinstance(kind, str):
        flags, numbers = dict.fromkeys(("Flag", "Json"), bool), {"Number": float, "Whole": int}
        return (flags | numbers | {"float": float, "int": int}).get(kind, str), kind == "Names"
    plain = get_args(kind)[0]
    if plain == tuple[int, ...]:
        return int, True
    return next((one for one in (bool, int, float) if plain in (one, one | None)), str), False


def _sentence(box: str) -> str:
    """The first paragraph inside a box that was drawn for a screen, on one line."""
    lines = [line.strip("│ ").strip() for line in box.splitlines()]
    inside = [line for line in lines if not line.startswith("╭")]
    upto = next((i for i, line in enumerate(inside) if line.startswith(("─", "╰"))), len(inside))
    return " ".join(" ".join(inside[:upto]).split())
