"""A slow or remote expert: many questions under way at once, each with a time limit and a few attempts."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import functools
import inspect
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import UserError
from .base import Expert, Kind, batch_size, take


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
    why the last one failed. An attempt that hangs is left behind: it holds up neither the others nor the end
    of the program.

    >>> from_remote(lambda observation: observation[:1], name="far").label(np.arange(6.0).reshape(3, 2))
    array([[0.],
           [2.],
           [4.]], dtype=float32)
    """
    if not timeout > 0:
        raise UserError(f"timeout: {timeout!r} is not accepted; a number of seconds above 0 is expected.")
    if retries < 0 or workers < 1 or backoff < 0:
        raise UserError(
            f"remote: retries={retries!r}, workers={workers!r}, backoff={backoff!r} are not accepted; "
            "retries and backoff must be 0 or more and workers at least 1."
        )
    name = str(name or getattr(function, "__name__", type(function).__name__))
    start = _on_loop if inspect.iscoroutinefunction(function) else _in_thread

    def ask(observations: Any, infos: Any) -> np.ndarray:
        n = batch_size(observations)
        answers: dict[int, Any] = {}
        waiting = [(0.0, i, 1) for i in range(n)]  # (not before, observation, attempt)
        running: dict[concurrent.futures.Future, tuple[float, int, int]] = {}
        while waiting or running:
            now = time.monotonic()
            waiting.sort()
            while waiting and len(running) < workers and waiting[0][0] <= now:
                _, i, attempt = waiting.pop(0)
                running[start(function, take(observations, i))] = (now + timeout, i, attempt)
            limits = [limit for limit, _, _ in running.values()]
            if waiting and len(running) < workers:
                limits.append(waiting[0][0])
            _wait(running, max(0.0, min(limits) - time.monotonic()))
            for future, (limit, i, attempt) in list(running.items()):
                if future.done() and future.exception() is None:
                    answers[i] = future.result()
                elif future.done() or time.monotonic() >= limit:
                    reason = (
                        future.exception()
                        if future.done()
                        else TimeoutError(f"no answer within {timeout:g} s")
                    )
                    future.cancel()
                    if attempt > retries:
                        raise _given_up(name, i, attempt, reason) from reason
                    waiting.append((time.monotonic() + backoff * 2 ** (attempt - 1), i, attempt + 1))
                else:
                    continue
                del running[future]
        return np.stack([np.asarray(answers[i]) for i in range(n)])

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
    )


def _wait(running: dict[concurrent.futures.Future, Any], seconds: float) -> None:
    """Waits for one answer or for the time to pass; in the main thread an interrupt ends it at once."""
    if running:
        concurrent.futures.wait(running, timeout=seconds, return_when=concurrent.futures.FIRST_COMPLETED)
    elif seconds > 0:
        time.sleep(seconds)


def _given_up(name: str, index: int, attempts: int, reason: BaseException | None) -> UserError:
    told = " ".join(f"{type(reason).__name__}: {reason}".split())[:300]
    times = "once" if attempts == 1 else f"{attempts} times"
    return UserError(
        f"expert {name!r}: gave no answer in environment {index}, asked {times}; the last error: {told}."
    )


def _in_thread(function: Callable[[Any], Any], observation: Any) -> concurrent.futures.Future:
    """The call under way in a thread of its own.

    A pool would be joined when the program ends, and one call that hangs would hang it; a daemon thread is
    not. Starting one costs less than 0.1 ms, nothing beside an expert that is slow.
    """
    future: concurrent.futures.Future = concurrent.futures.Future()

    def run() -> None:
        try:
            answer = function(observation)
        except BaseException as error:
            _settle(future.set_exception, error)
        else:
            _settle(future.set_result, answer)

    threading.Thread(target=run, daemon=True, name="understudy-remote-expert").start()
    return future


def _settle(setter: Callable[[Any], None], value: Any) -> None:
    with contextlib.suppress(concurrent.futures.InvalidStateError):  # too late: the attempt was given up
        setter(value)


def _on_loop(function: Callable[[Any], Any], observation: Any) -> concurrent.futures.Future:
    return asyncio.run_coroutine_threadsafe(function(observation), _loop())


@functools.cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True, name="understudy-remote-loop").start()
    return loop
