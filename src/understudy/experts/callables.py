"""Experts from Python functions, from objects with `predict`, and from functions that are slow: yours, or
another library's models.
"""

# pyright: reportUnknownArgumentType=false
# What a stranger's function returns is unknown until it is an array.

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import copy
import functools
import inspect
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, TypeVarTuple, runtime_checkable

import numpy as np

from ..errors import UserError, check_int, shorten
from ..nested import batch_size, copy_batch, parts, stack, take
from . import Expert, Kind

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from numpy.typing import ArrayLike

    from . import Infos, Nested, Space

Function = TypeVar("Function", bound=Callable[..., Any])
T = TypeVar("T")
Ts = TypeVarTuple("Ts")
LIKE_SB3 = (
    "expected is predict(observation, deterministic=True) -> (action, state), as Stable-Baselines3 has it; a "
    "method that gives the action alone is an expert by itself (expert=model.predict, module:model.predict)"
)
"""What an object with `predict` must be, and what to do with another."""


@runtime_checkable
class Predictor(Protocol):
    """An object with Stable-Baselines3's `predict`."""

    @property
    def predict(self) -> Callable[..., Any]: ...


def batched(function: Function) -> Function:
    """Marks a function as one that takes n observations at once and returns n answers.

    >>> @batched
    ... def act(observations):
    ...     return observations.sum(axis=1) > 0
    """
    setattr(function, "batched", True)  # noqa: B010
    return function


def pure(function: Function) -> Function:
    """Marks a function of one observation (or, with `batched`, of n) as one that JAX can trace: runs in pure
    environments then stay on the device.

    >>> import jax.numpy as jnp
    >>> expert = from_callable(pure(lambda observation: jnp.tanh(observation[:1])), name="tanh")
    >>> expert.pure(jnp.zeros((3, 2))).shape
    (3, 1)
    """
    setattr(function, "pure", True)  # noqa: B010
    return function


def from_callable(
    function: Callable[..., Any],
    *,
    batched: bool | None = None,
    kind: Kind | None = None,
    name: str | None = None,
    observation_space: Space | None = None,
    action_space: Space | None = None,
) -> Expert:
    """An expert from `function(observation)` or `function(observation, info)` -> action or probabilities.

    - Batched: if `batched=True` is given or the function is marked with `experts.batched`, it is called with
      n observations and must return n answers; otherwise it is called once per observation.
    - Kind: `kind=` if given; otherwise the function's attribute `kind`; otherwise, for Discrete actions and a
      function of the observation alone, it is asked once about a sample of the observation space, and k
      numbers for an answer mean a distribution. Else an action.
    - A parameter called `info` (or `infos`) receives the environment's info: a privileged expert.
    - An attribute `on_reset`, a function without arguments, is called when an episode begins: for an expert
      that remembers what it saw. It is asked state after state, in one environment.

    >>> expert = from_callable(lambda observation: observation[:1] * 2, name="double")
    >>> expert.label(np.array([[1.0, 9.0], [2.0, 9.0]]))
    array([[2.],
           [4.]], dtype=float32)
    """
    name = name or _name(function)
    if _is_coroutine(function):
        raise UserError(
            f"expert {name!r}: is a coroutine function; experts.from_remote({_name(function)}) is "
            "the expert that awaits it."
        )
    many = bool(getattr(function, "batched", False)) if batched is None else bool(batched)
    takes_info = next((info for info in ("info", "infos") if info in _parameters(function)), None)
    call = _reporting(function, name)
    from ..policies.sight import info_at  # brings JAX

    def ask(observations: Nested, infos: Infos) -> ArrayLike:
        if takes_info is not None and infos is None:
            told = f"takes the environment's {takes_info}, which was not given to it"
            raise UserError(f"expert {name!r}: {told}.")
        # The policy learns from these; an expert may write to its own.
        observations = copy_batch(observations)
        if many:
            return call(observations, **({takes_info: infos} if takes_info else {}))
        rows = range(batch_size(observations))
        keywords = ({takes_info: info_at(infos, i)} if takes_info else {} for i in rows)
        return stack_answers(name, [call(take(observations, i), **more) for i, more in zip(rows, keywords)])

    traced = None
    if getattr(function, "pure", False) and takes_info is None:
        import jax

        traced = function if many else jax.vmap(function)
    kind, probed = kind or getattr(function, "kind", None), 0
    discrete = type(action_space).__name__ == "Discrete"
    if kind is None and discrete and observation_space is not None and takes_info is None:
        sampled = copy.deepcopy(observation_space)  # the space's own generator stays where it is
        sampled.seed(0)
        answer, probed = np.asarray(ask(stack([sampled.sample()]), None)), 1
        soft = answer.shape == (1, int(getattr(action_space, "n"))) and answer.dtype.kind == "f"  # noqa: B009
        kind = "distribution" if soft else "action"
    return Expert(
        name,
        ask=ask,
        kind=kind or "action",
        observation_space=observation_space,
        action_space=action_space,
        card={"name": name, "algorithm": "a Python function", "kind": kind or "action"},
        needs_infos=takes_info is not None,
        on_reset=getattr(function, "on_reset", None),
        probed=probed,
        pure=traced,
        batch=32 if many else 1,
    )


def from_predictor(
    model: Predictor,
    *,
    name: str | None = None,
    observation_space: Space | None = None,
    action_space: Space | None = None,
) -> Expert:
    """An expert from an object with Stable-Baselines3's `predict`, asked with whole batches; one that cannot
    answer a batch is asked about one observation at a time.

    A `TrainedPolicy` is the expert that its file is. Of a model whose `predict` takes a state and gives the
    next one (a recurrent one) every state would be the first of an episode, so it is refused.
    """
    from ..policies import TrainedPolicy  # brings JAX
    from . import networks

    name = name or type(model).__name__
    if isinstance(model, TrainedPolicy):
        return networks.from_policy(model, {"name": name, "algorithm": "a trained policy"})
    takes = _parameters(model.predict)
    free = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in takes.values())
    if takes and "deterministic" not in takes and not free:
        raise UserError(f"expert {name!r}: its predict takes no deterministic=True; {LIKE_SB3}.")
    call = _reporting(model.predict, name)
    # What it was made for goes first, and is then compared with what is there.
    own = getattr(model, "observation_space", None), getattr(model, "action_space", None)
    observation_space, action_space = own[0] or observation_space, own[1] or action_space
    shape = getattr(action_space, "shape", None)
    alone = False  # whether it turned out to take one observation at a time

    def answer(observations: Nested) -> np.ndarray:
        pair = call(copy_batch(observations), deterministic=True)
        if not isinstance(pair, tuple) or len(pair) != 2:
            kind = type(pair).__name__
            raise UserError(f"expert {name!r}: its predict gave {kind}, not a pair; {LIKE_SB3}.")
        if pair[1] is not None and "state" in takes:
            raise UserError(
                f"expert {name!r}: its predict gave a state, so it remembers; give a function of one "
                "observation that keeps the state, with an attribute on_reset that drops it."
            )
        return np.asarray(pair[0])

    def ask(observations: Nested, infos: Infos) -> np.ndarray:
        nonlocal alone
        n, whole, wrong = batch_size(observations), None, None
        if not alone:
            try:
                whole = answer(observations)
            except UserError as error:
                wrong = error
            if whole is not None and whole.shape == (n, *(whole.shape[1:] if shape is None else shape)):
                return whole
        try:
            each = stack_answers(name, [answer(take(observations, i)) for i in range(n)])
        except UserError:  # it cannot do either, and was made for batches
            if wrong is not None:
                raise wrong from wrong.__cause__
            if whole is not None:
                return whole
            raise
        alone = True
        return each

    algorithm = f"an object of {type(model).__module__} with predict"
    return Expert(
        name,
        ask=ask,
        observation_space=observation_space,
        action_space=action_space,
        card={"name": name, "algorithm": algorithm, "kind": "action"},
        on_reset=getattr(model, "on_reset", None),
    )


def stack_answers(name: str, answers: Sequence[ArrayLike]) -> np.ndarray:
    """n answers as one array with n in front; refused where their shapes differ."""
    try:
        return np.stack([np.asarray(answer) for answer in answers])
    except ValueError:
        raise UserError(f"expert {name!r}: its answers do not all have the same shape.") from None


def _name(function: Callable[..., T]) -> str:
    name: str = getattr(function, "__qualname__", type(function).__qualname__)
    return name.replace("<locals>.", "").strip("<>")


def _is_coroutine(function: Callable[..., T]) -> bool:
    return any(map(inspect.iscoroutinefunction, (function, type(function).__call__)))


def _parameters(function: Callable[..., T]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):  # some functions written in C do not say
        return {}


def _reporting(function: Callable[..., T], name: str) -> Callable[..., T]:
    """The function, whose exceptions become a `UserError` that names the expert; the cause is attached."""

    def call(observation: Nested, **keywords: Infos | bool) -> T:
        try:
            return function(observation, **keywords)
        except UserError:
            raise
        except Exception as error:
            shapes = {".".join(map(str, path)): part.shape for path, part in parts(observation)}
            shown = shapes.get("", shapes)  # of one array, which has no name
            raise UserError(f"expert {name!r}: failed on observations {shown} ({shorten(error)}).") from error

    return call


# Slow and remote experts: many calls under way at once, each with a time limit and a few attempts.


def from_remote(
    function: Callable[..., Any],
    *,
    timeout: float = 10.0,
    retries: int = 2,
    backoff: float = 0.5,
    workers: int = 8,
    kind: Kind = "action",
    name: str | None = None,
    observation_space: Space | None = None,
    action_space: Space | None = None,
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
    start = _on_loop if _is_coroutine(function) else in_thread

    def ask(observations: Nested, infos: Infos) -> np.ndarray:
        answers: dict[int, ArrayLike] = {}

        def begin(i: int) -> Future[ArrayLike]:  # each attempt with numbers of its own, to which it may write
            return start(function, take(copy_batch(take(observations, [i])), 0))

        count, limits = batch_size(observations), {"timeout": timeout, "backoff": backoff}
        for i, answer, reason, attempts in outcomes(begin, count, workers=workers, retries=retries, **limits):
            if reason is not None:
                times = "once" if attempts == 1 else f"{attempts} times"
                raise UserError(
                    f"expert {name!r}: gave no answer in environment {i}, asked {times}; the last error: "
                    f"{shorten(reason)}."
                ) from reason
            answers[i] = answer
        return stack_answers(name, [answers[i] for i in sorted(answers)])

    card = {"name": name, "algorithm": "a remote function", "kind": kind, "timeout": timeout}
    return Expert(
        name,
        ask=ask,
        kind=kind,
        observation_space=observation_space,
        action_space=action_space,
        card={**card, "retries": retries},
        batch=1,
        workers=workers,
    )


Future = concurrent.futures.Future


def _on_loop(function: Callable[..., Coroutine[None, None, T]], observation: Nested) -> Future[T]:
    return asyncio.run_coroutine_threadsafe(function(observation), _loop())


@functools.cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True, name="understudy-remote-loop").start()
    return loop


def outcomes(
    start: Callable[[int], Future[T]],
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
    running: dict[Future[T], tuple[float, int, int]] = {}
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


def in_thread(function: Callable[[*Ts], T], *args: *Ts) -> Future[T]:
    """The call under way in a daemon thread: a pool would be joined in the end, and a call may hang."""
    future: Future[T] = Future()

    def run() -> None:
        with contextlib.suppress(concurrent.futures.InvalidStateError):  # too late: it was given up
            try:
                future.set_result(function(*args))
            except BaseException as error:
                future.set_exception(error)

    threading.Thread(target=run, daemon=True, name="understudy-expert").start()
    return future
