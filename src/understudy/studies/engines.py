"""Where shards are played: in worker processes of this machine, on a Ray cluster, or in this very process.

An engine is a function of shards and `Work`: it plays every shard and hands its results to ``work.done`` in
the caller's thread, in whatever order they end. One whose worker dies is played again.

A worker process reads shards from its standard input, one line of JSON each, and writes what comes of them
the same way. The threads of its libraries are set in its environment before it starts, so nothing of the
parent's state reaches it, and no pickle is read anywhere.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import importlib.metadata
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TextIO, TypeAlias, TypedDict

from .. import disk
from ..disk import Json
from ..errors import UserError, check_name
from ..machine import count_cores, use_cache
from ..registry import register_again, registered
from ..runs import Worlds
from ..runs.cluster import THREADS, connect_to_ray, passed_on
from .shard import Result, play

Shard: TypeAlias = Sequence[dict[str, Json]]
"""The settings of runs that one process plays."""
Names: TypeAlias = dict[str, dict[str, str | None]]
"""Parts that were registered, which a worker registers again."""
FINISHED_STAY = "finished runs are kept, and the same command goes on from them"
PASSED_ON = (*THREADS, "NPROC", "JAX_PLATFORMS")
"""Variables that a task of Ray gets."""
SERVE = "from understudy.studies.engines import serve_shards; serve_shards()"
EVERY = 0.2
"""Seconds between two words of a worker about its progress."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Work:
    """How shards are to be played, and what is called on the way.

    done: called with the shard's number, its results and the seconds it took. progress: called with the
    shard's number and how many rounds of it are done. retries: how often a shard may lose its worker and be
    played again. keep, whole: where its runs are kept while they are played, and whether their folders stay
    (see `shard.play`).
    """

    done: Callable[[int, list[Result], float], None]
    progress: Callable[[int, int], None] = lambda shard, rounds: None
    workers: int = 1
    retries: int = 2
    address: str | None = None
    keep: Path | None = None
    whole: bool = False


def play_inline(shards: Sequence[Shard], work: Work) -> None:
    """One shard after the other in this process: for debugging, and where no process may be started."""
    with contextlib.closing(Worlds()) as worlds:
        for number, shard in enumerate(shards):
            began = time.perf_counter()
            results = play(
                shard,
                threads=count_cores(),
                keep=work.keep,
                whole=work.whole,
                worlds=worlds,
                progress=lambda done, total, number=number: work.progress(number, done),
            )
            work.done(number, results, time.perf_counter() - began)


# ------------------------------------------------------------------------------------- worker processes


class Task(TypedDict):
    """What a worker gets: a shard."""

    runs: Shard
    threads: int
    registered: Names
    keep: str | None
    whole: bool


class Answer(TypedDict, total=False):
    """What a worker says: how many rounds are `done`, why the shard `failed`, or its results."""

    done: int
    failed: str
    results: list[dict[str, Any]]
    seconds: float


def play_local(shards: Sequence[Shard], work: Work) -> None:
    """Worker processes of one thread each, so that numbers do not depend on how many there are.

    A worker that dies, of memory or by a kill, is replaced and its shard played again.
    """
    count = min(work.workers, len(shards))
    answers: queue.Queue[tuple[Worker, Answer | None]] = queue.Queue()
    waiting = collections.deque(range(len(shards)))
    deaths: collections.Counter[int] = collections.Counter()
    lost: list[str] = []
    alive: list[Worker] = []

    def occupy(worker: Worker | None = None) -> None:
        """Gives the next shard to a worker, or to a new one; one for which there is none may leave."""
        if waiting:
            number = waiting.popleft()
            if worker is None:
                worker = Worker(answers, threads=max(1, count_cores() // count))
                alive.append(worker)
            worker.give(number, shards[number], work)
        elif worker is not None:
            worker.dismiss()

    try:
        for _ in range(count):
            occupy()
        while alive:
            worker, answer = answers.get()
            number = worker.shard
            if answer is None:
                alive.remove(worker)
                why = worker.end()
                if number is not None:
                    deaths[number] += 1
                    if deaths[number] <= work.retries:
                        waiting.appendleft(number)
                    else:
                        times = f"{deaths[number]} times"
                        lost.append(f"a shard of {len(shards[number])} runs lost its worker {why}, {times}")
                occupy()
            elif number is None:
                continue
            elif "done" in answer:
                work.progress(number, answer["done"])
            else:
                if "failed" in answer:
                    lost.append(f"a shard of {len(shards[number])} runs failed ({answer['failed']})")
                elif "results" in answer and "seconds" in answer:
                    results = [Result(**result) for result in answer["results"]]
                    work.done(number, results, answer["seconds"])
                occupy(worker)
    finally:
        for worker in alive:
            worker.end()
    if lost:
        raise UserError(f"local: {lost[0]}; {FINISHED_STAY}.")


class Worker:
    """A worker process and the thread that reads what it says."""

    def __init__(self, answers: queue.Queue[tuple[Worker, Answer | None]], threads: int):
        self.shard: int | None = None
        self.threads = threads
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 # as long as the process
        self._process = subprocess.Popen(
            [sys.executable, "-c", SERVE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=worker_environment(),
            # Ctrl-C is for us; a worker leaves when its standard input ends.
            start_new_session=True,
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._in, self._out = self._process.stdin, self._process.stdout
        threading.Thread(target=self._listen, args=(answers,), daemon=True).start()

    def _listen(self, answers: queue.Queue[tuple[Worker, Answer | None]]) -> None:
        for line in self._out:
            try:
                answers.put((self, disk.from_json(line.decode())))
            except ValueError:  # half a line, cut off by a kill
                break
        answers.put((self, None))

    def give(self, number: int, shard: Shard, work: Work) -> None:
        self.shard = number
        place = None if work.keep is None else str(work.keep.absolute())
        names = registered()
        task = Task(runs=shard, threads=self.threads, registered=names, keep=place, whole=work.whole)
        # One that has died is reported by the reading thread, and its shard is given to another.
        with contextlib.suppress(BrokenPipeError):
            self._in.write(f"{disk.to_json(task, lossless=True)}\n".encode())
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


def serve_shards() -> None:
    """What a worker process does: plays shards until its standard input ends."""
    # What libraries print goes to the error stream: the output is for results alone.
    out = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8")
    os.dup2(2, 1)
    use_cache()  # programs that another worker has compiled are not compiled again
    tasks: queue.Queue[Task] = queue.Queue()
    threading.Thread(target=_read_tasks, args=(tasks,), daemon=True).start()
    worlds = Worlds()
    while True:
        task = tasks.get()
        last = 0.0

        def progress(done: int, total: int) -> None:
            nonlocal last
            now = time.monotonic()
            if now - last >= EVERY:
                last = now
                _say(out, Answer(done=done))

        began = time.perf_counter()
        try:
            register_again(task["registered"])
            keep = Path(task["keep"]) if task["keep"] else None
            results = play(
                task["runs"],
                threads=task["threads"],
                keep=keep,
                whole=task["whole"],
                worlds=worlds,
                progress=progress,
            )
        except Exception as error:  # the shard's own fault: another worker would fail as well
            _say(out, Answer(failed=f"{type(error).__name__}: {error}"))
            continue
        plain = [result._asdict() for result in results]
        _say(out, Answer(results=plain, seconds=time.perf_counter() - began))


def _read_tasks(tasks: queue.Queue[Task]) -> None:
    for line in sys.stdin:
        tasks.put(disk.from_json(line))
    # The process that gave out the work has ended, so no one reads the results.
    os._exit(0)


def _say(out: TextIO, answer: Answer) -> None:
    try:
        out.write(disk.to_json(answer, lossless=True) + "\n")
        out.flush()
    except BrokenPipeError:
        os._exit(0)


def worker_environment() -> dict[str, str]:
    """What a worker's libraries read before they start: one thread each, on a CPU, and our modules' places.

    XLA's sums over many samples depend on the size of its pool of threads in their last bits, so it is one
    whatever the machine has (NPROC is where it looks).
    """
    variables = {**os.environ, **dict.fromkeys(THREADS, "1")}
    if not has_accelerator():
        variables["NPROC"] = "1"
    variables["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(place or os.getcwd() for place in sys.path))
    return variables


def has_accelerator() -> bool:
    """Whether JAX will compute on an accelerator, found without starting JAX, which would take its memory."""
    platforms = os.environ.get("JAX_PLATFORMS", "")
    if platforms:
        return platforms.split(",")[0] != "cpu"
    plugins = importlib.metadata.entry_points(group="jax_plugins")
    return bool(plugins) and any(map(os.path.exists, ("/dev/nvidiactl", "/dev/kfd", "/dev/accel0")))


# --------------------------------------------------------------------------------------------------- Ray


def play_on_ray(shards: Sequence[Shard], work: Work) -> None:
    """Shards as tasks of a Ray cluster: one core each, played again when a worker or a whole node is lost."""
    ray = connect_to_ray(work.address)
    environment = worker_environment()
    variables = {name: environment[name] for name in PASSED_ON if name in environment}
    task = ray.remote(
        num_cpus=1,
        num_gpus=1 if has_accelerator() else 0,
        max_retries=work.retries,
        runtime_env=passed_on(variables),
    )(_play_task)
    keep = work.keep and work.keep.absolute()
    waiting = {task.remote(list(shard), registered(), keep, work.whole): n for n, shard in enumerate(shards)}
    lost: list[str] = []
    try:
        while waiting:
            ready, _ = ray.wait(list(waiting), num_returns=1)
            number = waiting.pop(ready[0])
            try:
                results, seconds = ray.get(ready[0])
            except ray.exceptions.RayError as error:
                said = str(error).strip().splitlines()
                lost.append(f"a shard of {len(shards[number])} runs failed ({said[-1] if said else '?'})")
                continue
            work.done(number, [Result(*result) for result in results], seconds)
    finally:
        for left in waiting:
            ray.cancel(left, force=True)
    if lost:
        raise UserError(f"ray: {lost[0]}; {FINISHED_STAY}.")


def _play_task(
    runs: Shard, names: Names, keep: Path | None, whole: bool
) -> tuple[list[tuple[Any, ...]], float]:
    register_again(names)
    began = time.perf_counter()
    results = play(runs, threads=1, keep=keep, whole=whole)
    return [tuple(result) for result in results], time.perf_counter() - began


ENGINES: dict[str, Callable[[Sequence[Shard], Work], None]] = {
    "local": play_local,
    "ray": play_on_ray,
    "inline": play_inline,
}


def check_engine(name: str, address: str | None) -> None:
    """Refuses, before anything runs, an engine that does not exist or cannot start here."""
    check_name("engine", name, ENGINES)
    if address is not None and name != "ray":
        raise UserError(f"address: it is for the engine ray; this is {name} ({', '.join(sorted(ENGINES))}).")
    if name == "ray":
        connect_to_ray(address)
