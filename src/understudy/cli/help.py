"""The help of a command: the options that matter to most, or all of them in groups."""

from __future__ import annotations

import dataclasses
import shutil
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any, get_args, get_type_hints

from ..spec import FIELDS, Settings
from .options import Options, docs

GROUPS = {
    "expert": "The expert, and who sees what",
    "learner": "The learner",
    "policy": "The policy, its loss",
    "solver": "The solver",
    "preset": "Rounds, labels and who acts",
    "noise": "Noise, scaling, what is kept",
    "episodes": "Evaluation",
    "comparator": "The best in hindsight, memory, the seed",
    "env_kwargs": "Options of parts, as JSON",
}
"""The setting with which a group begins, in the order of `Settings`, and its title."""
SHARED = (
    ("--help, --help-all", "This page; all options."),
    (
        "--quiet, --debug, --no-cache",
        "No progress; the traceback of an error; compile anew and keep nothing.",
    ),
)
LINE_WIDTH, NAMES = 100, 22
"""Most characters of a line, and of them those of the column of names."""


def text(words: str, options: type[Options], kinds: dict[str, tuple[type, bool]], *, full: bool) -> str:
    """The page of a command, whose options take values of these kinds."""
    fields = {field.name: field for field in dataclasses.fields(options)}
    hints = get_type_hints(options, include_extras=True)
    written = docs(options) | docs(Settings)
    placed = [name for name, field in fields.items() if "Positional" in str(field.type)]
    named = [name for name in fields if name not in placed]
    rows = {name: _row(name, fields[name], hints[name], written.get(name, ""), kinds) for name in named}
    places = {name: _metavar(hints[name]) or name.upper() for name in placed}
    parts = [f"usage: understudy {words} {' '.join([*places.values(), '[OPTIONS]'])}"]
    parts.append("\n".join(_wrapped(" ".join(str(options.__doc__).split()), "")))
    if placed:
        parts.append(_block("", [(places[name], " ".join(written[name].split())) for name in placed]))
    if full or not options.main:
        groups = {"Options": [name for name in named if name not in options.from_run]}
        title = "Options"
        for name in FIELDS:
            title = GROUPS.get(name, title)
            if name in options.from_run:
                groups.setdefault(title, []).append(name)
        parts += [_block(title, [rows[name] for name in names]) for title, names in groups.items() if names]
    else:
        parts.append(_block("The options that matter to most", [rows[name] for name in options.main]))
        rest = len(named) - len(options.main)
        parts.append(f"{rest} more, in groups: understudy {words} --help-all")
    return "\n\n".join([*parts, _block("", SHARED)])


def _row(
    name: str, field: dataclasses.Field[Any], hint: Any, said: str, kinds: dict[str, tuple[type, bool]]
) -> tuple[str, str]:
    """An option with what it takes, and its text with its default."""
    option = "--" + name.replace("_", "-")
    kind, many = kinds[option]
    value = {bool: "", int: "N", float: "X"}.get(kind, "PATH" if Path in _inside(hint) else "TEXT")
    short = next((one.aliases for one in _inside(hint) if getattr(one, "aliases", None)), ())
    spelt = " ".join(filter(None, [", ".join([option, *short]), value + (" …" if many else "")]))
    told = next((one.help for one in _inside(hint) if getattr(one, "help", None)), said)
    default = FIELDS[name].default if name in FIELDS else field.default
    default = f"{default:g}" if isinstance(default, float) else default
    if default not in (None, False, "auto", (), dataclasses.MISSING) and "(default" not in told:
        told = f"{told.rstrip('.')} (default: {default})."
    return spelt, " ".join(told.split())


def _inside(hint: Any) -> list[Any]:
    """A type, and all that it is made and annotated of."""
    inner = [*get_args(hint), *getattr(hint, "__metadata__", ())]
    return [hint, *(each for one in inner for each in _inside(one))]


def _metavar(hint: Any) -> str:
    return next((one.metavar for one in _inside(hint) if getattr(one, "metavar", None)), "")


def _block(title: str, rows: Iterable[tuple[str, str]]) -> str:
    lines = [f"{title}:"] if title else []
    for name, said in rows:
        [first, *more] = _wrapped(said, " " * (NAMES + 4)) or [""]
        if len(name) <= NAMES:
            lines.append(f"  {name:<{NAMES}}  {first.lstrip()}".rstrip())
        else:
            lines += [f"  {name}", first]
        lines += more
    return "\n".join(lines)


def _wrapped(said: str, indent: str) -> list[str]:
    width = min(LINE_WIDTH, max(50, shutil.get_terminal_size().columns))
    return textwrap.wrap(said, width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)
