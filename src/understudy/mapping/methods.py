"""Three methods to map one compiled run over many configurations, and how one is chosen."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
from jax.extend import core as jex_core

from ..programs import Static
from .configs import Group

METHODS = {
    "serial": "one compiled run after the other",
    "threads": "compiled runs spread over the cores",
    "vmap": "blocks of runs in one vectorised program, block after block",
}
BLOCK = 64
"""Most runs in one vectorised program on a CPU: fixed, so that numbers do not depend on the cores."""

DECOMPOSITIONS = {"svd", "qr", "geqrf", "geqp3", "householder_product", "eigh", "eig", "cholesky", "lu"}
"""What XLA hands to LAPACK on a CPU."""


class Picked(NamedTuple):
    """A method of mapping and the reason for it."""

    method: str
    why: str


def pick(run: Callable[..., Any], group: Group, key: Any, platform: str) -> Picked:
    """The fastest method, by the platform and what the program is made of (``benchmarks/bench_toy.py``).

    On an accelerator the map is vmap (not measured). On a CPU plain arithmetic (gradient steps) gains two to
    four times from sharing instructions with its neighbours. Two things do not. A loop that ends when its own
    problem is solved (Newton, interior point, line searches): under vmap all lanes wait for the slowest, and
    both branches of every condition are run. And a decomposition (QR, SVD) is one call of LAPACK for each
    lane, one after the other, while single runs make theirs on all cores. The number of cores is not asked
    for, so that the same map gives the same bytes everywhere.
    """
    if platform != "cpu":
        return Picked("vmap", f"on a {platform} lanes are free")
    traced = _single(run, group.static).trace(key, group.numbers[0])
    found = {equation.primitive.name for equation in _equations(traced.jaxpr.jaxpr)}
    if "while" in found:
        return Picked("threads", "the solver loops until it is done, and lanes would wait for the slowest")
    if found & DECOMPOSITIONS:
        return Picked("threads", "decompositions are made one lane after the other, so the cores share them")
    return Picked("vmap", "no loop depends on the data, so neighbouring runs share their instructions")


def _equations(jaxpr: Any) -> Iterator[Any]:
    for equation in jaxpr.eqns:
        yield equation
        for value in equation.params.values():
            for inner in value if isinstance(value, (tuple, list)) else (value,):
                if isinstance(inner, jex_core.ClosedJaxpr):
                    yield from _equations(inner.jaxpr)
                elif isinstance(inner, jex_core.Jaxpr):
                    yield from _equations(inner)


@functools.lru_cache(maxsize=256)
def _single(run: Callable[..., Any], static: Static) -> Any:
    """The run of (key, numbers), traced once to choose a method and to compile it."""

    def one(key: Any, numbers: Any) -> Any:
        return run(key, **eqx.combine(numbers, static.value))

    return jax.jit(one)


@functools.lru_cache(maxsize=256)
def program(run: Callable[..., Any], static: Static, vectorised: bool, double: bool, like: Static) -> Any:
    """The compiled run of (key, numbers): once for a run, a static half and the shapes of its arguments."""
    one = _single(run, static)
    return (jax.jit(jax.vmap(one.__wrapped__)) if vectorised else one).lower(*like.value).compile()


class Task(NamedTuple):
    """One call of a compiled program: the places it fills and its arguments."""

    places: list[int]
    arguments: tuple[Any, Any]
    vectorised: bool


def tasks(group: Group, keys: Any, method: str, platform: str) -> list[Task]:
    """The calls that a group takes by this method; `keys` are those of the whole map, as raw key data."""
    if method in ("serial", "threads"):
        rows = zip(group.places, group.numbers, strict=True)
        return [Task([place], (keys[place], numbers), False) for place, numbers in rows]
    count = len(group.places)
    blocks = 1 if platform != "cpu" else -(-count // BLOCK)
    size = -(-count // blocks)
    made = []
    for start in range(0, count, size):
        chosen = list(range(start, min(start + size, count)))
        # The last block is filled up with its first run, so that every block has one shape and one program.
        filled = chosen + [chosen[0]] * (size - len(chosen))
        stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *(group.numbers[i] for i in filled))
        index = np.asarray([group.places[i] for i in filled])
        made.append(Task([group.places[i] for i in chosen], (keys[index], stacked), True))
    return made


def perform(
    calls: list[tuple[Any, Task]], workers: int, double: bool, done: Callable[[Task, Any], None]
) -> None:
    """Runs every (compiled program, task) and hands each result over in the caller's thread.

    Single runs go `workers` at a time. Vectorised ones go one at a time: two batched decompositions (SVD,
    QR) at once wait for each other for ever in the CPU client's own pool of threads.
    """

    def call(compiled: Any, task: Task) -> Any:
        # The precision is a setting of the thread, so it must be set in each.
        with jax.enable_x64(double):
            return jax.device_get(compiled(*task.arguments))

    alone = [(compiled, task) for compiled, task in calls if task.vectorised or workers == 1]
    for compiled, task in alone:
        done(task, call(compiled, task))
    shared = [(compiled, task) for compiled, task in calls if not (task.vectorised or workers == 1)]
    if not shared:
        return
    with ThreadPoolExecutor(workers) as pool:
        futures = [(task, pool.submit(call, compiled, task)) for compiled, task in shared]
        try:
            for task, future in futures:
                done(task, future.result())
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
