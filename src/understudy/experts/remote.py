"""A slow or remote expert: many questions under way at once, each with a time limit and a few attempts."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import functools
import inspect
import math
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..errors import UserError, check_int, shorten
from ..nested import batch_size, copy_batch, take
from . import Expert, Kind, together

Future = concurrent.futures.Future


def from_remote(
    function: Callable[[Any], Any],
    *,
    timeout: float = 10.0,
    retries: int = 2,
    backoff: float = 0.5,
    workers: int = 8,
    kind: Kind = "action",
    name: str | None = None,
    observation_space: Any = None,
    action_space: Any = None,
) -> Expert:
    """An expert from `function(observation) -> answer` that may be slow, may hang and may fail.

    The n observations of a batch are asked side by side, at most `workers` at a time, and answered in order.
    Each attempt has `timeout` seconds; one that fails or is late is tried again up to `retries` times, after
    `backoff`, 2·`backoff`, 4·`backoff`, … seconds. A coroutine function is awaited on one event loop, so that
    it may keep its connection. When an observation has used up its attempts, `UserError` says how many and
    why the last one failed. A run asks it about the states of a round after the round, and goes on where
    some of them have no answer.

    >>> from_remote(lambda observation: observation[:1], name="far").label(np.arange(6.0).reshape(3, 2))
    array([[0.],
           [2.],
           [4.]], dtype=float32)
    """
    if not timeout > 0:
        raise UserError(f"timeout: {timeout!r} is not accepted; a number of seconds above 0 is expected.")
    if not 0 <= backoff < math.inf:
        raise UserError(f"backoff: {backoff!r} is not accepted; a number of seconds, 0 or more, is expected.")
    check_int("retries", retries, 0)
    check_int("workers", workers)
    name = str(name or getattr(function, "__name__", type(function).__name__))
    awaited = any(map(inspect.iscoroutinefunction, (function, type(function).__call__)))
    start = _on_loop if awaited else in_thread

    def ask(observations: Any, infos: Any) -> np.ndarray:
        answers: dict[int, Any] = {}
        limits = {"workers": workers, "timeout": timeout, "retries": retries, "backoff": backoff}

        def begin(i: int) -> Future:  # each attempt with numbers of its own, to which it may write
            return start(function, take(copy_batch(take(observations, [i])), 0))

        calls = outcomes(begin, batch_size(observations), **limits)
        for i, answer, reason, attempts in calls:
            if reason is not None:
                times = "once" if attempts == 1 else f"{attempts} times"
                raise UserError(
                    f"expert {name!r}: gave no answer in environment {i}, asked {times}; the last error: "
                    f"{shorten(reason)}."
                ) from reason
            answers[i] = answer
        return together(name, [answers[i] for i in sorted(answers)])

    return Expert(
        name,
        ask=ask,
        kind=kind,
        observation_space=observation_space,
        action_space=action_space,
        card={
            "name": name,
            "algorithm": "a remote function",
            "kind": kind,
            "timeout": timeout,
            "retries": retries,
        },
        batch=1,
        workers=workers,
    )


def _on_loop(function: Callable[[Any], Any], observation: Any) -> Future:
    return asyncio.run_coroutine_threadsafe(function(observation), _loop())


@functools.cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True, name="understudy-remote-loop").start()
    return loop


def outcomes(
    start: Callable[[int], Future],
    count: int,
    *,
    workers: int,
    timeout: float = math.inf,
    retries: int = 0,
    backoff: float = 0.5,
) -> Iterator[tuple[int, Any, BaseException | None, int]]:
    """Makes calls 0 … count − 1, at most `workers` at a time, and yields each as it ends: (i, answer, None,
    attempts), or (i, None, the last error, attempts). `start(i)` gives the future of call i at once.

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
        seconds = max(0.0, min(limits) - time.monotonic())
        if running:
            left = None if math.isinf(seconds) else seconds
            concurrent.futures.wait(running, left, concurrent.futures.FIRST_COMPLETED)
        else:
            time.sleep(seconds)
        for future, (limit, i, attempt) in list(running.items()):
            if not future.done() and time.monotonic() < limit:
                continue
            del running[future]
            if not future.done():
                reason = TimeoutError(f"no answer within {timeout:g} s")
            elif future.cancelled():  # a coroutine may raise that by itself
                reason = concurrent.futures.CancelledError("it was cancelled")
            else:
                reason = future.exception()
            if reason is None:
                yield i, future.result(), None, attempt
                continue
            future.cancel()
            if attempt > retries:
                yield i, None, reason, attempt
            else:
                pause = backoff * 2.0 ** min(attempt - 1, 30)
                waiting.append((time.monotonic() + pause, i, attempt + 1))


def in_thread(function: Callable[..., Any], *args: Any) -> Future:
    """The call under way in a thread of its own.

    A pool would be joined when the program ends, and one call that hangs would hang it; a daemon thread is
    not. Starting one costs less than 0.1 ms, nothing beside an expert that is slow.
    """
    future: Future = Future()

    def run() -> None:
        with contextlib.suppress(concurrent.futures.InvalidStateError):  # too late: it was given up
            try:
                future.set_result(function(*args))
            except BaseException as error:
                future.set_exception(error)

    threading.Thread(target=run, daemon=True, name="understudy-expert").start()
    return future
