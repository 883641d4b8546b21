"""Mutants: one line of the sources is made wrong, and the room's tests must fail.

    python tests/mutants/run.py                   all of `mutants.toml`
    python tests/mutants/run.py --only regret/    those whose file or reason matches
    python tests/mutants/run.py --list            what there is, without running anything
    python tests/mutants/run.py --jobs 16         so many at a time

The tests must pass on the sources as they are; then every mutant, in a copy of the sources, is judged by the
tests that its entry names, which `make test` runs too. A test that fails kills it; so does one that hangs.
An entry whose text does not stand exactly once in its file is stale. The exit code is 1 where a mutant
survives, an entry is stale, or tests could not be run.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import shutil
import signal
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PACKAGE, PAPER = ROOT / "src" / "understudy", ROOT / "paper"
LIMIT = 300.0
"""Seconds after which the tests of a mutant hang."""
KILLED, SURVIVED, HUNG, UNJUDGED = "killed", "SURVIVED", "killed (hung)", "NOT JUDGED"


class Mutant(NamedTuple):
    """A line made wrong: `old` becomes `new` in a file of the package or of paper/, why, and its tests."""

    file: str
    old: str
    new: str
    why: str
    tests: tuple[str, ...]

    @property
    def place(self) -> str:
        """The file from where packages are imported."""
        return self.file if self.file.startswith("paper/") else f"understudy/{self.file}"

    def text(self) -> str:
        """The file with the mutant in it; raises `ValueError` where the entry is stale."""
        source = ((PAPER if self.place == self.file else PACKAGE).parent / self.place).read_text()
        if (times := source.count(self.old)) != 1:
            raise ValueError(f"its text stands {times} times in the file")
        made = source.replace(self.old, self.new)
        ast.parse(made)
        return made


def table(path: Path = HERE / "mutants.toml") -> list[Mutant]:
    found = []
    for file, about in tomllib.loads(path.read_text()).items():
        for old, new, why, *own in about["mutants"]:
            found.append(Mutant(file, old, new, why, tuple(*own or [about["tests"]])))
    return found


def stale(mutants: Iterable[Mutant]) -> list[str]:
    """What is wrong with the entries themselves, one line each."""
    found, seen = [], Counter((one.file, one.old, one.new) for one in mutants)
    for one in mutants:
        try:
            one.text()
            if seen[one.file, one.old, one.new] > 1:
                raise ValueError("it is listed twice")
            if missing := [name for name in one.tests if not (ROOT / name.partition("::")[0]).is_file()]:
                raise ValueError(f"there is no {missing[0]}")
        except (ValueError, SyntaxError, OSError) as error:
            found.append(f"{one.file}: {one.why}: {error}")
    return found


class Child(NamedTuple):
    """A process that runs tests on a copy of the sources, in `folder`."""

    number: int
    folder: Path
    began: float


def start(tests: Iterable[str], folder: Path, mutant: Mutant | None) -> Child:
    """Runs tests in a new process, which has pytest and JAX from this one and none of the package."""
    if mutant is not None:
        (folder / mutant.place).unlink()
        (folder / mutant.place).write_text(mutant.text())
    if child := os.fork():
        return Child(child, folder, time.monotonic())
    code = 3
    try:
        os.setpgid(0, 0)
        log = os.open(folder / "log", os.O_CREAT | os.O_WRONLY)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.chdir(ROOT)
        os.environ["PYTHONPATH"] = str(folder)
        sys.path.insert(0, str(folder))
        import pytest

        import paper  # this one; pytest puts the repository before it

        options = ["-x", "-q", "--no-header", "-p", "no:xdist", "-p", "no:cacheprovider", "-p", "no:randomly"]
        code = int(pytest.main([*options, *tests]))
        import understudy

        for package in (understudy, paper):
            assert Path(package.__file__).is_relative_to(folder), package.__file__
    finally:
        sys.stdout.flush()
        os._exit(code)


def ended(running: dict[int, tuple[Any, Child]]) -> tuple[Any, Child, str]:
    """Waits for one of these processes: what was run, its process, and how it ended."""
    while True:
        for number, (what, child) in running.items():
            done, status = os.waitpid(number, os.WNOHANG)
            hangs = not done and time.monotonic() - child.began > LIMIT
            if hangs:
                os.killpg(number, signal.SIGKILL)
                os.waitpid(number, 0)
            if done or hangs:
                del running[number]
                codes = {0: SURVIVED, 1: KILLED}
                code = HUNG if hangs else codes.get(os.waitstatus_to_exitcode(status), UNJUDGED)
                return what, child, code
        time.sleep(0.02)


def ready() -> None:
    """Imports what every process of tests has; the settings of JAX are those of the tests."""
    sys.path.insert(0, str(ROOT))
    import conftest  # noqa: F401, I001  # first: JAX reads its settings when it is imported
    import equinox  # noqa: F401
    import gymnasium  # noqa: F401
    import hypothesis  # noqa: F401
    import optax  # noqa: F401
    import scipy.optimize  # noqa: F401

    assert "understudy" not in sys.modules


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", metavar="PATTERN", help="a regular expression")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), metavar="N")
    parser.add_argument("--list", action="store_true", help="list the mutants and run none")
    options = parser.parse_args()
    every = table()
    wrong = stale(every)
    for line in wrong:
        print(f"STALE  {line}")
    chosen = [one for one in every if re.search(options.only, f"{one.file} {one.why}")]
    if options.list:
        for one in chosen:
            print(f"{one.file:<28} {one.why}")
        print(f"{len(chosen)} mutants")
    if wrong or options.list or not chosen:
        return int(bool(wrong) or not chosen)
    with tempfile.TemporaryDirectory(prefix="understudy-mutants-") as folder:
        return judge(chosen, Path(folder), options.jobs)


def judge(chosen: list[Mutant], folder: Path, jobs: int) -> int:
    began, ended_how = time.monotonic(), dict[Mutant, str]()
    ready()
    tests = sorted({name for one in chosen for name in one.tests})
    whole = folder / "whole"
    for package in (PACKAGE, PAPER):
        shutil.copytree(package, whole / package.name)
    child = start(tests, whole, None)
    _, child, how = ended({child.number: (None, child)})
    if how != SURVIVED:
        print((child.folder / "log").read_text())
        print("the tests must pass on the sources as they are")
        return 1
    waiting, running = list(enumerate(chosen)), dict[int, tuple[Any, Child]]()
    while waiting or running:
        while waiting and len(running) < jobs:
            number, one = waiting.pop(0)
            # Bytecode stays valid: times are those of the originals, and the mutant has one of its own.
            copy = folder / str(number)
            shutil.copytree(whole, copy, copy_function=os.link, ignore=shutil.ignore_patterns("log"))
            child = start(one.tests, copy, one)
            running[child.number] = one, child
        one, child, how = ended(running)
        ended_how[one] = how
        print(f"{how:<14} {time.monotonic() - child.began:>4.0f} s  {one.file:<28} {one.why}", flush=True)
        if how == UNJUDGED:
            print((child.folder / "log").read_text()[-3000:])
        shutil.rmtree(child.folder, ignore_errors=True)
    return told(chosen, ended_how, time.monotonic() - began)


def told(chosen: list[Mutant], how: dict[Any, str], seconds: float) -> int:
    """The table of rooms, and the exit code."""
    rooms: dict[str, list[str]] = {}
    for one in chosen:
        rooms.setdefault(one.file.partition("/")[0].removesuffix(".py"), []).append(how[one])
    rooms["all"] = [one for found in rooms.values() for one in found]
    print(f"\n{'room':<12} {'killed':>7} {'of':>5}")
    for room, found in rooms.items():
        print(f"{room:<12} {sum(one in (KILLED, HUNG) for one in found):>7} {len(found):>5}")
    left = [one for one in chosen if how[one] not in (KILLED, HUNG)]
    for one in left:
        print(f"{how[one]}: {one.file}: {one.old!r} -> {one.new!r}: {one.why}")
    print(f"{seconds:.0f} seconds")
    return int(bool(left))


if __name__ == "__main__":
    sys.exit(main())
