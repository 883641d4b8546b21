"""Recorded rounds, many in one call of a compiled loop; and what their records say, as columns."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import jax
import numpy as np

from .data import stack
from .online import Game, GameState
from .programs import compiled_stream
from .regret import COLUMNS
from .solvers import Status

ROOMS, BYTES, SECONDS = (1024, 256, 64, 16, 4, 1), 2**25, 0.2
"""Rounds that a compiled loop has room for, the bytes they may take, and how long a call should last."""


def play_rounds(
    game: Game,
    state: GameState,
    rounds: Sequence[tuple[np.ndarray, np.ndarray]],
    key: jax.Array,
    *,
    judged: Collection[int],
    keep: bool,
) -> Iterator[tuple[GameState, dict[str, Any], float]]:
    """Plays rounds (X, Y) and yields, call by call, the state after them, their records and the seconds.

    The best in hindsight is found in the rounds `judged`; with `keep` a record holds the parameters played.
    The compiled loop has room for one of a few numbers of rounds, so streams of any length share a few
    programs. The first call plays one round, later ones as many as fit into SECONDS: long runs show progress
    and can be interrupted.
    """
    (X, Y), rows = rounds[0], max(len(X) for X, _ in rounds)
    each = rows * (X[0].nbytes + 2 * Y[0].nbytes)
    each += sum(leaf.nbytes for leaf in jax.tree.leaves(state.learner.params)) if keep else 0
    room = next((n for n in ROOMS if n * each <= BYTES and (n <= 64 or n <= len(rounds))), 1)
    run, count = compiled_stream(game, keep=keep), 1
    for begin in range(0, len(rounds), room):
        part = rounds[begin : begin + room]
        numbers = np.arange(begin + 1, begin + room + 1)
        batches, keys = stack(part, rows=rows, room=room), _keys(key, numbers)
        asked, at = np.isin(numbers, list(judged)) if judged else None, 0
        while at < len(part):
            stop, began = min(at + count, len(part)), time.perf_counter()
            state, record = run(state, batches, keys, asked, at, stop)
            record = jax.device_get(record)
            seconds = time.perf_counter() - began
            yield state, jax.tree.map(lambda leaf, a=at, b=stop: leaf[a:b], record), seconds
            count = max(1, min(8 * count, int(count * SECONDS / seconds)))
            at = stop


@jax.jit
def _keys(key: jax.Array, numbers: jax.Array) -> jax.Array:
    return jax.vmap(lambda t: jax.random.fold_in(key, t))(numbers)


def columns(
    first: int, sizes: np.ndarray, record: dict[str, Any], judged: Collection[int]
) -> dict[str, list[Any]]:
    """The ledger's columns for the rounds of a record, the first of which is round `first`."""
    numbers = list(range(first, first + len(sizes)))
    found: dict[str, list[Any]] = {"round": numbers, "samples": sizes.tolist()}
    names = [status.name.lower() for status in Status]
    for name in COLUMNS:
        if name not in record:
            continue
        found[name] = record[name].tolist()
        if name.endswith("_status"):
            asked = [name == "solver_status" or t in judged for t in numbers]
            found[name] = [
                names[code] if known else "" for code, known in zip(found[name], asked, strict=True)
            ]
    return {name: found[name] for name in COLUMNS if name in found}
