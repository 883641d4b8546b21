"""A worker process: shards come in by standard input, one line of JSON each, and results go out the same way.

It is started by `engines.local` as ``python -m understudy.studies.worker`` with the threads of its libraries
set in its environment, so nothing of the parent's state reaches it, and no pickle is read anywhere.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
import time
from pathlib import Path
from typing import Any, TextIO

from .. import disk
from ..registry import register_again
from ..runs import Worlds
from .shard import play

EVERY = 0.2
"""Seconds between two words about progress."""


def main() -> None:
    # What libraries print goes to the error stream: the output is for results alone.
    out = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8")
    os.dup2(2, 1)
    tasks: queue.Queue[dict[str, Any]] = queue.Queue()
    threading.Thread(target=_listen, args=(tasks,), daemon=True).start()
    worlds = Worlds()
    while True:
        task = tasks.get()
        last = 0.0

        def progress(done: int, total: int) -> None:
            nonlocal last
            now = time.monotonic()
            if now - last >= EVERY:
                last = now
                _say(out, {"done": done})

        began = time.perf_counter()
        try:
            register_again(task["registered"])
            keep = Path(task["keep"]) if task.get("keep") else None
            how = {"threads": task["threads"], "keep": keep, "worlds": worlds}
            results = play(task["runs"], progress=progress, **how)
        except Exception as error:  # the shard's own fault: another worker would fail as well
            _say(out, {"failed": f"{type(error).__name__}: {error}"})
            continue
        _say(out, {"results": [one._asdict() for one in results], "seconds": time.perf_counter() - began})


def _listen(tasks: queue.Queue[dict[str, Any]]) -> None:
    for line in sys.stdin:
        tasks.put(disk.from_json(line))
    # The process that gave out the work has ended, so no one reads the results.
    os._exit(0)


def _say(out: TextIO, message: dict[str, Any]) -> None:
    try:
        out.write(disk.to_json(message, lossless=True) + "\n")
        out.flush()
    except BrokenPipeError:
        os._exit(0)


if __name__ == "__main__":
    main()
