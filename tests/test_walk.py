"""The walk of `understudy train`: the files it enters are those that ARCHITECTURE.md lists, and a reader who
follows it does not change the file too often.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
COMMAND = ["train", "CartPole-v1", "--policy", "linear", "--rounds", "2", "--steps-per-round", "100"]
COMMAND += ["--episodes", "1", "--no-cache"]
# Functions of the package, in the order of their first call; those that run while a module is imported are
# left out.
PROGRAM = """
import os, sys, threading
import understudy
from understudy.__main__ import main
root, first = os.path.dirname(understudy.__file__) + os.sep, {}
def importing(frame):
    while frame is not None:
        code = frame.f_code
        if code.co_name == "<module>" and code.co_filename.startswith(root):
            return True
        frame = frame.f_back
    return False
def note(frame, event, arg):
    code = frame.f_code
    if event == "call" and code not in first and code.co_flags & 1 and code.co_filename.startswith(root):
        if not importing(frame):
            first[code] = code.co_filename.removeprefix(root)
threading.setprofile(note)
sys.setprofile(note)
code = main()
sys.setprofile(None)
print("\\n".join(["walk", *first.values()]))
sys.exit(code)
"""


def walk(*more: str) -> list[str]:
    """The file of every function that the command enters, in order."""
    known = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-c", PROGRAM, *COMMAND, *more]
    done = subprocess.run(command, env=known, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.rpartition("walk\n")[2].split()


def listed() -> set[str]:
    text = (ROOT / "ARCHITECTURE.md").read_text().partition("## One `understudy train`, file by file")[2]
    return {name for name in re.findall(r"`([\w/]+\.py)`", text) if not name.startswith("tests/")}


# More than what was measured by a few, and no more than that: a longer walk must be meant.
@pytest.mark.parametrize(("kept", "files", "hops"), [(False, 44, 182), (True, 48, 218)])
def test_the_walk_is_the_one_that_is_listed_and_short(tmp_path, kept, files, hops):
    walked = walk("--out", str(tmp_path / "run")) if kept else walk()
    entered = set(walked)
    if kept:
        assert entered == listed(), f"more: {entered - listed()}, not entered: {listed() - entered}"
    else:
        assert entered < listed()
    changes = sum(one != other for one, other in pairwise(walked))
    assert len(entered) <= files and changes <= hops, f"{len(entered)} files, {changes} changes of file"
