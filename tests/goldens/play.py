"""Plays golden runs with the understudy that PYTHONPATH gives: `python play.py FOLDER NAME…`.

Each run has the folder FOLDER/NAME; the file FOLDER/NAME/.steps says how many of its steps are done, so that
this command, given again after a kill, goes on where it was. What a step printed as JSON, or raised, is kept
beside what it wrote.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import os
import sys
import threading
import time
import traceback
import urllib.request
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import world
from golden_runs import RENAMED, RUNS, Run, Step

DONE, ROOT = ".steps", ".root"
"""Files that are not compared: how many steps are done; where the run, these scripts and the tree were."""


def main(folder: str, *names: str) -> None:
    import understudy

    tree = os.environ["GOLDENS_TREE"]
    assert str(understudy.__file__).startswith(tree), f"{understudy.__file__} is not of {tree}"
    runs = {run.name: run for run in RUNS}
    for name in names:
        began, here = time.perf_counter(), Path(folder) / name
        here.mkdir(parents=True, exist_ok=True)
        os.chdir(here)
        Path(ROOT).write_text(f"{here}\n{Path(__file__).parent}\n{tree}/src\n")
        play(runs[name])
        with open(Path(folder) / "seconds.txt", "a") as file:
            file.write(f"{name} {time.perf_counter() - began:.2f}\n")


def play(run: Run) -> None:
    """Plays the steps of a run that are not done, in the current folder."""
    done = int(Path(DONE).read_text()) if Path(DONE).exists() else 0
    for number, step in list(enumerate(run.steps, 1))[done:]:
        world.begin(run.dies)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always", UserWarning)
            try:
                with hands(run):
                    take(step, number, "round" in run.dies)
            except Exception as error:
                with open("log.txt", "a") as log:
                    log.write(traceback.format_exc())
                Path(f"raised-{number}.txt").write_text(f"{type(error).__name__}: {error}\n")
        said = sorted({str(one.message) for one in told if issubclass(one.category, UserWarning)})
        if said:
            Path(f"warned-{number}.txt").write_text("".join(f"{one}\n" for one in said))
        Path(DONE).write_text(str(number))


def take(step: Step, number: int, counting: bool) -> None:
    """Plays one step."""
    if isinstance(step, dict):
        imitate(step, number, counting)
    elif step[0] in MADE:
        MADE[step[0]]()
    else:
        typed(step, number)


def imitate(step: dict[str, Any], number: int, counting: bool) -> None:
    import understudy

    given: dict[str, Any] = {"out": "run"} | step
    takes = inspect.signature(understudy.imitate).parameters
    for name, old in RENAMED.items():
        if name in given and name not in takes:
            given[old] = given.pop(name)
    if counting:
        given["progress"] = lambda number, row: world.called("round")
    run = understudy.imitate(**given)
    if given["out"] is None:
        run.save("run")
        columns = ("inputs", "targets", "executed", "rewards", "flags", "slots", "weights")
        kept: dict[str, Any] = {name: np.asarray(run.samples(name)) for name in columns}
        np.savez("samples.npz", **kept)
    Path(f"said-{number}.json").write_text(json.dumps(run.summary(), indent=1))


def typed(words: list[str], number: int) -> None:
    """The command line, in this process. Its error stream is kept in log.txt, which is not compared."""
    from understudy.__main__ import main as command

    if words[0] == "train" and Path("kills").exists():
        words = [*words, "--resume"]
    words = [word if _known(word) else f"--{RENAMED[_option(word)].replace('_', '-')}" for word in words]
    out, argv, streams = io.StringIO(), sys.argv, (sys.stdout, sys.stderr)
    sys.argv = ["understudy", *words]
    try:
        with open("log.txt", "a") as log:
            sys.stdout, sys.stderr = out, _Listening(log, streams[1])
            code = command()
    finally:
        sys.argv, (sys.stdout, sys.stderr) = argv, streams
    Path(f"said-{number}.json").write_text(out.getvalue())
    if code:
        raise RuntimeError(f"{' '.join(words)} ended with {code}: see log.txt")


def _option(word: str) -> str:
    return word.removeprefix("--").replace("-", "_") if word.startswith("--") else ""


def _known(word: str) -> bool:
    import understudy

    return _option(word) not in RENAMED or _option(word) in inspect.signature(understudy.imitate).parameters


def _demos() -> None:
    """Recorded demonstrations of the room."""
    states = np.random.default_rng(5).uniform(-1, 1, (40, 3))
    np.savez("demos.npz", observations=states, actions=np.stack([world.room(one) for one in states]))


def _stream() -> None:
    rng = np.random.default_rng(6)
    inputs = rng.normal(size=(6, 8, 3))
    np.savez("stream.npz", X=inputs, Y=inputs[..., :2] - 0.3 * rng.normal(size=(6, 8, 2)))


MADE: dict[str, Callable[[], None]] = {"demos": _demos, "stream": _stream}
"""Steps of one word, which make a file."""

_heard: list[str] = []
"""What the command line has said on its error stream so far, for who looks for the page's address."""


class _Listening(io.TextIOBase):
    def __init__(self, log: Any, stream: Any):
        self.log, self.stream = log, stream

    def write(self, text: str) -> int:
        _heard.append(text)
        return self.log.write(text)

    def flush(self) -> None:
        self.log.flush()


def _label(view: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """A person with a rule of the thumb for CartPole."""
    question = view["question"]
    state = {row["name"]: row["value"] for row in question["table"]}
    push = int(state["pole angle"] + 0.2 * state["pole angular velocity"] > 0)
    return "answer", {"question": question["number"], "value": [push]}


def _spot(view: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The same person, who takes over at the third step of an episode and gives back at the sixth."""
    question = view["question"]
    if view["mode"] == "watch":
        if question["step"] == 3:
            return "steer", {"taken": True, "speed": 0}
        return "skip", {"question": question["number"]}
    return ("steer", {"taken": False}) if question["step"] >= 6 else _label(view)


HANDS: dict[str, Callable[[dict[str, Any]], tuple[str, dict[str, Any]]]] = {"label": _label, "spot": _spot}
"""From what the page shows to what the person does there: a place to post to, and what."""


@contextlib.contextmanager
def hands(run: Run) -> Iterator[None]:
    """While a person is asked: one who types `keys`, or one at the page, in a thread."""
    if run.keys is not None:
        stdin, sys.stdin = sys.stdin, io.StringIO("\n".join(run.keys.split()) + "\n")
        try:
            yield
        finally:
            sys.stdin = stdin
    elif run.hand is not None:
        over = threading.Event()
        thread = threading.Thread(target=_at_the_page, args=(HANDS[run.hand], over), daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join(10)
    else:
        yield


def _at_the_page(act: Callable[[dict[str, Any]], tuple[str, dict[str, Any]]], over: threading.Event) -> None:
    _heard.clear()
    while not (found := [word for word in "".join(_heard).split() if word.startswith("http://")]):
        if over.wait(0.02):
            return
    address, token = found[0].split("?", 1)

    def call(place: str, body: Any = None) -> dict[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        kind = {"Content-Type": "application/json"}
        asked = urllib.request.Request(f"{address}{place}?{token}", data, kind)
        with urllib.request.urlopen(asked, timeout=10) as reply:
            return json.loads(reply.read())

    version = -1
    with contextlib.suppress(OSError):  # the run has ended, and the page with it
        while not over.wait(0.002):
            view = call("view")
            if view["mode"] == "done":
                return
            if view["question"] is not None and view["version"] != version:
                version = view["version"]
                call(*act(view))


if __name__ == "__main__":
    main(*sys.argv[1:])
