"""What the scenes of the worst day share: a small run, how a process is killed, and what came of it all."""

from __future__ import annotations

import contextlib
import io
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

SMALL = {"policy": "linear", "rounds": 3, "steps_per_round": 40, "episodes": 1, "expert_episodes": 0}
COLUMNS = ("inputs", "targets", "executed", "rewards", "flags", "slots", "weights")
BYTES = ("ledger.csv", "policy.safetensors", "policy.json", *(f"samples/{name}.bin" for name in COLUMNS))
"""Files of a run that its seed decides."""


class Outcome(NamedTuple):
    """How often it was tried, what was lost or not found (one line each), a figure worth telling, and how
    often what the scene is about did happen, where that is not every case.
    """

    cases: int
    lost: list[str]
    told: str = ""
    hits: int | None = None

    @property
    def idle(self) -> bool:
        """Whether nothing was tried, or nothing happened: then nothing is known, and the scene has failed."""
        return not (self.cases if self.hits is None else self.hits)


Scene = Callable[[Path, int, random.Random], Outcome]
"""From an empty folder, a number of cases and a generator to what came of them."""


def content(folder: Path, names: tuple[str, ...] = BYTES) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in names}


def different(one: dict[str, bytes], other: dict[str, bytes]) -> list[str]:
    return [name for name in one if one[name] != other[name]]


def fork(work: Callable[[], Any]) -> int:
    """Starts `work` in a process group of its own, which has what is imported here; its number.

    The process exits with 0 where the work ended well, with 3 after a `UserError`, else with 1. No program
    may have been compiled in this process: its threads would not be in the new one.
    """
    sys.stdout.flush()
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        os.setpgid(0, 0)
        from understudy import UserError

        with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
            try:
                work()
                code = 0
            except UserError:
                code = 3
    finally:
        os._exit(code)


def killed(work: Callable[[], Any], delay: float) -> bool:
    """Whether a SIGKILL after `delay` seconds hit the work; where it did not, the work has ended well."""
    child, until = fork(work), time.monotonic() + delay
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            assert os.waitstatus_to_exitcode(status) == 0, "the work failed by itself"
            return False
        time.sleep(0.002)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return True


def hit(work: Callable[[], Any], length: float, rng: random.Random, most: int = 8) -> int:
    """Kills the work at random moments of the `length` that it takes, up to `most` times, and then lets it
    end; how often it was hit.
    """
    for hits in range(most):
        if not killed(work, rng.uniform(0.3, 1.0) * length):
            return hits
    timed(work)
    return most


def finished(work: Callable[[], Any]) -> int:
    """The exit code of the work, left alone."""
    _, status = os.waitpid(fork(work), 0)
    return os.waitstatus_to_exitcode(status)


def timed(work: Callable[[], Any]) -> float:
    """Seconds that the work takes when it is left alone."""
    began = time.monotonic()
    assert finished(work) == 0, "the work fails by itself"
    return time.monotonic() - began
