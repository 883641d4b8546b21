"""A slow or remote expert: many questions under way at once, each with a time limit and a few attempts."""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import inspect
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import UserError
from ..nested import batch_size, take
from .base import Expert, Kind
from .calls import in_thread, outcomes


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
    if retries < 0 or workers < 1 or backoff < 0:
        raise UserError(
            f"remote: retries={retries!r}, workers={workers!r}, backoff={backoff!r} are not accepted; "
            "retries and backoff must be 0 or more and workers at least 1."
        )
    name = str(name or getattr(function, "__name__", type(function).__name__))
    start = _on_loop if inspect.iscoroutinefunction(function) else in_thread

    def ask(observations: Any, infos: Any) -> np.ndarray:
        answers: dict[int, Any] = {}
        limits = {"workers": workers, "timeout": timeout, "retries": retries, "backoff": backoff}
        calls = outcomes(lambda i: start(function, take(observations, i)), batch_size(observations), **limits)
        for i, answer, reason, attempts in calls:
            if reason is not None:
                raise _given_up(name, i, attempts, reason) from reason
            answers[i] = answer
        return np.stack([np.asarray(answers[i]) for i in sorted(answers)])

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


def _given_up(name: str, index: int, attempts: int, reason: BaseException | None) -> UserError:
    error = " ".join(f"{type(reason).__name__}: {reason}".split())[:300]
    times = "once" if attempts == 1 else f"{attempts} times"
    return UserError(
        f"expert {name!r}: gave no answer in environment {index}, asked {times}; the last error: {error}."
    )


def _on_loop(function: Callable[[Any], Any], observation: Any) -> concurrent.futures.Future:
    return asyncio.run_coroutine_threadsafe(function(observation), _loop())


@functools.cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True, name="understudy-remote-loop").start()
    return loop
