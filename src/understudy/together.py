"""Many runs in one program: each plays in a thread of its own, and equal calls of compiled programs are one
vmapped call.

On an accelerator a small network leaves nearly all of the machine idle. Runs do not know of each other: a run
says what it wants to compute (`call`), waits until every other run that goes on has said so too, and gets its
part of the result. On a CPU runs are faster one after another, and then have the bits they have alone.
"""

# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false
# JAX and optax say little of the types of their trees.

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol, TypeVar, final

from jax import Array
from jax.typing import ArrayLike

from .objectives import Batch
from .online import Game, GameState, Record
from .programs import apart, compiled, compiled_together, kind, over_devices, program, stacked, to_one_device
from .student import precision

A = TypeVar("A")
R = TypeVar("R")


class _Wish(NamedTuple):
    """What a run waits for: `run` plays the arguments of all runs that want the `same`."""

    same: Hashable
    args: Any
    run: Callable[[list[Any]], Sequence[Any]]
    answer: list[Any]
    done: threading.Event


@final
class Together:
    """Where `count` runs meet, each in a thread of its own.

    >>> def run(together: Together, number: int) -> int:
    ...     return together.call("sum", number, lambda all: [sum(all)] * len(all))
    >>> together = Together(2)
    >>> together.each([lambda: run(together, 1), lambda: run(together, 2)])
    [3, 3]
    """

    def __init__(self, count: int):
        self._going, self._lock = count, threading.Lock()
        self._waiting: list[_Wish] = []
        self._widths: dict[Hashable, int] = {}

    def each(self, runs: Sequence[Callable[[], R]]) -> list[R]:
        """What each of the runs returns; one that raises ends all of them, after the others have ended."""

        def run_and_leave(run: Callable[[], R]) -> R:
            try:
                return run()
            finally:
                self._leave()

        with ThreadPoolExecutor(len(runs)) as pool:
            return [future.result() for future in [pool.submit(run_and_leave, run) for run in runs]]

    def call(self, same: Hashable, args: A, run: Callable[[list[A]], Sequence[R]]) -> R:
        """One run's part of ``run(arguments of all runs)``. Calls of the `same` are played at once: as many
        as at first, so that a program is compiled once; where there are fewer by now, the first stands in.
        """
        wish = _Wish(same, args, run, [], threading.Event())
        with self._lock:
            self._waiting.append(wish)
            self._meet()
        wish.done.wait()
        if isinstance(wish.answer[0], BaseException):
            raise wish.answer[0]
        return wish.answer[0]

    def _leave(self) -> None:
        with self._lock:
            self._going -= 1
            self._meet()

    def _meet(self) -> None:
        """Plays what is waited for, where all runs that go on wait."""
        if len(self._waiting) < self._going or not self._waiting:
            return
        wishes, self._waiting = self._waiting, []
        groups: dict[Hashable, list[_Wish]] = {}
        for wish in wishes:
            groups.setdefault(wish.same, []).append(wish)
        for same, group in groups.items():
            width = self._widths.setdefault(same, len(group))
            for at in range(0, len(group), width):
                part = group[at : at + width]
                spare = [part[0].args] * (width - len(part))
                try:
                    answers = part[0].run([*(wish.args for wish in part), *spare])
                except BaseException as error:
                    answers = [error] * len(part)
                for wish, answer in zip(part, answers, strict=False):
                    wish.answer.append(answer)
                    wish.done.set()

    def play_round(
        self, game: Game, state: GameState, round: Batch, key: Array, compare: ArrayLike | None
    ) -> tuple[GameState, Record]:
        """A round of a game, with those of other runs that have the same program."""
        due = None if compare is None else bool(compare)
        same = "play", program(game), kind((state, round)), due, id(getattr(state.losses, "reader", None))
        return self.call(same, (game, state, round, key, compare), _play_all)


def _play_all(
    asked: list[tuple[Game, GameState, Batch, Array, ArrayLike | None]],
) -> list[tuple[GameState, Record]]:
    """Rounds of games of one program, in one call."""
    games, compare = [game for game, *_ in asked], asked[0][4]
    with precision(games[0]):
        given = [(to_one_device(state), round, key) for _, state, round, key, _ in asked]
        if len(asked) == 1:
            return [compiled(games[0])(*given[0], compare)]
        states, batches, keys = over_devices(stacked(given))
        return apart(compiled_together(games)(states, batches, keys, compare), len(asked))


class Call(Protocol):
    """`Together.call`, or the same alone."""

    def __call__(self, same: Hashable, args: A, run: Callable[[list[A]], Sequence[R]]) -> R: ...


def call_alone(same: Hashable, args: A, run: Callable[[list[A]], Sequence[R]]) -> R:
    """A call of one run by itself."""
    return run([args])[0]
