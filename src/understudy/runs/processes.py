"""A slow expert in workers of its own: for one that computes in Python, which threads do not speed up.

Each worker makes the expert anew from the run's spec and answers batches of observations, taken apart into
arrays. It is a process of this machine (here) or an actor on a Ray cluster (`cluster.py`); what asks them,
retries and keeps their labels is the same. A process is sent npz archives with their length in front, and
nothing is pickled. One that does not answer in time is ended and another takes its place; all end when this
process does.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import os
import queue
import struct
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import IO, TYPE_CHECKING, Protocol, TypeAlias, final

import numpy as np

from ..errors import UserError
from ..nested import nest, parts
from ..spec import RunSpec

if TYPE_CHECKING:
    from ..experts import Expert, Infos
    from ..nested import Nested

Arrays: TypeAlias = dict[str, np.ndarray]
STARTING = 600.0
"""Seconds that a worker has to start and to make its expert, before the time limit of a question begins."""


class Lost(RuntimeError):
    """A worker is gone: it was killed, or its machine was."""


class Worker(Protocol):
    """An expert somewhere else."""

    def ask(self, arrays: Arrays, timeout: float | None) -> Mapping[str, np.ndarray]:
        """What `Answering.answer` gives there; raises `Lost`, or `TimeoutError` where it is late."""
        ...

    def end(self) -> None: ...


def in_workers(expert: Expert, spec: RunSpec, count: int, kind: str) -> Expert:
    """The expert, answered by `count` processes or actors; it must be one that has a name."""
    if expert.needs_infos:
        raise UserError(
            "expert_workers: an expert that is given the environment's info cannot be asked in other "
            "processes; give a number, for threads."
        )
    settings = json.dumps(spec.changes() | {"expert_workers": None})
    if kind == "ray":
        from .cluster import starter

        start: Callable[[], Worker] = starter(settings)
    else:

        def start() -> Worker:
            return Process(settings)

    pool = Pool(start, count, spec.expert_timeout)

    def ask(observations: Nested, infos: Infos) -> np.ndarray:
        return pool.ask(observations)

    return dataclasses.replace(expert, ask=ask)


@final
class Pool:
    """Workers, each started when it is needed first."""

    def __init__(self, start: Callable[[], Worker], count: int, timeout: float | None):
        self._start, self._timeout = start, timeout
        self._free: queue.LifoQueue[Worker | None] = queue.LifoQueue()
        for _ in range(count):
            self._free.put(None)
        self._all: weakref.WeakSet[Worker] = weakref.WeakSet()
        self._end = weakref.finalize(self, _end, self._all)

    def ask(self, observations: Nested) -> np.ndarray:
        """The labels of a batch, from whichever worker is free. One that is lost is replaced, and the new one
        is asked: the loss may be an old one, of a machine that is gone.
        """
        worker, again = self._free.get(), True
        try:
            while True:
                try:
                    if worker is None:
                        worker = self._start()
                        self._all.add(worker)
                    return raised(worker.ask(named(observations), self._timeout))["labels"]
                except (Lost, TimeoutError) as error:
                    if worker is not None:
                        worker.end()
                    worker = None
                    if not again or isinstance(error, TimeoutError):
                        raise
                    again = False
        finally:
            self._free.put(worker)


def _end(workers: Iterable[Worker]) -> None:
    for worker in list(workers):
        worker.end()


@final
class Process:
    """A worker process."""

    def __init__(self, settings: str):
        # Where this process finds modules, the expert's own among them.
        where = os.pathsep.join(place or os.getcwd() for place in sys.path)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "understudy.runs.processes"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": where, "JAX_PLATFORMS": "cpu"},
        )
        try:
            raised(self.ask({"settings": np.frombuffer(settings.encode(), np.uint8)}, STARTING))
        except BaseException as error:  # it could not make its expert
            self._process.kill()
            if isinstance(error, TimeoutError):
                raise UserError(f"expert: a process has not made it within {STARTING:g} s.") from error
            raise

    def ask(self, arrays: Arrays, timeout: float | None) -> Arrays:
        late = threading.Event()
        timer = None if timeout is None else threading.Timer(timeout, self._give_up, (late,))
        try:
            if timer is not None:
                timer.daemon = True
                timer.start()
            _send(self._process.stdin, arrays)
            return _receive(self._process.stdout)
        except (OSError, EOFError) as error:
            if late.is_set():
                raise TimeoutError(f"no answer within {timeout:g} s") from error
            raise Lost("its process ended") from error
        finally:
            if timer is not None:
                timer.cancel()

    def _give_up(self, late: threading.Event) -> None:
        late.set()
        self._process.kill()

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


@final
class Answering:
    """The expert of a spec in a worker: arrays in, arrays out, an error among them as text."""

    def __init__(self) -> None:
        self._expert: Expert | None = None

    def begin(self, settings: str) -> Arrays:
        """Makes the expert."""
        from .world import spaces_of

        def made() -> Arrays:
            self._expert = spaces_of(RunSpec.of(json.loads(settings))).expert
            return {}

        return self._said(made)

    def answer(self, arrays: Arrays) -> Arrays:
        """The labels of a batch."""
        expert = self._expert
        assert expert is not None
        return self._said(lambda: {"labels": expert.label(unnamed(arrays))})

    def _said(self, act: Callable[[], Arrays]) -> Arrays:
        try:
            return act()
        except Exception as error:
            text = str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
            return {"error": np.frombuffer(text.encode(), np.uint8)}


def raised(answer: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
    """The answer, or the error that it is."""
    if "error" in answer:
        raise UserError(answer["error"].tobytes().decode())
    return answer


def named(batch: Nested) -> Arrays:
    """The arrays of a batch, each under its place as JSON."""
    return {json.dumps(path): one for path, one in parts(batch)}


def unnamed(arrays: Mapping[str, np.ndarray]) -> Nested:
    """The batch that `named` took apart."""
    return nest([(tuple(json.loads(name)), one) for name, one in arrays.items()])


def _send(stream: IO[bytes] | None, arrays: Mapping[str, np.ndarray]) -> None:
    assert stream is not None
    packed = io.BytesIO()
    np.savez(packed, allow_pickle=False, **arrays)  # type: ignore[arg-type]
    stream.write(struct.pack("<Q", packed.tell()) + packed.getvalue())
    stream.flush()


def _receive(stream: IO[bytes] | None) -> Arrays:
    assert stream is not None
    head = stream.read(8)
    if len(head) < 8:
        raise EOFError
    data = stream.read(struct.unpack("<Q", head)[0])
    with np.load(io.BytesIO(data), allow_pickle=False) as found:
        return {name: found[name] for name in found.files}


def main() -> None:
    """Makes the expert of the spec that comes first, and answers batches until the input ends."""
    # What the expert prints goes to the error stream: the output is for answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    expert = Answering()
    with contextlib.suppress(EOFError, BrokenPipeError, KeyboardInterrupt):
        _send(answers, expert.begin(_receive(sys.stdin.buffer)["settings"].tobytes().decode()))
        while True:
            _send(answers, expert.answer(_receive(sys.stdin.buffer)))


if __name__ == "__main__":
    main()
