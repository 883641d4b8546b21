"""A room imports only rooms before it in one list: data flows one way, and imports follow it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

SRC = Path(__file__).parent.parent / "src" / "understudy"

# Rooms on one line do not know each other. `understudy` is the package's own front page of public names.
ORDER = """
    errors intervals machine progress threefry
    acceptance
    disk nested registry web
    sinks
    losses
    policies
    objectives
    solvers
    learners
    regret
    programs
    online
    asking
    spec
    streams
    envs
    experts
    defaults
    automatic samples
    parts
    students
    saving
    student
    together
    runs
    explaining
    studies
    exports
    loading
    rsl_rl
    checks
    understudy
    report
    cli
    __main__
"""
LEVEL = {room: level for level, line in enumerate(ORDER.strip().splitlines()) for room in line.split()}
# Read when the command line starts, so they must not bring in what takes a second to import.
LIGHT = ("__init__", "__main__", "cli", "disk", "errors", "machine", "registry", "spec", "defaults")
HEAVY = ("jax", "numpy", "scipy", "matplotlib", "equinox", "optax", "gymnasium")


def room_of(file: Path, root: Path) -> str:
    part = file.relative_to(root).parts[0]
    return "understudy" if part == "__init__.py" else part.removesuffix(".py")


def imported(file: Path, root: Path) -> set[str]:
    """The rooms that a file imports, at its top or inside functions. Those for type checkers do not count."""
    package = ("understudy", *file.relative_to(root).parent.parts)
    found: set[str] = set()
    for node in _runtime(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            targets = [alias.name.split(".") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = list(package[: len(package) - node.level + 1]) if node.level else []
            base += (node.module or "").split(".") if node.module else []
            targets = [[*base, alias.name] for alias in node.names]
        else:
            continue
        for names in targets:
            if names[0] == "understudy":
                inner = names[1] if len(names) > 1 else ""
                is_room = inner and ((root / inner).is_dir() or (root / f"{inner}.py").is_file())
                found.add(inner if is_room else "understudy")
    return found


def _runtime(tree: ast.AST):
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        yield node
        yield from _runtime(node)


def violations(root: Path) -> list[str]:
    problems = []
    for file in sorted(root.rglob("*.py")):
        room, name = room_of(file, root), file.relative_to(root)
        if room not in LEVEL:
            problems.append(f"{name}: the room {room!r} has no place in ORDER")
            continue
        for other in sorted(imported(file, root) - {room}):
            # Every room may read the version and the like from the front page only if it comes after it.
            if other not in LEVEL or LEVEL[other] >= LEVEL[room]:
                problems.append(f"{name}: {room} imports {other}")
    return problems


def test_every_import_points_to_a_room_before():
    assert violations(SRC) == []


def rooms_of_table(text: str) -> list[str]:
    """The rooms in the first column of the table, in its order."""
    column = re.findall(r"^\| (`[^|]+) \|", text, re.M)
    names = [name for cell in column for name in re.findall(r"`([^`]+)`", cell)]
    return [room_of(SRC / name, SRC) for name in names]


def test_the_table_of_the_map_has_this_order():
    table = rooms_of_table((SRC.parent.parent / "ARCHITECTURE.md").read_text())
    assert table == ORDER.split()


def test_another_order_of_the_table_is_seen():
    """The negative control: names are read from the first column, in the order of the rows."""
    table = "| room | what |\n| `policies/`, `data.py` | not `losses/` |\n| `__init__.py` | names |\n"
    assert rooms_of_table(table) == ["policies", "data", "understudy"]


@pytest.mark.parametrize(
    "line",
    [
        "from ..learners import ftl",
        "import understudy.learners",
        "from understudy.learners.named import ftl",
        "from understudy import learners",
        "from understudy import ftl",
        "from .. import learners",
        "def later():\n    from ..learners import ftl",
    ],
)
def test_an_import_that_points_forward_is_seen(tmp_path, line):
    for room in ("losses", "solvers", "learners"):
        (tmp_path / room).mkdir()
    (tmp_path / "solvers" / "gd.py").write_text("from ..losses import Loss\n")
    assert violations(tmp_path) == []
    (tmp_path / "solvers" / "gd.py").write_text(line + "\n")
    assert len(violations(tmp_path)) == 1


def test_a_room_without_a_place_is_seen(tmp_path):
    (tmp_path / "attic.py").write_text("")
    assert violations(tmp_path) == ["attic.py: the room 'attic' has no place in ORDER"]


@pytest.mark.parametrize("name", LIGHT)
def test_light_files_import_nothing_heavy_at_the_top(name):
    files = [SRC / f"{name}.py"] if (SRC / f"{name}.py").exists() else sorted((SRC / name).glob("*.py"))
    assert files
    top = [
        node
        for file in files
        for node in ast.parse(file.read_text()).body
        if isinstance(node, (ast.Import, ast.ImportFrom))
    ]
    roots = {alias.name.split(".")[0] for node in top if isinstance(node, ast.Import) for alias in node.names}
    roots |= {
        (node.module or "").split(".")[0]
        for node in top
        if isinstance(node, ast.ImportFrom) and not node.level
    }
    assert not roots & set(HEAVY)
