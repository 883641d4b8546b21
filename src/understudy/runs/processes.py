"""A slow expert in processes of its own: for one that computes in Python, which threads do not speed up.

Each process makes the expert anew from the run's spec and answers batches of observations: npz archives with
their length in front, over its standard input and output. Nothing is pickled. One that does not answer in
time is killed and another takes its place; all end when this process does.
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
from collections.abc import Iterable, Mapping
from typing import IO, TYPE_CHECKING, final

import numpy as np

from ..errors import UserError
from ..nested import nest, parts
from ..spec import RunSpec

if TYPE_CHECKING:
    from ..experts import Expert, Infos
    from ..nested import Nested


def in_processes(expert: Expert, spec: RunSpec, count: int) -> Expert:
    """The expert, answered by `count` processes; it must be one that has a name."""
    if expert.needs_infos:
        raise UserError(
            "expert_workers: an expert that is given the environment's info cannot be asked in processes; "
            "give a number, for threads."
        )
    settings = json.dumps(spec.changes() | {"expert_workers": None})
    pool = _Pool(settings, count, spec.expert_timeout)

    def ask(observations: Nested, infos: Infos) -> np.ndarray:
        return pool.ask(observations)

    return dataclasses.replace(expert, ask=ask)


@final
class _Pool:
    def __init__(self, settings: str, count: int, timeout: float | None):
        self._settings, self._timeout = settings, timeout
        self._free: queue.LifoQueue[subprocess.Popen[bytes] | None] = queue.LifoQueue()
        for _ in range(count):
            self._free.put(None)  # started when they are needed
        self._all: weakref.WeakSet[subprocess.Popen[bytes]] = weakref.WeakSet()
        self._end = weakref.finalize(self, _end, self._all)

    def _start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "understudy.runs.processes"]
        # Where this process finds modules, the expert's own among them.
        where = os.pathsep.join(place or os.getcwd() for place in sys.path)
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": where, "JAX_PLATFORMS": "cpu"},
        )
        self._all.add(process)
        try:
            _send(process.stdin, {"settings": np.frombuffer(self._settings.encode(), np.uint8)})
            _raised(_receive(process.stdout))
        except BaseException:  # it could not make its expert
            process.kill()
            raise
        return process

    def ask(self, observations: Nested) -> np.ndarray:
        """The labels of a batch, from whichever process is free."""
        process, late = self._free.get(), threading.Event()
        timer: threading.Timer | None = None
        try:
            process = self._start() if process is None or process.poll() is not None else process
            if self._timeout is not None:
                timer = threading.Timer(self._timeout, _kill, (process, late))
                timer.daemon = True
                timer.start()
            _send(process.stdin, named(observations))
            answer = _receive(process.stdout)
        except (OSError, EOFError) as error:
            if process is not None:
                process.kill()
            process = None
            what = f"no answer within {self._timeout:g} s" if late.is_set() else "its process ended"
            raise TimeoutError(what) if late.is_set() else RuntimeError(what) from error
        finally:
            if timer is not None:
                timer.cancel()
            self._free.put(process)
        _raised(answer)
        return answer["labels"]


def _kill(process: subprocess.Popen[bytes], late: threading.Event) -> None:
    late.set()
    process.kill()


def _end(processes: Iterable[subprocess.Popen[bytes]]) -> None:
    for process in list(processes):
        process.kill()
        process.wait()


def _raised(answer: Mapping[str, np.ndarray]) -> None:
    if "error" in answer:
        raise UserError(answer["error"].tobytes().decode())


def named(batch: Nested) -> dict[str, np.ndarray]:
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


def _receive(stream: IO[bytes] | None) -> dict[str, np.ndarray]:
    assert stream is not None
    head = stream.read(8)
    if len(head) < 8:
        raise EOFError
    data = stream.read(struct.unpack("<Q", head)[0])
    with np.load(io.BytesIO(data), allow_pickle=False) as found:
        return {name: found[name] for name in found.files}


def main() -> None:
    """Makes the expert of the spec that comes first, and answers batches until the input ends."""
    from .world import spaces_of

    # What the expert prints goes to the error stream: the output is for answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    expert: Expert | None = None
    with contextlib.suppress(EOFError, BrokenPipeError, KeyboardInterrupt):
        while True:
            arrays = _receive(sys.stdin.buffer)
            try:
                if expert is None:
                    expert = spaces_of(RunSpec.of(json.loads(arrays["settings"].tobytes()))).expert
                    _send(answers, {})
                else:
                    _send(answers, {"labels": expert.label(unnamed(arrays))})
            except Exception as error:
                text = str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
                _send(answers, {"error": np.frombuffer(text.encode(), np.uint8)})


if __name__ == "__main__":
    main()
