"""Three methods to map one compiled run over many configurations, and how one is chosen."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
from jax.extend import core as jex_core

from understudy.programs import Static

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


def pick(run: Callable[..., Any], group: Group, key: Any, platform: str) -> tuple[str, str]:
    """The fastest method, by the platform and what the program is made of (``benchmarks/bench_toy.py``), and
    the reason for it.

    On an accelerator the map is vmap (not measured). On a CPU plain arithmetic (gradient steps) gains two to
    four times from sharing instructions with its neighbours. Two things do not. A loop that ends when its own
    problem is solved (Newton, interior point, line searches): under vmap all lanes wait for the slowest, and
    both branches of every condition are run. And a decomposition (QR, SVD) is one call of LAPACK for each
    lane, one after the other, while single runs make theirs on all cores. The number of cores is not asked
    for, so that the same map gives the same bytes everywhere.
    """
    if platform != "cpu":
        return "vmap", f"on a {platform} lanes are free"
    traced = _single(run, group.static).trace(key, group.numbers[0])
    found = {equation.primitive.name for equation in _equations(traced.jaxpr.jaxpr)}
    if "while" in found:
        return "threads", "the solver loops until it is done, and lanes would wait for the slowest"
    if found & DECOMPOSITIONS:
        return "threads", "decompositions are made one lane after the other, so the cores share them"
    return "vmap", "no loop depends on the data, so neighbouring runs share their instructions"


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


def each(function: Callable[[Any], Any], items: Sequence[Any], threads: int, double: bool) -> Iterator[Any]:
    """``function(item)`` of every item, in order, `threads` at a time. The precision is a setting of the
    thread, so it is set in each.
    """

    def call(item: Any) -> Any:
        with jax.enable_x64(double):
            return function(item)

    if threads == 1 or len(items) < 2:
        yield from map(call, items)
        return
    with ThreadPoolExecutor(threads) as pool:
        futures = [pool.submit(call, item) for item in items]
        try:
            for future in futures:
                yield future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
