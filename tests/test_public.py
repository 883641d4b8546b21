"""What is public: the names of the front page, and the signatures that docs/reference.md promises.

A changed signature is a change for users. `python tests/test_public.py` writes the file anew.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import understudy

HERE = Path(__file__).parent
STORED = HERE / "public_signatures.txt"
REFERENCE = HERE.parent / "docs" / "reference.md"


def parameters(thing: Any) -> str:
    """Names and defaults, without types."""
    plain = inspect.Parameter.empty
    try:
        takes = inspect.signature(thing)
    except (TypeError, ValueError):
        return ""
    bare = [
        one.replace(annotation=plain) for one in takes.parameters.values() if one.name not in ("self", "cls")
    ]
    return re.sub(r" at 0x\w+|<factory>", "", str(inspect.Signature(bare)))


def lines(path: str) -> list[str]:
    """A line for a public name, and one for each of its own public methods and properties."""
    room, _, name = path.rpartition(".")
    module = importlib.import_module(room)
    thing = getattr(module, name) if hasattr(module, name) else importlib.import_module(path)
    if inspect.ismodule(thing):
        return [path]
    if not inspect.isclass(thing):
        return [path + (parameters(thing) if callable(thing) else "")]
    fields = {field.name for field in dataclasses.fields(thing)} if dataclasses.is_dataclass(thing) else set()
    found = [path + ("" if issubclass(thing, Exception) else parameters(thing))]
    for member, value in sorted(vars(thing).items()):
        if not member.startswith("_") and member not in fields:
            bare = value.__func__ if isinstance(value, (classmethod, staticmethod)) else value
            found.append(f"  .{member}" + (parameters(bare) if inspect.isfunction(bare) else ""))
    return found


def signatures() -> str:
    listed = re.findall(r"^::: (understudy\.\S+)$", REFERENCE.read_text(), re.M)
    return "\n".join(line for path in sorted(listed) for line in lines(path)) + "\n"


def test_dir_shows_what_is_public_and_nothing_else():
    names = dir(understudy)
    assert names == sorted(set(names)) == understudy.__all__ and 35 <= len(names) <= 45
    assert not [name for name in names if name.startswith("_") or not hasattr(understudy, name)]


def test_the_signatures_are_the_stored_ones():
    assert signatures() == STORED.read_text(), "run python tests/test_public.py where the change is meant"


if __name__ == "__main__":
    STORED.write_text(signatures())
