"""docs/reference.md has every public name, and every one of them says what it is."""

from __future__ import annotations

import importlib
import re
from typing import Any

import pytest

import understudy
from docs.prose import ROOT

PAGE = (ROOT / "docs" / "reference.md").read_text()
LISTED = re.findall(r"^::: (understudy\.\S+)$", PAGE, re.M)
# Rooms whose names a user calls with the room before them.
ROOMS = ("asking", "experts", "sinks", "studies", "checks")
# Protocols that a user's own classes have, wherever they are written down.
PROTOCOLS = ("understudy.envs.pure.PureEnv",)


def named(path: str) -> Any:
    """The object of a dotted path, the last part an attribute even where a module has the same name."""
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def public() -> dict[str, Any]:
    front = {
        *understudy._HOMES,
        *(name for name in vars(understudy) if name.startswith("register_")),
        "replay",
    }
    found = {f"understudy.{name}": getattr(understudy, name) for name in front}
    for room in ROOMS:
        module = getattr(understudy, room)
        found |= {f"understudy.{room}.{name}": getattr(module, name) for name in module.__all__}
    return found | {path: named(path) for path in PROTOCOLS}


def test_every_public_name_is_listed_once():
    listed = [id(named(path)) for path in LISTED]
    assert len(listed) == len(set(listed)), "a name is listed twice"
    missing = sorted(name for name, value in public().items() if id(value) not in listed)
    assert not missing, f"docs/reference.md lacks {missing}"


def test_nothing_else_is_listed():
    values = {id(value) for value in public().values()}
    assert [path for path in LISTED if id(named(path)) not in values] == []


@pytest.mark.parametrize("path", LISTED)
def test_every_listed_name_has_a_docstring(path):
    assert len((named(path).__doc__ or "").split()) >= 3, f"{path} has no docstring"
