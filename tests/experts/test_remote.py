"""Slow experts: side by side, in order, with a time limit and a few attempts; an interrupt always works."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from understudy import experts
from understudy.errors import UserError
from understudy.experts import callables

OBSERVATIONS = np.arange(12.0).reshape(6, 2)


def test_answers_come_in_order_and_questions_go_side_by_side():
    together, most, lock = 0, 0, threading.Lock()

    def slow(observation):
        nonlocal together, most
        with lock:
            together += 1
            most = max(most, together)
        time.sleep(0.05 if observation[0] < 6 else 0.01)  # the first ones answer last
        with lock:
            together -= 1
        return observation[:1]

    expert = experts.from_remote(slow, workers=3)
    np.testing.assert_array_equal(expert.label(OBSERVATIONS), OBSERVATIONS[:, :1])
    assert 1 < most <= 3


def test_an_object_whose_call_is_a_coroutine_is_awaited():
    class Far:
        async def __call__(self, observation):
            return observation[:1]

    np.testing.assert_array_equal(experts.from_remote(Far()).label(OBSERVATIONS), OBSERVATIONS[:, :1])


def test_a_coroutine_keeps_one_event_loop():
    loops = set()

    async def far(observation):
        loops.add(id(asyncio.get_running_loop()))
        await asyncio.sleep(0.01)
        return observation.sum(keepdims=True)

    expert = experts.from_remote(far)
    for _ in range(2):
        np.testing.assert_array_equal(expert.label(OBSERVATIONS), OBSERVATIONS.sum(axis=1, keepdims=True))
    assert len(loops) == 1


@pytest.mark.parametrize("failures", [0, 1, 2])
def test_what_fails_is_tried_again(failures):
    asked = []

    def shaky(observation):
        asked.append(observation[0])
        if observation[0] == 4 and asked.count(4.0) <= failures:
            raise ConnectionError("line is down")
        return observation[:1]

    expert = experts.from_remote(shaky, retries=2, backoff=0.001)
    np.testing.assert_array_equal(expert.label(OBSERVATIONS), OBSERVATIONS[:, :1])
    assert asked.count(4.0) == failures + 1
    assert len(asked) == 6 + failures


def test_after_the_last_attempt_one_sentence_says_how_many_and_why():
    def down(observation):
        raise ConnectionError("line is\ndown")

    expert = experts.from_remote(down, retries=2, backoff=0.001, name="far")
    with pytest.raises(UserError) as caught:
        expert.label(OBSERVATIONS[:1])
    assert str(caught.value).startswith(
        "expert 'far': gave no answer in environment 0, asked 3 times; "
        "the last error: ConnectionError: line is down, at "
    )
    assert str(caught.value).endswith("in down."), "the line of the user's own file"
    with pytest.raises(UserError, match="asked once"):
        experts.from_remote(down, retries=0).label(OBSERVATIONS[:1])


def test_answers_of_different_shapes_are_told():
    expert = experts.from_remote(lambda observation: np.zeros(int(observation[0])), name="far")
    with pytest.raises(UserError, match="expert 'far': its answers do not all have the same shape"):
        expert.label(np.array([[1.0], [2.0]]))


def test_what_hangs_is_left_behind_and_asked_again():
    asked = []
    release = threading.Event()

    def hangs_once(observation):
        asked.append(observation[0])
        if asked.count(2.0) == 1 and observation[0] == 2:
            release.wait(10)
        return observation[:1]

    expert = experts.from_remote(hangs_once, timeout=0.1, retries=1, backoff=0.001, workers=1)
    started = time.monotonic()
    np.testing.assert_array_equal(expert.label(OBSERVATIONS), OBSERVATIONS[:, :1])
    assert time.monotonic() - started < 5
    release.set()
    with pytest.raises(UserError, match=r"no answer within 0\.05 s"):
        experts.from_remote(lambda o: time.sleep(1), timeout=0.05, retries=0).label(OBSERVATIONS[:1])


async def _sleepy(observation):
    await asyncio.sleep(5)


def test_many_attempts_are_as_many_as_were_asked_for():
    """A pause that is doubled a thousand times is more than a number holds."""

    def start(i):
        future = callables.Future()
        future.set_exception(ValueError())
        return future

    (found,) = callables.outcomes(start, 1, workers=1, retries=1100, backoff=0.0)
    assert found[3] == 1101


def test_a_coroutine_that_hangs_is_cancelled():
    with pytest.raises(UserError, match=r"asked 2 times.*within 0\.05 s"):
        experts.from_remote(_sleepy, timeout=0.05, retries=1, backoff=0.0).label(OBSERVATIONS[:2])


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"timeout": 0}, "timeout"),
        ({"retries": -1}, "retries"),
        ({"workers": 0}, "workers"),
        ({"backoff": -1}, "backoff"),
        ({"backoff": float("nan")}, "backoff"),  # of which no pause would end
        ({"workers": 1.5}, "workers"),
    ],
)
def test_wrong_settings_are_refused(options, sentence):
    with pytest.raises(UserError, match=sentence):
        experts.from_remote(lambda o: o, **options)


@pytest.mark.skipif(sys.platform == "win32", reason="interrupts are sent otherwise there")
def test_an_interrupt_ends_the_program_although_a_call_hangs():
    program = (
        "import signal, time, numpy\n"
        "from understudy import experts\n"
        # Whoever runs the tests in the background hands down an interrupt that is ignored.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "print('asking', flush=True)\n"
        "experts.from_remote(lambda o: time.sleep(60), timeout=50).label(numpy.zeros((2, 1)))\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "asking\n"
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=10)
    finally:
        process.kill()
    assert "KeyboardInterrupt" in errors


def test_a_coroutine_that_cancels_itself_has_given_no_answer():
    async def cancelled(observation):
        raise asyncio.CancelledError

    expert = experts.from_remote(cancelled, retries=1, backoff=0.0, name="gone")
    with pytest.raises(UserError, match=r"expert 'gone': gave no answer .* asked 2 times.*cancelled"):
        expert.label(np.zeros((1, 2)))
