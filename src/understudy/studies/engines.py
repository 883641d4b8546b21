"""Where shards are played: in worker processes of this machine, on a Ray cluster, or in this very process.

An engine is a function of shards and `Work`: it plays every shard and hands its results to ``work.done`` in
the caller's thread, in whatever order they end. One whose worker dies is played again.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import importlib.metadata
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .. import disk
from ..errors import UserError, check_name
from ..machine import count_cores
from ..registry import registered
from ..runs import Worlds
from .shard import Result, play

Shard = Sequence[Mapping[str, Any]]
"""The settings of runs that are played side by side."""
ENGINES = ("local", "ray", "inline")
FEW = "finished runs are kept, and the same command goes on from them"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Work:
    """How shards are to be played, and what is called on the way.

    done: called with the shard's number, its results and the seconds it took. progress: called with the
    shard's number and how many rounds of it are done. retries: how often a shard may lose its worker and be
    played again. keep: where its runs are kept while they are played (see `shard.play`).
    """

    done: Callable[[int, list[Result], float], None]
    progress: Callable[[int, int], None] = lambda shard, rounds: None
    workers: int = 1
    retries: int = 2
    address: str | None = None
    keep: Path | None = None


def inline(shards: Sequence[Shard], work: Work) -> None:
    """One shard after the other in this process: for debugging, and where no process may be started."""
    with contextlib.closing(Worlds()) as worlds:
        for number, shard in enumerate(shards):
            began = time.perf_counter()
            show = functools.partial(work.progress, number)
            how: dict[str, Any] = {"threads": count_cores(), "keep": work.keep, "worlds": worlds}
            results = play(shard, progress=lambda done, total, show=show: show(done), **how)
            work.done(number, results, time.perf_counter() - began)


def local(shards: Sequence[Shard], work: Work) -> None:
    """Worker processes of one thread each, so that numbers do not depend on how many there are.

    A worker that dies, of memory or by a kill, is replaced and its shard played again.
    """
    count = min(work.workers, len(shards))
    events: queue.Queue[tuple[_Process, dict[str, Any] | None]] = queue.Queue()
    waiting = collections.deque(range(len(shards)))
    deaths: collections.Counter[int] = collections.Counter()
    lost: list[str] = []
    alive: list[_Process] = []

    def occupy(process: _Process | None = None) -> None:
        """Gives the next shard to a process, or to a new one; one for which there is none may leave."""
        if waiting:
            number = waiting.popleft()
            if process is None:
                process = _Process(events, threads=max(1, count_cores() // count))
                alive.append(process)
            process.give(number, shards[number], work.keep)
        elif process is not None:
            process.dismiss()

    try:
        for _ in range(count):
            occupy()
        while alive:
            process, message = events.get()
            number = process.shard
            if message is None:
                alive.remove(process)
                why = process.end()
                if number is not None:
                    deaths[number] += 1
                    if deaths[number] <= work.retries:
                        waiting.appendleft(number)
                    else:
                        times = f"{deaths[number]} times"
                        lost.append(f"a shard of {len(shards[number])} runs lost its worker {why}, {times}")
                occupy()
            elif "done" in message and number is not None:
                work.progress(number, message["done"])
            elif number is not None:
                if "failed" in message:
                    lost.append(f"a shard of {len(shards[number])} runs failed ({message['failed']})")
                else:
                    results = [Result(**one) for one in message["results"]]
                    work.done(number, results, message["seconds"])
                occupy(process)
    finally:
        for process in alive:
            process.end()
    if lost:
        raise UserError(f"local: {lost[0]}; {FEW}.")


class _Process:
    """A worker process and the thread that reads what it says."""

    def __init__(self, events: queue.Queue[Any], threads: int):
        self.shard: int | None = None
        self.threads = threads
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 # as long as the process
        self._process = subprocess.Popen(
            [sys.executable, "-m", "understudy.studies.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=environment(),
            # Ctrl-C is for us; a worker leaves when its standard input ends.
            start_new_session=True,
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._in, self._out = self._process.stdin, self._process.stdout
        threading.Thread(target=self._listen, args=(events,), daemon=True).start()

    def _listen(self, events: queue.Queue[Any]) -> None:
        for line in self._out:
            try:
                events.put((self, disk.from_json(line)))
            except ValueError:  # half a line, cut off by a kill
                break
        events.put((self, None))

    def give(self, number: int, shard: Shard, keep: Path | None) -> None:
        self.shard = number
        task = {"runs": [dict(run) for run in shard], "threads": self.threads, "registered": registered()}
        task["keep"] = None if keep is None else str(keep.absolute())
        line = disk.to_json(task, lossless=True) + "\n"
        # One that has died is reported by the reading thread, and its shard is given to another.
        with contextlib.suppress(BrokenPipeError):
            self._in.write(line.encode())
            self._in.flush()

    def dismiss(self) -> None:
        self.shard = None
        self._in.close()

    def end(self) -> str:
        """Ends the process if it still runs; returns, in a few words, how it ended."""
        if self._process.poll() is None:
            if self.shard is not None or not self._in.closed:
                self._process.kill()
            self._process.wait()
        for pipe in (self._in, self._out):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
        self._errors.seek(0)
        said = self._errors.read().decode(errors="replace").strip().splitlines()
        self._errors.close()
        code = self._process.returncode
        ending = f"signal {-code}" if code < 0 else f"exit code {code}"
        return f"({ending}{': ' + said[-1] if said else ''})"


def environment() -> dict[str, str]:
    """What a worker's libraries read before they start: one thread each, on a CPU, and our modules' places.

    XLA's sums over many samples depend on the size of its pool of threads in their last bits, so it is one
    whatever the machine has (NPROC is where it looks).
    """
    found = dict(os.environ)
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        found[name] = "1"
    if not accelerator():
        found["NPROC"] = "1"
    found["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(one or os.getcwd() for one in sys.path))
    return found


def accelerator() -> bool:
    """Whether JAX will compute on an accelerator, found without starting JAX, which would take its memory."""
    asked = os.environ.get("JAX_PLATFORMS", "")
    if asked:
        return asked.split(",")[0] != "cpu"
    plugins = importlib.metadata.entry_points(group="jax_plugins")
    return bool(plugins) and any(Path(one).exists() for one in ("/dev/nvidiactl", "/dev/kfd", "/dev/accel0"))


def engine(name: str) -> Callable[[Sequence[Shard], Work], None]:
    """The engine of that name."""
    if name == "ray":
        from .cluster import play_on

        return play_on
    check_name("engine", name, ENGINES)
    return {"local": local, "inline": inline}[name]
