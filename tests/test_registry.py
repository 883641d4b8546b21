"""Names: registered, aliased, of installed packages, and of the user's own modules."""

from __future__ import annotations

import importlib.metadata

import numpy as np
import pytest

from understudy import UserError, registry
from understudy.registry import Registry


class Part:
    def __init__(self, size: int = 1):
        self.size = size


def needy(*, size: int) -> Part:
    return Part(size)


@pytest.fixture
def parts() -> Registry[Part]:
    return Registry("part", Part, {"part": Part, "needy": needy}, aliases={"p": "part"}, group="parts")


@pytest.fixture
def installed(monkeypatch):
    """A package that offers a part by an entry point."""
    point = importlib.metadata.EntryPoint("theirs", f"{__name__}:Part", "understudy.parts")
    monkeypatch.setattr(
        importlib.metadata, "entry_points", lambda *, group: [point] if group == point.group else []
    )
    registry._entry_points.cache_clear()
    yield
    registry._entry_points.cache_clear()


def test_names_aliases_and_objects(parts):
    mine = Part()
    assert parts.resolve("part").size == parts.resolve("p").size == 1 and parts.resolve(mine) is mine
    assert parts.make("needy", {"size": 3}).size == 3
    parts.register("other", lambda: Part(4))
    assert parts.resolve("other").size == 4 and parts.names() == ["needy", "other", "part"]


def test_an_installed_package_offers_parts(installed, parts):
    assert "theirs" in parts and "theirs" in parts.names() and parts.make("theirs", {"size": 2}).size == 2
    with pytest.raises(UserError, match="taken"):
        parts.register("theirs", Part)


def test_a_module_of_ones_own(parts, tmp_path, monkeypatch):
    (tmp_path / "a_part_of_mine.py").write_text(
        f"from {__name__} import Part\nmade, number = Part(9), 3\ndef fails():\n    return {{}}['size']\n"
    )
    (tmp_path / "a_script_of_mine.py").write_text("import sys\nsys.exit(3)\n")
    monkeypatch.chdir(tmp_path)
    assert parts.resolve("a_part_of_mine:made").size == parts.make("a_part_of_mine:made", {}).size == 9
    assert parts.make("a_part_of_mine:Part", {"size": 5}).size == 5
    for text, sentence in {
        "a_part_of_mine:number": "is a int, not a function that makes one",
        "a_part_of_mine:mad": "did you mean 'made'",
        "a_part_of_mine:": "not of the form module:function",
        "no_such_module:made": "no module 'no_such_module'",
        "a_script_of_mine:made": r"fails on import \(SystemExit: 3, at a_script_of_mine.py:2",
        "a_part_of_mine:fails": r"cannot be made \(KeyError: 'size', at a_part_of_mine.py:4 in fails\)",
        "builtins:max": r"cannot be made \(TypeError: ",  # a function that does not say what it takes
    }.items():
        with pytest.raises(UserError, match=sentence):
            parts.resolve(text)
    with pytest.raises(UserError, match="is an object and takes no size"):
        parts.make("a_part_of_mine:made", {"size": 2})


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("prt", "did you mean 'part'"),
        ("needy", r"needs options \(size\)"),
        (3, "expected a name .*got int"),
        (Part, r"expected a name .*got the class Part; make an object of it, as in Part\(\)"),
    ],
)
def test_what_is_no_part_is_refused(parts, value, sentence):
    with pytest.raises(UserError, match=f"^part: .*{sentence}"):
        parts.resolve(value)


def test_what_is_true_or_false_takes_nothing_else():
    """The text "no" is true."""
    numbers = Registry("number", int, {"one": lambda twice=False: 2 if twice else 1})
    assert numbers.make("one", {"twice": np.bool_(True)}) == 2 and numbers.make("one", {"twice": False}) == 1
    for value in ("no", 7, None):
        with pytest.raises(UserError, match=f"number: twice {value!r} is neither true nor false."):
            numbers.make("one", {"twice": value})
