"""Many runs in one program: each plays in a thread of its own, and equal calls of compiled programs are one
vmapped call.

On an accelerator a small network leaves nearly all of the machine idle. Runs do not know of each other: a run
says what it wants to compute (`call`), waits until every other run that goes on has said so too, and gets its
part of the result. On a CPU runs are faster one after another, and then have the bits they have alone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol, TypeVar, final

from .online import Game, GameState
from .programs import apart, compiled, compiled_together, kind, over_devices, program, stacked, to_one_device
from .student import precision

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

        def one(run: Callable[[], R]) -> R:
            try:
                return run()
            finally:
                self._leave()

        with ThreadPoolExecutor(len(runs)) as pool:
            return [future.result() for future in [pool.submit(one, run) for run in runs]]

    def call(self, same: Hashable, args: Any, run: Callable[[list[Any]], Sequence[Any]]) -> Any:
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
                    found: Sequence[Any] = part[0].run([*(wish.args for wish in part), *spare])
                except BaseException as error:
                    found = [error] * len(part)
                for wish, answer in zip(part, found, strict=False):
                    wish.answer.append(answer)
                    wish.done.set()

    def play(self, game: Game, state: GameState, one: Any, key: Any, judge: Any) -> Any:
        """A round of a game, with those of other runs that have the same program."""
        due = None if judge is None else bool(judge)
        same = "play", program(game), kind((state, one)), due, id(getattr(state.losses, "reader", None))
        return self.call(same, (game, state, one, key, judge), _played)


def _played(asked: list[Any]) -> Sequence[Any]:
    """Rounds of games of one program, in one call."""
    games = [game for game, *_ in asked]
    with precision(games[0]):
        if len(asked) == 1:
            return [compiled(games[0])(to_one_device(asked[0][1]), *asked[0][2:])]
        play = compiled_together(games)
        given = [(to_one_device(state), one, key) for _, state, one, key, _ in asked]
        states, batches, keys = over_devices(stacked(given))
        return apart(play(states, batches, keys, asked[0][4]), len(asked))


class Call(Protocol):
    """`Together.call`, or the same alone."""

    def __call__(self, same: Hashable, args: Any, run: Callable[[list[Any]], Sequence[Any]]) -> Any: ...


def alone(same: Hashable, args: Any, run: Callable[[list[Any]], Sequence[Any]]) -> Any:
    """A call of one run by itself."""
    return run([args])[0]
