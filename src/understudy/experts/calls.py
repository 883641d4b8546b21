"""Many slow calls under way at once, each with a time limit and a few attempts."""

from __future__ import annotations

import concurrent.futures
import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

Future = concurrent.futures.Future
Start = Callable[[int], Future]
"""Starts call i and returns its future at once."""


def outcomes(
    start: Start,
    count: int,
    *,
    workers: int,
    timeout: float = math.inf,
    retries: int = 0,
    backoff: float = 0.5,
) -> Iterator[tuple[int, Any, BaseException | None, int]]:
    """Makes calls 0 … count − 1, at most `workers` at a time, and yields each as it ends: (i, answer, None,
    attempts), or (i, None, the last error, attempts).

    An attempt has `timeout` seconds. One that fails or is late is made again up to `retries` times, after
    `backoff`, 2·`backoff`, 4·`backoff`, … seconds. An attempt that hangs is left behind: it holds up neither
    the others nor the end of the program.

    >>> sorted(i for i, *_ in outcomes(lambda i: in_thread(abs, i), 3, workers=2))
    [0, 1, 2]
    """
    waiting = [(0.0, i, 1) for i in range(count)]  # (not before, call, attempt)
    running: dict[Future, tuple[float, int, int]] = {}
    while waiting or running:
        now = time.monotonic()
        waiting.sort()
        while waiting and len(running) < workers and waiting[0][0] <= now:
            _, i, attempt = waiting.pop(0)
            running[start(i)] = (now + timeout, i, attempt)
        limits = [limit for limit, _, _ in running.values()]
        if waiting and len(running) < workers:
            limits.append(waiting[0][0])
        _wait(running, max(0.0, min(limits) - time.monotonic()))
        for future, (limit, i, attempt) in list(running.items()):
            if not future.done() and time.monotonic() < limit:
                continue
            del running[future]
            reason = future.exception() if future.done() else TimeoutError(f"no answer within {timeout:g} s")
            if reason is None:
                yield i, future.result(), None, attempt
                continue
            future.cancel()
            if attempt > retries:
                yield i, None, reason, attempt
            else:
                waiting.append((time.monotonic() + backoff * 2 ** (attempt - 1), i, attempt + 1))


def _wait(running: dict[Future, Any], seconds: float) -> None:
    """Waits for one answer or for the time to pass; in the main thread an interrupt ends it at once."""
    if running:
        limit = None if math.isinf(seconds) else seconds
        concurrent.futures.wait(running, timeout=limit, return_when=concurrent.futures.FIRST_COMPLETED)
    elif seconds > 0:
        time.sleep(seconds)


def in_thread(function: Callable[..., Any], *args: Any) -> Future:
    """The call under way in a thread of its own.

    A pool would be joined when the program ends, and one call that hangs would hang it; a daemon thread is
    not. Starting one costs less than 0.1 ms, nothing beside an expert that is slow.
    """
    future: Future = Future()

    def run() -> None:
        try:
            answer = function(*args)
        except BaseException as error:
            _settle(future.set_exception, error)
        else:
            _settle(future.set_result, answer)

    threading.Thread(target=run, daemon=True, name="understudy-expert").start()
    return future


def _settle(setter: Callable[[Any], None], value: Any) -> None:
    with contextlib.suppress(concurrent.futures.InvalidStateError):  # too late: the attempt was given up
        setter(value)
