"""docs/reference.md has every public name, every one of them says what it is, and paper/ uses no others."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

import understudy
from docs.prose import ROOT
from docs.test_examples import recipes
from understudy.spec import registries

PAGE = (ROOT / "docs" / "reference.md").read_text()
LISTED = re.findall(r"^::: (understudy\.\S+)$", PAGE, re.M)
# Rooms whose names a user calls with the room before them.
ROOMS = ("asking", "experts", "sinks", "studies", "checks")
# Rooms with a class or a function for every name of a registry, and their base classes.
PARTS = ("understudy.learners", "understudy.losses", "understudy.policies", "understudy.solvers")
# Protocols that own classes have, wherever they are written down, and what an own solver is called with.
PROTOCOLS = ("understudy.envs.pure.PureEnv", "understudy.objectives.Objective")


def named(path: str) -> Any:
    """The object of a dotted path, the last part an attribute even where a module has the same name."""
    module, _, name = path.rpartition(".")
    room = importlib.import_module(module)
    return getattr(room, name) if hasattr(room, name) else importlib.import_module(path)


def public() -> dict[str, Any]:
    front = [name for name in dir(understudy) if not isinstance(getattr(understudy, name), ModuleType)]
    found = {f"understudy.{name}": getattr(understudy, name) for name in front}
    for room, registry in registries().items():
        ours = [maker for maker in registry.makers.values() if maker.__module__.startswith("understudy.")]
        found |= {f"understudy.{room}.{maker.__name__}": maker for maker in ours}
    for room in ROOMS:
        module = getattr(understudy, room)
        found |= {f"understudy.{room}.{name}": getattr(module, name) for name in module.__all__}
    return found | {path: named(path) for path in PROTOCOLS}


def used(text: str) -> set[str]:
    """The names of the package that a source uses: imported ones, and attributes of modules of it."""
    tree, bound = ast.parse(text), {}
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.ImportFrom)
            and not node.level
            and f"{node.module}.".startswith("understudy.")
        ):
            bound |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        if isinstance(node, ast.Import):
            for alias in node.names:
                if f"{alias.name}.".startswith("understudy."):
                    bound[alias.asname or "understudy"] = alias.name if alias.asname else "understudy"
    modules = {name: path for name, path in bound.items() if isinstance(module_or(path), ModuleType)}
    return {path for name, path in bound.items() if name not in modules} | set(_attributes(tree, modules))


def module_or(path: str) -> Any:
    return importlib.import_module(path) if path == "understudy" else named(path)


def _attributes(node: ast.AST, modules: dict[str, str]) -> Iterator[str]:
    """What follows the name of a module, as far as that is a module itself."""
    if isinstance(node, ast.Attribute):
        path, below = [node.attr], node.value
        while isinstance(below, ast.Attribute):
            path, below = [below.attr, *path], below.value
        if isinstance(below, ast.Name) and below.id in modules:
            found = modules[below.id]
            for name in path:
                found = f"{found}.{name}"
                if not isinstance(named(found), ModuleType):
                    break
            yield found
            return
    for child in ast.iter_child_nodes(node):
        yield from _attributes(child, modules)


def unlisted(text: str) -> list[str]:
    """The names that a source uses and the reference does not list; of a listed module it has every one."""
    listed = {id(named(path)) for path in LISTED if not isinstance(named(path), int)}
    return sorted(
        path
        for path in used(text)
        if path not in LISTED and path.rpartition(".")[0] not in LISTED and id(named(path)) not in listed
    )


PAPER = [path for path in sorted((ROOT / "paper").rglob("*.py")) if "tests" not in path.parts]


@pytest.mark.parametrize("path", PAPER, ids=lambda path: path.stem)
def test_the_paper_uses_only_what_is_listed(path):
    assert unlisted(path.read_text()) == []


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("from understudy.online import certify", "understudy.online.certify"),
        ("from understudy import disk as files\nfiles.lock('a')", "understudy.disk.lock"),
        ("import understudy\nunderstudy.disk.lock('a')", "understudy.disk.lock"),
        ("def later():\n    import understudy.machine as m\n    m.versions()", "understudy.machine.versions"),
        ("from understudy import defaults\nprint(defaults.PRESETS)", "understudy.defaults.PRESETS"),
    ],
)
def test_a_name_that_is_not_listed_is_found(text, name):
    """The negative control."""
    assert unlisted(text) == [name]
    assert (
        unlisted("from understudy import disk, ftl\nfrom understudy.report.style import INK\ndisk.write_file")
        == []
    )


def test_every_public_name_is_listed_once():
    listed = [id(named(path)) for path in LISTED]
    assert len(listed) == len(set(listed)), "a name is listed twice"
    missing = sorted(name for name, value in public().items() if id(value) not in listed)
    assert not missing, f"docs/reference.md lacks {missing}"


def test_nothing_else_is_listed():
    """What is neither of the front page nor of a room is there because the paper or a recipe uses it."""
    paths = set().union(
        *(used(text) for text in [*(path.read_text() for path in PAPER), *recipes().values()])
    )
    paths |= {path.rpartition(".")[0] for path in paths}
    values = {id(value) for value in public().values()}
    paths |= {path for path in LISTED if path.rpartition(".")[0] in PARTS}
    assert [path for path in LISTED if id(named(path)) not in values and path not in paths] == []


@pytest.mark.parametrize("path", LISTED)
def test_every_listed_name_has_a_docstring(path):
    assert len((named(path).__doc__ or "").split()) >= 3, f"{path} has no docstring"
